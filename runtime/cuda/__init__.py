"""
Running GPU programs: PyCUDA finds the device and its context, the driver does the rest.

Importing this touches no driver. Everything of one process runs in the device's primary context, on
the caller's stream, so that arrays of other libraries are used in place. A call like one before is
made by native code: entry.ll checks arguments, replay.ll starts the kernels.
"""

from __future__ import annotations

from mlc.runtime.cuda.driver import GpuError, described_gpu, device, gpu_target
from mlc.runtime.cuda.load import load_program
from mlc.runtime.cuda.program import LoadedProgram

__all__ = ["GpuError", "LoadedProgram", "described_gpu", "device", "gpu_target", "load_program"]
