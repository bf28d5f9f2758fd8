"""
Pass `mlc-shift-lanes`: vectors of one row that begin a few elements apart are shifted out of
vectors side by side, each of which is read once.

```
for i = 16 to 48 step 16 {             %l0, %m0 = load %a[0], %a[16]
  %w = load %a[i - 1]                  for i = 16 to 48 step 16 carry (%l = %l0, %m = %m0) {
  %c = load %a[i]               ->       %r = load %a[i + 16]
  %e = load %a[i + 1]                    %w = shuffle %l, %m [15, 16 … 30]
  …                                      %e = shuffle %m, %r [1, 2 … 16]
}                                        … %m for %c …
                                         yield %m, %r
                                       }
```

A vector as wide as a cache line crosses into another line wherever it does not begin at one, which
takes as long as two. Measured: docs/measurements.md, Stencils.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import vec
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.target.attribute import target_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.loops.carry import LOADS, Inserter, carry, is_innocent, leave_the_last, never_writes
from mlc.passes.loops.places import Place, Walk, constant_of

LEAST_ITEM = 4
"""Bytes of an element from which on one instruction shifts lanes (valignd, vpermt2ps)."""

Lanes = tuple[bool, ...]


@dataclass(frozen=True)
class ShiftLanesPass(ModulePass):
    """Reads rows of vectors that overlap once, where a vector is as wide as a cache line."""

    name = "mlc-shift-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Shifts in every function, for the module's target."""
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                self.apply_to(function, op)

    def apply_to(self, function: FuncOp, module: ModuleOp) -> None:
        """Shifts in one function, for the target of a module."""
        target = target_of(module)
        if not target.fills_lines:
            return
        blocks = dict.fromkeys(op.parent for op in function.walk() if isinstance(op, LOADS))
        for block in blocks:
            assert block is not None
            _shift_all(block, target.cache_line_bytes)


@dataclass(frozen=True)
class _Read:
    """A vector of a row: how far from the row's base it begins, and the lanes that are read."""

    op: Operation
    begin: int
    lanes: Lanes


@dataclass(frozen=True)
class _Row:
    """Vectors of one row of a buffer, with nothing between them that writes there."""

    buffer: SSAValue
    outer: tuple[SSAValue, ...]
    base: SSAValue | None
    reads: list[_Read] = field(default_factory=list["_Read"])

    @property
    def count(self) -> int:
        """Lanes of each vector."""
        return len(self.reads[0].lanes)


def _rows_in(block: Block, line_bytes: int) -> list[_Row]:
    """The rows of which a block reads several vectors."""
    open_: dict[tuple[object, ...], _Row] = {}
    found: list[_Row] = []
    for op in block.ops:
        if not isinstance(op, LOADS):
            if open_ and not never_writes(type(op)):
                open_ = {k: row for k, row in open_.items() if is_innocent(op, row.buffer)}
        elif (read := _read_of(op, line_bytes)) is not None:
            buffer, outer, place, lanes = read
            key = (buffer, outer, place.base, len(lanes))
            if key not in open_:
                open_[key] = _Row(buffer, outer, place.base)
                found.append(open_[key])
            open_[key].reads.append(_Read(op, place.distance, lanes))
    return found


def _read_of(
    op: Operation, line_bytes: int
) -> tuple[SSAValue, tuple[SSAValue, ...], Place, Lanes] | None:
    """Buffer, all indices but the last, the last one and the lanes of a load that fills a line."""
    kind = cast("VectorType[Attribute]", op.results[0].type)
    (count,) = kind.get_shape()
    item = dtype_of(kind.element_type).bytes
    if item < LEAST_ITEM or count * item != line_bytes:
        return None
    buffer, *indices = op.operands
    lanes: Lanes | None = (True,) * count
    if isinstance(op, vector.MaskedLoadOp):
        *indices, mask, _ = indices
        lanes = _lanes_of(mask, count)
    if lanes is None or not any(lanes):
        return None
    *outer, last = indices
    return buffer, tuple(outer), Place.of(last), lanes


def _lanes_of(mask: SSAValue, count: int) -> Lanes | None:
    """The lanes of a mask that is written in the program."""
    owner = mask.owner
    if isinstance(owner, vector.CreateMaskOp):
        first = constant_of(owner.operands[0])
        return None if first is None else tuple(k < first for k in range(count))
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr):
        return tuple(map(bool, owner.value.get_values()))
    return None


def _shift_all(block: Block, line_bytes: int) -> None:
    """Shifts the rows of a block; in a loop, those that nothing in it writes to."""
    loop = block.parent_op()
    rolled: list[tuple[_Row, _Plan]] = []
    for row in _rows_in(block, line_bytes):
        if (plan := _plan(row)) is None:
            continue
        if not isinstance(loop, scf.ForOp) or row.base is not block.args[0]:
            _shift(row, plan)
        elif plan.carried and _stays(row, block):
            rolled.append((row, plan))
    if rolled:
        assert isinstance(loop, scf.ForOp)
        _roll(loop, rolled)


def _stays(row: _Row, block: Block) -> bool:
    """Whether the trips of a loop read one row, to which they do not write."""
    inside = [x.owner.parent if isinstance(x.owner, Operation) else x.owner for x in row.outer]
    return block not in inside and all(is_innocent(op, row.buffer) for op in block.ops)


@dataclass(frozen=True)
class _Plan:
    """
    Where vectors side by side begin that hold a row. Of them `carried` are the trip's before;
    `needs_next`: if there is another trip; `has_trips`: it is known that there is one.
    """

    begins: tuple[int, ...]
    carried: tuple[int, ...]
    needs_next: bool
    has_trips: bool
    step: int


def _plan(row: _Row) -> _Plan | None:
    """How to read a row, where that takes no more vectors than it is read in now."""
    count, walk = row.count, Walk.of(row.base)
    begins = {read.begin for read in row.reads}
    if walk.step is None or len({begin % count for begin in begins}) == 1:
        return None  # the base is no number of a loop, or they do not overlap
    at_lines = -(walk.first or 0) if walk.step % count == 0 else 0
    for phase in (at_lines, min(begins)):
        found = _wanted(row, phase)
        if len(found) <= len(begins) and (plan := _readable(row, found, walk)) is not None:
            return plan
    return None


def _wanted(row: _Row, phase: int) -> tuple[int, ...]:
    """Where those of the vectors side by side begin that hold an element that is read."""
    elements = {r.begin + k for r in row.reads for k, wanted in enumerate(r.lanes) if wanted}
    return tuple(sorted({(x - phase) // row.count * row.count + phase for x in elements}))


def _readable(row: _Row, begins: tuple[int, ...], walk: Walk) -> _Plan | None:
    """
    How those vectors can be read whole: their elements exist where the row has so many, or reads
    one behind them, be it in the next trip.
    """
    assert walk.step is not None
    (*_, size) = cast("MemRefType[Attribute]", row.buffer.type).get_shape()
    last = begins[-1] + row.count - 1
    read = [r.begin + k for r in row.reads for k, wanted in enumerate(r.lanes) if wanted]
    exists = walk.last is not None and walk.last + last < size  # which is negative if not known
    needs_next = not exists and last > max(read)
    first = min(read) if walk.first is None else -walk.first
    if begins[0] < first or (needs_next and last > max(read) + walk.step):
        return None
    if needs_next and row.base is None:
        return None
    carried = tuple(x for x in begins if x + walk.step in begins)
    has_trips = not needs_next and walk.last is not None
    return _Plan(begins, carried, needs_next, has_trips, walk.step)


def _shift(row: _Row, plan: _Plan) -> None:
    """Replaces the reads of a row, at the first of them."""
    b = Inserter(row.reads[0].op)
    _replace(row, {begin: _piece(b, row, row.base, begin) for begin in plan.begins})


def _roll(loop: scf.ForOp, rows: Sequence[tuple[_Row, _Plan]]) -> None:
    """Replaces the reads of rows in a loop, which carries what the next trip reads too."""
    if any(plan.needs_next for _, plan in rows):
        leave_the_last(loop)

    def starts(b: Inserter, low: SSAValue) -> list[SSAValue]:
        return [_piece(b, row, low, begin) for row, plan in rows for begin in plan.carried]

    def following(arguments: Sequence[SSAValue]) -> list[SSAValue]:
        handed: list[SSAValue] = []
        given = iter(arguments)
        for row, plan in rows:
            vectors = {begin: next(given) for begin in plan.carried}
            b = Inserter(row.reads[0].op)
            for begin in plan.begins:
                if begin not in vectors:
                    vectors[begin] = _piece(b, row, row.base, begin)
            _replace(row, vectors)
            handed += [vectors[begin + plan.step] for begin in plan.carried]
        return handed

    carry(loop, starts, following, has_trips=all(plan.has_trips for _, plan in rows))


def _replace(row: _Row, vectors: dict[int, SSAValue]) -> None:
    """Every read of a row out of vectors side by side."""
    for read in row.reads:
        b = Inserter(read.op)
        value = _of_pieces(b, vectors, read.begin, row.count)
        if not all(read.lanes):
            *_, mask, fill = read.op.operands
            value = b(vec.SelectOp.of(mask, value, fill))
        read.op.results[0].replace_all_uses_with(value)
        read.op.detach()
        read.op.erase()


def _piece(b: Inserter, row: _Row, base: SSAValue | None, begin: int) -> SSAValue:
    """The vector that begins so far behind the base."""
    operands = [row.buffer, *row.outer, b.away(base, begin)]
    kind = row.reads[0].op.results[0].type
    return b(vector.LoadOp.create(operands=operands, result_types=[kind]))


def _of_pieces(b: Inserter, vectors: dict[int, SSAValue], begin: int, count: int) -> SSAValue:
    """A vector out of the two that it overlaps, of which one may hold nothing that is wanted."""
    if begin in vectors:
        return vectors[begin]
    shift = (begin - next(iter(vectors))) % count
    found = [vectors.get(begin - shift), vectors.get(begin - shift + count)]
    left, right = (x or found[1 - k] for k, x in enumerate(found))
    assert left is not None
    assert right is not None
    mask = DenseArrayBase.from_list(i64, list(range(shift, shift + count)))
    return b(
        vector.ShuffleOp.create(
            operands=[left, right], result_types=[left.type], properties={"mask": mask}
        )
    )
