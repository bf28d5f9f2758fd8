"""Loads of tiled products: the counts of the lecture on tiling, and what its errata say."""

from __future__ import annotations

from math import inf

import pytest

from mlc.passes.tile.loads import Nest

F32 = {"a": 4, "b": 4, "c": 4}


def square(n: int, *steps: tuple[str, int]) -> Nest:
    """n x n x n in these loops."""
    return Nest.of({"g": 1, "m": n, "n": n, "k": n}, steps)


def loads(nest: Nest, capacity: float) -> tuple[float, float, float]:
    """Elements of a, b and c that come into a memory."""
    return tuple(nest.moved(x, capacity, nest.footprints(F32)) for x in "abc")  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("n", [16, 64, 240])
def test_the_naive_loop_reads_two_operands_for_each_multiplication(n: int) -> None:
    """Three registers: one element of each operand."""
    nest = square(n, ("m", 1), ("n", 1), ("k", 1))
    assert nest.footprints(F32)[3] == 3 * 4
    assert loads(nest, capacity=3 * 4) == (n**3, n**3, n**2)


@pytest.mark.parametrize(("v1", "v2", "v3"), [(2, 3, 1), (4, 8, 2), (12, 4, 4), (8, 8, 8)])
def test_a_register_tile_divides_loads_by_its_sides(v1: int, v2: int, v3: int) -> None:
    """n**3 / v2 of a, n**3 / v1 of b, n**2 of c, whatever v3."""
    n = 48
    nest = square(n, ("m", v1), ("n", v2), ("k", v3))
    registers = v1 * v3 + v2 * v3 + v1 * v2
    assert nest.footprints(F32)[3] == 4 * registers
    assert loads(nest, capacity=4 * registers) == (n**3 // v2, n**3 // v1, n**2)
    too_few = loads(nest, capacity=4 * registers - 1)
    assert too_few[2] == n**3 // v3  # sums leave the registers on each step


@pytest.mark.parametrize(("b1", "b2"), [(8, 16), (16, 8), (4, 4)])
def test_cache_tiles_read_one_factor_once(b1: int, b2: int) -> None:
    """n**2 of a, n**3 / b1 of b: the printed n**2 / b1 is a slip of the pen."""
    n = 64
    nest = square(n, ("m", b1), ("n", b2))
    level1 = 4 * (b1 * n + b2 * n + b1 * b2)
    assert loads(nest, capacity=level1) == (n**2, n**3 // b1, n**2)
    assert loads(nest, capacity=level1 - 1) == (n**3 // b2, n**3 // b1, n**2)


def test_both_levels_together() -> None:
    """The inner loops of registers inside those of the cache; each level by the same rule."""
    n, b1, b2, v1, v2 = 96, 24, 32, 4, 8
    nest = square(n, ("m", b1), ("n", b2), ("m", v1), ("n", v2), ("k", 1))
    level1 = 4 * (b1 * n + b2 * n + b1 * b2)
    registers = 4 * (v1 + v2 + v1 * v2)
    assert loads(nest, registers) == (n**3 // v2, n**3 // v1, n**2)
    assert loads(nest, level1) == (n**2, n**3 // b1, n**2)


def test_three_levels_together() -> None:
    n, c1, c2, b1, b2, v1, v2 = 192, 96, 96, 24, 32, 4, 8
    steps = (("m", c1), ("n", c2), ("m", b1), ("n", b2), ("m", v1), ("n", v2), ("k", 1))
    nest = square(n, *steps)
    level1 = 4 * (b1 * n + b2 * n + b1 * b2)
    level2 = 4 * (c1 * n + c2 * n + c1 * c2)
    assert loads(nest, 4 * (v1 + v2 + v1 * v2)) == (n**3 // v2, n**3 // v1, n**2)
    assert loads(nest, level1) == (n**3 // c2, n**3 // b1, n**2)
    assert loads(nest, level2) == (n**2, n**3 // c1, n**2)
    assert loads(nest, inf) == (n**2, n**2, n**2)


@pytest.mark.parametrize(
    ("level1", "n", "most"),
    [(32, 256, 31), (32, 1024, 7), (32, 2048, 3), (32, 4096, 1),
     (48, 256, 47), (48, 1024, 11), (48, 2048, 5), (48, 4096, 2)],
)  # fmt: skip
def test_whole_rows_of_both_factors_do_not_fit(level1: int, n: int, most: int) -> None:
    """b1·n + b2·n < L1 leaves b1 + b2 next to nothing: the summed axis must be blocked."""

    def fits(both: int) -> bool:
        nest = square(n, ("m", max(1, both - 1)), ("n", 1))
        return nest.footprints({"a": 4, "b": 4})[2] < level1 * 1024

    assert fits(most) or most == 1  # one row of one factor alone
    assert not fits(most + 1)


def test_blocks_of_the_summed_axis_read_the_sums_again() -> None:
    """With k in blocks of kc the factors fit, and c is read n / kc times."""
    n, kc, b1, b2 = 1024, 256, 64, 32
    nest = square(n, ("k", kc), ("m", b1), ("n", b2))
    capacity = 4 * (b1 * kc + b2 * kc + b1 * b2)
    assert capacity > 32 * 1024 * 3 - 10_000
    assert loads(nest, capacity) == (n**2, n**3 // b1, n**3 // kc)


def test_a_factor_that_batches_share_is_read_once_where_it_fits() -> None:
    nest = Nest.of(
        {"g": 8, "m": 16, "n": 16, "k": 16}, (("g", 1), ("m", 4), ("n", 4)),
        {"a": "gmk", "b": "kn", "c": "gmn"},
    )  # fmt: skip

    def moved(operand: str, capacity: int) -> float:
        return nest.moved(operand, capacity, nest.footprints(F32))

    whole = 4 * (3 * 16 * 16)
    assert moved("b", whole) == 16 * 16
    assert moved("b", 4 * (16 * 16 + 4 * 16 * 2)) == 8 * 16 * 16
    assert moved("a", whole) == 8 * 16 * 16
