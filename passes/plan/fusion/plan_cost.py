"""
What choices of a plan cost: the one place where the search asks the cost formula (D22).

All times are whole femtoseconds: sums of them are exact, so that a plan does not depend on the
order in which its parts were added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from xdsl.ir import Attribute

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.dtypes import BF16, F16
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.reduce import ContractOp, Product, Reduction
from mlc.passes.cost.cycles import REDUCE_STEP_CYCLES, TILE_EFFICIENCY
from mlc.passes.cost.model import cycle_s
from mlc.passes.cost.op_cycles import op_cycles

ASSUMED = 4096
"""Of a size that only the call knows."""

FEMTO = 1e15


class Rates:
    """
    The formula `write + max(read, compute) + start` of one machine, term by term, on one thread. A
    stream is read from the level that holds its whole buffer.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.launch = round(target.kernel_start_s * FEMTO)
        self._element = ARITHMETIC[type(target)]
        self._known: dict[tuple[float, float], int] = {}

    def stream(self, moved: float, held: float) -> int:
        """Reading `moved` bytes of a buffer of `held` bytes."""
        found = self._known.get((moved, held))
        if found is None:
            found = round(moved * FEMTO / self.target.bandwidth(int(held)))
            self._known[moved, held] = found
        return found

    def write(self, held: float) -> int:
        """Writing a buffer of `held` bytes."""
        return round(self.stream(held, held) * self.target.write_factor)

    def weight(self, op: TensorOp) -> float:
        """Arithmetic: the time of one element of the op's iteration space."""
        return self._element(op, self.target)


def _by_cycles(op: TensorOp, target: CpuTarget) -> float:
    if isinstance(op, Product):
        return FEMTO * op.FLOPS / (target.f32_flops_per_s * TILE_EFFICIENCY)
    lanes = target.lanes(8 * op.dtype.bytes)
    cycles = op_cycles(op, lanes, target)
    if isinstance(op, Reduction):
        cycles += REDUCE_STEP_CYCLES
    return FEMTO * cycles / lanes * cycle_s(target)


def _by_weight(op: TensorOp, target: GpuTarget) -> float:
    if isinstance(op, ContractOp) and op.dtype in (BF16, F16) and target.multiplies_in_groups:
        return FEMTO * op.FLOPS / target.tensor_f16_flops_per_s
    return FEMTO * op.WEIGHT * max(op.FLOPS, 1) / target.f32_flops_per_s


ARITHMETIC: Mapping[type[Target], Callable[[TensorOp, Any], float]] = {
    CpuTarget: _by_cycles,
    GpuTarget: _by_weight,
}
"""For each kind of machine: op, target -> femtoseconds of one element."""


@lru_cache(maxsize=4096)
def elements_of(shape: Shape) -> float:
    """How many elements, by the assumed sizes."""
    return float(estimate(product(shape)))


@lru_cache(maxsize=4096)
def stored_bytes(kind: Attribute) -> float:
    """Bytes of a tensor, by the assumed sizes."""
    return float(estimate(bytes_of(kind)))


def estimate(dim: Dim) -> int:
    """The dim's value, with every symbol at the assumed size."""
    value = dim.constant
    return dim.evaluate(dict.fromkeys(dim.symbols(), ASSUMED)) if value is None else value
