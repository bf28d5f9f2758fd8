"""Machines as data, with units and sources; nothing here measures (that is runtime/probe.py)."""

from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.gpu import GpuTarget
from mlc.dialects.target.known import named_target

__all__ = ["CpuTarget", "GpuTarget", "Target", "named_target"]

Target = CpuTarget | GpuTarget
