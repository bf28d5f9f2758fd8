"""Disjunctions and conjunctions of bools: states in bytes, blocks that are left out."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import mmap
import re
from typing import Any

import numpy as np
import pytest

import mlc
from tests.plans import RUNNABLE, planned, spec

Array = np.ndarray[Any, np.dtype[Any]]
SHAPES = [(0,), (1,), (63,), (1000,), (40_000,), (300_001,), (3, 0), (0, 3), (70, 33), (9, 20_001)]
TARGETS = sorted({"host", RUNNABLE})


def found(x: Array) -> tuple[Any, ...]:
    """Every disjunction and conjunction of an array."""
    axes = (None, *range(x.ndim))
    return tuple(f(x, axis=axis) for f in (np.any, np.all) for axis in axes)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_element_differs(shape: tuple[int, ...], target: str) -> None:
    compiled = mlc.compile(target=target, threads=1)(found)
    size = int(np.prod(shape))
    for place in sorted({*range(0, size, max(size // 5, 1)), max(size - 1, 0)}):
        for value in (False, True):
            x = np.full(size, value)
            x[place : place + 1] = not value
            x = x.reshape(shape)
            for mine, expected in zip(compiled(x), found(x), strict=True):
                np.testing.assert_array_equal(mine, expected)


def test_any_byte_is_true() -> None:
    x = np.zeros(5000, np.uint8)
    x[4321] = 64
    assert mlc.compile(np.any)(x.view(bool)) == np.True_


@pytest.mark.parametrize("threads", [1, 2])
def test_elements_of_others_and_of_threads(threads: int) -> None:
    x = np.linspace(-1.0, 1.0, 500_000, dtype=np.float32)
    compiled = mlc.compile(lambda x, c: ((x > c).any(), (x > c).all()), threads=threads)
    for c in (-2.0, -1.0, 0.999, 1.0, 2.0):
        limit = np.float32(c)
        assert compiled(x, limit) == ((x > limit).any(), (x > limit).all())


def test_what_may_fail_is_not_left_out() -> None:
    x, i = np.ones(10, bool), np.zeros(100_000, np.int64)
    taken = mlc.compile(lambda x, i: x[i].any())
    assert taken(x, i)
    i[-1] = 10
    with pytest.raises(IndexError, match="out of bounds"):
        taken(x, i)


def test_a_loop_ends_when_the_result_is_known() -> None:
    levels = planned(np.any, spec(100_000, dtype="bool"), target="avx2")
    text = levels.text("loops")
    assert "scf.while" in text
    carried = re.findall(r"iter_args\(.*?\) -> \((.*?)\)", text)
    assert carried
    assert not any("xi1>" in kinds for kinds in carried)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16"])
def test_ends_of_pages(dtype: str) -> None:
    """Nothing is read from a page on which no element lies."""
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 3 * page)
    whole = np.frombuffer(pages, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    forbidden = [whole.ctypes.data, whole.ctypes.data + 2 * page]
    for address in forbidden:
        assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 0) == 0
    try:
        middle = whole[page : 2 * page].view(dtype)
        middle[:] = np.arange(len(middle)) % 7
        compiled = mlc.compile(target=RUNNABLE, threads=1)(
            lambda x: (x.any(), x.max(), x[::-1] + x)
        )
        for n in (1, 2, 15, 17, 31, 33, 63, 70):
            for x in (middle[-n:], middle[:n]):
                for mine, expected in zip(
                    compiled(x), (x.any(), x.max(), x[::-1] + x), strict=True
                ):
                    np.testing.assert_array_equal(mine, expected)
    finally:
        for address in forbidden:
            libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 3)
