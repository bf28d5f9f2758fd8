"""Plan level to loops level for GPUs, and from there to LLVM IR for NVPTX and a launch plan.

The same plan, nests and element facts as on a CPU; only how a nest is spread over threads differs.
"""

from __future__ import annotations

from mlc.lowering.gpu.emit import emit_gpu
from mlc.lowering.gpu.lower import lower_to_gpu

__all__ = ["emit_gpu", "lower_to_gpu"]
