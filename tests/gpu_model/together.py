"""What threads do together: barriers, shuffles, copies and products."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dtypes import F32
from mlc.dialects.launch import TensorMap
from mlc.runtime.tiles.team import Wait
from tests.gpu_model.clocks import Known, ModelError
from tests.gpu_model.engine import Array, Box, Pending, product
from tests.gpu_model.lanes import WARP, numpy_of
from tests.gpu_model.shared import Barrier
from tests.gpu_model.warp import Asked, BlockOf, Lanes, Steps

GROUP = 4  # warps
DYNAMIC = 144  # where dynamic memory begins: no multiple of more than 16


class Warp(Lanes):
    """A warp that knows of others."""

    # what threads do together ---------------------------------------------------------------------

    def mlc_gpu_barrier(self, op: Operation) -> Steps:
        block, mine = self.block, self.block.passed
        told = self._told("block", block, mine)
        block.arrived += 1
        if block.arrived == block.warps:
            block.arrived, block.passed = 0, mine + 1
        yield Wait(lambda: block.passed > mine, op.name)
        self.clock.learn(told)
        return []

    def _told(self, what: str, block: BlockOf, number: int) -> Known:
        """What all those who have come to a barrier know."""
        found = block.told.setdefault((what, number), Known(self.clock.at.size))
        found.learn(self.clock.tell())
        return found

    def mlc_gpu_cluster_barrier(self, op: Operation) -> Steps:
        cluster = self.block.cluster
        first, mine = cluster[0], cluster[0].meetings
        told = self._told("cluster", first, mine)
        first.met += 1
        if first.met == sum(x.warps for x in cluster):
            first.met, first.meetings = 0, mine + 1
        yield Wait(lambda: first.meetings > mine, op.name)
        self.clock.learn(told)
        return []

    def mlc_gpu_signal(self, op: Any) -> Steps:
        for place in self._flags(op, self.mask & self.known(op.condition)):
            mark = self.block.memory.data[place : place + 4]
            if mark.any():
                raise ModelError(f"{op.name}: a mark that is not 0 before")
            mark[:] = (1, 0, 0, 0)
        yield None
        return []

    def mlc_gpu_await(self, op: Any) -> Steps:
        data = self.block.memory.data
        for place in self._flags(op, self.mask):
            yield Wait(lambda at=place: bool(data[at : at + 4].any()), op.name)
        return []

    def _flags(self, op: Any, mask: Array) -> set[int]:
        at = self.bytes_at(self.values[op.buffer], [op.at], 1, mask, op)
        return {int(x) for x in self.block.memory.places(at[:, :1], op).reshape(-1)}

    def mlc_gpu_send(self, op: Any) -> Steps:
        values, block = self.known(op.value), self.known(op.block)
        near = self.bytes_at(self.values[op.buffer], [op.at], 1, self.mask, op)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(WARP, -1)[self.mask]
        for places, part, rank in zip(near, raw, block[self.mask], strict=True):
            self.block.peer(int(rank), op, self.clock).shared.write(places, part, op, self.clock)
        yield None
        return []

    def mlc_gpu_warp_barrier(self, op: Operation) -> Steps:
        yield None
        return []

    def mlc_gpu_shuffle(self, op: Operation) -> list[Array]:
        x, lane = self.known(op.operands[0]), np.arange(WARP)
        by = cast("IntegerAttr[Any]", op.properties["offset"]).value.data
        kind = str(cast("Any", op.properties["kind"]).data)
        source = {"xor": lane ^ by, "down": lane + by, "up": lane - by}[kind]
        inside = (source >= 0) & (source < WARP)
        return [x[np.where(inside, source, lane)]]

    def mlc_gpu_uniform(self, op: Operation) -> list[Array]:
        return [np.full_like(x := self.known(op.operands[0]), x[0])]

    def mlc_gpu_elect(self, op: Operation) -> list[Array]:
        return [np.arange(WARP) == int(np.argmax(self.mask))]

    def mlc_gpu_registers(self, op: Operation) -> None:
        """They are not counted."""

    mlc_gpu_prefetch_map = mlc_gpu_barrier_fence = mlc_gpu_registers
    mlc_gpu_follow = mlc_gpu_lead = mlc_gpu_registers

    def mlc_gpu_dynamic_shared(self, op: Operation) -> list[Array]:
        return [np.full(WARP, DYNAMIC, np.int32)]

    def once(self, value: SSAValue, condition: Array | None = None) -> list[int]:
        mask = self.mask if condition is None else self.mask & condition
        return [int(x) for x in self.known(value)[mask]]

    def mlc_gpu_barrier_init(self, op: Any) -> Steps:
        for address in set(self.once(op.barrier)):
            self.block.shared.barriers[address] = Barrier(op.count.value.data, self.clock)
        yield None
        return []

    def mlc_gpu_barrier_expect(self, op: Any) -> Steps:
        for address in self.once(op.barrier):
            self.block.shared.barrier(address, op, self.clock).arrive(
                op, self.clock.tell(), op.size_bytes.value.data
            )
        yield None
        return []

    def mlc_gpu_barrier_arrive(self, op: Any) -> Steps:
        condition = self.known(op.condition)
        addresses = self.once(op.barrier, condition)
        ranks = [self.block.rank] * len(addresses)
        if op.block is not None:
            ranks = self.once(op.block, condition)
        for address, rank in zip(addresses, ranks, strict=True):
            barrier = self.block.peer(rank, op, self.clock).shared.barrier(address, op, self.clock)
            barrier.arrive(op, self.clock.tell())
        yield None
        return []

    def mlc_gpu_barrier_wait(self, op: Any) -> Steps:
        pairs = set(zip(self.once(op.barrier), self.once(op.parity), strict=True))
        for address, parity in pairs:
            barrier = self.block.shared.barrier(address, op, self.clock)
            yield Wait(lambda b=barrier, p=parity: b.is_over(p), f"{op.name} of {address}")
            self.clock.learn(barrier.known)
        return []

    # copies and products --------------------------------------------------------------------------

    def mlc_gpu_bulk_load(self, op: Any) -> Steps:
        memory, described = self.block.memory, self.values[op.map]
        ranks = range(op.blocks) if op.blocks > 1 else [self.block.rank]
        places = zip(*(self.once(x) for x in op.at), strict=True)
        for at, slot, address in zip(
            places, self.once(op.slot), self.once(op.barrier), strict=True
        ):
            box, told = Box(described, at, slot, op), self.clock.copy()
            first = self.block.cluster[0]
            first.copies += 1
            told.copies |= 1 << first.copies
            for shared in (self.block.peer(rank, op, self.clock).shared for rank in ranks):
                barrier = shared.barrier(address, op, self.clock)
                shared.begin(box.near, op, self.clock)
                shared.history.bring(box.near, first.copies)

                def come(
                    box: Box = box, barrier: Any = barrier, shared: Any = shared,
                    told: Known = told,
                ) -> None:  # fmt: skip
                    shared.end(box.near, box.load(memory, op))
                    barrier.complete(box.near.size, told)

                self.block.asked.append(Asked(come, self.number))
        self.clock.tell()
        yield None
        return []

    def mlc_gpu_bulk_store(self, op: Any) -> Steps:
        shared, memory = self.block.shared, self.block.memory
        described: TensorMap = self.values[op.map]
        condition = self.known(op.condition)
        places = zip(*(self.once(x, condition) for x in op.at), strict=True)
        for at, slot in zip(places, self.once(op.slot, condition), strict=True):
            box = Box(described, at, slot, op)
            shared.by_engine(box.near, op, self.clock)
            self.stores.append(box.near)
            versions = shared.versions(box.near)

            def go(box: Box = box, versions: Any = versions) -> None:
                if shared.versions(box.near) != versions:
                    raise ModelError(f"{op.name}: its slot is overwritten before it is read")
                box.store(memory, shared.data[box.near], op)

            self.block.asked.append(Asked(go, self.number, stores=True))
        yield None
        return []

    def mlc_gpu_bulk_wait(self, op: Any) -> Steps:
        count = op.pending.value.data
        yield Wait(
            lambda: sum(x.stores and x.warp == self.number for x in self.block.asked) <= count,
            op.name,
        )
        done, self.stores = self.stores[: len(self.stores) - count], self.stores[-count:][:count]
        for at in done:
            self.block.shared.history.read(at, self.clock)
        return []

    def mlc_gpu_async_fence(self, op: Any) -> None:
        self.block.shared.fenced(self.clock)

    def mlc_gpu_store_matrix(self, op: Any) -> None:
        at = self.known(op.at).astype(np.int64)
        lane, pair = np.arange(WARP), np.arange(4)
        for number, part in enumerate(op.parts):
            row = at[8 * number + lane // 4]
            raw = np.ascontiguousarray(self.known(part)).view(np.uint8)
            where = row[:, None] + lane[:, None] % 4 * 4 + pair
            self.block.shared.write(where.reshape(-1), raw.reshape(-1), op, self.clock)

    def mlc_gpu_descriptor(self, op: Any) -> list[Array]:
        slot = self.known(op.slot).astype(np.int64)
        return [(slot >> 4 & 0x3FFF) | op.constant]

    def mlc_gpu_wgmma(self, op: Any) -> Steps:
        begin = None if op.sums is None else self.values[op.sums]
        lhs, rhs = self.known(op.lhs), self.known(op.rhs)
        found = product(op, self.block.shared, self.number, lhs, rhs, begin, self.clock)
        self.flying.append(found)
        together = self.block.products.setdefault((self.number // GROUP, self.started), [])
        self.started += 1
        together.append(found)
        found.together = together  # of four warps, which start it and finish it as one
        yield Wait(lambda: len(together) == GROUP, f"{op.name} of warp {self.number}")
        return [found]

    def mlc_gpu_wgmma_wait(self, op: Any) -> Steps:
        pending = op.pending.value.data
        count = max(len(self.flying) - pending, 0)
        done, self.flying = self.flying[:count], self.flying[count:]
        for x in (x for one in done for x in one.together):
            x.done(self.clock)
        yield None
        found = self.values[op.sums]
        if not isinstance(found, Pending) or found in self.flying:
            return [found]
        return [found.done(self.clock)]

    def mlc_gpu_load_matrix(self, op: Any) -> list[Array]:
        """Rows of 16 bytes where threads say, of which each thread gets a pair of each matrix."""
        if not self.mask.all():
            raise ModelError(f"{op.name}: not by all threads of a warp")
        source, kind = self.values[op.source], op.result.type
        count = kind.get_shape()[0] // 2
        rows = self.bytes_at(source, op.at, 8, np.arange(WARP) < 8 * count, op)
        if (rows[:, 0] % 16).any():
            raise ModelError(f"{op.name}: not at a multiple of 16 bytes")
        found = self._read(source, rows, op).view(numpy_of(kind.element_type))
        matrices = found.reshape(count, 8, 8)
        if op.turned is not None:
            matrices = matrices.transpose(0, 2, 1)
        group, quad = np.arange(WARP) // 4, np.arange(WARP) % 4
        parts = [matrices[k, group, 2 * quad + x] for k in range(count) for x in (0, 1)]
        return [np.stack(parts, axis=1)]

    def mlc_gpu_mma(self, op: Any) -> list[Array]:
        """Factors and sums as matrices, each element where the instruction has it."""
        m, n, k = op.shape
        parts = [self.known(x) for x in (op.lhs, op.rhs, op.sums)]
        if not self.mask.all():
            raise ModelError(f"{op.name}: not by all threads of a warp")
        group, quad = np.arange(WARP)[:, None] // 4, np.arange(WARP)[:, None] % 4
        width = max(1, 4 // op.dtype.bytes)
        left, right = (np.zeros(s) for s in ((m, k), (k, n)))
        number = np.arange(int(parts[0].shape[1]))
        high = m // 8
        down, along = number // width % high, number // width // high
        left[group + 8 * down, (along * 4 + quad) * width + number % width] = parts[0]
        number = np.arange(int(parts[1].shape[1]))
        right[(number // width * 4 + quad) * width + number % width, group + number * 0] = parts[1]
        if op.dtype is F32:
            for x in (left, right):
                if (x.astype(np.float32).view(np.int32) & 0x1FFF).any():
                    raise ModelError(f"{op.name}: factors that are not rounded")
        number = np.arange(int(parts[2].shape[1]))
        rows, columns = group + 8 * (number // 2), quad * 2 + number % 2
        total = np.zeros((m, n))
        total[rows, columns] = parts[2]
        total = total + left @ right
        return [total[rows, columns].astype(parts[2].dtype)]

    def mlc_gpu_round_tf32(self, op: Any) -> list[Array]:
        word = self.known(op.value).view(np.int32)
        return [((word + 0x1000) & ~0x1FFF).astype(np.int32).view(np.float32)]

    def mlc_gpu_copy_async(self, op: Any) -> Steps:
        source, target = self.values[op.source], self.values[op.target]
        count, shared, mask = op.count.value.data, self.block.shared, self.mask
        read = mask if op.where is None else mask & self.known(op.where)
        far = self.bytes_at(source, op.source_at, count, read, op)
        rows = self.bytes_at(target, op.target_at, count, mask, op)
        if any((x[:, 0] % x.shape[1]).any() for x in (far, rows)):
            raise ModelError(f"{op.name}: not at a multiple of {rows.shape[1]} bytes")
        near = rows.reshape(-1)
        shared.begin(near, op, self.clock)
        found = np.zeros(rows.shape, self.block.memory.data.dtype)
        found[read[mask]] = self.block.memory.data[self.block.memory.places(far, op)]
        values = found.reshape(-1)
        self.groups[-1].append(lambda: shared.end(near, values, self.clock))
        yield None
        return []

    def mlc_gpu_copy_group(self, op: Any) -> None:
        self.groups.append([])

    def mlc_gpu_copy_wait(self, op: Any) -> None:
        keep = op.pending.value.data + 1
        done, self.groups = self.groups[:-keep], self.groups[-keep:]
        for run in (x for group in done for x in group):
            run()
