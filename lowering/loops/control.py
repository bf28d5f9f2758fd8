"""
Control flow of the entry: regions of tensor ops as scf, around the calls of kernels.

No value is copied from trip to trip: what goes round is the address of each carried value and,
where kernels choose among several slots, the number of the slot in which it lies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects import par
from mlc.dialects.analysis.aliases import Aliases, root_of
from mlc.dialects.analysis.shares import WAIT, WAKING, loads_of, loads_of_tiles
from mlc.dialects.analysis.sweeps import period_of, sweeps_of
from mlc.dialects.analysis.trips import times_run
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, yield_of
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile.kernel import CallOp
from mlc.dialects.waves import Waves
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.function import Kernel
from mlc.lowering.loops.waves import run_waves, waves_of

BYTE = IntegerType(8)
OUTSIDE = -1
"""The slot of what does not lie in the arena."""


@dataclass
class Location:
    """Where a tensor of the entry lies: a 1-D base.

    `strides`, in elements, where it is not row-major. `slot`: the arena's slot.
    """

    base: SSAValue
    strides: tuple[Index, ...] | None = None
    slot: Index = OUTSIDE

    @property
    def is_dense(self) -> bool:
        """Whether elements along the last axis are known to lie together."""
        if not self.strides:
            return self.strides is None
        return isinstance(self.strides[-1], int) and self.strides[-1] == 1


@dataclass(frozen=True)
class Thread:
    """What a thread of a tile loop has for itself: where its kernels' scratch begins, in bytes."""

    scratch: Index


class ControlLowering(ABC):
    """The part of the entry's lowering that knows regions."""

    b: LoopBuilder
    function: func.FuncOp
    context: SSAValue
    homes: dict[SSAValue, Location]
    slots: list[Index]
    private: list[Index]  # slots of the thread, in a tile loop
    thread: Thread | None  # in a tile loop whose trips threads share
    team: tuple[SSAValue, SSAValue] | None  # worker and workers, where one team runs the body
    outputs: list[SSAValue]
    standing: dict[SSAValue, Location]  # groups that have one place while a trip runs

    @abstractmethod
    def _block(self, block: Block) -> None:
        """Lowers a block's ops in order."""

    @abstractmethod
    def _lowered(self, op: KernelOp) -> tuple[Kernel, ...]:
        """The functions of a kernel."""

    @abstractmethod
    def _pass(self, kernels: tuple[Kernel, ...], op: KernelOp | CallOp) -> None:
        """Hands the functions of a kernel, whose results have homes, what they take."""

    @abstractmethod
    def _arena(self, offset: Index, tensor: Attribute) -> SSAValue:
        """The base of a tensor in the arena."""

    @abstractmethod
    def _base_type(self, kind: Attribute, strided: bool) -> MemRefType[Attribute]:
        """The type of a tensor's base."""

    @abstractmethod
    def _trip_number(self, index: Index) -> SSAValue:
        """A buffer that holds the number of a loop's trip, as i64."""

    @abstractmethod
    def _tile_place(self, op: Operation, k: int) -> Location:
        """The place of a tile in the k-th result of the tile loop around an op."""

    @abstractmethod
    def _tiles(self, op: TilesOp) -> None:
        """Lowers a tile loop."""

    @cached_property
    def places(self) -> Aliases:
        """Which values may share memory, and when."""
        return Aliases(self.function)

    # where kernels write ----------------------------------------------------------------------

    def _home(self, op: KernelOp | CallOp, k: int) -> Location:
        """Where a kernel's result shall lie; those before it have their homes already."""
        if op.buffers is None:
            raise PlanError("plan to loops: a kernel has no buffers: run mlc-plan-buffers first")
        place, numbers = op.buffers.data[k].data
        result = op.outs[k]
        if place == "input":
            return self.homes[op.inputs[numbers[0]]]
        if place == "out":
            return Location(self.outputs[numbers[0]])
        if place == "tile":
            return self._tile_place(op, numbers[0])
        slots = self.private if place == "private" else self.slots
        slot: Index = numbers[-1]
        offset = slots[numbers[-1]]
        taken: list[Index] = []
        if len(numbers) > 1:
            taken = self._taken(op, k)
        for number in reversed(numbers[:-1]):
            free: SSAValue | bool = True
            for other in taken:
                free = self.b.both(free, self.b.compare("ne", other, number))
            slot = self.b.choose(free, number, slot)
            offset = self.b.choose(free, slots[number], offset)
        return Location(self._arena(offset, result.type), slot=slot)

    def _taken(self, op: KernelOp | CallOp, k: int) -> list[Index]:
        """The slots of the result's group in which values lie that it may not be written over."""
        places = self.places
        group = places.group(op.outs[k])
        over = op.shared_inputs[k]
        replaced = root_of(op.inputs[over]) if over >= 0 else None
        values = (x for x in places.members[group] if x is not replaced)
        live = [x for x in values if places.is_live(op, x)]
        written = [x for x in op.outs[:k] if places.group(x) is group]
        found = [self.homes[x].slot for x in (*live, *written)]
        return [slot for slot in dict.fromkeys(found) if slot != OUTSIDE]

    # values that regions hand on --------------------------------------------------------------

    def _parts(self, value: SSAValue, like: SSAValue) -> list[SSAValue]:
        """What stands for a value on its way into or out of a region, as one of `like`'s type."""
        if self.places.group(like) in self.standing:
            return []
        home = self.homes[value]
        assert home.strides is None
        wanted = self._base_type(like.type, False)
        base = home.base
        if base.type != wanted:
            cast = memref.CastOp.create(operands=[base], result_types=[wanted])
            base = self.b.value(cast)
        if self.places.group(like) not in self.places.moving:
            return [base]
        return [base, self.b.index(home.slot)]

    def _all_parts(self, values: Sequence[SSAValue], like: Sequence[SSAValue]) -> list[SSAValue]:
        return [p for x, t in zip(values, like, strict=True) for p in self._parts(x, t)]

    def _bind(self, values: Sequence[SSAValue], parts: Sequence[SSAValue]) -> None:
        """The values lie where the parts say."""
        rest = iter(parts)
        for value in values:
            group = self.places.group(value)
            if group in self.standing:
                self.homes[value] = self.standing[group]
                continue
            moves = group in self.places.moving
            base = next(rest)
            self.homes[value] = Location(base, slot=next(rest) if moves else OUTSIDE)

    def _turn(self) -> None:
        """The way back to a loop's beginning: errors and interrupts end it."""
        if not isinstance(self.b.block.last_op, par.CheckOp):
            self._check()

    def _check(self) -> None:
        """
        Leaves the entry on errors and interrupts; the workers of a region go on to its end, or to
        their next barrier.
        """
        if self.thread is None and self.team is None:
            self.b.add_op(par.CheckOp.of(self.context))

    def _wait(self) -> None:
        """Workers wait for each other, and all leave on errors and interrupts; as `_check`."""
        if self.team is None or self.thread is not None:
            self._check()
        else:
            self.b.wait(self.context, *self.team)

    def _alone(self, call: Callable[[], None]) -> None:
        """What one worker of a team does, unless the call is cancelled."""
        if self.team is None or self.thread is not None:
            call()
            return
        first = self.b.compare("eq", self.team[0], 0)
        self.b.when(first, lambda: self._unless_cancelled(call))

    def _unless_cancelled(self, body: Callable[[], None]) -> None:
        stop = self.b.value(par.CancelledOp.of(self.context))
        self.b.when(self.b.negated(stop), body)

    def _available(self) -> SSAValue:
        """The threads that the call may use."""
        return self.b.once(par.ThreadsOp.of(self.context))

    def _loads(self, op: Operation) -> Index:
        """For how many workers an op has work enough."""
        if isinstance(op, TilesOp):
            return self.b.dim(loads_of_tiles(op))
        return self.b.dim(loads_of(cast("KernelOp | CallOp", op)))

    def _workers(self, ops: Sequence[Operation]) -> Index:
        """As many as an op has work for, or, where they sleep, as all together repay waking."""
        b, loads = self.b, [self._loads(op) for op in ops]
        shares = self._largest(loads)
        if isinstance(shares, int) and shares <= 1:
            return 1
        waking: Index = 0
        for op, load in zip(ops, loads, strict=True):
            waking = b.add(waking, b.mul(load, min(times_run(op), WAKING)))
        few = b.div(waking, WAKING)
        return b.value(par.TeamOp.of(self.context, b.index(shares), b.index(few)))

    def _largest(self, sizes: Iterable[Index]) -> Index:
        """The largest of sizes, 0 of none."""
        most: Index = 0
        for size in sizes:
            most = self.b.max(most, size) if most != 0 else size
        return most

    # ops --------------------------------------------------------------------------------------

    def _control(self, op: ControlOp) -> None:
        match op:
            case ForOp():
                self._for(op)
            case WhileOp():
                self._while(op)
            case IfOp():
                self._if(op)
            case TilesOp():
                self._tiles(op)
            case BindOp():
                # a value, also of a constant: types have no number for it
                self.b.symbols[op.symbol.data] = self.b.index(self._count(op.x))
            case _:
                raise PlanError(f"plan to loops: no lowering for {op.name}")

    def _for(self, op: ForOp) -> None:
        block = op.body.block
        number, *arguments = block.args

        def trip(index: Index, *parts: SSAValue) -> list[SSAValue]:
            if number.first_use is not None:
                self.homes[number] = Location(self._trip_number(index))
            self._bind(arguments, parts)
            self._block(block)
            self._turn()
            return self._all_parts(yield_of(block).values, op.outs)

        inits = self._all_parts(op.inits, op.outs)
        b, count, waves = self.b, self._count(op.count), waves_of(op)

        def in_turn() -> tuple[SSAValue, ...]:
            return b.loop(0, count, 1, trip, inits)

        alone: SSAValue | bool = False
        if waves is not None and self.team is not None:
            alone = b.both(b.compare("eq", self.team[1], 1), b.compare("gt", count, 2))
        if isinstance(alone, bool):
            results = in_turn()
        else:
            assert waves is not None
            results = b.pick_all(alone, lambda: self._waves(op, waves, trip, inits), in_turn)
        self._bind(op.outs, results)

    def _waves(
        self, op: ForOp, waves: Waves, trip: Callable[..., list[SSAValue]], inits: list[SSAValue]
    ) -> Sequence[SSAValue]:
        """
        A loop in waves, but its first trips: after these all arrays lie where they do whenever it
        is their turn.
        """
        b, kernels = self.b, [x for x in op.body.block.ops if isinstance(x, KernelOp)]
        parts, homes = [inits], list[dict[SSAValue, Location]]()
        for _ in range(period := period_of(sweeps_of(op))):
            parts.append(trip(0, *parts[-1]))
            homes.append({x: self.homes[x] for kernel in kernels for x in kernel.outs})

        def runs(kernel: KernelOp, turn: int) -> Callable[[Index], None]:
            def run(block: Index) -> None:
                before, team = parts[turn or period], self.team
                self._bind(op.carried, before)
                self.homes |= homes[turn]
                self.team = b.index(block), b.index(waves.blocks)
                self._pass(self._lowered(kernel), kernel)
                self.team = team

            return run

        left = b.sub(self._count(op.count), period)
        turns = [[runs(x, turn) for x in kernels] for turn in range(period)]
        run_waves(b, waves, b.div(left, period), turns, self._wait)
        if period == 1:
            return parts[1]
        odd = b.compare("ne", b.mul(b.div(left, 2), 2), left)
        if isinstance(odd, bool):
            return trip(0, *parts[2]) if odd else parts[2]
        return b.pick_all(odd, lambda: trip(0, *parts[2]), lambda: parts[2])

    def _while(self, op: WhileOp) -> None:
        inits = self._all_parts(op.inits, op.outs)
        types = [x.type for x in inits]
        before, after = Block(arg_types=types), Block(arg_types=types)
        with self.b.inside(before):
            self._bind(op.condition.block.args, before.args)
            self._block(op.condition.block)
            if WAIT in op.attributes:
                self._wait()
            condition = self._truth(op.test)
            if isinstance(condition, bool):
                condition = self.b.constant(IntegerAttr(int(condition), i1), i1)
            self.b.add_op(scf.ConditionOp.create(operands=[condition, *before.args]))
        with self.b.inside(after):
            self._bind(op.body.block.args, after.args)
            self._block(op.body.block)
            self._turn()
            following = self._all_parts(yield_of(op.body.block).values, op.outs)
            self.b.add_op(scf.YieldOp.create(operands=following))
        loop = scf.WhileOp.create(
            operands=inits, result_types=types, regions=[Region(before), Region(after)]
        )
        self.b.add_op(loop)
        self._bind(op.outs, loop.results)

    def _if(self, op: IfOp) -> None:
        condition = self._truth(op.condition)

        def branch(block: Block) -> Callable[[], list[SSAValue]]:
            def run() -> list[SSAValue]:
                self._block(block)
                return self._all_parts(yield_of(block).values, op.outs)

            return run

        then, otherwise = (branch(block) for block in op.blocks)
        if isinstance(condition, bool):
            self._bind(op.outs, then() if condition else otherwise())
            return
        regions: list[Region] = []
        types: list[Attribute] = []
        for run in (then, otherwise):
            block = Block()
            with self.b.inside(block):
                parts = run()
                self.b.add_op(scf.YieldOp.create(operands=parts))
            types = [x.type for x in parts]
            regions.append(Region(block))
        made = scf.IfOp.create(operands=[condition], result_types=types, regions=regions)
        self.b.add_op(made)
        self._bind(op.outs, made.results)

    # numbers that decide ----------------------------------------------------------------------

    def _count(self, value: SSAValue) -> Index:
        """A trip count: a dim, a constant, or a number in memory."""
        owner = value.owner
        if isinstance(owner, SizeOp):
            return self.b.dim(owner.dim)
        if isinstance(owner, ConstantOp):
            return int(owner.array()[()])
        loaded = self.b.load(self.homes[value].base, [0])
        return self.b.value(arith.IndexCastOp.create(operands=[loaded], result_types=[INDEX]))

    def _truth(self, value: SSAValue) -> SSAValue | bool:
        """A condition: a constant, or a byte in memory."""
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return bool(owner.array()[()])
        loaded = self.b.load(self.homes[value].base, [0])
        zero = self.b.constant(IntegerAttr(0, BYTE), BYTE)
        not_equal = {"predicate": IntegerAttr(1, i64)}
        operands = [loaded, zero]
        return self.b.value(
            arith.CmpiOp.create(operands=operands, result_types=[i1], properties=not_equal)
        )
