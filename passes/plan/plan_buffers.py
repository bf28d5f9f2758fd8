"""The buffer plan: kernels' results live in the function's results or in slots of one arena."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim
from mlc.dialects.plan import BufferAttr, KernelOp, integer, slot_sizes
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.passes.plan.grouping import through_reshapes

ALIGNMENT_BYTES = 64  # of every slot: a cache line, and the widest vector


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """
    Sets `buffers` on kernels, `mlc.carried` on loops and `mlc.arena` on functions.

    Values whose lives do not overlap share a slot (linear scan in order of birth). No kernel writes
    over what it reads. SOURCE: Poletto and Sarkar, "Linear Scan Register Allocation", TOPLAS 21(5).
    """

    name = "mlc-plan-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _plan(function)


def _plan(function: FuncOp) -> None:
    lives = _Lives()
    block = function.body.block
    last = block.last_op
    assert last is not None
    results = {through_reshapes(x, block): k for k, x in reversed(list(enumerate(last.operands)))}
    lives.block(block, set(results))
    slots = assign_slots(lives.storages)
    for op in lives.kernels:
        places = [_place(x, results, lives) for x in op.outs]
        op.properties["buffers"] = ArrayAttr(places)
    for loop, pairs in lives.loops:
        carried = [ArrayAttr([integer(s.slot) for s in pair]) for pair in pairs]
        loop.attributes["mlc.carried"] = ArrayAttr(carried)
    function.attributes["mlc.arena"] = slot_sizes(slots)


def _place(value: SSAValue, results: dict[SSAValue, int], lives: _Lives) -> BufferAttr:
    if value in results:
        return BufferAttr(("out", results[value]))
    return BufferAttr(("arena", lives.own[value].slot))


@dataclass(eq=False)
class Storage:
    """Memory for one value, alive from `born` to `dies`, both positions of ops."""

    bytes: Dim
    born: int
    dies: int
    slot: int = -1


@dataclass
class _Lives:
    """The storages of a function, by a walk in program order."""

    storages: list[Storage] = field(default_factory=list[Storage])
    own: dict[SSAValue, Storage] = field(default_factory=dict[SSAValue, Storage])
    kernels: list[KernelOp] = field(default_factory=list[KernelOp])
    loops: list[tuple[ForOp, list[list[Storage]]]] = field(
        default_factory=list[tuple[ForOp, list[list[Storage]]]]
    )
    position: int = 0

    def __post_init__(self) -> None:
        self._behind: dict[SSAValue, tuple[Storage, ...]] = {}  # where a value may lie

    def block(self, block: Block, placed: set[SSAValue]) -> set[Storage]:
        """Walks a block; values in `placed` need no storage. Gives the storages it uses."""
        used: set[Storage] = set()
        for op in block.ops:
            self.position += 1
            used |= self._use(op.operands)
            match op:
                case KernelOp():
                    self.kernels.append(op)
                    for value in op.outs:
                        if value not in placed:
                            self._behind[value] = (self._new(value),)
                case ReshapeOp():
                    self._behind[op.result] = self._behind.get(op.x, ())
                case ForOp():
                    used |= self._loop(op)
                case _:
                    pass
        return used

    def _new(self, value: SSAValue) -> Storage:
        storage = Storage(bytes_of(value.type), self.position, self.position)
        self.storages.append(storage)
        self.own[value] = storage
        return storage

    def _use(self, values: Iterable[SSAValue]) -> set[Storage]:
        found = {storage for x in values for storage in self._behind.get(x, ())}
        for storage in found:
            storage.dies = max(storage.dies, self.position)
        return found

    def _loop(self, loop: ForOp) -> set[Storage]:
        """Two slots per carried value take turns; what comes from outside lives until the end."""
        start = self.position
        pairs: list[list[Storage]] = []
        for argument, init in zip(loop.carried, loop.inits, strict=True):
            pair = [Storage(bytes_of(init.type), start, start) for _ in range(2)]
            self.storages.extend(pair)
            pairs.append(pair)
            self._behind[argument] = (*pair, *self._behind.get(init, ()))
        for value, pair in zip(loop.yielded.values, pairs, strict=True):
            self.own[value] = pair[0]  # the entry rotates the two; the plan names the first
            self._behind[value] = tuple(pair)
        used = self.block(loop.body.block, set(loop.yielded.values))
        self.position += 1
        used |= {storage for pair in pairs for storage in pair}
        for storage in used:
            if storage.born <= start:
                storage.dies = max(storage.dies, self.position)
        for result, argument in zip(loop.outs, loop.carried, strict=True):
            self._behind[result] = self._behind[argument]
        self.loops.append((loop, pairs))
        return used


def assign_slots(storages: Iterable[Storage]) -> list[list[Dim]]:
    """
    Sets each storage's slot, and gives for each slot the sizes of which it holds the largest.

    A free slot of the same size is taken first, then among constant sizes the one that fits best
    (the largest one, grown, if none is large enough); sizes with symbols share only when equal.
    """
    slots: list[list[Dim]] = []
    busy: list[Storage] = []
    free: list[int] = []
    for storage in sorted(storages, key=lambda s: s.born):
        free += [s.slot for s in busy if s.dies < storage.born]
        busy = [s for s in busy if s.dies >= storage.born]
        slot = _choose(storage.bytes, free, slots)
        if slot is None:
            slot = len(slots)
            slots.append([])
        else:
            free.remove(slot)
        storage.slot = slot
        if storage.bytes not in slots[slot]:
            slots[slot] = _largest([*slots[slot], storage.bytes])
        busy.append(storage)
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


def arena_slots(function: Operation) -> list[tuple[Dim, ...]]:
    """The slots of a planned function, as `mlc.arena` states them."""
    from mlc.dialects.dims import DimsAttr

    arena = function.attributes.get("mlc.arena")
    if not isinstance(arena, DictionaryAttr):
        return []
    slots = [arena.data[str(k)] for k in range(len(arena.data))]
    return [slot.data for slot in slots if isinstance(slot, DimsAttr)]
