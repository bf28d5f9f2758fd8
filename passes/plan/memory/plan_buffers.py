"""The buffer plan: kernels' results live in the function's results or in slots of one arena."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.aliases import Aliases, donations_of, is_unwritten, memory_view, root_of
from mlc.dialects.dims import Dim, highest
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import BufferAttr, KernelOp, slot_sizes
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.memory.in_place.sharing import (
    is_replaced,
    may_write,
    may_write_tiles,
    share,
    share_tiles,
    write_over,
)


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """
    Sets `buffers` on kernels and tile loops, `mlc.arena` and `mlc.private` on functions.

    Values whose lives do not overlap share a slot (linear scan in order of birth). No kernel writes
    over what it reads, unless it says so itself: `over` is the input that nobody reads any more,
    and the kernel only where it writes. Values that regions hand on share a few slots, one more
    than are live where one of them is written. What a tile loop's trips hand from phase to
    phase has slots of its own, of which each thread has a set: their sizes are those of the largest
    tile. SOURCE: Poletto and Sarkar, "Linear Scan
    Register Allocation", TOPLAS 21(5).
    """

    name = "mlc-plan-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _plan(function)


def _plan(function: FuncOp) -> None:
    places = Aliases(function)
    last = function.body.block.last_op
    assert last is not None
    results = _results(function, places, last)
    loops = [op for op in function.walk() if isinstance(op, TilesOp)]
    for loop in loops:
        for start, result in zip(loop.starts, loop.results[loop.first_carried :], strict=True):
            if result in results and is_unwritten(start):
                results[start] = results[result]
    placed = _placed(function)
    counts = _counts(places, {**results, **placed})
    for loop in loops:
        for value in (*loop.own, *loop.carried):
            if value not in results and value not in placed:
                counts.setdefault(places.group(value), 1)
    _carry_in_place(places, counts)
    _write_in_place(function, loops, places, counts, results)
    meeting = _meeting(loops, places, counts)
    lives = _Lives(places, counts, results, placed, meeting)
    lives.block(function.body.block)
    function.attributes["mlc.arena"] = slot_sizes(assign_slots(lives.storages))
    if lives.private:
        function.attributes["mlc.private"] = slot_sizes(assign_slots(lives.private))
    for op in places.kernels:
        if op.overwritten is None and op.parent is not None:
            op.properties["buffers"] = ArrayAttr([lives.place(x) for x in op.outs])
    for loop in loops:
        states = loop.carried if loop.spreads else ()
        loop.attributes["buffers"] = ArrayAttr([lives.place(x) for x in (*loop.own, *states)])


def _results(function: FuncOp, places: Aliases, last: Operation) -> dict[SSAValue, int]:
    """
    What is returned, with its number: each is written by a kernel, handed on by a region of what
    kernels write, or an argument that is donated to it.
    """
    donated = donations_of(function)
    given: dict[SSAValue, int | None] = {
        x: donated.get(k) for k, x in enumerate(function.body.block.args)
    }
    elsewhere: dict[SSAValue, set[int | None]] = {}  # by group: whose memory no kernel makes
    for x in places.values():
        if root_of(x) is x and (x in given or not _is_written(x)):
            elsewhere.setdefault(places.group(x), set()).add(given.get(x))
    found: dict[SSAValue, int] = {}
    taken: set[SSAValue] = set()
    for k, value in enumerate(last.operands):
        root, group = root_of(value), places.group(value)
        made = isinstance(root.owner, KernelOp)
        one = root if made else group  # what regions hand on may be another value of the group
        if one in taken or (not made and elsewhere.get(group, set()) - {k}):
            raise PlanError(
                f"mlc-plan-buffers: result {k} is not made by a kernel of its own:"
                " run mlc-form-kernels first, or say a kernel that copies it"
            )
        taken.add(one)
        found[root] = k
    return found


def _is_written(value: SSAValue) -> bool:
    """Whether a kernel makes a value, or a region hands it on."""
    return isinstance(value, BlockArgument) or isinstance(value.owner, KernelOp | ControlOp)


def _placed(function: FuncOp) -> dict[SSAValue, int]:
    """Tiles that are written where they belong, with the number of the result they are of."""
    found: dict[SSAValue, int] = {}
    for op in function.walk():
        if not isinstance(op, TilesOp):
            continue
        for k, value in enumerate(yield_of(op.body.block).values[: op.first_carried]):
            if k in op.meeting:
                continue
            root = root_of(value)
            owner = root.owner
            made = isinstance(owner, KernelOp) or (isinstance(owner, TilesOp) and root in owner.own)
            if not made or owner.parent is not op.body.block or root in found:
                raise PlanError(
                    f"mlc-plan-buffers: tile {k} of mlc.tiles is not made by a kernel of its own:"
                    " run mlc-form-kernels first"
                )
            found[root] = k
    return found


def _meeting(
    loops: Iterable[TilesOp], places: Aliases, counts: dict[SSAValue, int]
) -> dict[SSAValue, int]:
    """Tiles at which trips meet, by group: written where they are read, and where they belong."""
    found: dict[SSAValue, int] = {}
    for loop in loops:
        for k, value in zip(loop.meeting, loop.so_far, strict=True):
            group = places.group(value)
            outside = any(x.owner is loop for x in places.members[group])
            if counts.pop(group, 1) != 1 or group in found or outside:
                raise PlanError(
                    f"mlc-plan-buffers: tile {k} of mlc.tiles, at which trips meet, is not made"
                    " element by element of what it held before"
                )
            found[group] = k
    return found


def _counts(places: Aliases, results: Mapping[SSAValue, int]) -> dict[SSAValue, int]:
    """How many slots each group needs, by the value that stands for it."""
    members: dict[SSAValue, set[SSAValue]] = {}
    for group, values in places.members.items():
        members[group] = {value for value in values if not _is_outside(value, results)}
    counts: dict[SSAValue, int] = {}
    for op in places.kernels:
        if op.overwritten is not None:
            continue
        replaced = {root_of(op.inputs[n]) for n in _replaced(op, places, results)}
        made = Counter(places.group(value) for value in op.outs if value not in results)
        for group, count in made.items():
            busy, held = count, members[group] - replaced
            if len(members[group]) > count:  # others than what is made here
                busy += sum(places.is_live(op, value) for value in held)
            counts[group] = max(counts.get(group, 0), busy)
    return counts


def _replaced(op: KernelOp, places: Aliases, results: Mapping[SSAValue, int]) -> Iterator[int]:
    """The input that a kernel's only result may be written over, wherever it lies, and says so."""
    if len(op.outs) == 1 and op.outs[0] not in results and op.template.data != "rows":
        for number in range(len(op.inputs)):
            if is_replaced(op, 0, number, places):
                write_over(op, 0, number)
                yield number
                return


def _carry_in_place(places: Aliases, counts: dict[SSAValue, int]) -> None:
    """
    What goes round a loop lies in one place where every kernel that makes it reads what went round
    before only at the element that it is about to write, and nobody reads that any more.
    """
    wide = {group for group, count in counts.items() if count > 1}
    makers: dict[SSAValue, list[tuple[KernelOp, int]]] = {}
    for op in places.kernels:
        for k, value in enumerate(op.outs):
            if (group := places.group(value)) in wide:
                makers.setdefault(group, []).append((op, k))
    for group, found in makers.items():
        ops = {op for op, _ in found}
        if len(ops) == len(found) and all(
            op.overwritten is None and may_write(op, k, places, group) for op, k in found
        ):
            counts[group] = 1
            for op, k in found:
                share(op, k, places, group)


def _is_outside(value: SSAValue, results: Mapping[SSAValue, int]) -> bool:
    """Whether the value never lies in the arena: it comes from outside, or is a result."""
    if value in results:
        return True
    owner = value.owner
    return not isinstance(owner, KernelOp | ControlOp | Block) or (
        isinstance(owner, Block) and not isinstance(owner.parent_op(), ControlOp)
    )


def _write_in_place(
    function: FuncOp,
    loops: Iterable[TilesOp],
    places: Aliases,
    counts: dict[SSAValue, int],
    results: dict[SSAValue, int],
) -> None:
    """
    A value that lies in one place from beginning to end, and is copied into a result of the
    function: that place is the result, and the copy goes.
    """
    outside: dict[SSAValue, set[SSAValue]] = {}
    for x in places.values():
        if _is_outside(x, results):
            outside.setdefault(places.group(x), set()).add(x)
    makers: dict[SSAValue, list[tuple[TilesOp, int]]] = {}
    for loop in loops:
        for k, x in enumerate(loop.own):
            makers.setdefault(places.group(x), []).append((loop, k))
    donated = {r: function.body.block.args[k] for k, r in donations_of(function).items()}
    for copy in list(function.body.block.ops):
        if not _is_plain_copy(copy) or copy.outs[0] not in results:
            continue
        value, number = copy.inputs[0], results[copy.outs[0]]
        group = places.group(value)
        if counts.get(group) != 1 or value.type != copy.outs[0].type:
            continue
        argument = donated.get(number)
        if outside.get(group, set()) - {argument} or group in results:
            continue
        if argument is not None and not (
            _may_replace(argument, group, places)
            and _may_replace_tiles(argument, makers.get(group, ()), places)
        ):
            continue
        del results[copy.outs[0]]
        copy.outs[0].replace_all_uses_with(value)
        function.body.block.erase_op(copy)
        results[group] = number
        if argument is not None:
            _start_in_place(argument, group, places)


def _is_plain_copy(op: Operation) -> TypeGuard[KernelOp]:
    return (
        isinstance(op, KernelOp)
        and len(op.inputs) == len(op.outs) == 1
        and list(op.yielded.values) == list(op.block.args)
    )


def _may_replace(argument: SSAValue, group: SSAValue, places: Aliases) -> bool:
    """Whether all kernels that make a group's values may write where the argument lies."""
    old = places.group(argument)
    found = [
        (op, k) for op in places.kernels for k, x in enumerate(op.outs) if places.group(x) is group
    ]
    if not all(op.overwritten is not None or may_write(op, k, places, old) for op, k in found):
        return False
    if any(op.overwritten is not None and places.is_live(op, argument) for op, _ in found):
        return False
    for op, k in found:
        if op.overwritten is None:
            share(op, k, places, old)
    return True


def _may_replace_tiles(
    argument: SSAValue, made: Sequence[tuple[TilesOp, int]], places: Aliases
) -> bool:
    """Whether tile loops may write a group's values where the argument lies."""
    old = places.group(argument)
    for loop, k in made:
        if k >= len(loop.placed) or not may_write_tiles(loop, k, places, old):
            return False
    for loop, k in made:
        share_tiles(loop, k, places, old)
    return True


def _start_in_place(argument: SSAValue, group: SSAValue, places: Aliases) -> None:
    """What starts as a copy of the argument, in the argument's memory, starts as the argument."""
    for op in places.kernels:
        block = op.parent
        if block is None or not _is_plain_copy(op) or op.inputs[0].type != op.outs[0].type:
            continue
        if root_of(op.inputs[0]) is argument and places.group(op.outs[0]) is group:
            op.outs[0].replace_all_uses_with(op.inputs[0])
            block.erase_op(op)


@dataclass(eq=False)
class Storage:
    """Memory for one value at a time, alive from `born` to `dies`, both positions of ops."""

    bytes: Dim
    born: int
    dies: int
    slot: int = -1


class _Lives:
    """The storages of a function, by a walk in program order."""

    def __init__(
        self,
        places: Aliases,
        counts: Mapping[SSAValue, int],
        results: Mapping[SSAValue, int],
        placed: Mapping[SSAValue, int],
        meeting: Mapping[SSAValue, int],
    ) -> None:
        self.places = places
        self.counts = counts
        self.results = results
        self.placed = placed
        self.meeting = meeting  # tiles that stand in their places, by group
        self.storages: list[Storage] = []
        self.private: list[Storage] = []  # of which each thread has its own
        self.around: list[TilesOp] = []
        self.limits: dict[str, Dim] = {}
        self.of: dict[SSAValue, list[Storage]] = {}  # by group
        self.position = 0

    def place(self, value: SSAValue) -> BufferAttr:
        """Where a kernel writes a result."""
        group = self.places.group(value)
        number = self.placed.get(value, self.meeting.get(group))
        if number is not None:
            return BufferAttr(("tile", (number,)))
        number = self.results.get(value, self.results.get(group))
        if number is not None:
            return BufferAttr(("out", (number,)))
        slots = tuple(storage.slot for storage in self.of[group])
        return BufferAttr(("private" if self.of[group][0] in self.private else "arena", slots))

    @property
    def bounds(self) -> dict[str, Dim]:
        """The largest value of each symbol of the tile loops around the op, and of bound ones."""
        tiles = {s: Dim.const(n) for loop in self.around for s, n in loop.sizes.items()}
        return {**self.limits, **tiles}

    def block(self, block: Block) -> set[SSAValue]:
        """Walks a block; gives the groups it uses."""
        used: set[SSAValue] = set()
        for op in block.ops:
            self.position += 1
            used |= self._use(op.operands)
            if isinstance(op, BindOp):
                self.limits[op.symbol.data] = highest(op.highest, self.limits)
            if isinstance(op, ControlOp):
                used |= self._control(op)
            if memory_view(op) is None:
                used |= self._use(op.results)
        return used

    def _use(self, values: Iterable[SSAValue]) -> set[SSAValue]:
        """The groups' storages live until now, and from now on if they are new."""
        groups: set[SSAValue] = set()
        for value in map(root_of, values):
            group = self.places.group(value)
            count = self.counts.get(group, 0)
            if value in self.placed:
                continue
            if not count or group in self.results or _is_outside(value, self.results):
                continue
            groups.add(group)
            if group not in self.of:
                now, size = self.position, highest(bytes_of(value.type), self.bounds)
                self.of[group] = new = [Storage(size, now, now) for _ in range(count)]
                inside = any(loop.spreads for loop in self.around)
                (self.private if inside else self.storages).extend(new)
            for storage in self.of[group]:
                storage.dies = self.position
        return groups

    def _control(self, op: ControlOp) -> set[SSAValue]:
        """What a loop uses from outside lives until its end, and so does what it carries."""
        start = self.position
        used = self._use(op.results)
        if isinstance(op, TilesOp):
            self.around.append(op)
            used |= self._use(op.carried)
        for block in op.blocks:
            used |= self.block(block)
        self.position += 1
        if isinstance(op, TilesOp):
            self.around.pop()
        if op.repeats:
            for group in used:
                for storage in self.of[group]:
                    if storage.born <= start:
                        storage.dies = max(storage.dies, self.position)
        return used


def assign_slots(storages: Iterable[Storage]) -> list[list[Dim]]:
    """
    Sets each storage's slot, and gives for each slot the sizes of which it holds the largest.

    A free slot of the same size is taken first, then among constant sizes the one that fits best
    (the largest one, grown, if none is large enough); sizes with symbols share only when equal.
    """
    slots: list[list[Dim]] = []
    busy: list[tuple[int, int, int]] = []  # a heap: dies, number, slot
    free: list[int] = []
    for number, storage in enumerate(sorted(storages, key=lambda s: s.born)):
        ended: list[tuple[int, int]] = []
        while busy and busy[0][0] < storage.born:
            ended.append(heappop(busy)[1:])
        free += [slot for _, slot in sorted(ended)]
        slot = _choose(storage.bytes, free, slots)
        if slot is None:
            slot = len(slots)
            slots.append([])
        else:
            free.remove(slot)
        storage.slot = slot
        if storage.bytes not in slots[slot]:
            slots[slot] = _largest([*slots[slot], storage.bytes])
        heappush(busy, (storage.dies, number, slot))
    return slots


def _choose(wanted: Dim, free: list[int], slots: list[list[Dim]]) -> int | None:
    for slot in free:
        if wanted in slots[slot]:
            return slot
    size = wanted.constant
    if size is None:
        return None
    known = {s: slots[s][0].constant for s in free if len(slots[s]) == 1}
    constant = {s: held for s, held in known.items() if held is not None}
    if not constant:
        return None
    roomy = {s: held for s, held in constant.items() if held >= size}
    if roomy:
        return min(roomy, key=lambda s: (roomy[s], s))
    return max(constant, key=lambda s: (constant[s], -s))


def _largest(sizes: list[Dim]) -> list[Dim]:
    """Of constants, only the largest."""
    constants = [c for d in sizes if (c := d.constant) is not None]
    symbolic = [d for d in sizes if d.constant is None]
    return [*symbolic, *([Dim.const(max(constants))] if constants else [])]
