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
from mlc.passes.tile.cut import Cut, axes_of, cut, dot_of, left_of, size_of
from mlc.passes.tile.sums import wait_in_result


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
    if is_strict(kernel):
        raise MlcError(
            f'tiles: {word}: with numerics "strict" sums are not cut; expected no block of'
            f" {word.axis}"
        )
    if size.constant is None or left_of(dot, word.axis)[1] is not None:
        raise MlcError(
            f"tiles: {word}: sums wait in the result from the first block on, so there must be one:"
            f" the size of {word.axis} is {size}; expected a number"
        )
    loop, dot = cut(dot, Cut(word.axis, word.step))
    wait_in_result(kernel, dot, loop, word)
