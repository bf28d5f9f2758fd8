"""pad, where ends take elements away: what the other end added, or all there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, compile_plan, function_module, signature_of, to_plan

ENDS = ((1, -1), (-1, 1), (2, -3), (-3, 2), (-2, 4))


@pytest.mark.parametrize(("low", "high"), ENDS)
def test_elements_that_padding_adds_may_be_taken_away(low: int, high: int) -> None:
    arguments = [Argument(F32, (Dim.symbol("n"),)), Argument(F32, ())]
    module = function_module(
        arguments,
        lambda b, x: [b(PadOp, *x, low=(Dim.const(low),), high=(Dim.const(high),))],
        ["n"],
    )
    judge = module.clone()
    call = compile_plan(to_plan(module), signature_of(judge))
    for n in range(max(-low - high, 0), 5):
        x = np.arange(1, n + 1, dtype=np.float32)
        value = np.asarray(-1, np.float32)
        wide = np.concatenate([np.full(9, -1), x, np.full(9, -1)])
        expected = wide[9 - low : 9 + n + high]
        np.testing.assert_array_equal(interpret(judge, [x, value])[0], expected)
        np.testing.assert_array_equal(call(x, value)[0], expected)


def _cropped(b: OpBuilder, x: Sequence[SSAValue], low: int, high: int) -> list[SSAValue]:
    """The first argument without its ends; the fill is computed from the second one, in vain."""
    fill = b(ReduceOp, x[1], monoid="sum", letters="ba->")
    return [b(PadOp, x[0], fill, low=(Dim.const(low),), high=(Dim.const(high),))]


@pytest.mark.parametrize("fusion", ["none", "exact"])
@pytest.mark.parametrize(("low", "high"), [(-1, 0), (0, -1), (-1, -1)])
def test_a_fill_that_is_never_read_has_loops_of_its_own(low: int, high: int, fusion: str) -> None:
    """Also where nothing is left: not a byte is written beside a result, however many rows."""
    n = Dim.symbol("n")
    for shape, sizes in (((n,), (-low - high, 5)), ((Dim.const(-low - high),), (-low - high,))):
        arguments = [Argument(F32, shape), Argument(F32, (Dim.const(3), Dim.symbol("m")))]
        module = function_module(
            arguments,
            lambda b, x: _cropped(b, x, low, high),
            ["n", "m"] if n in shape else ["m"],
        )
        judge = module.clone()
        for count in (1, 2):
            plan = to_plan(module.clone(), fusion=fusion)
            call = compile_plan(plan, signature_of(judge), thread_count=count)
            for size in sizes:
                x = [np.arange(size, dtype=np.float32), np.ones((3, 4), np.float32)]
                np.testing.assert_array_equal(call(*x)[0], interpret(judge, x)[0])
