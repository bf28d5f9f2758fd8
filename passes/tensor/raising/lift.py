"""
The body of a loop for all of its trips at once: as a batch of examples, one for each trip, which
share the arrays that they read and write parts of.

What differs from trip to trip has a leading axis, by the ops' rules for batches (`batching/`). Of
an array that the loop carries there is one: a read at places c i + f of the trips i is a slice, and
a write changes such a slice, for all trips. So the ops are run one after another, each for all
trips, which is right where `trips_together(…, op_by_op=True)` finds no conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.added import KINDS, Added, letters_at
from mlc.dialects.analysis.dependence import Trips, number_name
from mlc.dialects.analysis.ranges import Ranges, linear_in
from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.numerics import Numerics
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.control import (
    ControlOp,
    ForOp,
    IfOp,
    YieldOp,
    is_inside,
    yield_of,
)
from mlc.dialects.tensor.create import IotaOp, full
from mlc.dialects.tensor.division import DivisorOp
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, MulOp, NegOp, SubOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.passes.tensor.batching.block import Batcher
from mlc.passes.tensor.batching.spread import Spread
from mlc.passes.tensor.chunk_folds import neutral
from mlc.passes.tensor.raising.parts import (
    Start,
    copied,
    moved_axis,
    read_part,
    start_of,
    stepped,
    sum_of,
    value_of,
    written_part,
    written_steps,
)

ZERO, ONE = Dim.const(0), Dim.const(1)
REDUCED: dict[type[TensorOp], str] = {AddOp: "sum", MulOp: "prod", MinOp: "min", MaxOp: "max"}
MOST_ELEMENTS = 2**20
"""Of what an op that is no slice nor element by element makes in all trips, in memory."""


class NotRaisedError(Exception):
    """Why a loop stays one."""


class Places(NamedTuple):
    """Where the trips' parts of an array begin: one after another along an axis, by a step."""

    axis: int
    step: int
    starts: tuple[Start, ...]  # of the part that holds all of them
    extents: Shape


class _Spread(Spread):
    """The values that differ from trip to trip; of the arrays that a loop carries there is one."""

    def __init__(self, varying: Iterable[SSAValue], arrays: set[SSAValue]) -> None:
        super().__init__(varying)
        self.arrays = arrays

    def mark(self, values: Iterable[SSAValue]) -> bool:
        return super().mark(x for x in values if x not in self.arrays)

    def touches(self, op: Operation) -> bool:
        return super().touches(op) or any(
            isinstance(x, DynamicUpdateOp) and x.result in self.arrays for x in op.walk()
        )


class Lift(Batcher):
    """The trips of a loop as ops, which `b` adds; `is_direct`: all parts of arrays are slices."""

    def __init__(self, loop: ForOp, found: Trips, ranges: Ranges, b: OpBuilder) -> None:
        self.loop, self.found, self.ranges = loop, found, ranges
        self.arrays = {x for values in found.arrays.values() for x in values}
        self.number = loop.body.block.args[0]
        count = ranges.of(loop.count)
        if not ranges.is_of_sizes(count):
            raise NotRaisedError("how many trips there are is no size")
        if count.constant is not None and count.constant < 1:
            raise NotRaisedError("there is no trip")
        folded = [loop.carried[k] for k in found.folds]
        spread = _Spread([self.number, *folded], self.arrays)
        spread.block(loop.body.block)
        super().__init__(count, b, spread)
        self.is_direct = True
        self._added = {added.write: added for added in found.added.values()}
        self._between = {op for added in found.added.values() for op in added.between}
        self._between |= {x for added in found.added.values() for x in added.checks().values()}
        self._fixed = {  # symbols that are the same in all trips
            name
            for op in loop.body.walk()
            for x in op.operands
            if not shape_of(x.type) and not self.varies(x)
            for name in ranges.of(x).symbols()
        }

    def check(self, numerics: Numerics, *, loops: bool) -> None:
        """Raises NotRaisedError, unless all can be lifted; `loops`: those that stay inside too."""
        for k, kind in self.found.folds.items():
            self._check_fold(kind, self.loop.inits[k], numerics)
        for op in self.loop.body.walk():
            if op in self._between:
                continue
            match op:
                case YieldOp() | IfOp():
                    pass
                case ForOp() if loops and not self.varies(op.count):
                    pass
                case TensorOp():
                    self._check_op(op)
                case _:
                    raise NotRaisedError(f"it holds {op.name}")

    def _check_fold(self, kind: type[TensorOp], start: SSAValue, numerics: Numerics) -> None:
        dtype = element_dtype(start)
        if dtype.kind not in ("int", "uint") and numerics != "fast":
            raise NotRaisedError(f"numbers of {dtype.name} are added up in their order")
        if MONOIDS[REDUCED[kind]].result(dtype) is not dtype:
            raise NotRaisedError(f"a reduction of {dtype.name} has another dtype")
        if kind in (MinOp, MaxOp) and not self.ranges.is_natural(self.size - 1):
            raise NotRaisedError("there may be no trip, and nothing has no extreme")

    def _check_op(self, op: TensorOp) -> None:
        varies = any(map(self.varies, op.operands))
        held = isinstance(op, WithinOp) and op.holds is not None and varies
        if op.may_fail and not held and not isinstance(op, DivisorOp):
            first = op.parent is self.loop.body.block and not _is_behind_a_write(op)
            if varies or not first or not self.ranges.is_natural(self.size - 1):
                raise NotRaisedError(f"a trip may fail ({op.name})")
        if not varies or op.IS_FREE or isinstance(op, Elementwise | DynamicUpdateOp):
            return
        whole = max(len(shape_of(x.type)) for inner in self.loop.walk() for x in inner.operands)
        room = product((self.size, *op.shape)).constant
        if len(op.shape) >= whole and (room is None or room > MOST_ELEMENTS):
            raise NotRaisedError(f"{op.name} of all trips is larger than all arrays in the loop")

    def run(self) -> list[SSAValue]:
        """The loop's results. Raises NotRaisedError."""
        loop, block = self.loop, self.loop.body.block
        count = (self.size,)
        self.bind([self.number], [self.b(IotaOp, axis=0, declared=tensor_type(i64, count))])
        for k, (carried, start) in enumerate(zip(loop.carried, loop.inits, strict=True)):
            kind = self.found.folds.get(k)
            self.bind([carried], [start if kind is None else self._neutral(kind, start)])
        self.block(block)
        ends = zip(loop.results, yield_of(block).values, strict=True)
        return [self._result(k, out, end) for k, (out, end) in enumerate(ends)]

    def _neutral(self, kind: type[TensorOp], start: SSAValue) -> SSAValue:
        return self.repeated(neutral(self.b, kind, start))

    def _result(self, k: int, out: SSAValue, end: SSAValue) -> SSAValue:
        start = self.loop.inits[k]
        if out.first_use is None or end is self.loop.carried[k]:
            return start
        if (kind := self.found.folds.get(k)) is not None:
            word = "abcdefghij"[: len(shape_of(start.type)) + 1]
            letters = f"{word}->{word[1:]}"
            total = self.b(ReduceOp, self.lanes(end), monoid=REDUCED[kind], letters=letters)
            return self.b(kind, start, total)
        lanes = self.now(end)
        if k in self.found.arrays:
            return lanes
        if not self.ranges.is_natural(self.size - 1):
            raise NotRaisedError("there may be no trip, and what the last one leaves is read")
        if not self.varies(end):
            return lanes
        dims = shape_of(lanes.type)[1:]
        starts = (self.size - 1, *(ZERO for _ in dims))
        last = read_part(self.b, lanes, starts, (ONE, *dims))
        return self.b(ReshapeOp, last, declared=tensor_of(start))

    # ops --------------------------------------------------------------------------------------

    def control(self, op: ControlOp) -> None:
        if not isinstance(op, IfOp) or not self.varies(op.condition):
            super().control(op)
            return
        then = self.now(op.condition)
        ends: list[list[SSAValue]] = []
        for block, taken in zip(op.blocks, (then, self.others(then)), strict=True):
            values = yield_of(block).values
            with self.masked(self.both(self.mask, taken)):
                self.block(block)
            ends.append([self.now(x) if x in self.arrays else self.lanes(x) for x in values])
            for x in values:
                if x in self.arrays:  # the other branch changes what this one has left
                    self.bind([_start_of(x, op)], [self.now(x)])
        for out, x, y in zip(op.outs, *ends, strict=True):
            self.bind([out], [y if out in self.arrays else self.choose(then, x, y)])

    def _tensor_op(self, op: TensorOp) -> None:
        if op in self._between:
            return
        match op:
            case DynamicUpdateOp() if op in self._added:
                new = self._added_up(self._added[op])
            case DynamicUpdateOp() if op.result in self.arrays:
                new = self._written(op)
            case DynamicSliceOp() if not self.varies(op.x):
                new = self._read(op)
            case WithinOp():
                new = self._clamped(op)
            case _:
                super()._tensor_op(op)
                return
        new.name_hint = op.results[0].name_hint
        self.bind(op.results, [new])

    def _read(self, op: DynamicSliceOp) -> SSAValue:
        places = self._places(op, shape_of(op.result.type))
        if places is None:
            self.is_direct = False
            varying = [self.varies(x) for x in op.operands]
            return op.batch(self.b, [self.now(x) for x in op.operands], varying)
        return self._lanes_at(self.now(op.x), places, shape_of(op.result.type))

    def _lanes_at(self, x: SSAValue, places: Places, part: Shape) -> SSAValue:
        b, axis = self.b, places.axis
        x = read_part(b, x, places.starts, places.extents)
        x = moved_axis(b, stepped(b, x, axis, places.step, self.size), axis, 0)
        kind = tensor_type(tensor_of(x).element_type, (self.size, *part))
        return x if x.type == kind else b(ReshapeOp, x, declared=kind)

    def _written(self, op: DynamicUpdateOp) -> SSAValue:
        part = shape_of(op.update.type)
        places = self._places(op, part)
        if places is None:
            if op.fits is None or self.mask is not None:
                raise NotRaisedError("where it writes differs from trip to trip on several axes")
            return self._placed(op, op.offsets, self.lanes(op.update), "set")
        b, axis, x = self.b, places.axis, self.now(op.x)
        # without the axis along which the trips lie, so that rows of one element are none
        rest = (*part[:axis], *part[axis + 1 :])
        kind = tensor_type(op.dtype.ir, (self.size, *rest))
        new = b(ReshapeOp, self.lanes(op.update), declared=kind)
        if self.mask is not None:
            new = self.choose(self.mask, new, self._lanes_at(x, places, rest))
        new = moved_axis(b, new, 0, axis)
        if places.step < 0:
            new = stepped(b, new, axis, -1, self.size)
        if abs(places.step) > 1:
            self.is_direct = False
            old = read_part(b, x, places.starts, places.extents)
            new = written_steps(b, old, new, axis, abs(places.step))
        return written_part(b, x, new, places.starts)

    def _added_up(self, added: Added) -> SSAValue:
        """What all trips add, one after the other, at places that they may have in common."""
        checks, value = added.checks(), self.lanes(added.value)
        offsets = [checks[x].x if x in checks else x for x in added.write.offsets]
        if added.kind is SubOp:
            value = self.b(NegOp, value)
        return self._placed(added.write, offsets, value, KINDS[added.kind])

    def _placed(
        self, op: DynamicUpdateOp, offsets: Sequence[SSAValue], lanes: SSAValue, mode: str
    ) -> SSAValue:
        """What trips write at places that are no slice: elements, or whole axes of them."""
        found = letters_at(op)
        if found is None:
            raise NotRaisedError("it writes a part of an axis, at a place that differs")
        letters, axes = found
        self.is_direct = False
        part = shape_of(op.update.type)
        rest = tuple(n for axis, n in enumerate(part) if axis not in axes)
        kind = tensor_type(op.dtype.ir, (self.size, *rest))
        new = self.b(ReshapeOp, lanes, declared=kind)
        places = [self.lanes(offsets[axis]) for axis in axes]
        return self.b(ScatterOp, self.now(op.x), *places, new, mode=mode, letters=letters)

    def _clamped(self, op: WithinOp) -> SSAValue:
        """An index in its axis where the op stands, and some other where a trip does not come."""
        if op.holds is None or not self.ranges.is_natural(op.extent - 1):
            raise NotRaisedError("an index is checked in each trip")
        shape = (self.size,)
        b, self.is_direct = self.b, False
        last = self.repeated(value_of(b, op.extent - 1))
        return b(MaxOp, b(MinOp, self.lanes(op.x), last), full(b, 0, I64, shape))

    # places -----------------------------------------------------------------------------------

    def _places(self, op: DynamicSliceOp | DynamicUpdateOp, part: Shape) -> Places | None:
        """Where the parts of all trips lie, if they do so along one axis, an element for each."""
        moving = [k for k, x in enumerate(op.offsets) if self.varies(x)]
        if op.fits is None or len(moving) != 1 or part[moving[0]] != ONE:
            return None
        (axis,) = moving
        name = number_name(self.loop, self.ranges)
        factor, rest = linear_in(self.ranges.of(op.offsets[axis]), name)
        step = factor.constant
        if not name or not step or not all(self._is_fixed(x) for x in rest.symbols()):
            return None
        if abs(step) > 1 and not self.ranges.is_natural(self.size - 1):
            return None
        length = (self.size - 1) * abs(step) + 1
        starts = [start_of(x, self.now, self.ranges) for k, x in enumerate(op.offsets) if k != axis]
        low = self._first(op.offsets[axis], rest)
        if step < 0:
            low = sum_of(self.b, low, (self.size - 1) * step)
        starts.insert(axis, low)
        return Places(axis, step, tuple(starts), (*part[:axis], length, *part[axis + 1 :]))

    def _is_fixed(self, name: str) -> bool:
        return name in self._fixed or self.ranges.is_size(name)

    def _first(self, offset: SSAValue, rest: Dim) -> Start:
        """An offset in trip 0."""
        if self.ranges.is_of_sizes(rest):
            return rest
        known = {x: new for x, new in self._now.items() if not self.varies(x)}
        known[self.number] = full(self.b, 0, I64, ())
        return copied(self.b, offset, known, self.varies)


def _is_behind_a_write(op: Operation) -> bool:
    before = op.prev_op
    while before is not None and not any(isinstance(x, DynamicUpdateOp) for x in before.walk()):
        before = before.prev_op
    return before is not None


def _start_of(value: SSAValue, op: IfOp) -> SSAValue:
    """What an array that a branch writes is before it."""
    while is_inside(value, op):
        owner = value.owner
        if isinstance(owner, DynamicUpdateOp):
            value = owner.x
        elif isinstance(owner, IfOp):
            value = yield_of(owner.then.block).values[owner.results.index(value)]
        elif isinstance(owner, ForOp):
            value = owner.inits[owner.results.index(value)]
        else:
            raise NotRaisedError("a branch makes an array of another one")
    return value
