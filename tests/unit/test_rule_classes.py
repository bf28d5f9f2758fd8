"""Every algebraic rule keeps what its class promises: exact ones every bit of special values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL, F32, F64, I32, I64, DType
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import SizeOp, full
from mlc.dialects.tensor.division import PowOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SqrtOp,
    SubOp,
)
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.rounding import AbsOp, CeilOp, FloorOp, RoundOp, TruncOp
from mlc.dialects.tensor.shape import ConcatOp
from mlc.passes.remarks import listening
from mlc.passes.tensor.algebra import ALGEBRA
from mlc.passes.tensor.rules import EQUIVALENCE, Entry, Rules
from mlc.passes.tensor.strength import STRENGTH
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, function_module

Build = Callable[[OpBuilder, Sequence[SSAValue]], SSAValue]
ENTRIES = [*ALGEBRA.entries(), *STRENGTH.entries()]

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1.1754942e-38,
    3.4028235e38,
]
"""Zeros, ones, infinities, NaN, the smallest and the largest subnormal, the largest f32."""


@dataclass(frozen=True)
class Example:
    """An expression that a rule rewrites, and the dtype of its two arguments."""

    build: Build
    dtype: DType = F32


def c(b: OpBuilder, value: float, dtype: DType = F32) -> SSAValue:
    return full(b, value, dtype, (Dim.const(SIZE),))


def to(b: OpBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    return b(ConvertOp, x, declared=tensor_type(dtype.ir, (Dim.const(SIZE),)))


def chosen(b: OpBuilder, x: Sequence[SSAValue], other: Build) -> SSAValue:
    return b(SelectOp, b(CompareOp, *x, predicate="lt"), x[0], other(b, x))


def total(b: OpBuilder, x: SSAValue) -> SSAValue:
    return b(ReduceOp, x, monoid="sum", letters="a->")


DRAWN = np.random.default_rng(5).standard_normal(100).astype(np.float32)
ORDINARY = list(zip(DRAWN, DRAWN[::-1], strict=True))
PAIRS = [(x, y) for x in SPECIAL for y in SPECIAL] + ORDINARY
SIZE = len(PAIRS)

EXAMPLES: dict[str, list[Example]] = {
    "constant_to_the_right": [
        Example(lambda b, x, op=op: b(op, c(b, 3), x[0])) for op in (AddOp, MulOp, MaxOp, MinOp)
    ],
    "add_nothing": [Example(lambda b, x: b(AddOp, x[0], c(b, -0.0)))],
    "add_zero": [Example(lambda b, x: b(AddOp, x[0], c(b, 0, I32)), I32)],
    "add_negated": [Example(lambda b, x: b(AddOp, x[0], b(NegOp, x[1])))],
    "add_to_negated": [Example(lambda b, x: b(AddOp, b(NegOp, x[0]), x[1]))],
    "subtract_nothing": [Example(lambda b, x: b(SubOp, x[0], c(b, 0.0)))],
    "subtract_from_nothing": [Example(lambda b, x: b(SubOp, c(b, -0.0), x[0]))],
    "subtract_from_zero": [Example(lambda b, x: b(SubOp, c(b, 0, I32), x[0]), I32)],
    "subtract_negated": [Example(lambda b, x: b(SubOp, x[0], b(NegOp, x[1])))],
    "subtract_self": [Example(lambda b, x: b(SubOp, x[0], x[0]), I32)],
    "multiply_by_one": [Example(lambda b, x: b(MulOp, x[0], c(b, 1)))],
    "multiply_by_zero": [Example(lambda b, x: b(MulOp, x[0], c(b, 0, I32)), I32)],
    "divide_by_power_of_two": [
        Example(lambda b, x: b(DivOp, x[0], c(b, 4))),
        Example(lambda b, x: b(DivOp, x[0], c(b, 2.0**-120))),
    ],
    "divide_by_one": [Example(lambda b, x: b(DivOp, x[0], c(b, 1)))],
    "negate_twice": [Example(lambda b, x: b(NegOp, b(NegOp, x[0])))],
    "extremum_of_one": [Example(lambda b, x, op=op: b(op, x[0], x[0])) for op in (MaxOp, MinOp)],
    "compare_constant_right": [
        Example(lambda b, x, p=p: b(CompareOp, c(b, 1), x[0], predicate=p))
        for p in ("lt", "le", "gt", "ge", "eq", "ne")
    ],
    "select_one_of_one": [
        Example(lambda b, x: b(SelectOp, b(CompareOp, *x, predicate="lt"), x[0], x[0])),
    ],
    "select_first": [Example(lambda b, x: b(SelectOp, c(b, 1, BOOL), *x))],
    "select_second": [Example(lambda b, x: b(SelectOp, c(b, 0, BOOL), *x))],
    "convert_to_same": [Example(lambda b, x: to(b, x[0], F32))],
    "convert_widened": [
        Example(lambda b, x: to(b, to(b, x[0], F64), F32)),
        Example(lambda b, x: to(b, to(b, x[0], F64), I64)),
        Example(lambda b, x: to(b, to(b, x[0], F64), F32), I32),
    ],
    "known_size": [Example(lambda b, x: b(SizeOp, dims=(Dim.const(7),)))],
    "concat_of_one": [Example(lambda b, x: b(ConcatOp, x[0], axis=0))],
    "multiply_by_minus_one": [
        Example(lambda b, x: b(MulOp, x[0], c(b, -1))),
        Example(lambda b, x: b(MulOp, x[0], c(b, -1, I32)), I32),
    ],
    "multiply_negated": [Example(lambda b, x: b(MulOp, b(NegOp, x[0]), b(NegOp, x[1])))],
    "divide_negated": [Example(lambda b, x: b(DivOp, b(NegOp, x[0]), b(NegOp, x[1])))],
    "absolute_of_negated": [Example(lambda b, x: b(AbsOp, b(NegOp, x[0])))],
    "absolute_twice": [Example(lambda b, x: b(AbsOp, b(AbsOp, x[0])))],
    "round_twice": [
        Example(lambda b, x, op=op: b(op, b(CeilOp, x[0])))
        for op in (FloorOp, CeilOp, RoundOp, TruncOp)
    ],
    "complement_twice": [Example(lambda b, x: b(NotOp, b(NotOp, x[0])), I32)],
    "same_twice": [Example(lambda b, x, op=op: b(op, x[0], x[0]), I32) for op in (AndOp, OrOp)],
    "select_by_complement": [
        Example(lambda b, x: b(SelectOp, b(NotOp, b(CompareOp, *x, predicate="lt")), *x))
    ],
    "first_power": [Example(lambda b, x: b(PowOp, x[0], c(b, 1)))],
    "zeroth_power": [
        Example(lambda b, x: b(PowOp, x[0], c(b, 0))),
        Example(lambda b, x: b(PowOp, x[0], c(b, 0, I32)), I32),
    ],
    **{
        f"{name}_integers_twice": [
            Example(lambda b, x, op=op: b(op, b(op, x[0], c(b, 2**30, I32)), c(b, 2**30, I32)), I32)
        ]
        for name, op in (("add", AddOp), ("multiply", MulOp))
    },
    "square": [
        Example(lambda b, x: b(PowOp, x[0], c(b, 2))),
        Example(lambda b, x: b(PowOp, x[0], c(b, 2, I32)), I32),
    ],
    "root_of_positive": [Example(lambda b, x: b(PowOp, b(AbsOp, x[0]), c(b, 0.5)))],
    "root_of_square": [Example(lambda b, x: b(PowOp, b(MulOp, x[0], x[0]), c(b, 0.5)))],
    "factor_leaves_sum": [Example(lambda b, x: total(b, b(MulOp, x[0], c(b, 3))))],
    "add_floats_twice": [Example(lambda b, x: b(AddOp, b(AddOp, x[0], c(b, 2.5)), c(b, 3)))],
    "multiply_floats_twice": [Example(lambda b, x: b(MulOp, b(MulOp, x[0], c(b, 2.5)), c(b, 3)))],
    "multiply_exponentials": [Example(lambda b, x: b(MulOp, b(ExpOp, x[0]), b(ExpOp, x[1])))],
    "logarithm_of_exponential": [Example(lambda b, x: b(LogOp, b(ExpOp, x[0])))],
    "exponential_of_logarithm": [Example(lambda b, x: b(ExpOp, b(LogOp, b(AbsOp, x[0]))))],
    "root": [Example(lambda b, x: b(PowOp, b(ExpOp, x[0]), c(b, 0.5)))],
    "multiply_by_inverse": [Example(lambda b, x: b(DivOp, x[0], c(b, 3)))],
    "root_times_itself": [Example(lambda b, x: squared(b, b(SqrtOp, b(AbsOp, x[0]))))],
}


def squared(b: OpBuilder, x: SSAValue) -> SSAValue:
    return b(MulOp, x, x)


def only(entry: Entry) -> Rules:
    """The one rule."""
    rules = Rules()
    rules.add(entry.op, entry)
    return rules


def module_of(example: Example, numerics: str) -> Any:
    argument = Argument(example.dtype, (Dim.const(SIZE),))
    module = function_module([argument] * 2, lambda b, x: [example.build(b, x)])
    module.attributes["mlc.numerics"] = StringAttr(numerics)
    return module


def values(example: Example, *, special: bool) -> list[Any]:
    pairs = np.array(
        PAIRS if special else [(p, q) for p, q in zip(DRAWN, DRAWN[::-1], strict=True)]
    )
    pairs = np.resize(pairs, (SIZE, 2))
    if example.dtype is I32:
        whole = np.random.default_rng(2).integers(-(2**31), 2**31, (SIZE, 2))
        return [whole[:, k].astype(np.int32) for k in range(2)]
    return [np.ascontiguousarray(pairs[:, k]).astype(np.float32) for k in range(2)]


def same_bits(x: Any, y: Any) -> bool:
    """Every bit, but those of NaN."""
    both_nan = (x != x) & (y != y)
    raw = f"V{x.dtype.itemsize}"
    return x.dtype == y.dtype and bool(np.all((x.view(raw) == y.view(raw)) | both_nan))


CASES = [
    pytest.param(entry, example, id=f"{entry.rule.__name__}-{entry.op.__name__}-{k}")
    for entry in ENTRIES
    for k, example in enumerate(EXAMPLES.get(entry.rule.__name__, ()))
]


def test_every_rule_has_a_class_an_example_and_a_picture() -> None:
    assert {e.rule.__name__ for e in ENTRIES} == set(EXAMPLES)
    for entry in ENTRIES:
        assert entry.equivalence in EQUIVALENCE
        assert "->" in (entry.rule.__doc__ or "")


@pytest.mark.parametrize(("entry", "example"), CASES)
def test_rules_keep_what_their_class_promises(entry: Entry, example: Example) -> None:
    """Exact: every bit. Others: the same numbers in range, to a few roundings."""
    before, after = (module_of(example, "fast") for _ in range(2))
    only(entry).sweep(after)
    if str(before) == str(after):
        pytest.skip("another class of op has this example")
    is_exact = entry.equivalence == "exact"
    arrays = values(example, special=is_exact)
    with np.errstate(all="ignore"):
        (found,), (wanted,) = (interpret(m, arrays) for m in (after, before))
    if is_exact:
        assert same_bits(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("entry", "example"), CASES)
def test_rules_apply_in_their_numerics_alone(entry: Entry, example: Example) -> None:
    """And those that change bits say so."""
    modes = ("strict", "standard", "fast")
    for number, numerics in enumerate(modes):
        module = module_of(example, numerics)
        text = str(module)
        with listening() as heard:
            only(entry).sweep(module)
        changed = str(module) != text
        assert not (changed and number < EQUIVALENCE.index(entry.equivalence))
        said = any(f"({entry.equivalence})" in r.text for r in heard)
        assert said == (changed and entry.equivalence != "exact")


def test_every_rule_rewrites_one_of_its_examples() -> None:
    unused: list[str] = []
    for entry in ENTRIES:
        changed = False
        for example in EXAMPLES[entry.rule.__name__]:
            module = module_of(example, "fast")
            text = str(module)
            only(entry).sweep(module)
            changed |= str(module) != text
        if not changed:
            unused.append(f"{entry.rule.__name__} on {entry.op.__name__}")
    assert not unused
