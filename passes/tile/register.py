"""
The word `register`: the tile of sums that stays in registers.

```
register(m 12, n 32)
    dot … : frag<192x3072xf32>
->  for %n in 3072 step 32 { for %m in %m_left step 12 { dot … : frag<12x32xf32> } }
```
"""

from __future__ import annotations

from dataclasses import replace

from mlc.dialects.tile.control import Deal, DealAttr
from mlc.dialects.tile.expression import WORKERS, Condition, ConditionsAttr, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import Register
from mlc.passes.tile.cut import Cut, cut, dot_of, loop_of, simplify


def register(kernel: KernelOp, word: Register) -> None:
    """
    Cuts columns, then rows. Where workers share a block's rows, cut between register tiles, they
    share its columns instead if there are fewer than two register tiles of rows for each.
    """
    dot = dot_of(kernel)
    rows = loop_of(dot, "m")
    columns: Deal | None = None
    dealt = None if rows is None else rows[0].deal
    if rows is not None and dealt is not None and dealt.data.scope == "team":
        (extent, *_) = rows[0].loops[0].extent.data
        step, enough = rows[0].loops[0].step, letter(WORKERS) * (2 * word.m)
        if step % word.m == 0 and not rows[0].positions and len(rows[0].loops) == 1:
            many, few = (
                ConditionsAttr((Condition(relation, extent, enough),)) for relation in ("ge", "lt")
            )
            rows[0].properties["deal"] = DealAttr(replace(dealt.data, unit=word.m, when=many))
            columns = Deal("team", when=few)
    _, dot = cut(dot, Cut("n", word.n, columns, final=True))
    _, dot = cut(dot, Cut("m", word.m, final=True))
    simplify(dot, {"m": word.m, "n": word.n})
