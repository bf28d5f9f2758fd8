"""
Where two programs give different results: by regions (theorem 1), each tested modulo a prime at a
few positions (theorem 2), or by enumeration.

Theorem 1: in a region both programs read at positions that move evenly, and some positions of it
stand for all (`regions.tested_positions`). Theorem 2: two different polynomials of degree k agree
at random residues with probability k/p at most, in t tests (k/p)^t; for N positions N (k/p)^t.
SOURCE: Wang et al., PET, OSDI 2021; Schwartz 1980, Zippel 1979. The paper asks for one position of
a region, of which none holds: x[v + 4] and x[2 v] agree at v = 4 alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import Array, TensorOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.partial.at_points import (
    AddendsAtPoints,
    AtPoints,
    Numbers,
    OrderedAtPoints,
    is_large,
)
from mlc.passes.partial.reads import NotReadError, reads
from mlc.passes.partial.regions import AxisCuts, Box, Cuts, boxes, cuts_of, tested_positions
from mlc.passes.rules.degrees import degree_of
from mlc.passes.rules.residues import (
    PRIME,
    Residues,
    UnknownError,
    ZeroDivisorError,
    drawn,
    moduli_of,
    redrawn,
)
from mlc.passes.tensor.rules import Equivalence

TESTS = 2
MOST_TESTS = 512
ENOUGH = 1e-9
"""Of the probability that comparisons of numbers hide a difference."""


class PartialError(MlcError):
    """Two programs cannot be compared: what was found, what was expected."""


@dataclass(frozen=True)
class Pair:
    """Two programs of one list of arguments, in one block; a result of each."""

    block: Block
    ops: tuple[Operation, ...]
    left: SSAValue
    right: SSAValue

    @property
    def arguments(self) -> Sequence[SSAValue]:
        """Theirs."""
        return self.block.args


@dataclass(frozen=True)
class Comparison:
    """
    The regions of a result, in row-major order, and which of them are wrong. `tested` is how many
    positions were, `tests` how often, `degree` the k of the bound; `why`: empty, or why it was by
    enumeration. `equivalence` is what the right regions have in common over floats.
    """

    cuts: Cuts
    wrong: frozenset[int]
    tested: int
    tests: int
    degree: int
    bound: float
    equivalence: Equivalence
    why: str = ""
    doubt: float = 0.0
    """The part of the bound that is that of comparisons of numbers."""

    def regions(self) -> list[tuple[Box, bool]]:
        """Each region, and whether it is right."""
        return [(box, k not in self.wrong) for k, box in enumerate(boxes(self.cuts))]

    def share(self) -> float:
        """How many of all positions are right."""
        total = math.prod(axis.size for axis in self.cuts)
        right = sum(_count(box) for box, is_right in self.regions() if is_right)
        return right / total if total else 1.0


def pair_of(original: FuncOp, mutant: FuncOp) -> Pair:
    """Both programs, copied. PartialError where their types differ, or an op has a region."""
    kinds = [tuple(f.function_type.inputs) for f in (original, mutant)]
    if kinds[0] != kinds[1]:
        expected, found = (", ".join(map(str, kind)) for kind in kinds)
        raise PartialError(f"the mutant takes ({found}); expected ({expected}), as the original")
    block = Block(arg_types=kinds[0])
    for new, old in zip(block.args, original.body.block.args, strict=True):
        new.name_hint = old.name_hint
    known: dict[object, SSAValue] = {}
    results = [_copied(f, block, known) for f in (original, mutant)]
    if results[0].type != results[1].type:
        raise PartialError(
            f"the mutant gives {results[1].type}; expected {results[0].type}, as the original"
        )
    return Pair(block, tuple(block.ops), *results)


def _copied(function: FuncOp, block: Block, known: dict[object, SSAValue]) -> SSAValue:
    """The result of a copy, in which what is computed already is not computed again."""
    body = function.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
    name = function.sym_name.data
    for op in body.ops:
        if isinstance(op, ReturnOp):
            if len(op.operands) != 1:
                raise PartialError(f"@{name} has {len(op.operands)} results; expected one")
            return values[op.operands[0]]
        if not isinstance(op, TensorOp) or any(n.constant is None for n in op.shape):
            raise PartialError(
                f"@{name}: {op.name}; expected tensor ops on sizes that are known, without loops"
            )
        operands = tuple(values[x] for x in op.operands)
        key = (type(op), operands, tuple(sorted(op.properties.items())), op.results[0].type)
        if key not in known:
            new = op.clone(values)
            block.add_op(new)
            known[key] = new.results[0]
        values[op.results[0]] = known[key]
    raise PartialError(f"@{name} does not end in func.return")


def without_common_end(pair: Pair) -> Pair:
    """
    The values that differ, where both programs end in the same elementwise ops: what is equal
    before them is equal after them, a bias and an activation for example.
    """
    left, right = pair.left, pair.right
    while left is not right:
        a, c = left.owner, right.owner
        if not isinstance(a, Elementwise) or type(a) is not type(c):
            break
        assert isinstance(c, Elementwise)
        pairs = zip(a.operands, c.operands, strict=True)
        apart = [(x, y) for x, y in pairs if x is not y]
        if len(apart) != 1 or a.properties != c.properties:
            break
        ((left, right),) = apart
    return Pair(pair.block, pair.ops, left, right)


# By regions


def compare(pair: Pair, tests: int = TESTS) -> Comparison:
    """The regions of the result, by theorems 1 and 2; by enumeration where these say nothing."""
    pair = without_common_end(pair)
    try:
        axes, left = reads(pair.left)
        sides = (left, reads(pair.right)[1])
        cuts = cuts_of(axes, sides)
        points = [tested_positions(axes, box, sides) for box in boxes(cuts)]
    except NotReadError as error:
        return enumerate_positions(pair, tests, why=str(error))
    listed = [p for group in points for p in group]
    flat = np.array(listed, np.int64).reshape(len(listed), len(axes))
    differs = np.zeros(len(flat), bool)
    for seed in range(tests):
        run = _run(pair, seed, lambda run: _differ_at(run, pair, flat))
        differs |= run
    region = np.repeat(np.arange(len(points)), [len(group) for group in points])
    wrong = frozenset(int(k) for k in np.unique(region[differs]))
    kept = ~np.isin(region, list(wrong))
    degree = _degree(pair)
    bound = len(flat) * (degree / PRIME) ** tests
    equivalence = _equivalence(pair, flat[kept])
    return Comparison(cuts, wrong, len(flat), tests, degree, bound, equivalence)


def share_at(pair: Pair, count: int) -> float:
    """How many of some positions, always the same ones, are right in one test."""
    sizes = [n.evaluate({}) for n in shape_of(pair.left.type)]
    if 0 in sizes:
        return 1.0
    pair = without_common_end(pair)
    points = np.random.default_rng(0).integers(0, sizes, (count, len(sizes)))
    differs = _run(pair, 0, lambda run: _differ_at(run, pair, points))
    return float(1 - differs.mean())


def _differ_at(run: AtPoints, pair: Pair, points: Array) -> Array:
    x, y = (run.elements(value, points) for value in (pair.left, pair.right))
    return (x != y).reshape(len(points), -1).any(1)


def _run(pair: Pair, seed: int, ask: Callable[[AtPoints], Array]) -> Array:
    """What is asked at random residues."""
    rng = np.random.default_rng([seed, 1])
    run_of = partial(AtPoints, (PRIME,), order="difference")
    try:
        return redrawn(run_of, seed, pair.arguments, rng, ask)
    except UnknownError as error:
        raise _unknown(error) from None


def _unknown(error: UnknownError) -> PartialError:
    return PartialError(f"{error} has no meaning modulo {PRIME}: docs/rules.md says what has")


def _degree(pair: Pair) -> int:
    sides = [(pair.left, pair.right)]
    ops = _behind(pair)
    large = [op.results[0] for op in ops if is_large(op)]
    others = [op for op in ops if not is_large(op)]
    found = max(1, degree_of(others, [*pair.arguments, *large], sides))
    if found >= PRIME // 2:
        raise PartialError(f"degree {found} reaches the prime {PRIME}")
    return found


def _behind(pair: Pair) -> list[Operation]:
    """The ops that both values are made by."""
    values = {pair.left, pair.right}
    for op in reversed(pair.ops):
        if op.results[0] in values:
            values |= set(op.operands)
    return [op for op in pair.ops if op.results[0] in values]


# By enumeration


def enumerate_positions(pair: Pair, tests: int = TESTS, why: str = "by enumeration") -> Comparison:
    """
    All positions, each program as a whole. Where numbers are compared (max, relu), a test shows one
    case of each comparison: as many tests are made as leave a doubt of ENOUGH.
    """
    differs, tests, doubt = wrong_positions(pair, tests)
    cuts = tuple(_cuts_of_mask(differs, axis) for axis in range(differs.ndim))
    wrong = {k for k, box in enumerate(boxes(cuts)) if differs[tuple(run.start for run in box)]}
    degree = _degree(pair)
    bound = differs.size * (degree / PRIME) ** tests + doubt
    right = np.argwhere(~differs)
    few = right[:: max(1, len(right) // 256)]
    equivalence = _equivalence(pair, few)
    return Comparison(
        cuts, frozenset(wrong), differs.size, tests, degree, bound, equivalence, why, doubt
    )


def wrong_positions(pair: Pair, tests: int = TESTS) -> tuple[Array, int, float]:
    """
    Where the programs differ, as bools of the result's shape; how many tests that took, and the
    doubt that comparisons leave.
    """
    differs = np.zeros(tuple(n.evaluate({}) for n in shape_of(pair.left.type)), bool)
    doubt, done = 0.0, 0
    while done < tests:
        run = _whole(pair, done)
        x, y = run.values[pair.left], run.values[pair.right]
        differs |= (x[..., 0] != y[..., 0]) if run.last(x) else (x != y)
        done += 1
        if run.choices and done == 1:
            tests, doubt = _tests_of_choices(run.choices, differs.size, tests)
    return differs, done, doubt


def _whole(pair: Pair, seed: int) -> Residues:
    ops, rng = _behind(pair), np.random.default_rng([seed, 2])

    def ask(run: Residues) -> Residues:
        run.run(ops, {})
        return run

    run_of = partial(Numbers, moduli_of(ops), order="difference")
    try:
        return redrawn(run_of, seed, pair.arguments, rng, ask)
    except UnknownError as error:
        raise _unknown(error) from None


def _tests_of_choices(choices: int, positions: int, tests: int) -> tuple[int, float]:
    shown = 0.5**choices
    needed = math.ceil(math.log(ENOUGH / positions) / math.log1p(-shown)) if shown < 1 else tests
    if needed > MOST_TESTS:
        raise PartialError(
            f"{choices} comparisons of numbers meet in an element: {needed} tests would show all"
            f" their cases; expected at most {MOST_TESTS}"
        )
    tests = max(tests, needed)
    return tests, positions * (1 - shown) ** tests


def _cuts_of_mask(differs: Array, axis: int) -> AxisCuts:
    """Cut where positions next to one another are not wrong in the same places."""
    if not differs.size:
        return AxisCuts(differs.shape[axis], (0,), 1)
    rows = np.moveaxis(differs, axis, 0).reshape(differs.shape[axis], -1)
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(1)) + 1
    return AxisCuts(len(rows), (0, *(int(k) for k in changes)), 1)


# Over floats


def _equivalence(pair: Pair, points: Array) -> Equivalence:
    """
    What results at right positions have in common: every bit, where sums and products are equal
    that only commute; the same products, where each adds as many; else only the exact number.
    """
    if not len(points):
        return "exact"
    for run, found in (
        (OrderedAtPoints((PRIME,), 3, "difference"), "exact"),
        (AddendsAtPoints(3), "reassociating"),
    ):
        drawn(run, pair.arguments, np.random.default_rng(3))
        if isinstance(run, AddendsAtPoints):
            run.are_single()
        try:
            x, y = (run.elements(value, points) for value in (pair.left, pair.right))
        except (UnknownError, ZeroDivisorError):
            continue
        if np.array_equal(x[..., :2], y[..., :2]):
            return found  # pyright: ignore[reportReturnType]
    return "approximate"


def _count(box: Box) -> int:
    return math.prod(run.count for run in box)
