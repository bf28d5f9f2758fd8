"""
What each op takes: cycles for a vector of a machine's width, and the work of its points.

`WEIGHT` on the ops is in additions on a machine with AVX-512, where vector math has tables in
registers; an addition is half a cycle. The row of a machine may say better (`function_cycles`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from mlc.dialects.dtypes import BF16, F16, F64, DType
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.create import ConstantOp, IotaOp
from mlc.dialects.tensor.division import WholeDivision
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ContractOp, Product, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.passes.cost.sizes import elements_of, stored_bytes
from mlc.passes.cost.work import ATTO, Work, level_of, moved, of_cycles, seconds

BY_CONSTANT_OPS = 12
"""Of integers divided by a constant: the high half of a product, shifts, what rounding down and
the remainder add. SOURCE: Granlund, Montgomery, "Division by invariant integers using
multiplication", PLDI 1994."""

ADD_CYCLES = 0.5
"""An addition: two vector units. Source: the optimization guides that `fma_ports` cites."""


def op_cycles(op: TensorOp, lanes: int, target: CpuTarget) -> float:
    """Cycles of `lanes` results of an op that is computed element by element, operands at hand."""
    if isinstance(op, WholeDivision) and (divisor := constant_divisor(op)) is not None:
        return _by_constant(divisor, op.dtype, lanes, target)
    return _cycles(type(op), op.dtype, lanes, target)


def constant_divisor(op: WholeDivision) -> int | None:
    """The constant by which integers are divided."""
    value = op.operands[1]
    while isinstance(made := value.owner, ReshapeOp | BroadcastOp):
        value = made.operands[0]
    if op.dtype.is_inexact or not isinstance(made, ConstantOp):
        return None
    data = made.repeated_element()
    return None if data is None else int(np.frombuffer(data, made.dtype.numpy)[0])


def division_ops(divisor: int) -> int:
    """Of integers by a constant: a shift or a mask; else a product, shifts and what is left."""
    return 2 if divisor & (divisor - 1) == 0 else BY_CONSTANT_OPS


def _by_constant(divisor: int, dtype: DType, lanes: int, target: CpuTarget) -> float:
    native = max(1.0, lanes * dtype.bytes * 8 / target.vector_bits)
    ops = division_ops(divisor)
    if ops == BY_CONSTANT_OPS and dtype.bytes > 4 and lanes > 1:  # no vector has such products
        return lanes * ops * target.loops.integer_cycles
    return native * ops * ADD_CYCLES


def _cycles(kind: type[TensorOp], dtype: DType, lanes: int, target: CpuTarget) -> float:
    if issubclass(kind, IotaOp):
        return target.loops.iota_cycles * lanes
    if not kind.FLOPS or issubclass(kind, Reduction | ConstantOp):
        return 0.0
    if issubclass(kind, WholeDivision) and not dtype.is_inexact:  # no vector divides them
        return target.loops.integer_divide_cycles * lanes
    native = max(1.0, lanes * dtype.bytes * 8 / target.vector_bits)
    found = target.loops.functions.get(kind.name)
    if found is None:
        return native * kind.WEIGHT * ADD_CYCLES
    return native * found[dtype.bytes > 4]


def at_peak(flops: float, target: Target) -> int:
    """Attoseconds of so many operations at the peak of a core, or of a grid."""
    return round(ATTO * flops / target.f32_flops_per_s)


def work_of_weight(weight: float, points: int, target: CpuTarget) -> Work:
    """
    Of points of a loop nest by their weight alone, on one core: up to three operations take as long
    as their operands from level 2, more run from registers.
    """
    loops = target.loops
    flops = loops.light_op_factor * min(weight, 3.0) + loops.op_factor * max(weight - 3.0, 0.0)
    return Work(core=points * int(ATTO * flops / target.f32_flops_per_s))


@lru_cache(maxsize=4096)
def work_of_op(kind: type[TensorOp], dtype: DType, points: int, target: Target) -> Work:
    """
    Of the arithmetic at so many points of an op's iteration space; what it reads and writes are
    streams of the kernel that computes it.
    """
    return Work(core=points * point_cost(kind, dtype, target), operations=points * kind.FLOPS)


@lru_cache(maxsize=4096)
def point_cost(kind: type[TensorOp], dtype: DType, target: Target) -> int:
    """Attoseconds of one core, or of a grid, for one point of an op with results of a dtype."""
    return POINTS[type(target)](kind, dtype, target)


def _by_cycles(kind: type[TensorOp], dtype: DType, target: CpuTarget) -> int:
    if issubclass(kind, Product):
        peak = target.f32_flops_per_s * 4 / max(dtype.bytes, 4)
        return round(ATTO * kind.FLOPS / (peak * target.loops.tile_peak_share))
    lanes = target.lanes(8 * dtype.bytes)
    cycles = _cycles(kind, dtype, lanes, target)
    if issubclass(kind, Reduction):
        cycles += target.loops.reduce_step_cycles
    return of_cycles(cycles / lanes, target)


def _by_weight(kind: type[TensorOp], dtype: DType, target: GpuTarget) -> int:
    if issubclass(kind, ContractOp):
        tensor = dtype is F64 or (dtype in (BF16, F16) and target.multiplies_in_groups)
        if tensor and (rate := target.tensor_flops_per_s(dtype)):
            return round(ATTO * kind.FLOPS / rate)
    slower = target.f32_flops_per_s / target.f64_flops_per_s if dtype is F64 else 1.0
    return round(slower * at_peak(kind.WEIGHT * max(kind.FLOPS, 1), target))


def apart_seconds(op: TensorOp, target: Target, threads: int) -> tuple[int, int]:
    """
    Attoseconds of an op by itself: of its arithmetic, operands at hand, and what reading its
    operands and writing its result adds. Where ops share a kernel there is less of the second.
    """
    points = elements_of(op.iteration())
    work = work_of_op(type(op), op.dtype, points, target)
    own = seconds(work, target, threads)
    if op.IS_FREE:
        return own, 0
    read = sum(stored_bytes(x.type) for x in op.operands)
    written = stored_bytes(op.results[0].type)
    levels = level_of(read, target), level_of(written, target)
    moving = Work(read=moved(read, levels[0]), write=moved(written, levels[1]), starts=1)
    return own, seconds(work + moving, target, threads) - own


POINTS: Mapping[type[Target], Callable[[type[TensorOp], DType, Any], int]] = {
    CpuTarget: _by_cycles,
    GpuTarget: _by_weight,
}
"""For each kind of machine: op, dtype, target -> attoseconds of one point."""
