"""pad, where one end takes away what the other one added."""

from __future__ import annotations

import numpy as np
import pytest

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.placing import PadOp
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
