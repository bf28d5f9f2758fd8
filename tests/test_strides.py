"""
Strides and views: what moves no byte, what is copied, and what the plan says about each copy.

Strides are NumPy's divided by the size of an element, as textbooks count them.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import mlc
from mlc.executable import Executable
from mlc.passes.report.copies import Copy
from mlc.runtime.cuda.dlpack import row_major
from tests.plans import planned

Array = NDArray[Any]


def strides(x: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // x.itemsize for stride in x.strides)


def numbered(*shape: int) -> Array:
    """0, 1, 2, … in a shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def executable(function: Callable[..., Any], *arrays: Array) -> Executable:
    """The program for these arrays; its result is NumPy's."""
    compiled = mlc.compile(function)
    got, want = compiled(*arrays), function(*arrays)
    np.testing.assert_array_equal(got, want)
    assert compiled.stats().argument_bytes_copied == 0
    return compiled.lower(*arrays).compile()


def copies(function: Callable[..., Any], *arrays: Array) -> Sequence[Copy]:
    """The copies that the plan makes, none of them hidden in its kernels' bytes."""
    exe = executable(function, *arrays)
    plan = exe.plan()
    moved = [copy for copy in plan.copies if copy.kind == "copy"]
    assert plan.copied_bytes == sum(copy.bytes for copy in moved)
    for copy in plan.copies:
        assert str(copy) in exe.explain()
    return moved


def reads_and_writes(exe: Executable) -> int:
    return exe.cost().bytes_moved


# Strides and contiguity


def test_strides_of_row_major_and_column_major() -> None:
    x = numbered(1, 2, 3, 4)
    assert strides(x) == (24, 12, 4, 1) == row_major(x.shape)
    assert strides(np.asfortranarray(x)) == (1, 1, 2, 6)


def test_a_permutation_that_only_moves_an_axis_of_size_one_is_contiguous() -> None:
    """Axes of size 1 do not count: a test of the strides alone would copy."""
    x = numbered(1, 2, 3, 4)
    moved = x.transpose(1, 2, 3, 0)
    assert strides(moved) == (12, 4, 1, 24)
    assert moved.flags.c_contiguous
    doubled = mlc.compile(lambda v: v * 2)
    doubled(np.ascontiguousarray(moved))
    doubled(moved)
    assert doubled.stats().compilations + doubled.stats().cache_hits == 1, "one layout class"

    def permuted(v: Any) -> Any:
        return v.transpose(1, 2, 3, 0).reshape(6, 4) + 1

    assert not copies(permuted, x)


# Views move nothing


WIDE = numbered(4, 4)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape to 16": lambda x: x.reshape(16) + 1,
    "reshape to (2, 8)": lambda x: x.reshape(16).reshape(2, 8) + 1,
    "slice": lambda x: x[1:, :2] + 1,
    "slice, every second, backwards": lambda x: x[::-2, 1:] + 1,
    "transpose": lambda x: x.T + 1,
    "transpose split": lambda x: x.T.reshape(2, 2, 4) + 1,
    "permute": lambda x: x.reshape(2, 2, 4).transpose(2, 0, 1) + 1,
    "broadcast": lambda x: np.broadcast_to(x[:, None], (4, 3, 4)) + 1,
    "new axis": lambda x: x[:, None] * x[None],
    "swapped tiles": lambda x: x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3) + 1,
    "sum of a transpose": lambda x: x.T.sum(axis=0),
    "product with a transpose": lambda x: x @ x.T,
    "row of a transpose": lambda x: x.T[np.array([2, 0])],
    "sorted transpose": lambda x: np.sort(x.T, axis=1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_is_read_costs_nothing(name: str) -> None:
    assert not copies(VIEWS[name], WIDE)


def test_a_slice_moves_only_what_it_picks() -> None:
    """Offset 1, shape (3, 2): 24 bytes are read, 24 written."""
    exe = executable(lambda x: x[1:, :2] + 1, WIDE)
    assert not exe.plan().copies
    assert reads_and_writes(exe) == 2 * 3 * 2 * 4


def test_transposes_disappear_into_their_readers() -> None:
    def product(x: Any, y: Any) -> Any:
        return x.T @ y

    lowered = mlc.compile(product).lower(WIDE, WIDE)
    assert "mlc.transpose" in lowered.text("trace")
    assert "mlc.transpose" not in lowered.text("tensor")


def test_broadcast_has_stride_zero() -> None:
    row = numbered(1, 3)
    assert strides(np.broadcast_to(row, (4, 3))) == (0, 1)
    exe = executable(lambda x: np.broadcast_to(x, (4, 3)) + 1, row)
    assert not exe.plan().copies
    assert reads_and_writes(exe) == (3 + 12) * 4, "the row is read once"


# Arguments of any strides


@pytest.mark.parametrize("order", ["C", "F"])
def test_both_orders_are_taken_as_they_are(order: Any) -> None:
    x, y = np.array(WIDE, order=order), np.array(WIDE + 1, order=order)
    assert not copies(lambda a, b: a + b, x, y)
    assert not copies(lambda a, b: a @ b, x, y)
    assert not copies(lambda a, b: (a * b).sum(axis=1), x, y)


def test_negative_and_zero_strides_are_read_in_place() -> None:
    base = numbered(12)
    chosen = {
        "backwards": base[::-1],
        "every third": base[::3],
        "one element": as_strided(base, (5,), (0,)),
        "overlapping": as_strided(base, (4, 3), (8, 4)),
        "no element": base[:0],
        "tiles": as_strided(base, (2, 2, 2), (16, 4, 8)),
    }
    for x in chosen.values():
        assert not copies(lambda v: v * 2, x)
    rng = np.random.default_rng(0)
    for _ in range(20):
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 4)))
        steps = tuple(int(s) for s in 4 * rng.integers(-2, 3, len(shape)))
        assert not copies(lambda v: v + 1, as_strided(numbered(64)[24:], shape, steps))


def test_an_array_that_code_cannot_address_is_copied_and_counted() -> None:
    records = np.zeros(5, np.dtype([("flag", "i1"), ("value", "<f4")]))
    records["value"] = numbered(5)
    strange = {
        "no multiples of 4 bytes|no multiple of 4 bytes": records["value"],
        "byte order": numbered(5).astype(">f4"),
    }
    for why, x in strange.items():
        doubled = mlc.compile(lambda v: v * 2)
        for calls in (1, 2):
            np.testing.assert_array_equal(doubled(x), numbered(5) * 2)
            assert doubled.stats().argument_bytes_copied == calls * x.size * 4
        (remark,) = (r for r in doubled.stats().remarks if "copied" in r)
        assert any(part in remark for part in why.split("|")), remark


# Copies that remain


def swapped(x: Any) -> Any:
    """The tiles of a 4x4 matrix in a row each, as a view with four axes."""
    return x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3)


def test_swapping_tiles_is_a_view_with_four_axes() -> None:
    view = WIDE.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3)
    assert strides(view) == (8, 2, 4, 1)
    exchanged = WIDE.reshape(2, 2, 2, 2).transpose(2, 0, 1, 3)
    assert strides(exchanged) == (2, 8, 4, 1)
    other = WIDE.reshape(2, 2, 2, 2).transpose(2, 1, 0, 3)
    assert strides(other) == (2, 4, 8, 1)
    assert np.shares_memory(other, WIDE)
    assert not np.shares_memory(other.reshape(4, 4), WIDE), "no two strides describe it"
    assert not copies(lambda x: x.reshape(2, 2, 2, 2).transpose(2, 1, 0, 3) * 2, WIDE)


def test_swapped_tiles_as_a_matrix_are_one_copy() -> None:
    def matrix(x: Any) -> Any:
        return x.reshape(2, 2, 2, 2).transpose(2, 1, 0, 3).reshape(4, 4)

    (copy,) = copies(matrix, WIDE)
    assert copy.bytes == 64
    assert copy.reason == (
        "a result owns its memory, and this one is argument x transposed, reshaped"
    )
    (copy,) = copies(lambda x: matrix(x) @ x, WIDE)
    assert copy.bytes == 64
    assert copy.reason == (
        "a reshape to (4, 4) takes elements row by row; it is of argument x transposed"
    )
    assert "test_strides.py:" in copy.source


REMAINING: dict[str, tuple[Callable[[Any], Any], Array, str]] = {
    "returned as it is": (lambda x: x, WIDE, "argument x as it is"),
    "returned transposed": (lambda x: x.T, WIDE, "a result owns its memory"),
    "returned as tiles": (swapped, WIDE, "argument x transposed"),
    "returned slice": (lambda x: x[1:, :2], WIDE, "argument x sliced"),
    "returned broadcast": (
        lambda x: np.broadcast_to(x, (2, 4, 4)),
        WIDE,
        "argument x broadcast",
    ),
    "Fortran order, reshaped": (
        lambda x: x.reshape(16) * 2,
        np.asfortranarray(WIDE),
        "it is of argument x in any order",
    ),
    "slice, reshaped": (lambda x: x[:, 1:3].reshape(8) * 2, WIDE, "it is of argument x sliced"),
    "a loop starts with it": (
        lambda x: mlc.fori_loop(0, 2, lambda k, c: c * 2, x.T),
        WIDE,
        "a region starts from memory of its own",
    ),
}


@pytest.mark.parametrize("name", REMAINING)
def test_a_copy_that_remains_has_a_reason(name: str) -> None:
    function, x, why = REMAINING[name]
    found = copies(function, x)
    assert any(why in copy.reason for copy in found), [str(copy) for copy in found]
    assert all(copy.bytes > 0 for copy in found)


def test_results_own_their_memory() -> None:
    """What a copy on the way out is for."""
    result = mlc.compile(lambda x: x.T)(WIDE)
    assert result.flags.c_contiguous
    assert result.flags.owndata
    assert not np.shares_memory(result, WIDE)


def test_bytes_of_copies_follow_the_sizes() -> None:
    lowered = mlc.compile(lambda x: x.T).lower(mlc.TensorSpec("N", 8, dtype="f32"))
    exe = lowered.compile()
    for size in (3, 1000):
        assert exe.plan(N=size).copied_bytes == size * 8 * 4


# Packing


def test_large_products_pack_one_factor_and_say_so(cpu: str) -> None:
    """More columns than the four vectors that are read where they lie, on every processor."""
    x = np.ones((300, 160), np.float32)
    y = np.ones((80, 160), np.float32)
    levels = planned(lambda a, b: a @ b.T, x, y, target=cpu)
    (pack,) = levels.report({}).copies
    assert pack.kind == "pack"
    assert pack.bytes == 80 * 160 * 4
    assert "every tile of rows reads this factor again" in pack.reason
    assert levels.report({}).copied_bytes == 0
    assert levels.memory({}).arena_bytes >= 16 * 160 * 4, "where packed blocks lie, one by one"


def test_large_products_are_numpys() -> None:
    executable(lambda a, b: a @ b.T, np.ones((96, 160), np.float32), np.ones((80, 160), np.float32))


def test_small_products_pack_nothing() -> None:
    assert not executable(lambda a, b: a @ b.T, WIDE, WIDE).plan().copies
