"""
What a stream is made of: scores, which a product gives; the largest of each row, sums of rows and
a second product, which are kept for the largest score so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import MOST_AXES
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    Elementwise,
    ExpOp,
    MulOp,
    SqrtOp,
    SubOp,
)
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.block_graph import BlockGraph
from mlc.passes.plan.tiling.online_reduction import Shifted, Walks
from mlc.passes.plan.tiling.tile_groups import Group, Growth, starts_of
from mlc.passes.tensor.constants import splat
from mlc.passes.tile.axes import source
from mlc.passes.tile.stream_block import StreamBlock
from mlc.passes.tile.view_walk import ONE, ViewWalk

VALUE = "V"
"""The letter of columns that only the second product's result has."""
FIXED = "."
"""In place of a letter, along an axis of which one place counts."""


@dataclass(frozen=True)
class Factor:
    """
    An operand in memory: the stream's argument, and the letter along each of its axes, `FIXED`
    along those of which one place counts; and where places begin along each.
    """

    argument: BlockArgument
    word: str
    starts: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return element_dtype(self.argument)


@dataclass(frozen=True)
class StreamForm:
    """
    A stream whose scores have a letter for each axis: `row`, `column`, and those of `outer`.

    `depth`: the summed letter of scores. `unmasked`: selections that give their first value in all
    tiles of columns but those that hold the diagonal, where `diagonal` is set: no later columns
    count for a row.
    """

    stream: StreamBlock
    value: SSAValue  # what is yielded of sums of products, by its number in `results`
    scores: ContractOp
    values: ContractOp
    exponents: SSAValue  # of which the largest is subtracted
    weights: SSAValue  # the second product's factor, before it is rounded
    walks: Walks
    shifted: Shifted
    sums: tuple[ReduceOp, ...]
    factors: tuple[Factor, Factor, Factor]
    word: str
    result: str
    row: str
    column: str
    depth: str
    sizes: Mapping[str, Dim]
    unmasked: tuple[SelectOp, ...]
    scaling: MulOp | DivOp | None  # by a number above 0, of scores alone
    statistics: tuple[SSAValue, ...]  # what else is yielded, one for each row

    @property
    def outer(self) -> tuple[str, ...]:
        """The letters of axes with more than one place, but for rows and columns."""
        return tuple(c for c in self.word if c not in (self.row, self.column) and self.size(c) > 1)

    def size(self, c: str) -> int:
        """Of a letter; MlcError where it is no number."""
        found = self.sizes[c].constant
        if found is None:
            raise MlcError(f"stream: letter {c} has the size {self.sizes[c]}; expected a number")
        return found

    @property
    def number(self) -> SSAValue:
        """What scores are multiplied with or divided by: a scalar, or a constant."""
        assert self.scaling is not None
        (found,) = (x for x in self.scaling.operands if x is not self.scores.result)
        return _scalar(found)

    @property
    def scale(self) -> float | None:
        """
        What exponents are multiplied by, after the largest is subtracted; None where that is
        computed when the program runs.
        """
        if self.scaling is None:
            return 1.0
        known = splat(self.number)
        if known is None:
            return None
        return 1 / float(known) if isinstance(self.scaling, DivOp) else float(known)

    @property
    def diagonal(self) -> bool:
        """Whether columns after a row's number do not count."""
        return bool(self.unmasked)


def stream_form(stream: StreamBlock) -> StreamForm:
    """The form of a stream; MlcError for one of another form."""
    products = [op for op in stream.block.ops if isinstance(op, ContractOp)]
    if len(products) != 2:
        raise _unknown(f"{len(products)} products")
    scores, values = products
    group, walks = _walks(stream, scores, values)
    shifted = walks.merged[values]
    sums = tuple(op for op in walks.merged if isinstance(op, ReduceOp))
    if any(walks.merged[op].pending for op in sums):
        raise _unknown("sums of what waits for another sum")
    column = group.axes[scores][-1]
    assert column is not None
    words, word, depth = scores.words()
    left = next((k for k, w in enumerate(words) if word[column] not in w), None)
    if left is None or len(depth) != 1:
        raise _unknown(f"scores {scores.letters.data!r}")
    rows = [c for c in word if c in words[left] and c not in words[1 - left]]
    if not rows:
        raise _unknown(f"scores {scores.letters.data!r} without rows")
    sizes = dict(scores.sizes())
    row, letter = rows[-1], word[column]
    value = next((x for x in stream.values if depends(x, values.result)), None)
    statistics = tuple(x for x in stream.values if x is not value)
    if value is None or any(depends(x, values.result) for x in statistics):
        raise _unknown("several results of the second product")
    weights, third, result = _values(value, values, scores)
    if third.count(VALUE) != 1:
        raise _unknown(f"values {values.letters.data!r}")
    sizes[VALUE] = shape_of(_other_factor(values, weights).type)[third.index(VALUE)]
    factors = (
        factor_of(scores.operands[left], words[left], depth),
        factor_of(scores.operands[1 - left], words[1 - left], depth),
        factor_of(_other_factor(values, weights), third, VALUE),
    )
    for x in statistics:
        if shape_of(x.type) != tuple(sizes[c] for c in word if c != word[column]):
            raise _unknown("a result that is neither of the second product nor one for each row")
    found = StreamForm(
        stream, value, scores, values, shifted.difference.operands[0], rounded(weights), walks,
        shifted, sums, factors, word, result, row, letter, depth, sizes, (), None, statistics,
    )  # fmt: skip
    same = sizes[row] == sizes[letter]
    unmasked = tuple(op for op in _selections(found) if same and is_causal(word, row, letter, op))
    return replace(found, unmasked=unmasked, scaling=_scaling(found))


def _scaling(form: StreamForm) -> MulOp | DivOp | None:
    """What multiplies scores by a number above 0, if nothing but selections follows it."""
    value, selections = form.exponents, _selections(form)
    while isinstance(op := value.owner, SelectOp) and op in selections:
        value = op.operands[1]
    if not isinstance(op, MulOp | DivOp) or form.shifted.runner is not form.shifted.top:
        return None
    if isinstance(op, DivOp) and op.operands[0] is not form.scores.result:
        return None
    others = [x for x in op.operands if x is not form.scores.result]
    return op if len(others) == 1 and _is_positive(others[0]) else None


def _scalar(value: SSAValue) -> SSAValue:
    """The one element of an array that repeats it, if it does."""
    while isinstance(value.owner, BroadcastOp | ReshapeOp) and shape_of(value.type):
        value = value.owner.x
    return value


def _is_positive(value: SSAValue) -> bool:
    """Whether it is one number, and not below 0 whatever the arguments are."""
    number = splat(value)
    if number is not None:
        return bool(0 < number < inf)
    value = _scalar(value)
    op = value.owner
    if shape_of(value.type):
        return False
    if isinstance(op, MulOp | DivOp | ConvertOp):
        return all(map(_is_positive, op.operands))
    return isinstance(op, SqrtOp | ExpOp)


def depends(x: SSAValue, value: SSAValue) -> bool:
    """Whether a value is computed from another one."""
    pending, seen = [x], set[SSAValue]()
    while pending:
        y = pending.pop()
        if y is value:
            return True
        if y not in seen and isinstance(y.owner, Operation):
            pending += y.owner.operands
        seen.add(y)
    return False


def _values(yielded: SSAValue, values: ContractOp, scores: ContractOp) -> tuple[SSAValue, str, str]:
    """The second product's weights; the letters of its other factor, and of what is yielded."""
    weights = next((x for x in values.operands if reads(rounded(x), scores.result)), None)
    if weights is None or shape_of(weights.type) != scores.shape:
        raise _unknown("weights of another shape than the scores'")
    number = list(values.operands).index(weights)
    words, result, summed = values.words()
    to = dict(zip(words[number], scores.words()[1], strict=True))
    if len(summed) != 1 or summed not in words[number]:
        raise _unknown(f"values {values.letters.data!r}")
    to |= {c: VALUE for c in words[1 - number] if c not in to}
    third, result = ("".join(to[c] for c in word) for word in (words[1 - number], result))
    result = turned(yielded, values.result, result)
    if len(result) > MOST_AXES:
        raise _unknown(f"a result of {len(result)} axes")
    return weights, third, result


def _other_factor(values: ContractOp, weights: SSAValue) -> SSAValue:
    """The factor of a product that is not the weights."""
    return values.operands[values.operands[0] is weights]


def _unknown(what: str) -> MlcError:
    return MlcError(f"stream: {what}; expected two products, the second of shifted exponentials")


def _walks(stream: StreamBlock, scores: ContractOp, values: ContractOp) -> tuple[Group, Walks]:
    """The group of rows and columns in which all is computed in one walk."""
    maps = AxisMaps()
    graph = BlockGraph(stream.block, maps)
    for rows, column in starts_of(values, 1, maps):
        group = Growth(values, rows, column, maps, graph).run()
        if group is None or scores not in group.ops or not group.is_wide(scores):
            continue
        walks = Walks(group, maps)
        tops = [op for op in group.ops if group.sums_columns(op) and op not in walks.merged]
        if walks.count == 1 and values in walks.merged and tops == [walks.merged[values].top]:
            return group, walks
    raise _unknown("no walk over columns that does all")


def turned(x: SSAValue, value: SSAValue, word: str) -> str:
    """The letters of what is computed from a value with letters, element by element."""
    if x is value:
        return word
    op = x.owner
    wide = [y for y in op.operands if reads(y, value)] if isinstance(op, Operation) else []
    if len(wide) != 1:
        raise _unknown("a result that is computed otherwise")
    found = turned(wide[0], value, word)
    if not isinstance(op, TransposeOp):
        return found
    (before,), after = split(op.letters.data)
    return "".join(found[before.index(c)] for c in after)


def rounded(x: SSAValue) -> SSAValue:
    """What is rounded and widened again."""
    while isinstance(x.owner, ConvertOp):
        x = x.owner.operands[0]
    return x


def factor_of(x: SSAValue, word: str, last: str) -> Factor:
    """What is widened, turned, and taken as a part of an array, before it is multiplied."""
    sizes = shape_of(x.type)
    walk = ViewWalk(sizes)
    while isinstance(op := x.owner, ConvertOp) or walk.through(op):
        assert isinstance(op, Operation)
        x = op.operands[0]
    if not isinstance(x, BlockArgument):
        raise _unknown("a factor that is computed")
    letters = (c for c, n in zip(word, sizes, strict=True) if n != ONE)
    named = dict(zip(walk.axes, letters, strict=True))
    word = "".join(named.get(axis, FIXED) for axis in range(len(walk.starts)))
    if word[-1] != last:
        raise _unknown(f"a factor {word} that is stored turned")
    if len(word) > MOST_AXES:
        raise _unknown(f"a factor of {len(word)} axes")
    return Factor(x, word, tuple(walk.starts))


# Masks ------------------------------------------------------------------------------------------


def _selections(form: StreamForm) -> list[SelectOp]:
    """Selections of scores, -inf elsewhere, on the way to the exponents."""
    found: list[SelectOp] = []
    value = form.exponents
    while isinstance(value.owner, Elementwise) and value != form.scores.result:
        op = value.owner
        wide = [x for x in op.operands if reads(x, form.scores.result)]
        if len(wide) != 1:
            break
        (value,) = wide
        if isinstance(op, SelectOp):
            if op.operands[1] is not value or splat(op.operands[2]) != float("-inf"):
                break
            found.append(op)
    return found


def reads(x: SSAValue, value: SSAValue) -> bool:
    """Whether a value is computed element by element from another one."""
    op = x.owner
    if x is value:
        return True
    return isinstance(op, Elementwise | TransposeOp) and any(reads(y, value) for y in op.operands)


def is_causal(word: str, row: str, column: str, op: SelectOp) -> bool:
    """Whether a selection takes the columns up to the row's number."""
    at = tuple(source(c) for c in word)
    condition, at = _through(op.operands[0], at)
    owner = condition.owner
    if not isinstance(owner, CompareOp):
        return False
    left, right = (_affine(x, at) for x in owner.operands)
    if left is None or right is None:
        return False
    rows, columns = source(row), source(column)
    sides = {"le": (left, right), "ge": (right, left)}.get(owner.predicate.data)
    if sides is None:
        more = {"lt": (left + 1, right), "gt": (right + 1, left)}
        sides = more.get(owner.predicate.data)
    return sides is not None and sides[0] - sides[1] == columns - rows


def _through(x: SSAValue, at: tuple[Dim, ...]) -> tuple[SSAValue, tuple[Dim, ...]]:
    """What is repeated, and where."""
    while isinstance(x.owner, BroadcastOp):
        (word,), result = split(x.owner.letters.data)
        at = tuple(at[result.index(c)] for c in word)
        x = x.owner.operands[0]
    return x, at


def _affine(x: SSAValue, at: tuple[Dim, ...]) -> Dim | None:
    """A whole number as an expression of its place; None where it is none."""
    x, at = _through(x, at)
    op = x.owner
    if isinstance(op, IotaOp):
        return at[op.axis.value.data]
    if isinstance(op, ConstantOp):
        found = splat(x)
        return None if found is None else Dim.const(int(found))
    if isinstance(op, ConvertOp):
        return _affine(op.operands[0], at)
    if isinstance(op, AddOp | SubOp):
        left, right = (_affine(y, at) for y in op.operands)
        if left is None or right is None:
            return None
        return left + right if isinstance(op, AddOp) else left - right
    return None
