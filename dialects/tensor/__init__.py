"""The tensor level: pure ops on tensors, one class per op, all its facts on the class.

Nothing here knows how an op is compiled: no loops, no buffers, no machine. `OPS` is the only registration.
"""

from __future__ import annotations

from mlc.dialects.tensor.registry import MLC, OPS

__all__ = ["MLC", "OPS"]
