"""
What processes do together, of a process that is alone: JAX writes it for meshes of one device.

SOURCE: StableHLO specification: a group of one process reduces, gathers and moves its own values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend.importers.stablehlo.program import Module, Op

OPS = (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute",
    "reduce_scatter", "partition_id", "replica_id",
)  # fmt: skip


def is_alone(op: Op, module: Module) -> bool:
    """Whether one process does it by itself."""
    if op.name in ("partition_id", "replica_id"):
        return module.processes == 1
    named = "source_target_pairs" if op.name == "collective_permute" else "replica_groups"
    groups: Any = np.array([1, 1] if op.get(named) is None else op.get(named))
    if op.name == "collective_permute":
        return module.processes == 1 and groups.size == 2 and not groups.any()
    return groups.ndim == 2 and groups.shape[1] == 1


def computed(op: Op, operands: Any) -> Any:
    """The results."""
    if op.name in ("partition_id", "replica_id"):
        return (np.zeros((), np.uint32),)
    return operands
