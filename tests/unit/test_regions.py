"""Programs of nested regions: the reference, plans of them and compiled code agree."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import I64
from mlc.passes.tensor.canonicalize import CanonicalizePass
from mlc.passes.tensor.cse import CsePass
from mlc.passes.tensor.dce import DcePass
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, Array, compile_plan, function_of, signature_of, to_plan
from tests.region_programs import FLAT, MATRIX, SHAPE, Regions
from tests.sweeps import leading

SYMBOL = "n"


def program(seed: int) -> ModuleOp:
    """A function of two matrices, a row of numbers, a number, and something of symbolic size."""
    rng = random.Random(seed)
    types = [MATRIX, MATRIX, FLAT, tensor_type(I64.ir, ())]
    types.append(tensor_type(I64.ir, (Dim.symbol(SYMBOL),)))
    block = Block(arg_types=types)
    regions = Regions(rng, block, SYMBOL)
    regions.steps(6)
    results = [regions.any() for _ in range(3)]
    shapes = (SHAPE, SHAPE, (SHAPE[0] * SHAPE[1],), (), (Dim.symbol(SYMBOL),))
    strided = rng.random() < 0.3
    arguments = [Argument(I64, dims, strided and k == 1) for k, dims in enumerate(shapes)]
    return function_of(block, arguments, results, [SYMBOL])


@pytest.mark.parametrize("first", leading(8, range(0, 400, 20)))
def test_plan_and_code_mean_what_the_program_means(first: int) -> None:
    for seed in range(first, first + 20):
        module = program(seed)
        module.verify()
        verify_dominance(module)
        arrays = [np.arange(6).reshape(2, 3), -np.arange(6).reshape(2, 3) * 7]
        arrays += [np.arange(6) - 3, np.asarray(2), np.zeros(seed % 3, np.int64)]
        expected = interpret(module, arrays)
        if seed % 2:
            for step in (CanonicalizePass(), CsePass(), DcePass()):
                step.apply(Context(), module)
                module.verify()
                verify_dominance(module)
                same(interpret(module, arrays), expected, step.name, seed)
        signature = signature_of(module)
        to_plan(module, fusion="exact" if seed % 3 else "none")
        module.verify()
        verify_dominance(module)
        same(interpret(module, arrays), expected, "the plan", seed)
        run = compile_plan(module, signature, opt_level=0)
        for again in range(2):
            same(run(*arrays), expected, f"code, call {again}", seed)


def same(found: Sequence[Array], expected: Sequence[Array], what: str, seed: int) -> None:
    """Equal results, or which program they are of."""
    for k, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(x, y), f"program {seed}, {what}, result {k}: {x} != {y}"
