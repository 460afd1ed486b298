"""Errors of requests: one type, in the two forms that clients expect."""

from __future__ import annotations

from typing import Any


class Fault(Exception):
    """The reason why a request failed."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        retry_after: int | None = None,
        sizes: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.sizes = sizes

    def body(self, path: str) -> dict[str, Any]:
        """In the form that callers of this path know."""
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
            self.status
        )
        if kind is None:
            kind = "server_error" if self.status >= 500 else "invalid_request_error"
        detail: dict[str, Any] = {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        if self.sizes is not None:
            detail["sizes"] = self.sizes
        if path.startswith("/standalone"):
            return {"success": False, "message": self.message, "data": None, "error": detail}
        return {"error": detail}


def invalid(message: str, param: str | None = None) -> Fault:
    """The request, or a part of it, is invalid (400)."""
    return Fault(400, "invalid_request", message, param)


def not_found(code: str, message: str, param: str | None = None) -> Fault:
    """The requested object does not exist (404)."""
    return Fault(404, code, message, param)


def conflict(code: str, message: str) -> Fault:
    """Impossible in the present state (409)."""
    return Fault(409, code, message)


def unsupported(param: str, message: str) -> Fault:
    """A valid request that this server does not support (422)."""
    return Fault(422, "not_supported", message, param)


def full(message: str) -> Fault:
    """A queue is full (429): retry later."""
    return Fault(429, "queue_full", message, retry_after=1)


def unavailable(code: str, message: str) -> Fault:
    """The server is busy (503): retry later."""
    return Fault(503, code, message, retry_after=1)


def shown(size: int) -> str:
    """Bytes in readable units."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"


def not_given(what: str, needed: int, where: str, error: OSError) -> Fault:
    """The system provides less memory than the budget allows (507)."""
    code = "out_of_gpu_memory" if where == "device memory" else "out_of_host_memory"
    return Fault(507, code, f"`{what}` needs {shown(needed)} of {where}: {error.strerror or error}")


def no_room(what: str, needed: int, used: int, budget: int, where: str) -> Fault:
    """Something does not fit (507), with the sizes."""
    message = (
        f"`{what}` needs {shown(needed)} of {where}, where {shown(used)} of {shown(budget)} are taken: "
        "offload first"
    )
    code = "out_of_gpu_memory" if where == "device memory" else "out_of_host_memory"
    sizes = {"needed_bytes": needed, "used_bytes": used, "budget_bytes": budget}
    return Fault(507, code, message, sizes=sizes)
