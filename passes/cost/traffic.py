"""
Where the streams of each kernel lie when a call follows another one: how far back in the run the
same memory was touched last.

A cache that replaces the least recently used line holds what was touched within its size: the bytes
of different memory touched since, the stack distance, say from which level a stream comes.
SOURCE: Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 9(2), 1970.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.access import nest_of
from mlc.dialects.analysis.aliases import Aliases, donations_of, memory_view
from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.analysis.transposed_reads import turned_inputs
from mlc.dialects.analysis.trips import outermost_tiles, sizes_at
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import bytes_of, element_dtype
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.tiles import TileOp, TilesOp, enclosing_tiles
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.model import bytes_read, written_by
from mlc.passes.cost.nests import nest_reads, nest_writes
from mlc.passes.cost.same_parts import SameParts
from mlc.passes.cost.streams import Stream, Traffic

LINE_BYTES = 64
ONE = Dim.const(1)


@dataclass(frozen=True, slots=True)
class _Touch:
    buffer: Hashable
    size: int  # of the buffer; of a part that its loop touches for the first time, of all parts
    moved: int
    writes: bool
    lines: int = 0
    elements: int = 0
    positions: tuple[SSAValue, ...] = ()  # of a part that no phase of the trip has touched before
    again: bool = False  # whether it is a part that the loop around has just touched


def traffic_of(module: ModuleOp, sizes: Mapping[str, int]) -> dict[KernelOp, Traffic]:
    """The traffic of every kernel of a plan-level module, in a call like the one before it."""
    function = entry_function(module)
    touching = _Touching(function, sizes)
    kernels = [op for op in function.walk() if isinstance(op, KernelOp)]
    touches = {op: touching.of(op) for op in kernels}
    # once all are known
    apart = {
        op: [touching.until_again(t, op) for t in touches[op]]
        for op in kernels
        if op.unwritten is None
    }
    history = _History()
    found: dict[KernelOp, Traffic] = {}
    for _ in range(2):
        for op in _order(function.body.block):
            if isinstance(op, KernelOp):
                found[op] = history.run(op, touches[op], apart[op])
            else:
                history.end(touching.cut.get(op, {}))
    return found


def _order(block: Block) -> Iterator[KernelOp | TilesOp]:
    """
    The kernels as they run, what repeats twice: the second time is like those that follow. A tile
    loop stands where it ends.
    """
    for op in block.ops:
        if isinstance(op, KernelOp):
            if op.unwritten is None:
                yield op
        elif isinstance(op, ControlOp):
            for _ in range(2 if op.repeats else 1):
                for inner in op.blocks:
                    yield from _order(inner)
            if isinstance(op, TilesOp):
                yield op


class _Touching:
    """What each kernel of a function touches, asked in program order."""

    def __init__(self, function: FuncOp, sizes: Mapping[str, int]) -> None:
        self.places = Aliases(function)
        self.sizes = sizes
        arguments, given = function.body.block.args, donations_of(function)
        self.donated: dict[Hashable, SSAValue] = {
            ("out", (result,)): arguments[k] for k, result in given.items()
        }
        """Where results lie that take the place of arguments."""
        self.cut: dict[TilesOp, dict[Hashable, int]] = {}
        """By loop the buffers of which it touches a part in each trip, and their bytes."""
        self._same = SameParts()
        self._parts: set[tuple[SSAValue, tuple[SSAValue, ...]]] = set()
        self._within: dict[TilesOp, dict[Hashable, _Touch]] = {}  # by outermost loop: parts

    def of(self, op: KernelOp) -> list[_Touch]:
        """The buffers that a kernel reads and writes."""
        sizes, found = sizes_at(op, self.sizes), list[_Touch]()
        strided, groups = _strided(op), [self.places.group(out) for out in op.outs]
        run = _run_of_tiles(op)
        # a nest that stores into what it was given moves no more than its trips touch
        over = [k for k, x in enumerate(op.inputs) if op.is_nest and self.places.group(x) in groups]
        all_read = nest_reads(op, over) if op.is_nest else {}
        tiled = op.schedule is not None and op.schedule.data.tile[0] > 0
        for k, (argument, x) in enumerate(zip(op.block.args, op.inputs, strict=True)):
            if k != op.overwritten:
                part = all_read[argument] if all_read else bytes_read(argument)
                moved, everything = part.evaluate(sizes), bytes_of(x.type).evaluate(sizes)
                whole, positions = self._whole(x, sizes)
                size = max(everything, whole)
                lines, elements = _gathered(argument, sizes)
                if k in strided:
                    item = element_dtype(x).bytes
                    # of a part, the other elements of a line are nobody's
                    apart = item * (everything // max(moved, 1))
                    lines = moved // item * min(apart, LINE_BYTES) // LINE_BYTES
                    elements = 0
                elif k in run:
                    lines = moved // (run[k] * element_dtype(x).bytes)
                where = self._buffer(x)
                again = self._same.again(op, argument, where)
                touch = _Touch(where, size, moved, False, lines, elements, positions, again)
                found.append(touch)
        written = [[x] for x in op.outs] if op.overwritten is None else [written_by(op)]
        for k, (parts, out) in enumerate(zip(written, op.outs, strict=True)):
            size = bytes_of(out.type).evaluate(sizes)
            moved, positions = sum(bytes_of(x.type).evaluate(sizes) for x in parts), ()
            where: Hashable = groups[k]
            if any(self.places.group(op.inputs[n]) is where for n in over):
                moved = nest_writes(op)[k].evaluate(sizes)
            place = op.buffers.data[k].data if op.buffers is not None else ("input", ())
            if place[0] == "tile":
                loop = next(enclosing_tiles(op))
                size, where = self._note(loop, loop.results[place[1][0]], sizes)
                positions = loop.body.block.args[: len(loop.steps)]
            elif place[0] != "input":
                where = self.donated.get(place, place)
            lines = moved // LINE_BYTES * tiled  # a row of a register tile: few lines
            again = self._same.again(op, op.yielded.values[k], where)
            touch = _Touch(where, size, moved, True, lines, 0, positions, again)
            found.append(touch)
        if (loop := outermost_tiles(op)) is not None:
            within = self._within.setdefault(loop, {})
            within.update({t.buffer: t for t in found if t.positions})
        return found

    def until_again(self, touch: _Touch, op: KernelOp) -> int:
        """
        Bytes of all parts that tile loops touch until they touch a part again: in one trip along
        the innermost axis that does not move it and stands around one that does; else in all.
        """
        loops = list(enclosing_tiles(op))[::-1]
        if not touch.positions or not loops:  # a position may be that of a loop that is no walk
            return touch.size if touch.moved < touch.size and not touch.again else 0
        axes = [
            (position, -(-extent.evaluate(self.sizes) // step))
            for loop in loops
            for position, extent, step in zip(
                loop.body.block.args, loop.extents, loop.steps, strict=False
            )
        ]
        moves = [position in touch.positions for position, _ in axes]
        inner = max((k for k, moved in enumerate(moves) if moved), default=0)
        still = max((k for k in range(inner) if not moves[k]), default=-1)
        outer: dict[SSAValue, int] = dict(axes[: still + 1])
        return sum(
            t.size // prod(outer.get(position, 1) for position in t.positions)
            for t in self._within[loops[0]].values()
        )

    def _whole(self, value: SSAValue, sizes: Mapping[str, int]) -> tuple[int, tuple[SSAValue, ...]]:
        """
        Of a part that no kernel of the trip has touched, the bytes of all parts, and where it lies;
        else 0.
        """
        positions: list[SSAValue] = []
        root = value
        while (view := memory_view(root.owner)) is not None:
            if isinstance(view, TileOp):
                positions += view.positions
            root = view.operands[0]
        part = self.places.group(root), tuple(positions)
        owner = positions[0].owner if positions else None
        if part in self._parts or not isinstance(owner, Block):
            return 0, ()
        self._parts.add(part)
        return self._note(owner.parent_op(), root, sizes)[0], tuple(positions)

    def _buffer(self, value: SSAValue) -> Hashable:
        value = self.places.group(value)
        owner = value.owner
        if isinstance(owner, KernelOp) and owner.buffers is not None:
            number = next(k for k, out in enumerate(owner.outs) if out is value)
            place = owner.buffers.data[number].data
            if place[0] != "input":
                return self.donated.get(place, place)
        return value

    def _note(
        self, loop: Operation | None, whole: SSAValue, sizes: Mapping[str, int]
    ) -> tuple[int, Hashable]:
        """Of what a loop touches part by part the bytes, and the buffer, touched when it ends."""
        size, where = bytes_of(whole.type).evaluate(sizes), self._buffer(whole)
        if isinstance(loop, TilesOp):
            self.cut.setdefault(loop, {})[where] = size
        return size, where


def _strided(op: KernelOp) -> frozenset[int]:
    """
    The inputs that a pointwise kernel reads across, every element in another cache line; of a
    contraction by register tiles the left factor, if every step is in another line.
    """
    nest = nest_of(op)
    if nest is not None and isinstance(nest.reduction, Product):
        return _across(op, nest.reduction)
    if nest is None or nest.reduction is not None or not nest.sizes:
        return frozenset()
    axis = max((a for a, dim in enumerate(nest.sizes) if dim != ONE), default=0)
    found: set[int] = set()
    for access in nest.accesses:
        moved = [k for k, p in enumerate(access.point) if p.known and p.coefficient(axis)]
        if any(dim != ONE for k in moved for dim in access.shape[k + 1 :]):
            found.add(access.argument)
    return frozenset(found - turned_inputs(op, nest))


def _run_of_tiles(op: KernelOp) -> Mapping[int, int]:
    """
    Of the inputs that are turned in tiles the elements that lie side by side in a tile: the first
    of them is asked for in no order.
    """
    nest = nest_of(op)
    if nest is None or op.schedule is None or (turn := op.schedule.data.turn) is None:
        return {}
    return dict.fromkeys(turned_inputs(op, nest), turn.rows)


def _across(op: KernelOp, product: Product) -> frozenset[int]:
    roles = contraction_roles(product)
    if roles is None or op.schedule is None or not op.schedule.data.tile[0]:
        return frozenset()
    words, _, _ = product.words()
    left = 1 if roles.swapped else 0
    if not words[left] or words[left][-1] not in roles.m:
        return frozenset()
    argument = product.operands[left]
    return frozenset(k for k, x in enumerate(op.block.args) if x is argument)


def _gathered(argument: SSAValue, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The lines that gathers ask for, and the single elements, each in a line of its own."""
    lines = elements = 0
    for use in argument.uses:
        op = use.operation
        if isinstance(op, GatherOp) and use.index == 0:
            words, result = split(op.letters.data)
            count = bytes_of(op.results[0].type).evaluate(sizes)
            row = 1
            for c, dim in zip(reversed(words[0]), reversed(shape_of(argument.type)), strict=True):
                if c.isdigit() or c not in result:
                    break
                row *= dim.evaluate(sizes)
            item = element_dtype(argument).bytes
            rows = count // max(item * row, 1)
            lines += rows * -(-row * item // LINE_BYTES) if row > 1 else 0
            elements += rows if row == 1 else 0
    return lines, elements


class _History:
    """Parts of buffers by when they were touched last, the latest at the end."""

    def __init__(self) -> None:
        self._parts: list[tuple[Hashable, int]] = []  # (buffer or kernel, bytes)

    def end(self, whole: Mapping[Hashable, int]) -> None:
        """Of these buffers all has been touched, a part in each trip."""
        self._parts = [x for x in self._parts if x[0] not in whole] + list(whole.items())

    def run(self, op: KernelOp, touches: Sequence[_Touch], apart: Sequence[int]) -> Traffic:
        """
        The kernel's streams; what it touches is the latest then. `apart`: of each the bytes that
        other parts of memory are touched for until it is touched again.
        """
        own: dict[Hashable, int] = {op: 0}
        for t in touches:
            own[t.buffer] = max(own.get(t.buffer, 0), min(t.size, t.moved))
        footprint = sum(own.values())
        before: dict[Hashable, int] = {}
        left, passed = dict(own), 0
        rest: list[tuple[Hashable, int]] = []
        for buffer, size in reversed(self._parts):
            kept = size
            if buffer in own:
                before.setdefault(buffer, passed)
                kept = max(size - left[buffer], 0)
                left[buffer] = max(left[buffer] - size, 0)
            passed += kept
            if kept or isinstance(buffer, KernelOp):
                rest.append((buffer, kept))
        rest.reverse()
        self._parts = [x for x in rest if x[0] is not op] + list(own.items())
        streams: dict[bool, list[Stream]] = {False: [], True: []}
        for t, least in zip(touches, apart, strict=True):
            distance = max(before.get(t.buffer, passed), least) + footprint
            over = t.writes and any(
                x.buffer == t.buffer and x.moved >= t.moved for x in touches if not x.writes
            )
            streams[t.writes].append(Stream(t.moved, distance, t.lines, t.elements, over))
        return Traffic(tuple(streams[False]), tuple(streams[True]), before.get(op, passed))
