"""
The word `block`: a loop over an axis in steps.

```
block(n, 3072)          dot … : frag<"M"x4096xf32>      for %n in 4096 step 3072 as %left {
                                                    ->    dot … %b[k, %n + n] : frag<"M"x3072xf32> }
```

Blocks of two axes of the result that workers share are one loop: `block(n, 512, team)` and
`block(m, 132, team)` become `for %n in … step 512 as …, %m in … step 132 as … deal(team)`. In front
of a loop that is dealt dynamic a barrier stands.
"""

from __future__ import annotations

from xdsl.ir import Operation

from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.tile.control import Deal, DealAttr, ForOp
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import Block
from mlc.passes.tile.cut import Cut, axes_of, cut, dot_of, join, loop_of, size_of, tile_of
from mlc.passes.tile.sums import wait


def block(kernel: KernelOp, word: Block) -> None:
    """Cuts the tile along an axis; a summed one leaves sums that wait in the result."""
    dot = dot_of(kernel)
    (size, *_) = size_of(dot, word.axis).data
    deal = Deal("dynamic" if word.dynamic else "team") if word.team else None
    drop = word.step == 1 and word.axis in axes_of(dot) and word.axis not in "mn"  # registers'
    if size.constant is not None and size.constant <= word.step and not drop and deal is None:
        return  # one part: there is nothing to cut
    if word.axis in axes_of(dot):
        around = dot.parent_op() if word.team else None
        joins = isinstance(around, ForOp) and around.is_dealt and tile_of(dot)[0] is _first(around)
        loop, _ = cut(
            dot, Cut(word.axis, word.step, None if joins else deal, drop, sized=word.team)
        )
        if isinstance(around, ForOp) and joins:
            if deal is None or around.deal != DealAttr(deal):
                raise MlcError(f"tiles: {word}: the loop that it joins is dealt {around.deal}")
            join(around, loop, word)
        return
    first, *_ = dot.summed
    if is_strict(kernel) and word.axis != first:
        raise MlcError(
            f'tiles: {word}: with numerics "strict" sums are added in the order of'
            f" {', '.join(dot.summed)}; expected a block of {first}"
        )
    if any(loop_of(dot, c) is not None for c in dot.summed):
        raise MlcError(
            f"tiles: {word}: sums wait in the result between the blocks of one loop; expected one"
            f" block of {' or '.join(dot.summed)}"
        )
    loop, dot = cut(dot, Cut(word.axis, word.step, once=size.constant is None))
    wait(kernel, dot, loop, word)


def _first(loop: ForOp) -> Operation | None:
    """The first op of a loop's region."""
    return loop.body.block.first_op
