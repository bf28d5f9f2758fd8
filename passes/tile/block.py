"""
The word `block`: a loop over an axis in steps.

```
block(n, 3072)          dot … : frag<"M"x4096xf32>      for %n in 4096 step 3072 as %left {
                                                    ->    dot … %b[k, %n + n] : frag<"M"x3072xf32> }
```
"""

from __future__ import annotations

from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.tile.control import Deal
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import Block
from mlc.passes.tile.cut import Cut, axes_of, cut, dot_of, loop_of, size_of
from mlc.passes.tile.sums import wait


def block(kernel: KernelOp, word: Block) -> None:
    """Cuts the tile along an axis; a summed one leaves sums that wait in the result."""
    dot = dot_of(kernel)
    (size, *_) = size_of(dot, word.axis).data
    deal = Deal("team") if word.team else None
    drop = word.step == 1 and word.axis in axes_of(dot)
    if size.constant is not None and size.constant <= word.step and not drop and deal is None:
        return  # one part: there is nothing to cut
    if word.axis in axes_of(dot):
        cut(dot, Cut(word.axis, word.step, deal, drop, sized=word.team))
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
