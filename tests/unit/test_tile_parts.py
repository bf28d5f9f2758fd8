"""Items that do not suffice for all blocks, and how blocks share them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlc.dialects.tile.parts import Integers, Parts

NUMBERS = st.tuples(
    st.integers(0, 60), st.integers(1, 40), st.integers(1, 20), st.integers(1, 9)
)  # fmt: skip


@given(NUMBERS)
def test_every_step_has_one_block(numbers: tuple[int, int, int, int]) -> None:
    items, steps, blocks, most = numbers
    parts = Parts(Integers(), items, steps, blocks, most)
    owners: dict[tuple[int, int], int] = {}
    for block in range(blocks):
        for visit in range(parts.visits(block)):
            part = parts.part(visit, block)
            assert 0 <= part.first < part.end <= steps
            for step in range(part.first, part.end):
                assert (part.item, step) not in owners
                owners[part.item, step] = block
    assert len(owners) == items * steps
    for item in range(items):
        found = [owners[item, step] for step in range(steps)]
        assert found == sorted(found)  # who waits for others has the largest number
        if item >= parts.before:
            expected = [parts.owner(item, n) for n in range(parts.others + 1)]
            assert sorted(set(found)) == expected
            assert len(expected) <= most


def test_shares() -> None:
    def longest(items: int, steps: int) -> float:
        p = Parts(Integers(), items, steps, 132, 4)
        visits = [[p.part(v, b) for v in range(p.visits(b))] for b in range(132)]
        return max(sum(x.end - x.first for x in own) for own in visits) / steps

    assert longest(448, 64) == 3.5  # 52 tiles are left, in halves
    assert longest(16, 256) == 0.25
    assert longest(128, 64) == 1
