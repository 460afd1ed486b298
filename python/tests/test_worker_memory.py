"""Memory of the host and of the device: who has how much, and who gives it back.

The driver's part is played, since there is none where tests run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_client import GUARD

pytest.importorskip("torch")

import torch
from worker_folders import write_tokenizer

from gswarm.worker import hoststore
from gswarm.worker.devmem import HostRegion, Region
from gswarm.worker.fault import Fault
from gswarm.worker.hostmem import Filling, HostBuffer, PinBudget
from gswarm.worker.lm_engine import Generation, LmEngine
from gswarm.worker.model import Model
from gswarm.worker.options import Options
from gswarm.worker.place import Place
from gswarm.worker.shapes import shape

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
    write_tokenizer(tmp_path)
    place = Place(Options())
    place.cuda = True  # As far as host memory goes.
    model = Model("broken", tmp_path, place)
    with pytest.raises(Fault, match="not a safetensors file"):
        model.load()
    assert driver.held == {}
    assert (place.pins.used, place.host.used) == (0, 0)
    assert model.tier == "disk"


def models(place: Place, *names: str) -> list[Model]:
    return [Model(name, shape("tiny-llm"), place) for name in names]


def test_the_least_recently_used_leaves_host_memory_where_another_needs_it() -> None:
    size = Model("m", shape("tiny-llm"), Place(Options())).bytes
    place = Place(Options(host_gb=2.5 * size / 1e9))
    a, b, c = models(place, "a", "b", "c")
    try:
        for one in (a, b, c):
            one.load()
        assert [one.tier for one in (a, b, c)] == ["disk", "dram", "dram"]
        assert place.host.used == 2 * size
        # One that somebody waits for stays, as does one on the device where the other is not to serve yet.
        b.wanted = 1
        a.wake()
        assert [one.tier for one in (a, b, c)] == ["gpu", "dram", "disk"]
        assert a.came_from == "disk"
        with pytest.raises(Fault, match=r"of host memory, where .* MB are taken"):
            c.load()
        assert [one.tier for one in (a, b, c)] == ["gpu", "dram", "disk"]
        b.wanted = 0
        c.load()
        assert [one.tier for one in (a, b, c)] == ["gpu", "disk", "dram"]
        b.load()
        c.wanted = 0
        assert [one.tier for one in (a, b, c)] == ["gpu", "dram", "disk"]
        b.wake()
        c.wake()
        # The copy of the one that has been on the device for longest went; the model itself is still there.
        assert [one.tier for one in (a, b, c)] == ["gpu", "gpu", "gpu"]
        assert [one.host is not None for one in (a, b, c)] == [False, True, True]
        a.sleep()
        assert (a.tier, b.came_from, c.came_from) == ("disk", "dram", "disk")
        b.sleep()
        a.wake()
        assert (a.tier, b.tier) == ("gpu", "disk")
    finally:
        for one in (a, b, c):
            one.close()


def test_nobody_is_dropped_for_what_does_not_fit_anyhow() -> None:
    size = Model("m", shape("tiny-llm"), Place(Options())).bytes
    place = Place(Options(host_gb=1.5 * size / 1e9))
    (small,) = models(place, "small")
    small.load()
    with pytest.raises(Fault, match="of host memory"):
        Model("large", shape("llama-1b"), place).load()
    assert small.tier == "dram"


def test_the_budget_of_host_memory_follows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [1000]
    monkeypatch.setattr(hoststore, "available", lambda: free[0])
    store = hoststore.HostStore()
    assert store.limit == 800
    assert store.claim(600)
    free[0] = 400  # What the worker took itself, and nothing more.
    assert store.limit == 800
    assert not store.claim(300)
    free[0] = 4000
    assert store.claim(300)
    free[0] = 0
    assert not store.claim(1)


def test_memory_of_the_cpu_grows_and_goes_back() -> None:
    region = HostRegion(64 << 20, torch.device("cpu"))
    assert (region.mapped, region.would_take(5000)) == (0, 8192)
    region.grow_to(5000)
    region.tensor()[:8192].fill_(7)
    assert region.mapped == 8192
    at = region.tensor().data_ptr()
    region.release()
    assert region.mapped == 0
    region.grow_to(1)
    assert region.tensor().data_ptr() == at
    assert int(region.tensor()[0]) == 0, "the system has taken the memory back"


def test_many_models_share_a_small_device() -> None:
    size = Model("m", shape("tiny-llm"), Place(Options())).bytes
    place = Place(Options(memory_gb=3.6 * size / 1e9, max_batch=64))
    all_three = models(place, *"abc")
    try:
        for one in all_three:
            one.wake()
        assert {one.tier for one in all_three} == {"gpu"}

        def text(model: Model, length: int) -> Generation:
            engine = model.engine
            assert isinstance(engine, LmEngine)
            job = Generation([1] * 8, length, ignore_eos=True)
            engine.check(job)
            engine.submit(job)
            return job

        # Each takes most of what is left in turn: the idle ones give theirs back.
        for one in all_three:
            assert text(one, 300).future.result(GUARD)["new_tokens"] == 300
        assert place.ledger.used <= place.ledger.budget
    finally:
        for one in all_three:
            one.close()


def test_a_first_text_that_fails_leaves_nothing_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(Options(max_context=2, max_batch=2))
    (model,) = models(place, "m")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(LmEngine, "measure", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model.wake()
        assert (model.tier, place.ledger.taken) == ("dram", {})
        assert model.wake(), "and it is measured then, however short its texts are"
        assert isinstance(model.engine, LmEngine)
        assert model.engine.pace
    finally:
        model.close()


def test_a_cache_is_smaller_where_there_are_no_addresses_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(Options(max_batch=64))
    (model,) = models(place, "m")
    usual, most = place.devices.region, 2 << 20

    def region(size: int, chunk: int) -> Region:
        if size > most:
            raise Fault(507, "out_of_gpu_memory", "there are no addresses")
        return usual(size, chunk)

    monkeypatch.setattr(place.devices, "region", region)
    try:
        model.wake()
        assert isinstance(model.engine, LmEngine)
        assert model.engine.runner is not None
        assert 0 < model.engine.runner.region.size <= most
    finally:
        model.close()
