"""Plan level to loops level: every kernel becomes a loop nest, the function becomes the entry that calls them.

One recursive lowering per template, all of them over the ops' `element` facts. No text and no machine code here.
"""

from __future__ import annotations

from mlc.lowering.loops.lower import lower_to_loops

__all__ = ["lower_to_loops"]
