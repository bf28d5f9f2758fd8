"""The arena has room for the workspaces that the LAPACK which NumPy has loaded asks for."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.ir import SSAValue

from mlc.dialects.abi import LAPACK
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import C128, F64, DType
from mlc.dialects.tensor.library import LibraryOp
from mlc.lowering.loops.opaque.lapack_memory import Problem, memory_of
from mlc.runtime.lapack import lapack_addresses

ADDRESSES = lapack_addresses()
SIZES = (1, 2, 5, 26, 33, 76, 129, 300, 1000)
Call = tuple[str, str, list[Any]]  # of LAPACK; -1 asks for the size of the workspace before it


def value(dtype: DType, *shape: int) -> SSAValue:
    kind = tensor_type(dtype.ir, tuple(map(Dim.const, shape)))
    return test.TestOp.create(result_types=[kind]).results[0]


def wanted(name: str, letters: str, arguments: list[Any]) -> Iterator[tuple[str, int]]:
    """Workspaces and what is asked for, in elements."""
    assert ADDRESSES is not None
    arrays = {x: np.zeros(8) for x in arguments if isinstance(x, str)}
    integers = [ctypes.c_int64(x) for x in arguments if isinstance(x, int)]
    left, info = iter(integers), ctypes.c_int64(0)
    passed: list[Any] = [ctypes.c_char_p(x.encode()) for x in letters]
    for x in arguments:
        named = isinstance(x, str)
        passed += [arrays[x].ctypes.data_as(ctypes.c_void_p) if named else ctypes.byref(next(left))]
    lengths = [ctypes.c_int64(1)] * len(letters)
    routine = ctypes.CFUNCTYPE(None)(ADDRESSES[list(LAPACK).index(name)])
    routine(*passed, ctypes.byref(info), *lengths)
    assert info.value == 0
    for x, after in pairwise(arguments):
        if after == -1:
            yield x, int(arrays[x].view(np.int64)[0] if x == "integers" else arrays[x][0])


def squares(dtype: DType, n: int) -> Iterator[tuple[Problem, Call]]:
    is_complex = dtype is C128
    spaces = ["work", *(["reals"] if is_complex else []), "integers"]
    for routine in ("eigh_lower", "eigvalsh_upper", "eig", "eigvals"):
        problem = Problem(LibraryOp.make(value(dtype, n, n), routine=routine))  # pyright: ignore[reportArgumentType]
        vectors = "V" if problem.has_vectors else "N"
        if problem.step == "evd":
            tail = [part for space in spaces for part in (space, -1)]
            yield problem, (problem.lapack(), f"{vectors}L", [n, "a", n, "s", *tail])
            continue
        values = ["w"] if is_complex else ["w", "wi"]
        tail = ["l", 1, "r", n, "work", -1, *spaces[1:-1]]
        yield problem, (problem.lapack(), f"N{vectors}", [n, "a", n, *values, *tail])


def rectangles(dtype: DType, m: int, n: int) -> Iterator[tuple[Problem, Call]]:
    least, reals = min(m, n), ["reals"] if dtype is C128 else []
    a = value(dtype, m, n)
    for routine, letter in (("svd_full", "A"), ("svd_reduced", "S"), ("svd_values", "N")):
        problem = Problem(LibraryOp.make(a, routine=routine))  # pyright: ignore[reportArgumentType]
        sides = ["u", m, "vt", n, "work", -1, *reals, "integers"]
        yield problem, (problem.lapack(), letter, [m, n, "a", m, "s", *sides])
    for routine, side in (("qr_reduced", least), ("qr_complete", m)):
        problem = Problem(LibraryOp.make(a, routine=routine))  # pyright: ignore[reportArgumentType]
        tail = ["tau", "work", -1]
        yield problem, (problem.lapack(), "", [m, n, "a", m, *tail])
        yield problem, (problem.lapack("orgqr"), "", [m, side, least, "a", m, *tail])
    for rights in (1, 300):
        operands = a, value(dtype, m, rights), value(dtype)
        problem = Problem(LibraryOp.make(*operands, routine="lstsq"))  # pyright: ignore[reportArgumentType]
        tail = ["b", max(m, n), "s", "rcond", "rank", "work", -1, *reals, "integers"]
        yield problem, (problem.lapack(), "", [m, n, rights, "a", m, *tail])


@pytest.mark.skipif(ADDRESSES is None, reason="no loaded library has LAPACK")
@pytest.mark.parametrize("dtype", [F64, C128], ids=lambda x: x.name)
def test_workspaces_have_room(dtype: DType) -> None:
    cases = [case for n in SIZES for case in squares(dtype, n)]
    cases += [case for m, n in product(SIZES, SIZES) for case in rectangles(dtype, m, n)]
    for problem, call in cases:
        room = {name: count.constant for name, (_, count) in memory_of(problem).items()}
        for name, count in wanted(*call):
            assert count <= (room[name] or 0), (problem.routine, call, name)
