"""The facts of each op that derivatives, batching and costs rest on, against `reference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, F32, F64, I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.elementwise import AddOp, ExpOp, SubOp
from mlc.dialects.tensor.op import OpaqueOp, OpBuilder, TensorOp, bytes_of
from mlc.dialects.tensor.registry import OPS
from tests.every_op.cases import Case
from tests.every_op.elementwise import creation, elementwise
from tests.every_op.facts import around, op_of, values_of
from tests.every_op.moving import moving
from tests.every_op.native import Argument, Array, function_module
from tests.every_op.ordering import ORDERING
from tests.every_op.reducing import UNUSUAL, contraction, contractions, reductions
from tests.every_op.shapes import SHAPE_CLASSES, ShapeClass
from tests.every_op.windows import WINDOWED

ODD = next(c for c in SHAPE_CLASSES if c.name == "odd")


def _cases(c: ShapeClass) -> list[Case]:
    families = (moving, reductions, contractions, creation, *ORDERING.values(), *WINDOWED.values())
    found = [*elementwise(c.dims("m", "n")), *(case for f in families for case in f(c))]
    return [*found, *(contraction(c, text, F64) for text in UNUSUAL)]


CASES = _cases(ODD)
FLOAT = [case for case in CASES if all(x.dtype is F64 or x.indexes for x in case.operands)]


def _smooth(rng: np.random.Generator, case: Case) -> list[Array]:
    """Operands in (0.5, 2), where every op is differentiable, and the case's own indices."""
    drawn = case.draw(rng, {}, "contiguous")
    return [x if x.dtype != np.float64 else rng.uniform(0.5, 2, x.shape) for x in drawn]


# Linearity


def _linear() -> list[tuple[Case, int]]:
    """Cases and an operand in which they are linear."""
    pairs: list[tuple[Case, int]] = []
    for case in CASES:
        op = op_of(case)
        floats = [k for k, x in enumerate(case.operands) if x.dtype is F64]
        if op.dtype is F64:
            pairs += [(case, k) for k in op.linear_operands() if k in floats]
    return pairs


def test_ops_are_linear_where_they_say_so() -> None:
    """f(a x + y) = a f(x) + f(y) in each."""
    rng = np.random.default_rng(1)
    for case, operand in _linear():
        arrays = _smooth(rng, case)
        x, y = (rng.standard_normal(arrays[operand].shape) for _ in range(2))
        module = around(case, lambda b, op, extra: [op.results[0]])
        at = [
            values_of(module, [v if k == operand else z for k, z in enumerate(arrays)], {})[0]
            for v in (x, y, 2.5 * x + y)
        ]
        np.testing.assert_allclose(at[2], 2.5 * at[0] + at[1], rtol=1e-11, atol=1e-11)


# Costs and errors


def test_bytes_are_those_of_operands_and_result() -> None:
    for case in CASES:
        op = op_of(case)
        cost = op.cost()
        assert cost.bytes_read == sum(
            (bytes_of(x.type) for x in op.operands), bytes_of(tensor_type(F64.ir, ODD.dims(0)))
        )
        assert cost.bytes_written == bytes_of(op.results[0].type)
        assert (cost.flops.constant or 0) >= 0


def test_a_sum_of_products_counts_both() -> None:
    case = next(c for c in CASES if c.label == "mk,kn->mn" and c.operands[0].dtype is F64)
    assert op_of(case).cost().flops.constant in (3 * 7 * 5, 2 * 3 * 7 * 5)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_names_its_source_and_shows_its_text(op: type[TensorOp]) -> None:
    assert op.SOURCE
    assert op.__doc__


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_what_only_moves_computes_nothing(op: type[TensorOp]) -> None:
    """What moves its operands' elements has no arithmetic, and alone shares memory with them."""
    assert not op.MOVES or op.FLOPS == 0
    assert op.MOVES or not op.SHARES_MEMORY
    assert not op.IS_FREE or not issubclass(op, OpaqueOp)


def test_an_op_that_lacks_a_fact_says_which() -> None:
    op = op_of(next(c for c in CASES if c.op is ExpOp and c.operands[0].dtype is F64))
    with pytest.raises(NotImplementedError, match=r"mlc\.exp does not state its `transpose`"):
        op.transpose(OpBuilder(lambda op: op), op.results[0], 0)


def around_add() -> TensorOp:
    """x + y on f64."""
    case = next(c for c in CASES if c.op is AddOp and c.operands[0].dtype is F64)
    return op_of(case)


def _wrong(
    build: Callable[[OpBuilder, Sequence[SSAValue]], SSAValue], *arguments: Argument
) -> None:
    function_module(arguments, lambda b, v: [build(b, v)])


def test_messages_say_what_differs_and_what_to_do() -> None:
    m, n = ODD.dims("m", "n")
    x, y = Argument(F64, (m, n)), Argument(F64, (n, m))
    with pytest.raises(ShapeError, match=r"mlc.add: shapes \(3, 7\) and \(7, 3\) differ"):
        _wrong(lambda b, v: b(AddOp, *v), x, y)
    with pytest.raises(DTypeError, match="f64 and f32 differ; expected one dtype"):
        _wrong(lambda b, v: b(AddOp, *v), x, Argument(F32, (m, n)))
    with pytest.raises(DTypeError, match=r"mlc\.exp is not defined for i64; expected float"):
        _wrong(lambda b, v: b(ExpOp, *v), Argument(I64, (m, n)))
    with pytest.raises(DTypeError, match=r"use np.logical_xor for bool"):
        _wrong(lambda b, v: b(SubOp, *v), Argument(BOOL, (m, n)), Argument(BOOL, (m, n)))
    with pytest.raises(DTypeError, match=r"the condition is f64; expected bool"):
        _wrong(lambda b, v: b(SelectOp, v[0], v[0], v[0]), x)
    assert shape_of(around_add().results[0].type) == (m, n)
