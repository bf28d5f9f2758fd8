"""Building loops-level IR in order: loops, conditionals, buffers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol, cast

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StridedLayoutAttr,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from mlc.dialects import par, vec
from mlc.dialects.complex_ops import PARTS, PairOp, PartOp
from mlc.dialects.dtypes import BOOL, DType, dtype_of
from mlc.dialects.lanes import element_of, vector_type
from mlc.dialects.numerics import Numerics
from mlc.dialects.tile.control import NO_UNROLL
from mlc.lowering.loops.arithmetic import INDEX, Index, IndexBuilder
from mlc.lowering.loops.constants import numbers

_UNSAFE = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
"""Pure, and yet not to be computed where it was not asked for."""
_PLACES = (arith.MinSIOp, arith.AddiOp, arith.SubiOp)
"""What clamps a place: LLVM leaves it in a loop of which few registers are left."""
_PARTS = (arith.AddiOp, arith.MuliOp, arith.IndexCastOp, vector.BroadcastOp, vec.StepOp)
"""Of places and of their masks, which take in what they are made of."""

NOT_UNROLLED: dict[str, Attribute] = {NO_UNROLL: UnitAttr()}
"""Of a loop whose trips LLVM leaves as they are."""

NO_FAST_MATH = arith.FastMathFlagsAttr("none")
EITHER_ZERO = arith.FastMathFlagsAttr([FastMathFlag.NO_SIGNED_ZEROS])


def memory_type(dtype: DType) -> Attribute:
    """The element type in memory: bool is a byte."""
    return IntegerType(8) if dtype is BOOL else dtype.register


def item_bytes(element: Attribute) -> int:
    """Bytes of one element in memory."""
    return dtype_of(element).bytes


@cache
def buffer_type(
    element: Attribute, sizes: tuple[int, ...], strided: bool = False, dense: bool = False
) -> MemRefType[Attribute]:
    """A memref; -1 stands for a size known only at run time.

    `strided`: every stride is a run-time value; `dense`: but the last, which is 1.
    """
    shape = [DYNAMIC_INDEX if size < 0 else size for size in sizes]
    if strided:
        strides = [None] * (len(sizes) - dense) + [1] * dense
        return MemRefType(element, shape, StridedLayoutAttr(strides))
    return MemRefType(element, shape)


def as_memref(kind: Attribute) -> MemRefType[Attribute]:
    """The type itself, which must be a memref's."""
    assert isinstance(kind, MemRefType)
    return cast("MemRefType[Attribute]", kind)


def static(index: Index) -> int:
    """The size for a memref type: -1 where it is a value."""
    return index if isinstance(index, int) else -1


RARE: dict[str, Attribute] = {par.RARELY: UnitAttr()}


class CarryingBody(Protocol):
    """The body of a loop with carried values: gives the next ones."""

    def __call__(self, i: Index, /, *carried: SSAValue) -> Sequence[SSAValue] | None:
        """One trip."""
        ...


class LoopBuilder(IndexBuilder):
    """Appends ops to the current block, and blocks to ops."""

    numerics: Numerics = "standard"
    unchanging: frozenset[SSAValue] = frozenset()
    """Buffers that nobody writes while the function runs."""

    # structure ------------------------------------------------------------------------------

    @contextmanager
    def inside(
        self, block: Block, condition: SSAValue | None = None, *, is_arm: bool = False
    ) -> Generator[None]:
        """
        Appends to another block; what is computed there is unknown outside. `condition`: what holds
        wherever the block runs; `is_arm`: it is a branch that will stand where the block is now.
        """
        outer = self.block
        self.block = block
        known = () if condition is None else self._asked.get(condition, ())
        self._known.append(dict.fromkeys(known, True))
        self._before.append(outer if is_arm and self.shares_places else None)
        try:
            yield
        finally:
            self.block = outer
            self._known.pop()
            self._before.pop()

    def loop(
        self,
        low: Index,
        high: Index,
        step: Index,
        body: Callable[[Index], None] | CarryingBody,
        inits: Sequence[SSAValue] = (),
        attributes: dict[str, Attribute] | None = None,
    ) -> tuple[SSAValue, ...]:
        """scf.for: `body(iv, *carried)` gives the next carried values.

        A single static trip is not a loop.
        """
        if isinstance(low, int) and isinstance(high, int) and isinstance(step, int):
            if high <= low:
                return tuple(inits)
            if high <= low + step:
                return tuple(body(low, *inits) or ())
        if low is high:
            return tuple(inits)
        block = Block(arg_types=[INDEX, *(x.type for x in inits)])
        block.args[0].name_hint = "i"
        with self.inside(block):
            result = body(*block.args) or ()
            block.add_op(scf.YieldOp.create(operands=result))
        self._hoist(block)
        bounds = [self.index(low), self.index(high), self.index(step)]
        op = scf.ForOp.create(
            operands=[*bounds, *inits],
            result_types=[x.type for x in inits],
            regions=[Region(block)],
            attributes=attributes or {},
        )
        self.block.add_op(op)
        return tuple(op.results)

    def _hoist(self, body: Block) -> None:
        """
        Moves places that do not change in front of a loop, what it reads in one place in every trip
        and what is computed from that alone. The place exists without a trip too: outer loops have
        reached it.
        """
        moved: set[SSAValue] = set()
        for op in reversed(list(body.ops) if self.shares_places else ()):
            if isinstance(op, _PARTS) and op.results[0].first_use is None:
                op.detach()
                op.erase()
        for op in list(body.ops):
            if isinstance(op, memref.LoadOp):
                may = op.memref in self.unchanging
            else:
                place = isinstance(op, _PLACES) and op.results[0].type == INDEX
                place = place or isinstance(op, vector.CreateMaskOp)
                may = place or (not moved.isdisjoint(op.operands) and op.has_trait(Pure))
                may = may and not isinstance(op, _UNSAFE)
            if may and not any(_is_of(x, body) for x in op.operands):
                op.detach()
                moved.update(self.placed(op))

    def lie_apart(self, x: SSAValue, y: SSAValue) -> SSAValue | bool:
        """Whether two buffers begin at different addresses."""
        op = memref.ExtractAlignedPointerAsIndexOp.get
        return self.compare("ne", self.value(op(x)), self.value(op(y)))

    def begins_at(self, x: SSAValue, multiple: int) -> SSAValue | bool:
        """Whether a buffer's address is a multiple of so many bytes."""
        address = self.value(memref.ExtractAlignedPointerAsIndexOp.get(x))
        return self.compare("eq", self.mul(self.div(address, multiple), multiple), address)

    def when(
        self,
        condition: SSAValue | bool,
        then: Callable[[], object],
        otherwise: Callable[[], object] | None = None,
        *,
        rarely: bool = False,
    ) -> None:
        """scf.if without results; `rarely`: the condition hardly ever holds."""
        if isinstance(condition, bool):
            if condition:
                then()
            elif otherwise is not None:
                otherwise()
            return
        regions: list[Region] = []
        for holds, arm in ((condition, then), (None, otherwise)):
            if arm is None:
                regions.append(Region())
                continue
            block = Block()
            with self.inside(block, holds, is_arm=True):
                arm()
                block.add_op(scf.YieldOp.create())
            regions.append(Region(block))
        attributes = RARE if rarely else {}
        self.add_op(scf.IfOp.create(operands=[condition], regions=regions, attributes=attributes))

    def pick(
        self, condition: SSAValue, then: Callable[[], SSAValue], otherwise: Callable[[], SSAValue]
    ) -> SSAValue:
        """scf.if with one result."""
        return self.pick_all(condition, lambda: (then(),), lambda: (otherwise(),))[0]

    def pick_all(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]],
        *,
        rarely: bool = False,
    ) -> tuple[SSAValue, ...]:
        """scf.if with results; `rarely`: the condition hardly ever holds."""
        regions: list[Region] = []
        kinds: list[Attribute] = []
        for holds, arm in ((condition, then), (None, otherwise)):
            block = Block()
            with self.inside(block, holds, is_arm=True):
                results = arm()
                kinds = [x.type for x in results]
                block.add_op(scf.YieldOp.create(operands=results))
            regions.append(Region(block))
        op = scf.IfOp.create(
            operands=[condition],
            result_types=kinds,
            regions=regions,
            attributes=RARE if rarely else {},
        )
        self.add_op(op)
        return tuple(op.results)

    def wait(self, context: SSAValue, worker: Index, workers: Index) -> None:
        """A team's barrier, at which all leave if the call must stop."""
        stop = self.value(par.BarrierOp.of(context, self.index(worker), self.index(workers)))
        self.add_op(par.LeaveOp.of(stop))

    def take(
        self,
        context: SSAValue,
        trips: Index,
        worker: Index,
        workers: Index,
        body: Callable[[Index], object],
    ) -> None:
        """
        Trips that the first `workers` of a team take one by one, each the next that nobody has. All
        have waited for each other, and taken none since.
        """

        def next_trip(last: Index) -> SSAValue:
            return self.value(par.TakeOp.of(context, self.index(last), self.index(workers)))

        def walk() -> None:
            before, after = Block(arg_types=[INDEX]), Block(arg_types=[INDEX])
            with self.inside(before):
                (trip,) = before.args
                goes_on = self.compare("lt", trip, trips)
                assert not isinstance(goes_on, bool)
                before.add_op(scf.ConditionOp.create(operands=[goes_on, trip]))
            with self.inside(after):
                (trip,) = after.args
                body(trip)
                after.add_op(scf.YieldOp.create(operands=[next_trip(trip)]))
            regions = [Region(before), Region(after)]
            first = next_trip(-1)
            self.add_op(scf.WhileOp.create(operands=[first], result_types=[INDEX], regions=regions))

        self.when(self.compare("lt", worker, workers), walk)

    def region(
        self, context: SSAValue, threads: Index, body: Callable[[SSAValue, SSAValue], None]
    ) -> None:
        """`body(worker, workers)` on so many threads."""
        block = Block(arg_types=[INDEX, INDEX])
        with self.inside(block):
            body(*block.args)
            block.add_op(par.YieldOp.create())
        self.add_op(par.RegionOp.of(context, self.index(threads), Region(block)))

    # memory ---------------------------------------------------------------------------------

    def cell(self, element: Attribute, count: int) -> SSAValue:
        """A few elements on the stack, from a cache line on."""
        none = DenseArrayBase.from_list(i32, [0, 0])
        properties: dict[str, Attribute] = {
            "operandSegmentSizes": none,
            "alignment": IntegerAttr(64, i64),
        }
        kind = buffer_type(element, (count,))
        return self.value(memref.AllocaOp.create(result_types=[kind], properties=properties))

    def load(self, buffer: SSAValue, at: Sequence[Index]) -> SSAValue:
        """One element; of a buffer that nobody writes, as it was read before."""
        operands = [buffer, *(self.index(i) for i in at)]
        element = as_memref(buffer.type).element_type
        op = memref.LoadOp.create(operands=operands, result_types=[element])
        return self.once(op, stays=True) if buffer in self.unchanging else self.value(op)

    def store(self, value: SSAValue, buffer: SSAValue, at: Sequence[Index]) -> None:
        """One element."""
        self.block.add_op(
            memref.StoreOp.create(operands=[value, buffer, *(self.index(i) for i in at)])
        )

    def load_vector(
        self,
        buffer: SSAValue,
        at: Sequence[Index],
        kind: VectorType[Attribute],
        mask: SSAValue | None,
        fill: SSAValue | None,
    ) -> SSAValue:
        """Consecutive elements; where the mask is false, those of `fill`."""
        indices = [self.index(i) for i in at]
        if mask is None:
            return self.value(
                vector.LoadOp.create(operands=[buffer, *indices], result_types=[kind])
            )
        assert fill is not None
        return self.value(
            vector.MaskedLoadOp.create(operands=[buffer, *indices, mask, fill], result_types=[kind])
        )

    def store_vector(
        self, value: SSAValue, buffer: SSAValue, at: Sequence[Index], mask: SSAValue | None
    ) -> None:
        """Consecutive elements; nothing is written where the mask is false."""
        indices = [self.index(i) for i in at]
        if mask is None:
            self.block.add_op(vector.StoreOp.create(operands=[value, buffer, *indices]))
        elif _first_lane_alone(mask):
            # one element is a plain store; LLVM 22 would write all bits of a truncated one
            self.store(self.lane(value, 0), buffer, at)
        else:
            self.block.add_op(vector.MaskedStoreOp.create(operands=[buffer, *indices, mask, value]))

    def lane(self, values: SSAValue, number: int) -> SSAValue:
        """One element of a vector; of complex elements its parts, as `vector` has no others."""
        element = element_of(values.type)
        if isinstance(element, ComplexType):
            parts = [self.lane(self.value(PartOp.of(values, p)), number) for p in PARTS]
            return self.value(PairOp.of(*parts))
        return self.value(
            vector.ExtractOp.create(
                operands=[values],
                result_types=[element],
                properties={"static_position": numbers((number,))},
            )
        )

    def with_lane(self, values: SSAValue, number: int, value: SSAValue) -> SSAValue:
        """The vector with another element in one lane."""
        if isinstance(value.type, ComplexType):
            parts = [
                self.with_lane(
                    self.value(PartOp.of(values, p)), number, self.value(PartOp.of(value, p))
                )
                for p in PARTS
            ]
            return self.value(PairOp.of(*parts))
        return self.value(
            vector.InsertOp.create(
                operands=[value, values],
                result_types=[values.type],
                properties={"static_position": numbers((number,))},
            )
        )

    def mask(self, count: Index, lanes: int) -> SSAValue:
        """The first `count` lanes."""
        op = vector.CreateMaskOp.create(
            operands=[self.index(count)], result_types=[vector_type(i1, lanes)]
        )
        return self.once(op, stays=True)

    def last_lanes(self, count: int, lanes: int) -> SSAValue:
        """A mask of the last `count` lanes."""
        masks = cast("VectorType[IntegerType]", vector_type(i1, lanes))
        mask = [int(k >= lanes - count) for k in range(lanes)]
        return self.constant(DenseIntOrFPElementsAttr.from_list(masks, mask), masks)

    def both_masks(self, x: SSAValue | None, y: SSAValue | None) -> SSAValue | None:
        """The lanes of both masks; None stands for all."""
        if x is None or y is None:
            return y if x is None else x
        op = arith.AndIOp.create(operands=[x, y], result_types=[x.type])
        return self.once(op, stays=True)

    def shuffled(self, x: SSAValue, y: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """The lanes of x and, counted on, of y, by their numbers."""
        return self.value(
            vector.ShuffleOp.create(
                operands=[x, y],
                result_types=[vector_type(element_of(x.type), len(lanes))],
                properties={"mask": numbers(tuple(lanes))},
            )
        )

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        """A scalar in every lane."""
        kind = vector_type(value.type, lanes)
        return self.once(
            vector.BroadcastOp.create(operands=[value], result_types=[kind]), stays=True
        )

    def view(
        self, base: SSAValue, sizes: Sequence[Index], strides: Sequence[Index] | None = None
    ) -> SSAValue:
        """A base pointer (1-D memref) as a row-major memref, or with strides, in elements."""
        element = as_memref(base.type).element_type
        dense = bool(strides) and isinstance(strides[-1], int) and strides[-1] == 1
        kind = buffer_type(element, tuple(map(static, sizes)), strides is not None, dense)
        if kind == base.type:
            return base
        key = ("view", base, kind, tuple(sizes), tuple(strides or ()))
        for scope in reversed(self._known):
            known = scope.get(key)
            if isinstance(known, SSAValue):
                return known
        if strides is None:
            strides = [self.product(sizes[k + 1 :]) for k in range(len(sizes))]

        def split(values: Sequence[Index]) -> tuple[list[SSAValue], DenseArrayBase]:
            dynamic = [self.index(v) for v in values if not isinstance(v, int)]
            fixed = [v if isinstance(v, int) else DYNAMIC_INDEX for v in values]
            return dynamic, numbers(tuple(fixed))

        size_values, static_sizes = split(sizes)
        if isinstance(kind.layout, StridedLayoutAttr):
            stride_values = [self.index(v) for v in strides[: len(strides) - dense]]
            fixed = [DYNAMIC_INDEX] * len(stride_values) + [1] * dense
            static_strides = numbers(tuple(fixed))
        else:
            stride_values, static_strides = split(strides)
        op = memref.ReinterpretCastOp.create(
            operands=[base, *size_values, *stride_values],
            result_types=[kind],
            properties={
                "static_offsets": numbers((0,)),
                "static_sizes": static_sizes,
                "static_strides": static_strides,
                "operandSegmentSizes": DenseArrayBase.from_list(
                    i32, [1, 0, len(size_values), len(stride_values)]
                ),
            },
        )
        view = self.value(op)
        self._known[-1][key] = view
        return view


def _is_of(value: SSAValue, block: Block) -> bool:
    """Whether a value is computed in a block, or is its argument."""
    owner = value.owner
    return owner is block or (isinstance(owner, Operation) and owner.parent is block)


def _first_lane_alone(mask: SSAValue) -> bool:
    """Whether the mask is known to hold for the first lane and no other."""
    if not isinstance(mask.owner, vector.CreateMaskOp):
        return False
    count = mask.owner.operands[0].owner
    return isinstance(count, arith.ConstantOp) and count.value == IntegerAttr(1, INDEX)
