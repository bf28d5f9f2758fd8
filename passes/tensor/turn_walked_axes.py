"""
Arrays lie so that a loop that walks along an axis, part by part, finds the elements of each part
side by side.

`x[:, :, k]` asks for a cache line for each element. With the walked axis first, a part is one run
of memory. What that costs is an array written once more where one order meets the other: arguments
and results lie as their caller has them. Which values are turned is the least cut between both
orders, by what parts and copies cost on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.trips import UNKNOWN_TRIPS, times_run, trips_of
from mlc.dialects.analysis.views import STORED
from mlc.dialects.dims import shape_of
from mlc.dialects.target import Target
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.control import loops_around
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ConcatOp, SliceOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.parts import PARTS, Order, apart
from mlc.passes.cost.sizes import estimate
from mlc.passes.cost.work import ATTO
from mlc.passes.remarks import remark
from mlc.passes.tensor.axis_order import (
    inverse,
    is_element,
    ordered_constant,
    ordered_type,
    reorder,
    thin_axes,
    transposed,
)
from mlc.passes.tensor.min_cut import Sides
from mlc.passes.tensor.ordered_values import OrderedValues, Read

MOST_ORDERS = 3
"""That arrays of one function are brought into, one after the other."""

SURE = 2.5
"""
So many times what turning costs must be saved: kernels of several parts keep some in registers.
Measured: docs/measurements.md, Walked axes.
"""


class Part(NamedTuple):
    """What an op reads or writes of an array: the types of both, and a value that lies likewise."""

    op: Operation
    like: SSAValue
    part: Attribute
    whole: Attribute


@dataclass(frozen=True)
class TurnWalkedAxesPass(ModulePass):
    """
    for k … { slice x[:, :, k] }  ->  t = transpose "abc->cab" x; for k … { slice t[k, :, :] }

    Arrays of which loops read or write single elements stay as they are: who wrote such loops had
    that order in mind. `always`: nothing is asked for what it costs.
    """

    name = "mlc-turn-walked-axes"

    always: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        costs = FREE if self.always else costs_of(target_of(op))
        if costs is None:
            return
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                for _ in range(MOST_ORDERS):
                    if not _turn(function, costs):
                        break


class Costs(NamedTuple):
    """Attoseconds of a part of an array in an order, and of turning an array into one."""

    part: Callable[[Attribute, Attribute, Order], int]
    turn: Callable[[Attribute, Order], int]
    holds: bool = True
    """Whether loops over elements hold arrays where they are."""


def costs_of(target: Target) -> Costs | None:
    """What it takes on a machine; None where nobody says."""
    found = PARTS.get(type(target))
    if found is None:
        return None
    part_s, turn_s = found
    return Costs(partial(part_s, target=target), partial(turn_s, target=target))


def _are_apart(part: Attribute, whole: Attribute, order: Order) -> int:
    return int(apart(part, whole, order) != 1)


def _nothing(kind: Attribute, order: Order) -> int:
    return 0


FREE = Costs(_are_apart, _nothing, holds=False)
"""Where only parts count whose elements are no neighbours."""


def _turn(function: FuncOp, costs: Costs) -> bool:
    """Turns what saves most in one order; whether anything was."""
    parts = list(_parts(function))
    plans = (_plan(function, order, parts, costs) for order in dict.fromkeys(_orders(parts)))
    best = max(plans, key=lambda plan: plan.saved, default=None)
    if best is None or best.saved <= 0:
        return False
    _say(best, parts)
    _Writer(best).write()
    return True


def _parts(function: FuncOp) -> Iterator[Part]:
    """What ops move of arrays; a part that is only put back where it was does not move."""
    for op in outside_kernels(function):
        match op:
            case SliceOp() | DynamicSliceOp():
                if any(not isinstance(use.operation, ConcatOp) for use in op.result.uses):
                    yield Part(op, op.result, op.result.type, op.x.type)
            case DynamicUpdateOp():
                yield Part(op, op.result, op.update.type, op.result.type)
            case ConcatOp():
                for x in op.parts:
                    if not isinstance(x.owner, SliceOp | ConstantOp):
                        yield Part(op, op.result, x.type, op.result.type)
            case _:
                pass


def _orders(parts: Iterable[Part]) -> Iterator[Order]:
    """One for each axis that is walked."""
    for found in parts:
        rank = len(shape_of(found.whole))
        for axis in thin_axes(found.part, found.whole):
            if axis:
                yield (axis, *(k for k in range(rank) if k != axis))


# What is turned


class _Plan(NamedTuple):
    """Values in one order, those groups that are turned, and the attoseconds that a call saves."""

    values: OrderedValues
    turned: frozenset[SSAValue]
    saved: int

    def is_turned(self, value: SSAValue | None) -> bool:
        """Whether what is read like a value is read in the new order."""
        return value is not None and self.values.group(value) in self.turned


def _plan(function: FuncOp, order: Order, parts: Iterable[Part], costs: Costs) -> _Plan:
    """Which values to bring into an order."""
    values, own = OrderedValues.of(function, order), tuple(range(len(order)))
    gains, held = dict[SSAValue, int](), set[SSAValue]()
    for x in parts:
        if not values.has(x.like):
            continue
        group = values.group(x.like)
        if walked := thin_axes(x.part, x.whole):
            now, then = (costs.part(x.part, x.whole, each) for each in (own, order))
            gain = now - then if order[0] in walked else min(now - then, 0)
            gains[group] = gains.get(group, 0) + gain * _runs(x)
        elif costs.holds and is_element(x.part, x.whole) and any(loops_around(x.op)):
            held.add(group)  # loops over elements are written for the order that there is
    gains = {group: round(gain / SURE) for group, gain in gains.items()}
    most = sum(gain for gain in gains.values() if gain > 0)
    if not most:
        return _Plan(values, frozenset(), 0)
    sides = Sides[SSAValue]()
    for group, gain in gains.items():
        (sides.if_stays if gain > 0 else sides.if_moves)(group, abs(gain))
    for group in held:
        sides.if_moves(group, most + 1)
    copies = list(_copies(values, costs))
    for group, other, cost in copies:
        if other is None:
            sides.if_moves(group, cost)
        else:
            sides.if_parted(group, other, cost)
    turned = frozenset(sides.moved())
    paid = sum(cost for one, other, cost in copies if (one in turned) != (other in turned))
    gained = sum(gain for group, gain in gains.items() if group in turned)
    return _Plan(values, turned, gained - paid)


def _runs(x: Part) -> int:
    """How often a part is moved; a loop of unknown trips walks along the axis once."""
    runs, around = 1, list(loops_around(x.op))
    for loop in around:
        trips = trips_of(loop)
        if trips is not None:
            runs *= max(estimate(trips), 1)
        elif loop is around[0]:
            runs *= estimate(shape_of(x.whole)[thin_axes(x.part, x.whole)[-1]])
        else:
            runs *= UNKNOWN_TRIPS
    return runs


def _copies(values: OrderedValues, costs: Costs) -> Iterator[tuple[SSAValue, SSAValue | None, int]]:
    """
    Groups between which a value is written once more where one is turned and the other is not
    (None: what is never turned), and what that costs in a call.
    """
    seen: set[tuple[SSAValue, SSAValue | None]] = set()
    pairs: list[tuple[SSAValue, SSAValue | None]] = [(x, None) for x in values.given]
    pairs += [
        (x.value, x.like) for x in values.reads if x.like is not None or x.value not in values.given
    ]
    for value, like in pairs:
        if isinstance(value.owner, ConstantOp):
            continue
        other = None if like is None else values.group(like)
        if (value, other) not in seen:
            seen.add((value, other))
            block = block_of(value)
            assert block is not None
            inner = block.last_op
            assert inner is not None
            cost = costs.turn(value.type, values.order) * times_run(inner)
            yield values.group(value), other, cost


# Writing it


class _Writer:
    """Brings a function's values into the order of a plan."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.order = plan.values.order
        self.copies: dict[tuple[SSAValue, bool], TensorOp] = {}

    def write(self) -> None:
        """Copies where one order meets the other, then ops and types in the new order."""
        plan, values = self.plan, self.plan.values
        made = [x for x in values.made if plan.is_turned(x)]
        native = frozenset(made)
        for read in values.reads:
            wanted = plan.is_turned(read.like)
            if wanted != (read.value in native):
                self.read_copy(read, wanted)
        for op in dict.fromkeys(x.owner for x in made):
            if isinstance(op, TensorOp):
                reorder(op, self.order)
        for x in made:
            Rewriter.replace_value_with_new_type(x, ordered_type(x.type, self.order))

    def read_copy(self, read: Read, is_turned: bool) -> None:
        """Reads a value in the new order, or one that lies in it in the program's order."""
        copy = self.copies.get((read.value, is_turned))
        if copy is None:
            copy = self.copies[read.value, is_turned] = self.copy(read.value, is_turned)
        # each part would look for its elements where the copy was to spare it that
        if is_turned and isinstance(copy, TransposeOp) and not isinstance(read.op, Elementwise):
            copy.attributes[STORED] = UnitAttr()
        read.op.operands[read.operand] = copy.results[0]

    def copy(self, value: SSAValue, is_turned: bool) -> TensorOp:
        """The op that writes it, right behind the value."""
        block, behind = block_of(value), value.owner
        assert block is not None
        if isinstance(behind, ConstantOp):
            new: TensorOp = ordered_constant(behind, self.order)
        elif is_turned:
            new = transposed(value, self.order, ordered_type(value.type, self.order))
        else:
            new = transposed(value, inverse(self.order), value.type)
        if isinstance(behind, Operation):
            new.location = behind.location
            block.insert_op_after(new, behind)
        else:
            assert block.first_op is not None
            block.insert_op_before(new, block.first_op)
        return new


def _say(plan: _Plan, parts: Iterable[Part]) -> None:
    """What was decided, at the first part that is a run of memory now."""
    axis = plan.values.order[0]
    ops = [x.op for x in parts if plan.is_turned(x.like) and axis in thin_axes(x.part, x.whole)]
    remark(
        ops[0],
        f"arrays that are walked along axis {axis} have it first in memory (exact): saves"
        f" {plan.saved / ATTO * 1e6:.1f} us of a call at least, turning them included",
    )
