"""
What choices of a plan cost: the one place where the search asks the cost formula (D22).

All times are whole femtoseconds: sums of them are exact, so that a plan does not depend on the
order in which its parts were added.
"""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Attribute

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.dialects.tensor.op import bytes_of
from mlc.passes.cost import KERNEL_CALL_S, LAUNCH_S, bandwidth

ASSUMED = 4096
"""Of a size that only the call knows."""

FEMTO = 1e15


class Rates:
    """The formula `write + max(read, compute) + launch` of one machine, term by term."""

    def __init__(self, target: CpuTarget | GpuTarget) -> None:
        self.target = target
        if isinstance(target, GpuTarget):
            self.launch = round(LAUNCH_S * FEMTO)
            self._addition = FEMTO / target.f32_flops_per_s
        else:
            self.launch = round(KERNEL_CALL_S * FEMTO)
            # additions and multiplications that are not fused run at half the FMA peak
            self._addition = FEMTO / (target.f32_flops_per_s / 2)

    def stream(self, moved: float, held: float) -> int:
        """Reading or writing `moved` bytes of a buffer of `held` bytes, from where it lies."""
        target = self.target
        if isinstance(target, GpuTarget):
            return round(moved * FEMTO / target.hbm_bytes_per_s)
        return round(moved * FEMTO / bandwidth(int(held), target, 1))

    def work(self, weight: float, count: float) -> int:
        """Arithmetic: an op's weight, for so many elements."""
        return round(weight * count * self._addition)


@lru_cache(maxsize=4096)
def elements_of(shape: Shape) -> float:
    """How many elements, by the assumed sizes."""
    return number(product(shape))


@lru_cache(maxsize=4096)
def stored_bytes(kind: Attribute) -> float:
    """Bytes of a tensor, by the assumed sizes."""
    return number(bytes_of(kind))


def number(dim: Dim) -> float:
    """The dim's value, with every symbol at the assumed size."""
    value = dim.constant
    if value is None:
        value = dim.evaluate(dict.fromkeys(dim.symbols(), ASSUMED))
    return float(value)
