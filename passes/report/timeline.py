"""
The memory of one call, step by step and by source line: what lies where while each kernel runs.

All of it is known before anything runs: results are allocated when a call begins, and the arena is
reserved then, once, for the sum of its slots and the most scratch that one kernel needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.analysis.aliases import Aliases, donations_of, root_of
from mlc.dialects.analysis.trips import kernel_numbers, phase_numbers, sizes_at, trips_of
from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import shape_of
from mlc.dialects.plan import BufferAttr, KernelOp
from mlc.dialects.plan import Place as Kind
from mlc.dialects.program import ALIGNMENT_BYTES, arena_slots, entry_function
from mlc.dialects.tensor.control import ControlOp, YieldOp, yield_of
from mlc.dialects.tensor.op import TensorOp, bytes_of, element_dtype
from mlc.dialects.tensor.tiles import TilesOp, enclosing_tiles
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place


@dataclass(frozen=True, kw_only=True)
class Held:
    """A value that lies in memory."""

    value: str  # "f32[64, 10]"
    made_by: str  # the op: "exp"; of an argument its name
    bytes: int
    place: str  # "arena 0", "out 1", "argument 2", "private 0" (a tile of each thread)
    source: str  # file:line of that op, or ""


@dataclass(frozen=True, kw_only=True)
class MemoryStep:
    """
    One kernel of the entry, a phase of one, or a loop or branch around the steps that name it as
    `inside`.
    """

    number: int
    kernel: int | None  # its number in the plan; None for loops and branches
    phase: int | None  # of a kernel that is a tile loop
    what: str  # "exp add", "for"
    source: str
    inside: int | None  # the step of the loop or branch around it
    trips: int | None  # of a loop that runs a known number of times
    held: tuple[Held, ...]  # beside the arguments; nothing for loops and branches
    scratch_bytes: int  # of the kernel alone
    live_bytes: int  # held and scratch; of a loop or branch, the most inside it

    @property
    def place(self) -> str:
        """The kernel's number, ``3``, or the phase's, ``3.1``; empty for loops and branches."""
        kernel = "" if self.kernel is None else str(self.kernel)
        return kernel if self.phase is None else f"{kernel}.{self.phase}"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one call, and the steps that need them."""

    arguments_bytes: int
    results_bytes: int  # those that take the place of an argument are not counted
    arena_bytes: int  # slots and scratch: what is reserved when a call begins
    slots_bytes: tuple[int, ...]  # of the arena, in order; multiples of 64
    arguments: tuple[Held, ...]
    steps: tuple[MemoryStep, ...]

    @property
    def peak_bytes(self) -> int:
        """What a call allocates beside its arguments."""
        return self.results_bytes + self.arena_bytes

    @property
    def peak_step(self) -> MemoryStep | None:
        """The first kernel during which the most bytes hold values."""
        kernels = [step for step in self.steps if step.kernel is not None]
        return max(kernels, key=lambda step: step.live_bytes, default=None)


def memory_of(
    module: ModuleOp,
    sizes: Mapping[str, int],
    scratch: Mapping[KernelOp, int] | None = None,
    *,
    reserved_bytes: int | None = None,
    threads: int = 1,
) -> Memory:
    """
    What a call of a planned module allocates. `scratch`: bytes that kernels need themselves.
    `reserved_bytes`: the arena, where it holds more than slots and scratch: areas of so many
    `threads` that run tile loops.
    """
    function = entry_function(module)
    slots = [max(dim.evaluate(sizes) for dim in slot) for slot in arena_slots(function)]
    rounded = tuple(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in slots)
    outputs = function.function_type.outputs
    in_place = set(donations_of(function).values())
    new = [t for k, t in enumerate(outputs) if k not in in_place]
    timeline = _Timeline(function, sizes, scratch or {}, threads)
    timeline.block(function.body.block, None)
    arena = sum(rounded) + max((scratch or {}).values(), default=0)
    return Memory(
        arguments_bytes=sum(x.bytes for x in timeline.arguments),
        results_bytes=sum(bytes_of(t).evaluate(sizes) for t in new),
        arena_bytes=arena if reserved_bytes is None else reserved_bytes,
        slots_bytes=rounded,
        arguments=timeline.arguments,
        steps=tuple(timeline.steps),
    )


def handed_to(user: Operation, operand: int) -> list[SSAValue]:
    """The values that hold what a loop, a branch or their yield takes as an operand."""
    if isinstance(user, ControlOp):
        k = operand - (len(user.operands) - len(user.starts))
        return [user.carried_in(block)[k] for block in user.blocks] if k >= 0 else []
    around = user.parent_op()
    if not isinstance(user, YieldOp) or not isinstance(around, ControlOp):
        return []
    if user.parent not in around.yielding():
        return []
    k = operand - around.first_carried
    again = [around.carried_in(b)[k] for b in around.blocks] if k >= 0 and around.starts else []
    return [*again, around.results[operand]]


def spell(value: SSAValue) -> str:
    """A tensor's dtype and shape, ``f32[B, 10]``."""
    dims = ", ".join(str(dim) for dim in shape_of(value.type))
    return f"{element_dtype(value).name}[{dims}]"


class _Timeline:
    """A walk over the function in the order in which its kernels run."""

    def __init__(
        self,
        function: FuncOp,
        sizes: Mapping[str, int],
        scratch: Mapping[KernelOp, int],
        threads: int,
    ) -> None:
        self.sizes = sizes
        self.threads = threads
        self.scratch = scratch
        self.places = Aliases(function)
        self.alive = dict(self.places.alive())
        self.steps: list[MemoryStep] = []
        self.kernels = kernel_numbers(function)
        self.phases = phase_numbers(function)
        self.replaced = {result: k for k, result in donations_of(function).items()}
        self.arguments = tuple(
            Held(
                value=spell(x),
                made_by=argument_name(function, k),
                bytes=bytes_of(x.type).evaluate(sizes),
                place=f"argument {k}",
                source="",
            )
            for k, x in enumerate(function.body.block.args)
        )
        self.outside = set[SSAValue](function.body.block.args)
        self.makers: dict[SSAValue, tuple[KernelOp, int]] = {}  # of a group: its last kernel
        self.where: dict[SSAValue, tuple[Kind, tuple[int, ...]]] = {}  # results and groups
        self.chosen: dict[SSAValue, int] = {}  # the slot of a value that may lie in several
        self.of_kernels: dict[SSAValue, tuple[KernelOp, int]] = {
            x: (op, k) for op in self.places.kernels for k, x in enumerate(op.outs)
        }
        for op in reversed(self.places.kernels):
            self._note(op)
        for op in function.walk():
            if isinstance(op, TilesOp):
                self._note_tiles(op)

    def _note(self, op: KernelOp) -> None:
        for k, (out, buffer) in enumerate(zip(op.outs, op.buffers or (), strict=False)):
            group = self.places.group(out)
            self.makers.setdefault(group, (op, k))
            self._lies(out, buffer)

    def _note_tiles(self, op: TilesOp) -> None:
        """Where the results of a tile loop lie, of which its kernels write parts."""
        listed = op.attributes.get("buffers")
        found = cast("ArrayAttr[Attribute]", listed) if isinstance(listed, ArrayAttr) else ()
        for value, buffer in zip((*op.own, *op.carried), found, strict=False):
            if isinstance(buffer, BufferAttr):
                self._lies(value, buffer)
        for k, value in enumerate(op.own):
            last = root_of(yield_of(op.body.block).values[k])
            if last in self.of_kernels:
                self.makers.setdefault(self.places.group(value), self.of_kernels[last])

    def _lies(self, value: SSAValue, buffer: BufferAttr) -> None:
        if buffer.data[0] in ("input", "tile"):
            return  # in memory of something else, which is listed itself
        self.where[value] = buffer.data
        group = self.places.group(value)
        if buffer.data[0] != "out" or group not in self.where:
            self.where[group] = buffer.data

    def block(self, block: Block, inside: int | None) -> int:
        """The steps of a block; the most bytes that are live in it."""
        most = 0
        for op in block.ops:
            if isinstance(op, KernelOp) and op in self.kernels:
                most = max(most, self._kernel(op, inside))
            elif isinstance(op, ControlOp) and op.regions:
                most = max(most, self._control(op, inside))
        return most

    def _kernel(self, op: KernelOp, inside: int | None) -> int:
        held = self._held(op)
        scratch = self.scratch.get(op, 0)
        live = scratch + sum(x.bytes for x in held if not x.place.startswith("argument"))
        names = [_name(inner) for inner in op.block.ops if not is_view(inner)]
        places: list[Operation] = [*reversed(list(op.block.ops)), op]
        self.steps.append(
            MemoryStep(
                number=len(self.steps),
                kernel=self.kernels[op],
                phase=self.phases.get(op),
                what=" ".join(filter(None, names)) or "copy",
                source=next((found for inner in places if (found := place(inner))), ""),
                inside=inside,
                trips=None,
                held=held,
                scratch_bytes=scratch,
                live_bytes=live,
            )
        )
        return live

    def _control(self, op: ControlOp, inside: int | None) -> int:
        number = len(self.steps)
        trips = trips_of(op, self.sizes)
        step = MemoryStep(
            number=number,
            kernel=None,
            phase=None,
            what=op.name.removeprefix("mlc."),
            source=place(op),
            inside=inside,
            trips=None if trips is None else trips.evaluate(self.sizes),
            held=(),
            scratch_bytes=0,
            live_bytes=0,
        )
        self.steps.append(step)
        most = max(self.block(block, number) for block in op.blocks)
        self.steps[number] = replace(step, live_bytes=most)
        return most

    def _held(self, op: KernelOp) -> tuple[Held, ...]:
        """What lies in results and arena while a kernel runs, by place."""
        held: dict[tuple[Kind, int], Held] = {}
        written = [x for loop in enclosing_tiles(op) for x in (*loop.own, *loop.carried)]
        for value in (*self.alive[op], *op.outs, *written):
            group = self.places.group(value)
            found = self.where.get(value, self.where.get(group))
            if found is None or value in self.outside:
                continue  # an argument, a constant of the code, or the number of a trip
            kind, numbers = found
            number = numbers[0]
            if len(numbers) > 1:
                number = self._slot(value, numbers, {n for k, n in held if k == kind})
            spelled = f"{kind} {number}"
            if kind == "out" and number in self.replaced:
                spelled = f"argument {self.replaced[number]}"
            held[kind, number] = self._of(value, group, spelled, op)
        return tuple(held.values())

    def _slot(self, value: SSAValue, numbers: tuple[int, ...], taken: set[int]) -> int:
        """One of several slots: where the value lay before, else one that is free."""
        before = self.chosen.get(value)
        if before is None or before in taken:
            before = next((n for n in numbers if n not in taken), numbers[0])
            self.chosen[value] = before
        return before

    def _of(self, value: SSAValue, group: SSAValue, spelled: str, at: KernelOp) -> Held:
        kernel, k = self.of_kernels.get(value, self.makers.get(group, (at, 0)))
        inner = kernel.yielded.values[k].owner
        copies = self.threads if spelled.startswith("private") else 1
        return Held(
            value=spell(value),
            made_by=_name(inner) or "copy",
            bytes=bytes_of(value.type).evaluate(sizes_at(at, self.sizes)) * copies,
            place=spelled,
            source=(place(inner) if isinstance(inner, Operation) else "") or place(kernel),
        )


def _name(op: Operation | Block) -> str:
    """The name of an op that computes; nothing for others."""
    return op.name.removeprefix("mlc.") if isinstance(op, TensorOp) else ""


def argument_name(function: FuncOp, k: int) -> str:
    """What the user calls an argument."""
    attributes = function.arg_attrs
    name = attributes.data[k].data.get("mlc.name") if attributes is not None else None
    hint = function.body.block.args[k].name_hint
    return name.data if isinstance(name, StringAttr) else hint or f"argument {k}"
