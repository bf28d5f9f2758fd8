"""Plan level to loops level: a kernel becomes a loop nest, the function the entry that calls them.

One recursive lowering per template, all of them over the ops' `element` facts. Nothing here is text
or machine code.
"""

from __future__ import annotations

from mlc.lowering.loops.lower import lower_to_loops

__all__ = ["lower_to_loops"]
