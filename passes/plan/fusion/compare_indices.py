"""Indices compared with positions: how large values are indexed that are never stored."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import I32, I64, REALS
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import IotaOp, full
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, MulOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.dce import DcePass

Indexing = GatherOp | ScatterOp

COMBINE: dict[str, type[TensorOp]] = {"add": AddOp, "mul": MulOp, "max": MaxOp, "min": MinOp}
"""What a scatter does with what lies where it writes; "set" does nothing with it."""


@dataclass(frozen=True)
class CompareIndicesPass(ModulePass):
    """
    z[i, y[i]]  ->  max over j of (z[i, j] where j == y[i], else the least number)

    For values of more than `above` bytes of which each row is read, or written, at one column. Both
    sides are equal to the bit. What is computed element by element is computed from what is found
    of its operands, so that nothing is looked for that is known only behind another walk.
    """

    name = "mlc-compare-indices"

    above: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = indexings(op, self.above)
        for each in found:
            if isinstance(each, GatherOp):
                _Columns(each, self.above).read(each)
            else:
                write_by_comparing(each)
        if found:
            DcePass().apply(ctx, op)


def indexings(module: ModuleOp, above: float) -> list[Indexing]:
    """The gathers and scatters that have such a form."""
    return [
        op
        for function in module.body.block.ops
        if isinstance(function, FuncOp)
        for op in function.walk()
        if isinstance(op, Indexing) and _has_form(op, above)
    ]


def write_by_comparing(op: ScatterOp) -> None:
    """Replaces a scatter that has the form."""
    _Columns(op, 0).write(op)


def _has_form(op: Indexing, above: float) -> bool:
    value = op.operands[0] if isinstance(op, GatherOp) else op.result
    owner = value.owner
    if not isinstance(owner, TensorOp) or is_view(owner) or stored_bytes(value.type) <= above:
        return False
    if isinstance(op, GatherOp) and op.dtype.kind not in REALS:
        return False
    return _column(op) is not None


def _column(op: Indexing) -> tuple[int, int, tuple[int, ...]] | None:
    """
    The axis that is indexed, by which index, and for each axis of that index the value's axis, -1
    where it has one element; None where rows do not have one column each.
    """
    words, result = split(op.letters.data)
    shape = shape_of(op.operands[0].type)
    letters = list(words[0])
    found: list[tuple[int, int]] = []
    for axis, c in enumerate(words[0]):
        if not c.isdigit():
            continue
        index, word = op.indices[int(c)], words[1 + int(c)]
        counted = _counts(index)
        letter = None if counted is None else word[counted]
        if letter in letters or counted is None or shape_of(index.type)[counted] != shape[axis]:
            found.append((axis, int(c)))
        else:
            letters[axis] = word[counted]
    if len(found) != 1:
        return None
    ((column, number),) = found
    rows = [c for c in letters if not c.isdigit()]
    space = shape_of(op.result.type) if isinstance(op, GatherOp) else op.iteration()
    ones = [c for c, size in zip(result, space, strict=True) if size == Dim.const(1)]
    order = [letters.index(c) if c in rows else -1 for c in words[1 + number]]
    kept = [axis for axis in order if axis >= 0]
    if [c for c in result if c in rows] != rows or set(result) - set(rows) - set(ones):
        return None
    return (column, number, tuple(order)) if kept == sorted(kept) else None


def _counts(value: SSAValue) -> int | None:
    """The axis along which a value's elements are 0, 1, 2, …"""
    op = value.owner
    if isinstance(op, IotaOp):
        return op.axis.value.data
    if isinstance(op, ReshapeOp) and op.unit_axes_only() and _counts(op.x) is not None:
        wide = [k for k, size in enumerate(op.shape) if size != Dim.const(1)]
        return wide[0] if len(wide) == 1 else None
    return None


class _Columns:
    """One indexing of a large value."""

    def __init__(self, op: Indexing, above: float) -> None:
        self.op = op
        self.above = above
        self.b = OpBuilder(self._insert)
        place = _column(op)
        assert place is not None
        self.column, number, order = place
        self.shape = shape_of(op.operands[0].type)
        self.letters = ALPHABET[: len(self.shape)]
        self.rows = self.letters.replace(self.letters[self.column], "")
        self.word = "".join(self.letters[axis] for axis in order if axis >= 0)
        self.position = self._position(op.indices[number])
        self._hits: SSAValue | None = None

    def read(self, op: GatherOp) -> None:
        """Replaces a gather."""
        found = self._found(op.source)
        op.result.replace_all_uses_with(self._reshaped(found, op.shape))
        op.detach()
        op.erase()

    def write(self, op: ScatterOp) -> None:
        """Replaces a scatter."""
        update = self._reshaped(op.update, self._sizes(self.rows))
        update = self._spread(update, self.rows, self.letters)
        combine = COMBINE.get(op.mode.data)
        new = update if combine is None else self.b(combine, op.x, update)
        op.result.replace_all_uses_with(self.b(SelectOp, self._hit(), new, op.x))
        op.detach()
        op.erase()

    def _insert(self, new: Operation) -> None:
        new.location = self.op.location
        block = self.op.parent
        assert block is not None
        block.insert_op_before(new, self.op)

    def _sizes(self, word: str) -> Shape:
        return tuple(self.shape[self.letters.index(c)] for c in word)

    def _position(self, index: SSAValue) -> SSAValue:
        """The columns, checked and counted from the start: what the index finds among positions."""
        rank, sizes = len(self.shape), shape_of(index.type)
        ones = self.letters[: rank - 1]
        own = ALPHABET[rank : rank + len(sizes)]
        source = f"{ones[: self.column]}0{ones[self.column :]}"
        shape = [Dim.const(1)] * rank
        shape[self.column] = self.shape[self.column]
        counted = self.b(IotaOp, axis=self.column, declared=tensor_type(I64.ir, tuple(shape)))
        found = self.b(GatherOp, counted, index, letters=f"{source},{own}->{ones}{own}")
        return self._reshaped(found, self._sizes(self.word))

    def _hit(self) -> SSAValue:
        """Where the indexed elements are."""
        if self._hits is None:
            b, extent = self.b, self.shape[self.column].constant
            dtype = I32 if extent is not None and extent <= I32.highest else I64
            position = self.position
            if dtype is not I64:
                kind = tensor_type(dtype.ir, self._sizes(self.word))
                position = b(ConvertOp, position, declared=kind)
            columns = b(IotaOp, axis=self.column, declared=tensor_type(dtype.ir, self.shape))
            wanted = self._spread(position, self.word, self.letters)
            self._hits = b(CompareOp, columns, wanted, predicate="eq")
        return self._hits

    def _found(self, source: SSAValue) -> SSAValue:
        """For each row the element of a value that is indexed."""
        block = self.op.parent
        assert block is not None
        inner, leaves = self._made_from(source)
        if any(element_dtype(x).kind not in REALS for x in leaves):
            inner, leaves = set[Operation](), [source]
        found = {x: self._picked(x) for x in leaves}
        for op in [op for op in block.ops if op in inner]:
            assert isinstance(op, TensorOp)
            operands = [found[x] if x in found else self._of_row(x) for x in op.operands]
            new = op.on(operands, tensor_type(op.dtype.ir, self._sizes(self.rows)))
            self._insert(new)
            found[op.results[0]] = new.results[0]
        return found[source]

    def _made_from(self, source: SSAValue) -> tuple[set[Operation], list[SSAValue]]:
        """The elementwise ops that a value is made by, and the values that these begin with."""
        inner: set[Operation] = set()
        leaves: dict[SSAValue, None] = {}
        pending = [source]
        while pending:
            x = pending.pop()
            op = x.owner
            if not isinstance(op, Elementwise) or op.parent is not self.op.parent:
                leaves[x] = None
            elif op not in inner:
                inner.add(op)
                pending += [y for y in op.operands if not self._is_of_row(y)]
        return inner, list(leaves)

    def _is_of_row(self, value: SSAValue) -> bool:
        """Whether a value repeats something small."""
        owner = value.owner
        is_small = isinstance(owner, BroadcastOp) and stored_bytes(owner.x.type) <= self.above
        return is_small or splat(value) is not None

    def _of_row(self, value: SSAValue) -> SSAValue:
        """Of a value that repeats something small, the indexed elements."""
        element = splat(value)
        if element is not None:
            return full(self.b, element.item(), element_dtype(value), self._sizes(self.rows))
        op = value.owner
        assert isinstance(op, BroadcastOp)
        ((source,), result) = split(op.letters.data)
        word = "".join(self.letters[result.index(c)] for c in source)
        column = self.letters[self.column]
        if column not in word:
            return self._spread(op.x, word, self.rows)
        kept = "".join(c for c in self.rows if c in word or c in self.word)
        letters = f"{word.replace(column, '0')},{self.word}->{kept}"
        return self._spread(self.b(GatherOp, op.x, self.position, letters=letters), kept, self.rows)

    def _picked(self, value: SSAValue) -> SSAValue:
        """The indexed elements of a value that has to be walked over."""
        dtype = element_dtype(value)
        least = MONOIDS["max"].identity(dtype)[0]
        others = full(self.b, least, dtype, self.shape)
        chosen = self.b(SelectOp, self._hit(), value, others)
        return self.b(ReduceOp, chosen, monoid="max", letters=f"{self.letters}->{self.rows}")

    def _spread(self, value: SSAValue, word: str, letters: str) -> SSAValue:
        if word == letters:
            return value
        declared = tensor_type(tensor_of(value).element_type, self._sizes(letters))
        return self.b(BroadcastOp, value, letters=f"{word}->{letters}", declared=declared)

    def _reshaped(self, value: SSAValue, shape: Sequence[Dim]) -> SSAValue:
        if shape_of(value.type) == tuple(shape):
            return value
        declared = tensor_type(tensor_of(value).element_type, tuple(shape))
        return self.b(ReshapeOp, value, declared=declared)
