"""A result has the same bits for every number of threads (D1), whatever template computes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, F64, DType
from mlc.dialects.plan import KernelOp, ScheduleAttr
from mlc.dialects.tensor.elementwise import AddOp, NegOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tile.words import Grain
from tests.every_op.native import (
    Argument,
    Array,
    compile_plan,
    function_module,
    signature_of,
    to_plan,
)

THREADS = (2, 3)
GRAINS = (1, 1000)  # elements per thread: every thread works; some do


def _compiled(module: ModuleOp, threads: int, grain: int) -> Callable[..., tuple[Array, ...]]:
    signature = signature_of(module)
    plan = to_plan(module.clone())
    for op in plan.walk():
        if isinstance(op, KernelOp) and op.schedule is not None:
            op.properties["schedule"] = ScheduleAttr(op.schedule.data.having(Grain(grain)))
    return compile_plan(plan, signature, thread_count=threads)


def _same_bits(module: ModuleOp, *arrays: Array) -> None:
    expected = _compiled(module, 1, 10**9)(*arrays)
    for threads in THREADS:
        for grain in GRAINS:
            found = _compiled(module, threads, grain)(*arrays)
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_array_equal(got, want)


def _dims(dtype: DType, *shape: int) -> Argument:
    return Argument(dtype, tuple(Dim.const(n) for n in shape))


@pytest.mark.parametrize("letters", ["mn->m", "mn->n", "mn->"])
@pytest.mark.parametrize("shape", [(7, 40_001), (40_001, 7), (300, 301)])
def test_sums(letters: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    module = function_module(
        [_dims(F32, *shape)],
        lambda b, v: [b(ReduceOp, *v, monoid="sum", letters=letters)],
    )
    _same_bits(module, x)


@pytest.mark.parametrize("letters", ["mk,kn->mn", "km,nk->nm", "bmk,bkn->bmn", "k,k->", "mk,k->m"])
def test_contractions(letters: str) -> None:
    extents = {"m": 61, "n": 133, "k": 700, "b": 3}
    rng = np.random.default_rng(1)
    words = letters.split("->")[0].split(",")
    arrays = [rng.standard_normal([extents[c] for c in word]) for word in words]

    module = function_module(
        [_dims(F64, *x.shape) for x in arrays],
        lambda b, v: [b(ContractOp, *v, letters=letters)],
    )
    _same_bits(module, *arrays)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 33])
def test_more_threads_than_elements(n: int) -> None:
    """Each thread writes what is its own, and nothing beside it."""
    x = np.arange(n, dtype=np.float32)
    module = function_module([_dims(F32, n)], lambda b, v: [b(NegOp, *v), b(AddOp, v[0], v[0])])
    _same_bits(module, x)
