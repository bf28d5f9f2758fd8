"""
The `batch` fact of every op against a loop over the op: every dtype, every subset of its operands
batched, sizes 0 and 1 and symbols, and batches of 0, 1 and 3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F64
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.registry import OPS
from tests.every_op.cases import Case
from tests.every_op.elementwise import creation, elementwise, ranks
from tests.every_op.facts import around, batched, op_of, values_of
from tests.every_op.moving import moving
from tests.every_op.native import Array, function_module
from tests.every_op.ordering import ORDERING
from tests.every_op.reducing import UNUSUAL, contraction, contractions, reductions
from tests.every_op.shapes import SHAPE_CLASSES, SIZES, ShapeClass, Sizes
from tests.every_op.values import Relative, Ulps, comparable
from tests.every_op.windows import WINDOWED

ODD = next(c for c in SHAPE_CLASSES if c.name == "odd")
SMALL = ShapeClass("small", ("zero_outer", "zero_inner", "zero_summed", "one"), symbolic=True)
FAMILIES = (moving, reductions, contractions, creation, ranks, *ORDERING.values())


def _cases(c: ShapeClass) -> list[Case]:
    found = [*elementwise(c.dims("m", "n")), *(case for f in FAMILIES for case in f(c))]
    found += [case for f in WINDOWED.values() for case in f(c)]
    found += [contraction(c, text, F64) for text in UNUSUAL]
    return [case for case in found if case.op is not PositionsOp]  # a batch of them is refused


def _subsets(case: Case) -> Iterator[tuple[bool, ...]]:
    """Which operands are batched, all ways but none."""
    for flags in itertools.product((False, True), repeat=len(case.operands)):
        if any(flags):
            yield flags


def _check(
    case: Case, flags: Sequence[bool], size: Dim, count: int, sizes: Sizes, seed: int = 0
) -> None:
    rng = np.random.default_rng(seed)
    draws = [case.draw(rng, sizes, "contiguous") for _ in range(max(count, 1))]
    arguments = [
        np.stack([draw[k] for draw in draws])[:count] if flag else draws[0][k]
        for k, flag in enumerate(flags)
    ]
    (found,) = values_of(batched(case, flags, size), arguments, sizes)
    single = around(case, lambda b, op, extra: [op.results[0]])
    op = op_of(case)
    assert found.dtype == op.dtype.numpy, f"{case} {flags}"
    assert found.shape == (count, *(d.evaluate(sizes) for d in op.shape)), f"{case} {flags}"
    for i in range(count):
        row: list[Array] = [x[i] if f else x for x, f in zip(arguments, flags, strict=True)]
        (want,) = values_of(single, row, sizes)
        try:
            # a bound in ulps is that of compiled code; NumPy's own loops differ in the last bits
            tolerance = Relative(8) if isinstance(case.tolerance, Ulps) else case.tolerance
            tolerance.check(found[i], want, row)
        except AssertionError as error:
            raise AssertionError(f"{case} {flags} {count} {dict(sizes)}: {error}") from None


CASES = _cases(ODD)


@pytest.mark.parametrize("op", [op for op in OPS if op is not PositionsOp], ids=lambda op: op.name)
def test_batch_is_a_loop_over_the_op(op: type) -> None:
    cases = [case for case in CASES if case.op is op]
    assert cases, f"{op} has no case"
    for case in cases:
        for flags in _subsets(case):
            _check(case, flags, Dim.const(3), 3, {})


@pytest.mark.parametrize("run", SMALL.runs)
def test_sizes_0_and_1_and_symbols(run: str) -> None:
    """One dtype of each op in all forms; the others do not change what an axis means."""
    checked = 0
    for k, case in enumerate(_SMALL_CASES):
        if not case.defined(SIZES[run]):
            continue
        for flags, count in itertools.product(_subsets(case), (0, 1, 3)):
            _check(case, flags, Dim.symbol("B"), count, {**SIZES[run], "B": count}, seed=k)
            checked += 1
    assert checked > 500


def _one_dtype(cases: Sequence[Case]) -> list[Case]:
    """For each op and form the cases whose operands are of the first dtype that there is."""
    found: dict[tuple[str, str], Case] = {}
    for case in cases:
        label = " ".join(w for w in case.label.split() if w not in ("f32", "f64"))
        key = (case.op.name, label)
        floats = any(x.dtype is F64 for x in case.operands)
        if key not in found or floats:
            found[key] = case
    return list(found.values())


_SMALL_CASES = _one_dtype(_cases(SMALL))


def test_ops_without_operands_have_nothing_to_batch() -> None:
    for case in CASES:
        if not case.operands:
            (batch,) = values_of(
                function_module([], lambda b, v, c=case: [op_of(c).batch(b, [], [])]), [], {}
            )
            (alone,) = values_of(around(case, lambda b, op, extra: [op.results[0]]), [], {})
            np.testing.assert_array_equal(comparable(batch), comparable(alone))
