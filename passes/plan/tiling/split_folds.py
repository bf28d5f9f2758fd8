"""
Pass `mlc-split-folds`: loops whose states a region combines are walked in parts, which threads
share.

```
%m, %s = tiles (%j in 8192 step 64) iter(%a = %lowest, %b = %zero) { … } combine { … }
->
%ms, %ss = tiles (%j in 8192 step 64) iter(%a = %lowest, %b = %zero) parts 64 { … }
%m, %s = tiles (%p in 64 step 1) iter(%a = %lowest, %b = %zero) { what combines %ms[%p], %ss[%p] }
```

Parts are numbered by sizes, and combined in order, so bits are the same for any number of threads
(D1). Loops inside others, whose trips threads share, and those that are too short forget their
region: nothing behind this pass splits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, DimsAttr, shape_of, tensor_type
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.control import INDEX, yield_of
from mlc.dialects.tensor.op import OpBuilder, TensorOp, bytes_of, tensor_of
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp, enclosing_tiles
from mlc.dialects.tile.shares import chunks
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import work_of_op
from mlc.passes.cost.sizes import elements_of, estimate
from mlc.passes.cost.work import ATTO, Work, seconds

PARTS_OF_CORE = 4
"""Parts for each core: enough that shares come out even, few enough to combine."""


@dataclass(frozen=True)
class SplitFoldsPass(ModulePass):
    """`parts`: of every loop that may be split, whether that repays or not; 0: by cost."""

    name = "mlc-split-folds"

    parts: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_of(op, self.name)
        for loop in [x for x in op.walk() if isinstance(x, TilesOp) and x.combine is not None]:
            inside = next(enclosing_tiles(loop), None) is not None
            parts = 1 if inside else self.parts or _parts(loop, target)
            if parts > 1:
                _split(loop, parts)
            else:
                region = loop.combine
                assert region is not None
                loop.detach_region(region)
                region.erase()


def _parts(loop: TilesOp, target: CpuTarget) -> int:
    """In how many parts a loop takes the least time, all cores at work; 1 where that is one."""
    sizes = zip(loop.extents, loop.steps, strict=True)
    trips = prod(-(-estimate(extent) // step) for extent, step in sizes)
    held = sum(estimate(bytes_of(x.type)) for x in loop.inits)
    parts = min(chunks(trips, held), PARTS_OF_CORE * target.cores)
    assert loop.combine is not None
    alone = seconds(_work(loop.body.block, target).times(trips), target)
    joined = seconds(_work(loop.combine.block, target).times(parts), target)
    workers = min(parts, target.cores)
    repays = alone > target.loops.shared_s * ATTO and alone // max(workers, 1) + joined < alone
    return parts if repays else 1


def _work(block: Block, target: CpuTarget) -> Work:
    """Of the arithmetic of one trip, each op in a phase of its own."""
    found = Work()
    for op in block.walk():
        if isinstance(op, TensorOp) and op.FLOPS:
            found += work_of_op(type(op), op.dtype, elements_of(op.iteration()), target)
            found += Work(starts=1)
    return found


def _split(loop: TilesOp, parts: int) -> None:
    """The loop in parts, and one behind it that combines what they end with."""
    block, combine = loop.parent, loop.combine
    assert block is not None
    assert combine is not None
    body = loop.body
    loop.detach_region(body)
    loop.detach_region(combine)
    inits, placed = list(loop.inits), list(loop.placed)
    walked = TilesOp.make(
        loop.extents,
        loop.steps,
        loop.symbols,
        inits,
        loop.folds,
        [x.type for x in placed],
        loop.axes,
        body,
        parts=parts,
    )
    states = walked.results[len(placed) :]
    joined = TilesOp.make(
        [parts], [1], [""], inits, loop.folds, [], [], _joining(combine.block, states)
    )
    for new in (walked, joined):
        new.location = loop.location
        block.insert_op_before(new, loop)
    for op in joined.walk():
        op.location = loop.location
    for old, new in zip(loop.results, [*walked.placed, *joined.results], strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    block.erase_op(loop)


def _joining(combine: Block, states: Sequence[SSAValue]) -> Region:
    """A trip for each part: what was combined before, and its state."""
    count = len(states)
    kinds = [x.type for x in combine.args[:count]]
    block = Block(arg_types=[INDEX, *kinds])
    b = OpBuilder(block.add_op)
    position, *before = block.args
    local: dict[SSAValue, SSAValue] = dict(zip(combine.args[:count], before, strict=True))
    for argument, state in zip(combine.args[count:], states, strict=True):
        shape, element = shape_of(argument.type), tensor_of(argument).element_type
        part = TileOp.create(
            operands=[state, position],
            result_types=[tensor_type(element, (Dim.const(1), *shape))],
            properties={"axes": DimsAttr((Dim.const(0),))},
        )
        block.add_op(part)
        local[argument] = b(ReshapeOp, part.result, declared=tensor_type(element, shape))
    for op in combine.ops:
        block.add_op(op.clone(local))
    assert yield_of(block) is block.last_op
    return Region(block)
