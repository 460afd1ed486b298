"""Prints what the package's tests need, a line each: the extra `test` of pyproject.toml, and the extras in it."""

import re
from pathlib import Path

try:
    import tomllib
except ImportError:  # Before Python 3.11 pip has it.
    from pip._vendor import tomli as tomllib

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]


def expanded(extra: str) -> list[str]:
    found = []
    for requirement in extras[extra]:
        own = re.fullmatch(re.escape(project["name"]) + r"\[(.*)\]", requirement)
        found += [one for name in own[1].split(",") for one in expanded(name)] if own else [requirement]
    return found


print("\n".join(dict.fromkeys(expanded("test"))))
