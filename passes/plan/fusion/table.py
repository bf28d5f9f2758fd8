"""
The table of what a plan may choose for each op of a block: its partial plans, in numbers (D22).

SOURCE: Boehm et al., "On Optimizing Operator Fusion Plans for Large-Scale Machine Learning in
SystemML", PVLDB 11(12), 2018. In its terms, an entry says which template the op *opens* (`kind`,
over `space`), along which reads it *fuses* what it reads (`reads`), and whether it is *closed*
(`rule`); plans are *merged* where two entries come to one kernel. The table is linear in the number
of reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.views import (
    STORED,
    is_splat,
    is_stored_constant,
    is_trip_number,
    is_view,
    through_reshapes,
)
from mlc.dialects.dims import Shape, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import AGAIN, SAME, OpaqueOp, TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp
from mlc.dialects.tensor.terms import OfTermsOp, TermOp
from mlc.dialects.tensor.tiles import TileOp
from mlc.passes.cost.ops import point_cost
from mlc.passes.cost.sizes import elements_of, stored_bytes
from mlc.passes.cost.work import Clock
from mlc.passes.plan.fusion.entries import NEVER, Entry, Kind, Read, bits_of, may_share
from mlc.passes.plan.fusion.factors import narrowed, widens
from mlc.passes.plan.fusion.legality import Stage, ops_of
from mlc.passes.plan.fusion.points import HERE, Points
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.plan.memory.in_place.placed import is_own, is_placed, is_shared, is_written_there

MANY_SOURCES = 32  # of an entry, on average, beyond which all over one space count as made of one


class _TypeFact(NamedTuple):
    kind: Attribute  # holds the identity
    space: int
    elements: int
    bytes: int
    seconds: int  # of writing it


@cache
def _kind_of(op: type[TensorOp]) -> Kind:
    if issubclass(op, Reduction):
        return "reduction"
    if issubclass(op, OpaqueOp):
        return "whole"
    return "view" if issubclass(op, ReshapeOp | ConstantOp | TileOp) else "cell"


class _Way(NamedTuple):
    """How an entry reads what lies behind some views."""

    again: int
    stage: Stage | None
    elements: int | None
    points: tuple[int, ...]
    part: Operation | None = None  # the slice on the way that picks the fewest bytes


class Table:
    """The entries of one block, in the order of decisions: readers first."""

    def __init__(self, block: Block, ownership: Ownership, clock: Clock) -> None:
        self.block = block
        self.clock = clock
        self.ownership = ownership
        self.entries: list[Entry] = []
        self.of: dict[Operation, Entry] = {}
        self.points = Points()
        self.streams: list[int] = []  # time of reading each
        self.pairs: list[tuple[Entry, Entry]] = []  # from each to the next that it may stand beside
        self._stream_of: dict[tuple[object, object], int] = {}
        self._spaces: dict[Shape, int] = {}
        self._facts: dict[int, _TypeFact] = {}  # by identity: types are slow to compare
        self._bits: dict[SSAValue, int] = {}  # of values at which something begins
        self._roots: dict[SSAValue, int] = {}  # of those that lie in some memory
        self._masks: dict[SSAValue, int] = {}
        ops = list(block.ops)
        written = sorted(self._written_over(ops), key=lambda found: -found[0])
        for index, op in enumerate(ops):
            if isinstance(op, TensorOp):
                self._open(index, op)
            for value in op.results:
                self._begin(op, value)
        for entry in self.of.values():
            if entry.kind != "view":
                self._fuse(entry)
        self._order(ops)
        for entry in self.entries:
            self._close(entry, written)
        self._bound_positions()
        self._pair()
        self._cut()

    # Entries ------------------------------------------------------------------------------------

    def _open(self, index: int, op: TensorOp) -> None:
        kind = _kind_of(type(op))
        if op in self.ownership.in_place:
            kind = "whole"
        elif kind == "cell" and is_view(op):
            kind = "view"
        value = op.results[0]
        fact = self._fact(value)
        entry = self.of[op] = Entry(kind, index, op, fact.space, fact.elements)
        if kind in ("reduction", "whole"):
            entry.inner = elements_of(op.iteration())
        if kind != "view":
            entry.weight = point_cost(type(op), op.dtype, self.clock.target)
            entry.is_widened = isinstance(op, OfTermsOp)
            entry.is_convert = entry.is_widened or isinstance(op, ConvertOp)
            entry.ops, entry.light = ops_of(op), op.WEIGHT
            entry.rule = "factor" if isinstance(op, TermOp) else None
            if STORED in op.attributes:
                entry.rule = "views"
        entry.bytes, entry.write = fact.bytes, fact.seconds
        entry.stream = self._stream(value, None, fact.bytes, fact.bytes)

    def _begin(self, op: Operation, value: SSAValue) -> None:
        """What the value is made of, back to reductions and to memory."""
        entry = self.of.get(op)
        starts = entry is None or entry.kind in ("reduction", "whole")
        starts = starts or (isinstance(op, TileOp) and op.looks_at_memory)
        if entry is None or starts or (isinstance(op, ReshapeOp) and not op.unit_axes_only()):
            self._masks[value] = self._bit(value)
            return
        mask, light = 0, entry.light
        for x in op.operands:
            mask |= self._mask(x)
            above = self._entry(x)
            if above is not None:
                light += above.light
        entry.light = light
        self._masks[value] = mask

    def _entry(self, value: SSAValue) -> Entry | None:
        """The entry of the op of this block that makes the value."""
        return self.of.get(value.owner)  # pyright: ignore[reportArgumentType]  # a block is no key

    def _fuse(self, entry: Entry) -> None:
        """The reads of an entry, each back to what is not a view."""
        op = entry.op
        assert isinstance(op, TensorOp)
        stored = op.stored_operands()
        stage: Stage | None = None
        if entry.kind == "reduction":
            stage = "operand" if isinstance(op, Product) else "prologue"
        elif entry.kind == "whole":
            stage = "piece"
        in_place = op in self.ownership.in_place
        for k, x in enumerate(op.operands):
            count = None
            if stage is not None:
                count = entry.inner if stage == "prologue" else self._fact(x).elements
            if k in stored or (in_place and (k == 0 or self._reads_old(op, x))):
                self._store(entry, x)
                if not in_place or k:
                    entry.reads.append(self._stored(op, k))
            else:
                points = self.points.read(op, k)
                if entry.kind == "whole":
                    points = self.points.alone(op, k, len(shape_of(x.type)))
                way = _Way(self._how(op, k), stage, count, points)
                entry.reads += self._reads(entry, x, way)

    def _how(self, op: TensorOp, k: int) -> int:
        """How the op reads an operand."""
        if op in self.ownership.in_place:
            return SAME if k == 1 else AGAIN
        return op.reads(k)

    def _reads_old(self, op: TensorOp, x: SSAValue) -> bool:
        return bool(self._mask(x) & self._roots.get(root_of(op.operands[0]), 0))

    def _reads(
        self,
        entry: Entry,
        x: SSAValue,
        way: _Way,
    ) -> Iterator[Read]:
        """The reads of one operand, each way through views once."""
        pending = [(x, way)]
        seen: set[tuple[SSAValue, _Way]] = set()
        while pending:
            x, way = pending.pop()
            if (x, way) in seen:
                continue
            seen.add((x, way))
            owner = x.owner
            if not isinstance(owner, TensorOp) or not is_view(owner):
                yield self._read(entry, x, way)
                continue
            part = way.part
            if isinstance(owner, SliceOp | DynamicSliceOp) and (
                part is None
                or self._fact(owner.results[0]).bytes < self._fact(part.results[0]).bytes
            ):
                part = owner
            stored = owner.stored_operands()
            for k in reversed(range(len(owner.operands))):
                if k in stored:
                    self._store(entry, owner.operands[k])
                    yield self._stored(owner, k)
                else:
                    again = max(way.again, owner.reads(k))
                    points = self.points.chained(way.points, self.points.read(owner, k))
                    onward = _Way(again, way.stage, way.elements, points, part)
                    pending.append((owner.operands[k], onward))

    def _read(self, entry: Entry, x: SSAValue, way: _Way) -> Read:
        """The read of what is not a view, at the end of a way."""
        part = way.part
        root = through_reshapes(x, self.block)
        below = self._entry(root)
        held = self._fact(root).bytes
        moved = held if part is None else min(held, self._fact(part.results[0]).bytes)
        stream = self._stream(root, part, moved, held)
        if below is not None and is_stored_constant(below.op):
            below = None
        elif isinstance(root.owner, TileOp) and root.owner.looks_at_memory:
            below = None
            for part_of in root.owner.operands:
                self._store(entry, part_of)
        return Read(
            below,
            stream,
            way.again,
            way.points,
            is_stored=root is not x,
            stage=way.stage,
            count=way.elements,
        )

    def _stored(self, op: TensorOp, k: int) -> Read:
        """The read of what must be a buffer: of a gather's table what it picks."""
        root = through_reshapes(op.operands[k], self.block)
        held = self._fact(root).bytes
        picks = isinstance(op, GatherOp) and k == 0
        moved = min(held, self._fact(op.results[0]).bytes) if picks else held
        return Read(None, self._stream(root, op if picks else None, moved, held), SAME, HERE)

    def _store(self, entry: Entry, x: SSAValue) -> None:
        """The operand must be a buffer when the entry is computed."""
        root = through_reshapes(x, self.block)
        below = self._entry(root)
        if isinstance(root.owner, TileOp) and root.owner.looks_at_memory:
            for part_of in root.owner.operands:
                self._store(entry, part_of)
        elif below is not None and not is_stored_constant(below.op):
            entry.needs.append(below)

    # Readers ------------------------------------------------------------------------------------

    def _order(self, ops: list[Operation]) -> None:
        last = ops[-1]
        self._leave(last, len(ops))
        for index in range(len(ops) - 2, -1, -1):
            op = ops[index]
            if isinstance(op, ControlOp):
                self._control(op, index)
            elif isinstance(op, KernelOp):
                for value in op.inputs:
                    self._want(op, value, index)
            elif (entry := self.of.get(op)) is not None:
                self._append(entry)

    def _append(self, entry: Entry) -> None:
        entry.number = len(self.entries)
        self.entries.append(entry)

    def _leave(self, terminator: Operation, end: int) -> None:
        left: set[SSAValue] = set()
        for k, value in enumerate(terminator.operands):
            if isinstance(terminator, YieldOp) and not is_placed(terminator, k):
                self._hand_on(terminator, k, end)
                continue
            root = through_reshapes(value, self.block)
            owner = root.owner
            computed = is_written_there(terminator, k, root)
            again = root in left and (
                isinstance(owner, OpaqueOp | ControlOp) or isinstance(terminator, YieldOp)
            )
            if computed and owner.parent is self.block and not again:
                left.add(root)
                self._want(terminator, value, end)
            else:
                self._copy(terminator, value, end)

    def _hand_on(self, op: Operation, k: int, index: int) -> None:
        value = op.operands[k]
        known = root_of(value)
        own = is_own(through_reshapes(value, self.block)) or is_shared(known, op)
        if own or is_trip_number(known) or (op, k) in self.ownership.copied or is_splat(known):
            self._copy(op, value, index)
        else:
            self._want(op, value, index)

    def _control(self, op: ControlOp, index: int) -> None:
        for value in self._used_inside(op):
            self._want(op, value, index)
        first = len(op.operands) - len(op.starts)
        for k, value in enumerate(op.operands):
            if k >= first:
                self._hand_on(op, k, index)
            elif not isinstance(value.owner, ConstantOp | SizeOp):
                self._want(op, value, index)

    def _used_inside(self, op: ControlOp) -> Iterator[SSAValue]:
        """The values of this block that kernels inside read, behind views."""
        seen: set[SSAValue] = set()
        for block in op.blocks:
            for inner in block.walk():
                pending = list(inner.operands)
                while pending:
                    x = pending.pop()
                    if x in seen or x.owner not in self.of:
                        continue
                    seen.add(x)
                    if isinstance(x.owner, TensorOp) and is_view(x.owner):
                        pending += x.owner.operands
                    else:
                        yield x

    def _want(self, op: Operation, value: SSAValue, index: int) -> None:
        """A reader that needs the value in memory."""
        entry = Entry("memory", index, op, -1, 0)
        self._store(entry, value)
        if entry.needs:
            self._append(entry)

    def _copy(self, op: Operation, value: SSAValue, index: int) -> None:
        """A kernel that writes the value for one reader alone."""
        fact = self._fact(value)
        entry = Entry("copy", index, op, fact.space, fact.elements)
        entry.bytes, entry.write = fact.bytes, fact.seconds
        entry.reads = list(self._reads(entry, value, _Way(SAME, None, None, HERE)))
        entry.mask = self._mask(value)
        self._append(entry)

    # Rules --------------------------------------------------------------------------------------

    def _close(self, entry: Entry, written: list[tuple[int, SSAValue]]) -> None:
        """What follows from the graph alone: rules, and the reads seen from what is read."""
        if entry.kind == "view" and entry.rule is None:
            return  # its readers repeat it
        if entry.kind == "view":
            self._fuse(entry)
        for read in entry.reads:
            if read.entry is not None:
                read.entry.readers.append((entry, read))
                if read.is_stored:
                    read.entry.rule = read.entry.rule or "reshape"
                elif read.stage == "operand" and not read.entry.is_convert:
                    read.entry.rule = read.entry.rule or "factor"
                elif read.stage == "operand":
                    self._store_narrow(entry, read.entry)
        for below in entry.needs:
            below.before = min(below.before, entry.latest)
            below.rule = "stored-result" if entry.kind == "memory" else below.rule or "whole"
        if entry.kind in ("memory", "copy"):
            return
        if entry.kind == "whole":
            entry.rule = "whole"
        elif entry.kind == "reduction":
            entry.rule = "reduced"
        entry.mask = self._masks[entry.op.results[0]]
        if written:
            below = 0
            for x in entry.op.operands:
                below |= self._mask(x)
            for index, root in written:
                if index > entry.index and below & self._roots.get(root, 0):
                    entry.deadline = index

    def _store_narrow(self, product: Entry, factor: Entry) -> None:
        """Stores what a factor is converted to, where only that is multiplied fast."""
        op = narrowed(product.op, factor.op.results[0], product.inner, self.clock)
        if op is not None and (entry := self.of.get(op)) is not None:
            entry.rule = entry.rule or "factor"
            factor.is_widened = widens(factor.op)

    def _bound_positions(self) -> None:
        """Where kernels can be at the latest: readers first, since these hold what they read."""
        for entry in self.entries:
            if entry.kind in ("memory", "copy", "whole", "view"):
                continue
            before = NEVER
            for reader, read in entry.readers:
                if entry.kind == "cell" or may_share(reader, read, entry):
                    entry.latest = max(entry.latest, reader.latest)
                before = min(before, reader.latest)
            entry.before = min(before, entry.before)

    def _pair(self) -> None:
        """Values over one space, made of the same, that one kernel may write side by side."""
        spaces: dict[int, list[Entry]] = {}
        for entry in self.entries[::-1]:
            if entry.may_begin():
                spaces.setdefault(entry.space, []).append(entry)
        for entries in spaces.values():
            groups: dict[int, list[Entry]] = {}
            sources = sum(entry.mask.bit_count() for entry in entries)
            for entry in entries:
                few = sources <= MANY_SOURCES * len(entries)
                for bit in bits_of(entry.mask) if few else (0,):
                    groups.setdefault(bit, []).append(entry)
            for group in groups.values():
                self._pair_side_by_side(group)

    def _pair_side_by_side(self, group: list[Entry]) -> None:
        """Each entry with those that follow it and stand before its readers, linked in a row."""
        done = 0
        for k, entry in enumerate(group):
            if entry.kind == "cell":
                end = max(done, k)
                while end + 1 < len(group) and group[end + 1].index < entry.before:
                    self.pairs.append((group[end], group[end + 1]))
                    end += 1
                done = end

    def _cut(self) -> None:
        """What has a kernel of its own in every plan is memory for those who read it."""
        paired = {entry for pair in self.pairs for entry in pair}
        for entry in self.entries:
            if entry.kind in ("whole", "view"):
                entry.is_alone = True
            elif entry.rule is not None:
                shares = any(may_share(*reader, entry) for reader in entry.readers)
                entry.is_alone = not shares and entry not in paired
        for entry in self.entries:
            entry.needs = [below for below in entry.needs if not below.is_alone]
            for read in entry.reads:
                if read.entry is not None and read.entry.is_alone:
                    read.entry = None

    def _written_over(self, ops: Iterable[Operation]) -> Iterator[tuple[int, SSAValue]]:
        if not self.ownership.in_place:
            return
        for index, op in enumerate(ops):
            for inner in op.walk():
                if inner in self.ownership.in_place:
                    yield index, root_of(inner.operands[0])

    # Numbers ------------------------------------------------------------------------------------

    def _fact(self, value: SSAValue) -> _TypeFact:
        kind = value.type
        found = self._facts.get(id(kind))
        if found is None:
            shape = shape_of(kind)
            space = self._spaces.setdefault(shape, len(self._spaces))
            held = stored_bytes(kind)
            seconds = self.clock.writing(held, held)
            found = _TypeFact(kind, space, elements_of(shape), held, seconds)
            self._facts[id(kind)] = found
        return found

    def _stream(self, root: SSAValue, part: Operation | None, moved: int, held: int) -> int:
        key = (root, part)
        found = self._stream_of.get(key)
        if found is None:
            found = self._stream_of[key] = len(self.streams)
            self.streams.append(self.clock.reading(moved, held))
        return found

    def _bit(self, value: SSAValue) -> int:
        found = self._bits.get(value)
        if found is None:
            found = self._bits[value] = 1 << len(self._bits)
            root = root_of(value)
            self._roots[root] = self._roots.get(root, 0) | found
        return found

    def _mask(self, value: SSAValue) -> int:
        found = self._masks.get(value)
        if found is not None:
            return found
        if isinstance(value, BlockArgument) or value.owner not in self.of:
            return self._bit(value)
        return 0
