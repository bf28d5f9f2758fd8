"""Loops whose trips are independent become ops on whole arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.dependence import Trips, trips_together
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import product, shape_of
from mlc.dialects.numerics import Numerics, numerics_of
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.bind import bound_in
from mlc.dialects.tensor.control import ControlOp, ForOp, YieldOp, discard, loops_around
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.check_parallel import meeting
from mlc.passes.tensor.dce import DcePass
from mlc.passes.tensor.derivative.emit import Emitter
from mlc.passes.tensor.raising.cuts import cut_at_number, cut_at_value
from mlc.passes.tensor.raising.lift import Lift, NotRaisedError
from mlc.passes.tensor.raising.parts import drop_unused

MOST_CUTS = 3
"""Of a loop, and of what the cuts before have left: text grows with each."""


@dataclass(frozen=True)
class RaiseLoopsPass(ModulePass):
    """
    mlc.for %i to %n iter(%y = %a) { mlc.dynamic_update %y, exp(%x[%i])[%i] }  ->  exp(%x)

    Loops inside one first. Each op of the body becomes one for all trips (`raising/lift.py`), in
    the body's order. That is what the loop computes, bit for bit, where no trip leaves anything to
    a later one (`dialects/analysis/dependence.py`), or leaves it to an op further down, or writes
    what an earlier one has read by an op further up: `y[i] = y[i + 1]`. Sums over the trips become
    reductions: of integers, and of floats in *fast* numerics.

    Where trips meet in one trip only, the loop is cut there (`raising/cuts.py`).

    On a GPU all such loops are raised: there, each trip would be launches of its own. On a CPU a
    loop of elements is one kernel as it is (`mlc-form-nests`): raised are loops that become slices,
    not gathers nor parts; as a whole, or inside a loop that stays where each has enough elements to
    repay a kernel in each trip of that.
    """

    name = "mlc-raise-loops"

    always: bool = False
    """Whether all that may be raised is, as on a GPU."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(x, ForOp) for x in op.walk()):
            return
        DcePass().apply(ctx, op)  # what is carried and nobody reads keeps no trip from another
        target, numerics = target_of(op), numerics_of(op)
        least = 0.0 if self.always else target.kernel_start_s / target.trip_s
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                ranges = Ranges()
                ranges.bind_all(function)
                for loop in list(_outermost(function.body.block)):
                    _Raising(ranges, numerics, least).run(loop)


def _outermost(block: Block) -> Iterator[ForOp]:
    """The loops that a block holds, or branches of it and loops of other kinds."""
    for op in block.ops:
        if isinstance(op, ForOp) and not bound_in(op):
            yield op
        elif isinstance(op, ControlOp) and not op.IS_RIGID:
            for inner in op.blocks:
                yield from _outermost(inner)


@dataclass(frozen=True)
class _Raised:
    """A loop that became ops."""

    elements: int | None  # that these compute; None: the call knows
    is_direct: bool  # by slices


@dataclass
class _Raising:
    """One loop and those in it, tried on a copy."""

    ranges: Ranges
    numerics: Numerics
    least: float  # elements that repay a kernel
    said: list[tuple[Operation, str]] = field(default_factory=list[tuple[Operation, str]])
    kept: int = 0  # innermost loops that stay

    @property
    def always(self) -> bool:
        """Whether each trip would be a kernel, which anything repays."""
        return self.least <= 1

    def run(self, loop: ForOp) -> None:
        """Puts what it becomes in the loop's place, where that pays."""
        trial = _Trial(loop)
        raised = self._loops(trial.block)
        stays = any(isinstance(op, ForOp) for op in trial.block.ops) or any(loops_around(loop))
        if raised and self._repays(raised, stays=stays):
            trial.keep()
        else:
            trial.drop()
            if raised:
                self.said = [(loop, "stays a loop, of one kernel (cost)")]
        for op, text in self.said:
            remark(op, text)

    def _repays(self, raised: Sequence[_Raised], *, stays: bool) -> bool:
        """Whether ops, a kernel at least for each, cost less than the loop as one kernel."""
        if self.always:
            return True
        if not all(one.is_direct for one in raised):
            return False
        return not stays or (
            self.kept == 0
            and all(one.elements is not None and one.elements >= self.least for one in raised)
        )

    def _loops(self, block: Block) -> list[_Raised]:
        """Raises those in a block, inner ones first; gives what has become ops and stays so."""
        found: list[_Raised] = []
        for op in list(block.ops):
            if not isinstance(op, ControlOp):
                continue
            inner = [one for each in op.blocks for one in self._loops(each)]
            if not isinstance(op, ForOp):
                found += inner
                continue
            said = len(self.said)
            try:
                found.append(self._loop(op))
            except NotRaisedError as error:
                self.kept += not inner
                why = " ".join(str(error).split())
                self.said[said:] = [(op, f"stays a loop: {why}")]
                found += inner
        return found

    def _loop(self, loop: ForOp, cuts: int = MOST_CUTS) -> _Raised:
        """One loop, all in which has been raised that can be. Raises NotRaisedError."""
        trial = _Trial(loop)
        try:
            found = self._raised(trial.loop, cuts)
        except NotRaisedError:
            trial.drop()
            raise
        trial.keep()
        return found

    def _raised(self, loop: ForOp, cuts: int) -> _Raised:
        found = trips_together(loop, self.ranges, op_by_op=True)
        conflict = found.conflict
        if conflict is None:
            return self._lifted(loop, found)
        why = meeting(loop, conflict)
        place = conflict.first
        alone = trips_together(loop, self.ranges)  # no trip may need what another one leaves
        if cuts and (trip := cut_at_value(loop, alone, self.ranges)) is not None:
            one = self._loop(loop, 0)
            which = "where the trip that writes what others read stands"
            known = trip.constant
            self.said.append((place, f"cut {which if known is None else f'at trip {known}'}"))
            return one
        if cuts and (cut := cut_at_number(loop, conflict, self.ranges)) is not None:
            at, parts = cut
            raised = [self._loop(part, cuts - 1) for part in parts]
            self.said.append((place, f"cut at trip {at}"))
            known = [one.elements for one in raised if one.elements is not None]
            # each part is a kernel that moves the array
            return _Raised(sum(known) if len(known) == len(raised) else None, is_direct=False)
        raise NotRaisedError(why)

    def _lifted(self, loop: ForOp, found: Trips) -> _Raised:
        new = Block()
        lift = Lift(loop, found, self.ranges, Emitter(new, loop.location))
        lift.check(self.numerics, loops=self.always)
        try:
            values = lift.run()
        except NotRaisedError:
            discard(new)
            raise
        assert loop.parent is not None
        writes = [op for op in loop.body.walk() if isinstance(op, DynamicUpdateOp)]
        sizes = [product((lift.size, *shape_of(op.update.type))) for op in writes]
        elements = max((n.constant or 0 for n in sizes or [lift.size]), default=0)
        ops = list(new.ops)
        for op in ops:
            op.detach()
            loop.parent.insert_op_before(op, loop)
        replaced(loop, values)
        drop_unused(ops)
        self.said.append((loop, "raised"))
        return _Raised(elements or None, lift.is_direct)


class _Trial:
    """A copy of a loop, in a block of its own; what it becomes takes the loop's place, or goes."""

    def __init__(self, loop: ForOp) -> None:
        self.old, self.loop, self.block = loop, loop.clone(), Block()
        self.block.add_op(self.loop)
        self.ends = YieldOp.create(operands=self.loop.results)
        self.block.add_op(self.ends)

    def keep(self) -> None:
        """What stands in the block goes to where the loop is."""
        values = list(self.ends.values)
        assert self.old.parent is not None
        for op in list(self.block.ops):
            op.detach()
            if op is not self.ends:
                self.old.parent.insert_op_before(op, self.old)
        self.ends.erase()
        replaced(self.old, values)

    def drop(self) -> None:
        """The loop stays."""
        discard(self.block)


def replaced(loop: ForOp, values: Sequence[SSAValue]) -> None:
    """These are the loop's results."""
    for old, new in zip(loop.results, values, strict=True):
        new.name_hint = new.name_hint or old.name_hint
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()
