"""Host memory that is pinned; the driver's part is played, since there is none where tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from gswarm.worker.fault import Fault
from gswarm.worker.hostmem import Filling, HostBuffer, PinBudget
from gswarm.worker.model import Model
from gswarm.worker.options import Options
from gswarm.worker.place import Place

PART = 4096


class Driver:
    """What is registered, by where it begins in its buffer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None) -> None:
        self.held: dict[int, int] = {}

        def register(buffer: HostBuffer, at: int, size: int) -> bool:
            assert at not in self.held
            if at == fails_at:
                return False
            self.held[at] = size
            return True

        def unregister(buffer: HostBuffer) -> None:
            for begin, _ in buffer._parts:
                del self.held[begin]
            buffer._parts.clear()

        monkeypatch.setattr(HostBuffer, "_register", register)
        monkeypatch.setattr(HostBuffer, "_unregister", unregister)


def test_all_of_a_buffer_is_pinned_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, budget = Driver(monkeypatch), PinBudget(10_000)
    one = HostBuffer(9_000, True, budget).pin()
    assert one.pinned
    assert (driver.held, budget.used) == ({0: 9_000}, 9_000)
    beyond = HostBuffer(2_000, True, budget).pin()
    assert not beyond.pinned, "the budget is used up"
    one.free()
    assert (driver.held, budget.used) == ({}, 0)


def test_parts_are_pinned_once_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, budget = Driver(monkeypatch), PinBudget(1 << 20)
    buffer = HostBuffer(3 * PART + 100, True, budget)
    filling = Filling(buffer, PART)
    filling.read(PART + 10, 2 * PART)
    filling.read(0, 5)
    assert driver.held == {}
    filling.read(2 * PART, 3 * PART + 60)  # All of the third part, and some of the last.
    filling.read(PART, PART + 10)
    filling._pool.submit(lambda: None).result()
    assert driver.held == {PART: PART, 2 * PART: PART}
    filling.finish()
    assert buffer.pinned
    assert driver.held == {0: PART, PART: PART, 2 * PART: PART, 3 * PART: 100}
    assert budget.used == buffer.size
    buffer.free()
    assert (driver.held, budget.used) == ({}, 0)


def test_what_cannot_be_pinned_whole_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, budget = Driver(monkeypatch, fails_at=PART), PinBudget(1 << 20)
    buffer = HostBuffer(2 * PART, True, budget)
    filling = Filling(buffer, PART)
    filling.read(0, 2 * PART)
    filling.finish()
    assert not buffer.pinned
    assert (driver.held, budget.used) == ({}, 0)


def test_a_model_that_cannot_be_read_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver = Driver(monkeypatch)
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,'
        ' "num_hidden_layers": 1, "num_attention_heads": 2}'
    )
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    place = Place(Options())
    place.cuda = True  # As far as host memory goes.
    model = Model("broken", tmp_path, place)
    with pytest.raises(Fault, match="no safetensors file"):
        model.load()
    assert driver.held == {}
    assert (place.pins.used, place.host.used) == (0, 0)
    assert model.tier == "disk"
