"""
The word `case`: a schedule of its own for few places, chosen when the program runs.

```
register(m 6, n 64), via(fma), case(m, below 8), register(m 4, n 64), via(fma)
->  case "M" < 8 { … dot … : frag<4x64xf32> } else { … dot … : frag<6x64xf32> }
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region

from mlc.dialects.dims import Dim, product
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.expression import Condition, ConditionsAttr
from mlc.dialects.tile.kernel import CaseOp, KernelOp
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import frag_of
from mlc.dialects.tile.words import Case
from mlc.passes.tile.cut import axes_of, dot_of


def sizes_of(dot: DotOp) -> Mapping[str, Dim]:
    """Of batches, rows, columns and all that is summed, of a product before any word."""
    axes = zip(axes_of(dot), frag_of(dot.result).dims.data, strict=True)
    depth = product(size for dims in dot.summed.values() for size in dims.data)
    return {"g": Dim.const(1), **dict(axes), "k": depth}


def conditions_of(kernel: KernelOp, words: Sequence[Case]) -> list[ConditionsAttr]:
    """When the cases hold, by the sizes of a product before any word."""
    sizes, found = sizes_of(dot_of(kernel)), list[ConditionsAttr]()
    for word in words:
        if unknown := set(word.axes) - sizes.keys():
            raise MlcError(
                f"tiles: {word}: the product has no axis {min(unknown)!r}; expected some of"
                f" {', '.join(sizes)}"
            )
        places = product(sizes[axis] for axis in word.axes)
        found.append(ConditionsAttr((Condition("lt", places, Dim.const(word.below)),)))
    return found


def join_cases(
    kernel: KernelOp, conditions: Sequence[ConditionsAttr], programs: Sequence[KernelOp]
) -> None:
    """Makes a kernel do what one of its copies does: the last where no condition holds."""
    last = kernel.block.last_op
    for op in reversed([op for op in kernel.block.ops if op is not last]):
        op.detach()
        op.erase()
    assert last is not None
    bodies: list[Region] = []
    for program in programs:
        for mine, theirs in zip(kernel.block.args, program.block.args, strict=True):
            theirs.replace_all_uses_with(mine)
        ops: list[Operation] = list(program.block.ops)
        for op in ops:
            op.detach()
        kernel.block.insert_ops_before([op for op in ops if isinstance(op, AllocOp)], last)
        body = Region(_block([op for op in ops if not isinstance(op, AllocOp | YieldOp)]))
        bodies.append(body)
    case = CaseOp.create(properties={"conditions": ArrayAttr(conditions)}, regions=bodies)
    case.location = kernel.location
    kernel.block.insert_op_before(case, last)


def _block(ops: Sequence[Operation]) -> Block:
    return Block([*ops, YieldOp.of()])
