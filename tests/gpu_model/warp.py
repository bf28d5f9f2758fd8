"""A warp: 32 threads that run a kernel's ops together, those of them for which conditions hold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.lanes import element_of, lanes_of
from mlc.dialects.launch import TensorMap
from mlc.runtime.tiles.team import Wait
from tests.gpu_model.clocks import Clock, Known, ModelError
from tests.gpu_model.engine import Pending
from tests.gpu_model.lanes import RULES, WARP, numpy_of, shape_of
from tests.gpu_model.memory import Memory
from tests.gpu_model.shared import Shared

Array = NDArray[Any]
GROUP = 4  # warps
DYNAMIC = 144  # where dynamic memory begins: no multiple of more than 16
Steps = Generator[Wait | None, None, list[Any]]


@dataclass
class Ref:
    """A buffer: an address for each lane, bytes from place to place; in shared memory or not."""

    at: Array
    strides: tuple[Any, ...]
    item: int
    shared: bool = False


@dataclass
class Asked:
    """A copy that is under way."""

    run: Callable[[], None]
    warp: int
    stores: bool = False


class BlockOf:
    """One block of threads."""

    def __init__(
        self, number: tuple[int, ...], grid: tuple[int, ...], size: tuple[int, int, int],
        shared: Shared, memory: Memory, dynamic: int, cluster: list[BlockOf],
    ) -> None:  # fmt: skip
        self.number, self.grid, self.size = number, grid, size
        self.threads = threads = prod(size)
        self.shared, self.memory, self.dynamic = shared, memory, dynamic
        self.static: dict[Operation, int] = {}
        self.used = dynamic
        self.asked: list[Asked] = []
        self.products: dict[tuple[int, int], list[Pending]] = {}
        self.warps = self.running = -(-threads // WARP)
        self.rank = len(cluster)
        self.arrived = self.passed = 0  # warps at the barrier of the block, and barriers passed
        self.cluster = cluster  # its blocks, this one among them
        self.copies = 0  # that the cluster has asked for, in its first block
        self.met = self.meetings = 0  # warps at the barrier of the cluster, and barriers passed
        self.told: dict[tuple[str, int], Known] = {}  # at barriers
        self.touched = np.zeros_like(shared.history.last)  # when others have used this one
        self.known = Known(self.touched.size)  # of a block that has ended

    def peer(self, rank: int, op: Operation, clock: Clock) -> BlockOf:
        """A block of the cluster, which is known to run, and still there."""
        if not 0 <= rank < len(self.cluster):
            raise ModelError(f"{op.name}: block {rank} of a cluster of {len(self.cluster)}")
        found = self.cluster[rank]
        if found is self:
            return found
        if not found.running:
            raise ModelError(f"{op.name}: block {rank} of the cluster has ended")
        if not clock.at[rank * self.warps : (rank + 1) * self.warps].any():
            raise ModelError(f"{op.name}: block {rank} of the cluster may have not begun")
        found.touched[clock.own] = clock.at[clock.own]
        return found

    def end(self, clock: Clock) -> None:
        """Of a warp: after the last one no other block touches this one."""
        self.running -= 1
        self.known.learn(clock)
        if not self.running and (self.touched > self.known.at).any():
            raise ModelError(f"block {self.rank} of a cluster may have ended while it is used")


class Lanes:
    """One warp on its way through a kernel: control, places and memory."""

    def __init__(self, block: BlockOf, number: int, arguments: dict[SSAValue, Any]) -> None:
        self.block, self.number = block, number
        warps = block.shared.history.last.size
        self.clock = Clock(block.rank * block.warps + number, warps)
        self.values: dict[SSAValue, Any] = dict(arguments)
        self.mask = np.arange(WARP) + number * WARP < block.threads
        self.flying: list[Pending] = []  # products
        self.started = 0
        self.stores: list[Array] = []  # what the copy engine reads for this warp
        self.groups: list[list[Callable[[], None]]] = [[]]  # of this warp's own copies

    def run(self, body: Block) -> Steps:
        """The whole kernel."""
        yield from self.ops(body)
        self.block.end(self.clock)
        if self.flying or any(self.groups):
            raise ModelError(f"warp {self.number} ends before what it began is done")
        return []

    def ops(self, block: Block) -> Steps:
        """A region; what it yields."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp | func.ReturnOp):
                return [self.values[x] for x in op.operands]
            rule = RULES.get(op.name)
            if rule is not None:
                self.values[op.results[0]] = rule(op, *(self.known(x) for x in op.operands))
                continue
            found = yield from self.step(op)
            self.values.update(zip(op.results, found, strict=True))
        return []

    def known(self, x: SSAValue) -> Any:
        """A value that is there."""
        found = self.values[x]
        if isinstance(found, Pending):
            raise ModelError(f"sums of {x.owner} are used before they are waited for")
        return found

    def step(self, op: Operation) -> Steps:
        """An op with effects, or one that others may take turns at."""
        if isinstance(op, scf.IfOp):
            return (yield from self.branch(op))
        if isinstance(op, scf.ForOp):
            return (yield from self.loop(op))
        if isinstance(op, scf.WhileOp):
            return (yield from self.while_loop(op))
        name = op.name.replace(".", "_")
        handler = getattr(self, name, None)
        if handler is None:
            raise ModelError(f"the model does not know {op.name}")
        found = handler(op)
        if isinstance(found, Generator):
            found = yield from cast("Steps", found)
        return list(found or [])

    # control --------------------------------------------------------------------------------------

    def branch(self, op: scf.IfOp) -> Steps:
        whole = self.mask
        condition = self.known(op.cond)
        found: list[list[Any] | None] = [None, None]
        for number, (region, mask) in enumerate(
            ((op.true_region, whole & condition), (op.false_region, whole & ~condition))
        ):
            if mask.any() and region.blocks:
                self.mask = mask
                found[number] = yield from self.ops(region.block)
        self.mask = whole
        first, second = found
        if not op.results:
            return []
        if first is None or second is None:
            return first or second or [self._nothing(x) for x in op.results]
        return [_merged(condition, x, y) for x, y in zip(first, second, strict=True)]

    @staticmethod
    def _nothing(x: SSAValue) -> Array:
        return np.zeros(shape_of(x.type), numpy_of(element_of(x.type)))

    def loop(self, op: scf.ForOp) -> Steps:
        low, high, step = (self.known(x) for x in op.operands[:3])
        body, whole = op.body.block, self.mask
        carried, i = [self.values[x] for x in op.operands[3:]], low.copy()
        while True:
            mask = whole & (i < high)
            if not mask.any():
                break
            self.mask = mask
            self.values.update(zip(body.args, [i.copy(), *carried], strict=True))
            found = yield from self.ops(body)
            same = bool((mask == whole).all())
            carried = [
                x if same else _merged(mask, x, y) for x, y in zip(found, carried, strict=True)
            ]
            i = i + step
        self.mask = whole
        return carried

    def while_loop(self, op: scf.WhileOp) -> Steps:
        """Threads leave one by one; what they have then stays."""
        before, after = op.before_region.block, op.after_region.block
        whole, carried = self.mask, [self.values[x] for x in op.operands]
        left: list[Any] = [self._nothing(x) for x in op.results]
        while self.mask.any():
            self.values.update(zip(before.args, carried, strict=True))
            condition, *values = yield from self.ops(before)
            left = [_merged(self.mask, x, y) for x, y in zip(values, left, strict=True)]
            self.mask = self.mask & condition
            if not self.mask.any():
                break
            self.values.update(zip(after.args, values, strict=True))
            found = yield from self.ops(after)
            carried = [_merged(self.mask, x, y) for x, y in zip(found, carried, strict=True)]
        self.mask = whole
        return left

    # places ---------------------------------------------------------------------------------------

    def _place(self, numbers: Sequence[int], op: Operation) -> list[Array]:
        axis = "xyz".index(str(cast("Any", op.properties["axis"]).data))
        return [np.full(WARP, numbers[axis] if axis < len(numbers) else 0, np.int64)]

    def mlc_gpu_thread_id(self, op: Operation) -> list[Array]:
        axis = str(cast("Any", op.properties["axis"]).data)
        own = np.arange(WARP, dtype=np.int64) + self.number * WARP
        x, y, _ = self.block.size
        return [{"x": own % x, "y": own // x % y, "z": own // (x * y)}[axis]]

    def mlc_gpu_block_id(self, op: Operation) -> list[Array]:
        return self._place(self.block.number, op)

    def mlc_gpu_grid_dim(self, op: Operation) -> list[Array]:
        return self._place(self.block.grid, op)

    def mlc_gpu_block_dim(self, op: Operation) -> list[Array]:
        return self._place(self.block.size, op)

    # memory ---------------------------------------------------------------------------------------

    def mlc_gpu_shared(self, op: Operation) -> list[Ref]:
        block = self.block
        kind = cast("MemRefType[Attribute]", op.results[0].type)
        if op not in block.static:
            size = int(np.prod(kind.get_shape())) * _item(kind)
            block.static[op] = block.used
            block.used += -(-size // 16) * 16
        at = np.full(WARP, block.static[op], np.int64)
        return [Ref(at, _row_major(kind.get_shape()), _item(kind), shared=True)]

    def memref_reinterpret_cast(self, op: Operation) -> list[Ref]:
        source = self.values[op.operands[0]]
        dynamic = iter([self.known(x) for x in op.operands[1:]])

        def mixed(name: str) -> list[Any]:
            given = cast("DenseArrayBase[Any]", op.properties[name]).get_values()
            return [next(dynamic) if n == DYNAMIC_INDEX else int(n) for n in given]

        (offset,), _, strides = map(mixed, ("static_offsets", "static_sizes", "static_strides"))
        item = _item(cast("MemRefType[Attribute]", op.results[0].type))
        return [Ref(source.at + offset * item, tuple(strides), item, source.shared)]

    def memref_cast(self, op: Operation) -> list[Ref]:
        return [self.values[op.operands[0]]]

    def mlc_par_shift(self, op: Operation) -> list[Ref]:
        source, offset = (self.values[x] for x in op.operands[:2])
        kind = cast("MemRefType[Attribute]", op.results[0].type)
        item, shape = _item(kind), list(kind.get_shape())
        rest = iter([self.known(x) for x in op.operands[2:]])
        sizes = [next(rest) if n == DYNAMIC_INDEX else n for n in shape]
        return [Ref(source.at + offset * source.item, _row_major(sizes), item, source.shared)]

    def bytes_at(
        self, ref: Ref, at: Sequence[SSAValue], count: int, mask: Array, op: Operation
    ) -> Array:
        """Addresses of the bytes [lane, …] of so many elements, of some lanes."""
        begin = ref.at.astype(np.int64).copy()
        for x, stride in zip(at, ref.strides, strict=True):
            begin = begin + self.known(x) * stride * ref.item
        aligned = op.attributes.get("alignment")
        if isinstance(aligned, IntegerAttr) and (begin[mask] % aligned.value.data).any():
            raise ModelError(f"{op.name}: not at a multiple of {aligned.value.data} bytes")
        return begin[mask, None] + np.arange(count * ref.item)

    def _read(self, ref: Ref, at: Array, op: Operation) -> Array:
        if ref.shared:
            return self.block.shared.read(at.reshape(-1), op, self.clock).reshape(at.shape)
        return self.block.memory.data[self.block.memory.places(at, op)]

    def _write(self, ref: Ref, at: Array, values: Array, op: Operation) -> None:
        if ref.shared:
            self.block.shared.write(at.reshape(-1), values.reshape(-1), op, self.clock)
        else:
            self.block.memory.data[self.block.memory.places(at, op)] = values

    def _loaded(self, op: Operation, kind: Attribute) -> list[Array]:
        ref, at = self.values[op.operands[0]], op.operands[1:]
        found = self._nothing_like(kind)
        if self.mask.any():
            raw = self._read(ref, self.bytes_at(ref, at, lanes_of(kind) or 1, self.mask, op), op)
            raw = np.ascontiguousarray(raw).view(found.dtype)
            found[self.mask] = raw[:, 0] if found.ndim == 1 else raw
        return [found]

    @staticmethod
    def _nothing_like(kind: Attribute) -> Array:
        return np.zeros(shape_of(kind), numpy_of(element_of(kind)))

    def memref_load(self, op: Operation) -> list[Array]:
        return self._loaded(op, op.results[0].type)

    def vector_load(self, op: Operation) -> list[Array]:
        return self._loaded(op, op.results[0].type)

    def mlc_vec_gather(self, op: Any) -> list[Array]:
        ref, offsets = self.values[op.base], self.known(op.offsets)
        mask, found = self.known(op.mask), self.known(op.passthru).copy()
        whole = self.mask
        for k in range(found.shape[1]):
            self.mask = whole & mask[:, k]
            if self.mask.any():
                moved = Ref(ref.at + offsets[:, k] * ref.item, ref.strides, ref.item, ref.shared)
                at = self.bytes_at(moved, op.indices, 1, self.mask, op)
                raw = np.ascontiguousarray(self._read(moved, at, op))
                found[self.mask, k] = raw.view(found.dtype)[:, 0]
        self.mask = whole
        return [found]

    def mlc_par_fail(self, op: Any) -> None:
        """The error word is not looked at."""

    def _stored(self, op: Operation, value: Array, ref: Ref, at: Sequence[SSAValue]) -> None:
        count = 1 if value.ndim == 1 else value.shape[1]
        if self.mask.any():
            raw = np.ascontiguousarray(value[self.mask]).reshape(-1, count).view(np.uint8)
            self._write(ref, self.bytes_at(ref, at, count, self.mask, op), raw, op)

    def memref_store(self, op: Operation) -> None:
        value, ref = self.known(op.operands[0]), self.values[op.operands[1]]
        self._stored(op, value, ref, op.operands[2:])

    vector_store = memref_store

    def vector_maskedstore(self, op: Operation) -> None:
        ref, at = self.values[op.operands[0]], op.operands[1:-2]
        mask, value = self.known(op.operands[-2]), self.known(op.operands[-1])
        whole = self.mask
        for k in range(value.shape[1]):
            self.mask = whole & mask[:, k]
            moved = Ref(ref.at + k * ref.item, ref.strides, ref.item, ref.shared)
            self._stored(op, value[:, k], moved, at)
        self.mask = whole

    def vector_maskedload(self, op: Operation) -> list[Array]:
        ref, at = self.values[op.operands[0]], op.operands[1:-2]
        mask, found = self.known(op.operands[-2]), self.known(op.operands[-1]).copy()
        whole = self.mask
        for k in range(found.shape[1]):
            self.mask = whole & mask[:, k]
            if self.mask.any():
                moved = Ref(ref.at + k * ref.item, ref.strides, ref.item, ref.shared)
                raw = self._read(moved, self.bytes_at(moved, at, 1, self.mask, op), op)
                found[self.mask, k] = np.ascontiguousarray(raw).view(found.dtype)[:, 0]
        self.mask = whole
        return [found]


def _merged(mask: Array, x: Any, y: Any) -> Any:
    """The first where the mask holds."""
    if x is y:
        return x
    if isinstance(x, Pending) or isinstance(y, Pending):
        raise ModelError("sums that are not waited for in some threads of a warp")
    given: tuple[Array, Array] = (x, y)
    return np.where(mask if given[0].ndim == 1 else mask[:, None], *given)


def _item(kind: MemRefType[Attribute]) -> int:
    element = kind.element_type
    return int(cast("Any", numpy_of(element)).itemsize)


def _row_major(sizes: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if sizes else ()


def argument(kind: Attribute, given: Any) -> tuple[Any, int]:
    """A kernel's argument of all lanes, and how many parameters it takes."""
    if not isinstance(kind, MemRefType):
        if isinstance(given[0], TensorMap):
            return given[0], 1
        return np.full(WARP, given[0], np.int64), 1
    buffer = cast("MemRefType[Attribute]", kind)
    at = np.full(WARP, given[0], np.int64)
    shape = list(buffer.get_shape())
    layout = buffer.layout
    if isinstance(layout, StridedLayoutAttr):
        rest = iter(given[1:])
        steps = [
            x.data if isinstance(x, IntAttr) else np.full(WARP, next(rest), np.int64)
            for x in layout.strides.data
        ]
        taken = sum(not isinstance(x, IntAttr) for x in layout.strides.data)
        return Ref(at, tuple(steps), _item(buffer)), 1 + taken
    rest, taken = iter(given[1:]), 0
    sizes: list[Any] = shape[:1]
    for n in shape[1:]:
        taken += n == DYNAMIC_INDEX
        sizes.append(np.full(WARP, next(rest), np.int64) if n == DYNAMIC_INDEX else n)
    return Ref(at, _row_major(sizes), _item(buffer)), 1 + taken
