"""
Running GPU programs: PyCUDA for contexts, memory, modules and launches; the driver compiles PTX.

Importing this touches no driver. Everything of one process runs in the device's primary context, on
the default stream, as PyTorch does, so that arrays of both are used in place.
"""

from __future__ import annotations

from mlc.runtime.cuda.driver import GpuError, described_gpu, device, gpu_target
from mlc.runtime.cuda.program import LoadedProgram, load_program

__all__ = ["GpuError", "LoadedProgram", "described_gpu", "device", "gpu_target", "load_program"]
