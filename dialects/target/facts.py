"""What is said of machines of every kind."""

from __future__ import annotations

from enum import Enum, auto

from mlc.lazy_dataclass import dataclass


class MathUnit(Enum):
    """What a target has for functions beside arithmetic."""

    NONE = auto()
    LANE_TABLES = auto()  # exponents and tables in registers: AVX-512
    SPECIAL = auto()  # estimates of 2^x and 1 / x, and threads enough to hide any latency: GPUs


@dataclass(frozen=True)
class Roof:
    """A limit of the machine."""

    name: str
    short: str
    bytes_per_s: float = 0.0
    flops_per_s: float = 0.0
