"""
Cheaper ops of the same meaning: elementwise chains by strength, and factors that leave sums.

Each rule says of which class it is (`rules.py`); most of these round differently, so they are not
exact. SOURCE: Aho, Lam, Sethi, Ullman, Compilers, 2nd ed., 2006, sections 8.5.4 and 9.1.7.
"""

from __future__ import annotations

from mlc.passes.rules.load import deferred

STRENGTH = deferred("strength")
"""Those of `passes/rules/strength.rules`."""
