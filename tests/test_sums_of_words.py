"""Blocks of the summed axis: its size by name, 0 too, and numerics "strict"; every target here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.words import Block, Edge, Grain, Pack, Register, Via, Words
from mlc.executable import compile_module
from mlc.pipeline import run_pipeline
from mlc.runtime.interpret import interpret
from tests.plans import HOSTED, planned

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


def words(packs: bool, row: str) -> Words:
    """Blocks of k, of which the last is not whole."""
    end = (Register(4, 16), Via(row), Edge("m", "clamp"), Grain(64))
    pack = (Pack("b", 16, team=True),) if packs else ()
    return (Block("k", 24), *pack, Block("m", 8, team=True), *end)


def product(a: Any, b: Any) -> Any:
    return a @ b


def tail(a: Any, b: Any) -> Any:
    return np.maximum(a @ b, 0.5) + 1.0


def run(f: Any, sizes: tuple[int, int, int], target: str, packs: bool, numerics: str) -> None:
    """Reference, interpreter and code, for sizes that the program has names for."""
    m, k, n = sizes
    specs = mlc.TensorSpec("M", "K"), mlc.TensorSpec("K", n)
    levels = planned(f, *specs, target=target, numerics=numerics)
    module = levels.plan().clone()
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    (kernel,) = (op for op in kernels if any(isinstance(x, Product) for x in op.block.ops))
    row = "mul_add" if numerics == "strict" else "fma"
    kernel.properties["schedule"] = ScheduleAttr(Schedule(words(packs, row)))
    arguments = [rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n))]
    (expected,) = interpret(levels.plan(), arguments)
    tiles = run_pipeline(module.clone(), levels.options, until="tiles")
    tiles.verify()
    (found,) = interpret(tiles, arguments, workers=2)
    compiled: list[Array] = []
    for threads in (1, 2):
        options = replace(levels.options, threads=threads)
        compiled.append(compile_module(module.clone(), levels.signature, options)(*arguments))  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(compiled[0], compiled[1])
    if numerics == "strict":
        np.testing.assert_array_equal(compiled[0], expected)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(compiled[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize("numerics", ["standard", "strict"])
@pytest.mark.parametrize("sizes", [(13, 70, 37), (1, 24, 16), (7, 0, 21), (0, 5, 16)], ids=str)
def test_sums_of_an_axis_by_name(sizes: tuple[int, int, int], numerics: str, target: str) -> None:
    run(tail, sizes, target, True, numerics)


@pytest.mark.parametrize("packs", [False, True])
def test_strict_sums_wait_in_the_result(packs: bool) -> None:
    """What waits is what the next block's sums begin with, so sums are added in turn."""
    run(product, (13, 70, 37), HOSTED[0], packs, "strict")
