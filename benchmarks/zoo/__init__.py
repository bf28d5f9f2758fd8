"""
The model zoo: programs as users write them, at three sizes, for benchmarks and tests alike.

`ZOO` holds them by name. Sizes: at "small" everything lies in level-1 or level-2 caches and a test
is fast; at "medium" intermediates leave level 2; at "large" they leave the caches of most machines,
where the program is not bound by arithmetic.
"""

from __future__ import annotations

from benchmarks.zoo import algorithms, basics, networks
from benchmarks.zoo.model import SIZES, Model, Size

__all__ = ["SIZES", "ZOO", "Model", "Size"]

ZOO = {m.name: m for m in (*basics.MODELS, *networks.MODELS, *algorithms.MODELS)}
