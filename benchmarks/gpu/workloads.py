"""All that is measured, group by group."""

from __future__ import annotations

from benchmarks.gpu import contractions, digits, memory_bound, networks

GROUPS = (
    *contractions.GROUPS,
    *memory_bound.GROUPS,
    *networks.GROUPS,
    *digits.GROUPS,
)
