"""Order of ops after an edit."""

from __future__ import annotations

import random

from npuscope.files.order import in_order


def test_what_stands_right_stays() -> None:
    assert in_order("abc", {"a": [], "b": ["a"], "c": ["a"]}) == ["a", "b", "c"]


def test_needs_come_first() -> None:
    assert in_order("abc", {"a": ["c"], "b": [], "c": []}) == ["c", "a", "b"]


def test_a_ring_ends() -> None:
    assert sorted(in_order("ab", {"a": ["b"], "b": ["a"]})) == ["a", "b"]


def test_random_orders_are_put_right() -> None:
    rng = random.Random(5)
    for _ in range(50):
        size = rng.randint(1, 40)
        needs = {n: rng.sample(range(n), min(n, rng.randint(0, 3))) for n in range(size)}
        items = list(range(size))
        rng.shuffle(items)
        found = in_order(items, needs)
        assert sorted(found) == sorted(items)
        place = {item: n for n, item in enumerate(found)}
        assert all(place[need] < place[n] for n in items for need in needs[n])
