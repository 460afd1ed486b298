"""What goes through the engine and what stays in the cluster."""

from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install gswarm-scheduler[ray]")

from gswarm.ray.references import INLINE_BYTES, is_reference, new_key, references_in, replaced, split

LARGE = "x" * (INLINE_BYTES + 1)


def test_what_is_small_goes_as_it_is() -> None:
    for answer in (None, 1, "text", [1, 2], {"a": {"b": 1}}):
        assert split(answer) == (answer, {})


def test_what_is_large_or_no_json_stays_and_fields_stay_apart() -> None:
    assert split(LARGE) == (None, {None: LARGE})
    assert split({"image": LARGE, "caption": "a cat"}) == ({"caption": "a cat"}, {"image": LARGE})
    assert split({"set": {1, 2}, "caption": "a cat"}) == ({"caption": "a cat"}, {"set": {1, 2}})
    assert split(float("nan"))[1], "JSON has no such number"
    small, large = split({f"part{at}": "x" * (INLINE_BYTES // 4) for at in range(6)})
    assert len(small) == 3
    assert len(large) == 3, "the rest together is no larger than what goes"
    assert split({1: LARGE}) == ({}, {"1": LARGE}), "names of fields are texts"
    assert split({1: {2}}) == (None, {None: {1: {2}}})


def test_what_json_has_a_form_for_is_what_json_makes_of_it_at_any_size() -> None:
    for text in ("small", LARGE):
        small, large = split({"pair": (text, {1: (2,)}), "set": {3}})
        assert {**small, **large} == {"pair": [text, {"1": [2]}], "set": {3}}


def test_references_are_found_and_replaced() -> None:
    reference = {"$ray": "key", "at": ["node"], "bytes": 3}
    inputs = {"a": reference, "b": [{"c": reference}, 1], "d": {"$ray": 5}}
    assert references_in(inputs) == [reference, reference]
    assert replaced(inputs, lambda _: "value") == {"a": "value", "b": [{"c": "value"}, 1], "d": {"$ray": 5}}
    assert not is_reference({"$ray": "key"})


def test_keys_are_names_of_files_and_differ() -> None:
    one, other = new_key("r/../n 1"), new_key("r/../n 1")
    assert one != other
    assert "/" not in one
    assert " " not in one
