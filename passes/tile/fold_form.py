"""
What a stream is made of whose columns are walked once: products of rows and columns, what is
computed from them element by element, and sums of that over all columns, multiplied.

```
s = contract "md,nd->mn" q, k    p = …s…    o = contract "mn,nv->mv" p, w
```
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import MOST_AXES
from mlc.dialects.tensor.comparison import ConvertOp, SelectOp
from mlc.dialects.tensor.elementwise import DivOp, Elementwise, ExpOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, TransposeOp
from mlc.dialects.tensor.stream import Exp2EstimateOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import splat
from mlc.passes.tile.stream_block import StreamBlock
from mlc.passes.tile.stream_form import (
    VALUE,
    Factor,
    depends,
    factor_of,
    is_causal,
    rounded,
    turned,
)

DEPTH = "D"
"""The letter along which a product of rows and columns sums."""


@dataclass(frozen=True)
class FoldProduct:
    """A product of rows and columns."""

    op: ContractOp
    rows: Factor
    columns: Factor
    depth: int


@dataclass(frozen=True)
class Fold:
    """A sum of products over columns: of what is computed, `wide`, and a factor with columns."""

    op: ContractOp
    wide: SSAValue  # before it is rounded
    factor: Factor
    value: SSAValue  # what is yielded
    word: str  # its letters
    width: int


@dataclass(frozen=True)
class FoldForm:
    """
    Products, and sums in the order of what is yielded. Each letter stands for an axis of the
    products: `row`, of which a block has some, `column`, which is walked, and those of `outer`.

    Products of which powers are taken come first: the others go on meanwhile.

    `also`: letters that are summed too, place by place; rows have none of them.

    `masks`: selections whose first value is taken in all tiles but those on the diagonal; behind
    it nothing is added: columns after a row's number, or before it where `upward`.
    """

    block: StreamBlock
    products: tuple[FoldProduct, ...]
    folds: tuple[Fold, ...]
    word: str
    row: str
    column: str
    sizes: Mapping[str, Dim]
    masks: tuple[SelectOp, ...]
    upward: bool
    also: tuple[str, ...] = ()

    @property
    def outer(self) -> tuple[str, ...]:
        """The letters of axes with more than one place, but for rows and what is summed."""
        own = (self.row, self.column, *self.also)
        return tuple(c for c in self.word if c not in own and self.size(c) > 1)

    def size(self, c: str) -> int:
        """Of a letter; MlcError where it is no number."""
        found = self.sizes[c].constant
        if found is None:
            raise MlcError(f"stream: letter {c} has the size {self.sizes[c]}; expected a number")
        return found

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors in memory, each once."""
        return tuple(dict.fromkeys((*self.kept, *self.walked)))

    @property
    def kept(self) -> tuple[Factor, ...]:
        """Factors with rows."""
        return tuple(dict.fromkeys(_plain(x.rows) for x in self.products))

    @property
    def walked(self) -> tuple[Factor, ...]:
        """Factors with columns, of products and of sums."""
        own = (x.columns for x in self.products)
        return tuple(dict.fromkeys(_plain(x) for x in (*own, *(x.factor for x in self.folds))))

    def width(self, factor: Factor) -> int:
        """Elements of a row of a factor."""
        found = shape_of(factor.argument.type)[-1].constant
        assert found is not None
        return found

    @property
    def diagonal(self) -> bool:
        """Whether columns behind the diagonal do not count."""
        return bool(self.masks)


def _plain(factor: Factor) -> Factor:
    """A factor whose last letter does not matter."""
    return Factor(factor.argument, factor.word[:-1] + DEPTH, factor.starts)


def place_in(factors: tuple[Factor, ...], factor: Factor) -> int:
    """The number of a factor among others."""
    return factors.index(_plain(factor))


def fold_form(block: StreamBlock) -> FoldForm:
    """The form of streams; MlcError for others."""
    sums = [_sum_of(x) for x in block.values]
    first = next(iter(sums))
    products = [
        op for op in block.block.ops
        if isinstance(op, ContractOp) and op not in sums and op.shape == _wide_of(first)[0]
    ]  # fmt: skip
    others = [op for op in block.block.ops if isinstance(op, ContractOp)]
    powers = [x for x in block.block.ops if isinstance(x, ExpOp | Exp2EstimateOp)]
    products.sort(key=lambda op: not any(depends(x.results[0], op.result) for x in powers))
    if not products or len(others) != len(products) + len(sums):
        raise _unknown(f"{len(others)} products")
    word = products[0].words()[1]
    folds = [_fold(op, value, word) for op, value in zip(sums, block.values, strict=True)]
    (letters,) = _only({x[1] for x in folds}, "sums over unlike axes")
    also, summed = letters[:-1], letters[-1]
    sizes = dict(zip(word, products[0].shape, strict=True))
    found: list[FoldProduct] = []
    rows: set[str] = set()
    for op in products:
        product, own = _product(op, word, summed)
        if any(c in product.rows.word for c in also):
            raise _unknown(f"rows {product.rows.word!r} of which sums are")
        found.append(product)
        rows.add(own[-1])
    (row,) = _only(rows, "products with rows along several axes")
    masks, upward = _masks([x[0].wide for x in folds], word, row, summed, sizes)
    return FoldForm(
        block, tuple(found), tuple(x[0] for x in folds), word, row, summed, sizes, masks, upward,
        tuple(also),
    )  # fmt: skip


def _unknown(what: str) -> MlcError:
    return MlcError(f"stream: {what}; expected sums over columns of what products are made into")


def _only(found: set[str], what: str) -> set[str]:
    if len(found) != 1:
        raise _unknown(what)
    return found


def _sum_of(value: SSAValue) -> ContractOp:
    """The product that is made into what is yielded."""
    pending = [value]
    while pending:
        op = pending.pop().owner
        if isinstance(op, ContractOp):
            return op
        if isinstance(op, TensorOp):
            pending += op.operands
    raise _unknown("a result without a product")


def _wide_of(op: ContractOp) -> tuple[tuple[Dim, ...], int]:
    """The shape of what is computed again, which is no factor in memory; and its number."""
    for number, x in enumerate(op.operands):
        source = x
        while isinstance(source.owner, ConvertOp | TransposeOp):
            source = source.owner.operands[0]
        if isinstance(source.owner, Operation):
            return shape_of(x.type), number
    raise _unknown("sums of factors in memory alone")


def _fold(op: ContractOp, value: SSAValue, word: str) -> tuple[Fold, str]:
    """A sum, and the letters along which it is, in order."""
    shape, number = _wide_of(op)
    words, result, summed = op.words()
    if not summed or not set(summed) <= set(words[number]) or len(shape) != len(word):
        raise _unknown(f"sums {op.letters.data!r}")
    to = dict(zip(words[number], word, strict=True))
    to |= {c: VALUE for c in words[1 - number] if c not in to}
    other, result = ("".join(to[c] for c in x) for x in (words[1 - number], result))
    letters = "".join(c for c in word if c in {to[x] for x in summed})
    if other.count(VALUE) != 1 or letters[-1] not in other:
        raise _unknown(f"sums {op.letters.data!r}")
    factor = factor_of(op.operands[1 - number], other, VALUE)
    width = shape_of(op.operands[1 - number].type)[other.index(VALUE)].constant
    if width is None:
        raise _unknown(f"sums {op.letters.data!r}")
    wide = rounded(op.operands[number])
    stored = turned(value, op.result, result)
    if len(stored) > MOST_AXES:
        raise _unknown(f"a result of {len(stored)} axes")
    return Fold(op, wide, factor, value, stored, width), letters


def _product(op: ContractOp, word: str, column: str) -> tuple[FoldProduct, list[str]]:
    """A product, and the letters that its rows alone have."""
    words, result, depth = op.words()
    if len(depth) != 1:
        raise _unknown(f"scores {op.letters.data!r}")
    to = {**dict(zip(result, word, strict=True)), depth: DEPTH}
    mine = ["".join(to[c] for c in x) for x in words]
    left = next((k for k, w in enumerate(mine) if column not in w), None)
    if left is None or column not in mine[1 - left]:
        raise _unknown(f"scores {op.letters.data!r}")
    own = [c for c in word if c in mine[left] and c not in mine[1 - left]]
    size = shape_of(op.operands[left].type)[mine[left].index(DEPTH)].constant
    if not own or size is None:
        raise _unknown(f"scores {op.letters.data!r} without rows")
    rows, columns = (factor_of(op.operands[k], mine[k], DEPTH) for k in (left, 1 - left))
    return FoldProduct(op, rows, columns, size), own


# Masks ------------------------------------------------------------------------------------------


def _masks(
    wide: list[SSAValue], word: str, row: str, column: str, sizes: Mapping[str, Dim]
) -> tuple[tuple[SelectOp, ...], bool]:
    """Selections along the diagonal, if all that is summed vanishes behind it."""
    if sizes[row] != sizes[column]:
        return (), False
    for upward in (False, True):
        ends = (column, row) if upward else (row, column)
        masks = _selections(wide, word, *ends)
        if masks and all(_vanishes(x, masks) for x in wide):
            return tuple(masks), upward
    return (), False


def _selections(wide: list[SSAValue], word: str, row: str, column: str) -> list[SelectOp]:
    """Those of what is on or below a diagonal, 0 or -inf elsewhere."""
    found: dict[SelectOp, None] = {}
    pending, seen = [*wide], set[SSAValue]()
    while pending:
        value = pending.pop()
        op = value.owner
        if value in seen or not isinstance(op, Elementwise):
            continue
        seen.add(value)
        pending += op.operands
        if not isinstance(op, SelectOp) or splat(op.operands[2]) not in (0.0, -math.inf):
            continue
        if is_causal(word, row, column, op):
            found[op] = None
    return list(found)


def _vanishes(value: SSAValue, masks: list[SelectOp], nothing: float = 0.0) -> bool:
    """Whether a value is 0, or -inf, wherever selections do not take their first value."""
    op = value.owner
    if op in masks:
        assert isinstance(op, SelectOp)
        return bool(splat(op.operands[2]) == nothing)
    if isinstance(op, ConvertOp | NegOp):
        return _vanishes(op.operands[0], masks, nothing)
    if nothing == 0 and isinstance(op, MulOp):
        return any(_vanishes(x, masks) for x in op.operands)
    if nothing == 0 and isinstance(op, ExpOp | Exp2EstimateOp):
        return _vanishes(op.operands[0], masks, -math.inf)
    if isinstance(op, DivOp) or (nothing != 0 and isinstance(op, MulOp)):
        number = splat(op.operands[1])
        ok = nothing == 0 or (number is not None and float(number) > 0)
        return ok and _vanishes(op.operands[0], masks, nothing)
    if isinstance(op, SubOp) and nothing != 0 and isinstance(op.operands[1].owner, BroadcastOp):
        return _vanishes(op.operands[0], masks, nothing)  # numbers of rows that columns have
    return False


def made_before(form: FoldForm, count: int) -> list[SSAValue]:
    """
    What is computed once so many products are there and is wanted with the next ones, or summed.
    """
    there = [x.op.result for x in form.products[:count]]
    missing = [x.op.result for x in form.products[count:]]

    def known(x: SSAValue) -> bool:
        return any(depends(x, y) for y in there) and not any(depends(x, y) for y in missing)

    found: dict[SSAValue, None] = {}
    pending, seen = [x.wide for x in form.folds], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if known(value):
            found[value] = None
        elif isinstance(value.owner, Elementwise):
            pending += value.owner.operands
    return list(found)


def read_once(form: FoldForm) -> tuple[list[SSAValue], list[SSAValue]]:
    """What is read of memory for each row, and for each column, and repeated along the other."""
    of_rows: dict[SSAValue, None] = {}
    of_columns: dict[SSAValue, None] = {}
    pending, seen = [x.wide for x in form.folds], set[SSAValue]()
    while pending:
        value = pending.pop()
        op = value.owner
        if value in seen:
            continue
        seen.add(value)
        if isinstance(op, Elementwise):
            pending += op.operands
        elif isinstance(op, BroadcastOp) and isinstance(op.x, BlockArgument):
            (source,), result = split(op.letters.data)
            letters = {form.word[result.index(c)] for c in source}
            if form.row not in letters or form.column not in letters:
                (of_columns if form.column in letters else of_rows)[value] = None
    return list(of_rows), list(of_columns)


def reads_elements(form: FoldForm) -> bool:
    """Whether a stream reads a number for each element: a mask, or what is added to scores."""
    factors = {x.argument for x in form.factors}
    once = {value.owner for values in read_once(form) for value in values}
    others = [x for x in form.block.block.args if x not in factors and shape_of(x.type)]
    return any(use.operation not in once for x in others for use in x.uses)
