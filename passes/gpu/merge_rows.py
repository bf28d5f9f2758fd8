"""
Pass `mlc-merge-rows`: kernels that walk the same rows one after another become one, whose blocks of
threads read a row once and keep it in registers until all is done to it.

```
m = kernel "row" { max x }
s = kernel "row" { sum exp(x - m) }     ->     y = kernel "rows" { max, exp, sum, divide }
y = kernel "cell" { exp(x - m) / s }
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.analysis.aliases import values_from_outside
from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.passes.cost.model import kernel_cost
from mlc.passes.gpu.rows import choose_rows
from mlc.passes.plan.fusion.splitting import split_epilogue
from mlc.passes.tile.layouts import layouts_of
from mlc.passes.tile.rows import canonical_rows, space_of

OPS = 96  # of a merged kernel; bounds the compile time of one
RESULTS = 8
ONE = Dim.const(1)


@dataclass(frozen=True)
class MergeRowsPass(ModulePass):
    """Merges what may be, with `fusion="none"` nothing."""

    name = "mlc-merge-rows"

    fusion: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        if self.fusion == "none":
            return
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for block in _blocks(function):
                    _merge_in(block, target)


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks that kernels stand in."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in list(block.ops):
                if inner.regions and not isinstance(inner, KernelOp):
                    yield from _blocks(inner)


def _merge_in(block: Block, target: GpuTarget) -> None:
    """Groups grow from each reduction in order."""
    for op in list(block.ops):
        if isinstance(op, KernelOp) and _may_join(op):
            _set_checks_apart(block, op)
    tried: set[KernelOp] = set()
    while (seed := _seed(block, tried)) is not None:
        tried.add(seed)
        space = space_of(seed)
        if space is None:
            continue
        members = [seed]
        grown = True
        while grown:
            grown = False
            for op in _candidates(block, members, space):
                group = _Group(block, [*members, op])
                if group.is_convex() and group.has_program(target):
                    members, grown = group.members, True
        if len(members) > 1:
            _Group(block, members).merge()


def _set_checks_apart(block: Block, kernel: KernelOp) -> None:
    """What may fail behind a reduction of rows that others walk gets a kernel of its own."""
    space = space_of(kernel)
    if space is None or not all(space) or not _candidates(block, [kernel], space):
        return
    reduction = next(op for op in kernel.block.ops if isinstance(op, Reduction))
    failing = {op for op in kernel.block.ops if isinstance(op, TensorOp) and op.may_fail}
    before: set[Operation] = set()
    pending: list[Operation] = [reduction]
    while pending:
        op = pending.pop()
        before.add(op)
        pending += [x.owner for x in op.operands if isinstance(x.owner, Operation)]
    if failing and not failing & before:
        split_epilogue(kernel, reduction)


def _seed(block: Block, tried: Collection[KernelOp]) -> KernelOp | None:
    for op in block.ops:
        if isinstance(op, KernelOp) and op not in tried and _may_join(op):
            space = space_of(op)
            if space is not None and all(space):
                return op
    return None


def _may_join(op: KernelOp) -> bool:
    """Whether a kernel's ops may stand beside others': it owns what it writes."""
    plain = op.buffers is None and op.unwritten is None and whole_of(op) is None
    return plain and op.template.data != "rows"


def _candidates(
    block: Block, members: Sequence[KernelOp], space: tuple[Shape, Shape]
) -> list[KernelOp]:
    """Kernels over the same rows that read or make what the members do."""
    rows, columns = space
    shapes = {_units_left_out(rows), _units_left_out((*rows, *columns))}
    near: set[SSAValue] = set()
    for op in members:
        near |= {_looked_at(x) for x in (*op.inputs, *op.outs)}
    found: list[KernelOp] = []
    for op in block.ops:
        if not isinstance(op, KernelOp) or op in members or not _may_join(op):
            continue
        own = space_of(op)
        if own is not None and own != space:
            continue
        if not {_units_left_out(shape_of(x.type)) for x in op.outs} <= shapes:
            continue
        wide = {_looked_at(x) for x in (*op.inputs, *op.outs) if len(shape_of(x.type)) >= len(rows)}
        if wide & near:
            found.append(op)
    return found


def _units_left_out(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != ONE)


def _looked_at(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, ReshapeOp) and value.owner.unit_axes_only():
        value = value.owner.x
    return value


class _Group:
    """Kernels of a block that may become one, in order."""

    def __init__(self, block: Block, members: Sequence[KernelOp]) -> None:
        self.block = block
        chosen = set(members)
        self.order = {op: number for number, op in enumerate(block.ops)}
        self.members = sorted(chosen, key=self.order.__getitem__)
        self.made: set[SSAValue] = {x for op in self.members for x in op.outs}
        self.first, self.last = self.members[0], self.members[-1]

    def between(self) -> list[Operation]:
        """What else stands between the first and the last."""
        found: list[Operation] = []
        op = self.first.next_op
        while op is not None and op is not self.last:
            if op not in self.members:
                found.append(op)
            op = op.next_op
        return found

    def late(self) -> list[Operation]:
        """Of these what needs members' results, but for views of them that members alone read."""
        made = set(self.made)
        found: list[Operation] = []
        for op in self.between():
            if {*op.operands, *values_from_outside(op)} & made:
                made |= set(op.results)
                found.append(op)
        return found

    def is_convex(self) -> bool:
        """Whether no member needs what another op makes of members' results."""
        between = self.between()
        if any(isinstance(op, KernelOp) and not _may_join(op) and op.buffers for op in between):
            return False  # it writes over what others read
        views = {x for op in self.late() if _is_view(op) for x in op.results}
        others = {x for op in self.late() for x in op.results} - views
        return not any({_looked_at(x), x} & others for op in self.members for x in op.inputs)

    def leaving(self) -> list[SSAValue]:
        """Members' results that others read."""
        return [x for op in self.members for x in op.outs if self._leaves(x)]

    def _leaves(self, value: SSAValue) -> bool:
        for use in value.uses:
            user = use.operation
            if user in self.members:
                continue
            if not _is_view(user) or self._leaves(user.results[0]) or not user.results[0].first_use:
                return True
        return False

    def has_program(self, target: GpuTarget) -> bool:
        """Whether the kernel of all members has a tile program; it is made, and goes."""
        results = self.leaving()
        if not results or len(results) > RESULTS:
            return False
        kernel = self._kernel(results)
        self.block.insert_op_before(kernel, self.last)
        try:
            large = len(list(kernel.block.ops)) > OPS
            if large or any(layouts_of(kernel)) or not choose_rows(kernel, target):
                return False
            canonical_rows(kernel, "rows", layouts_of(kernel))
        except MlcError:
            return False
        finally:
            kernel.detach()
            kernel.erase()
        return True

    def _kernel(self, results: Sequence[SSAValue]) -> KernelOp:
        inputs: dict[SSAValue, None] = {}
        for op in self.members:
            inputs.update(dict.fromkeys(x for x in op.inputs if _looked_at(x) not in self.made))
        block = Block(arg_types=[x.type for x in inputs])
        local: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        known: dict[object, Operation] = {}

        def add(op: TensorOp, operands: Sequence[SSAValue]) -> SSAValue:
            properties = tuple(sorted((k, str(v)) for k, v in op.properties.items()))
            key = (op.name, tuple(operands), properties, op.results[0].type)
            if key not in known:
                known[key] = op.on(operands)
                block.add_op(known[key])
            return known[key].results[0]

        def at_hand(value: SSAValue) -> SSAValue:
            if value not in local:
                view = value.owner
                assert isinstance(view, ReshapeOp)
                local[value] = add(view, [at_hand(view.x)])
            return local[value]

        for op in self.members:
            own = dict[SSAValue, SSAValue](zip(op.block.args, map(at_hand, op.inputs), strict=True))
            for inner in op.block.ops:
                if isinstance(inner, TensorOp):
                    own[inner.results[0]] = add(inner, [own[x] for x in inner.operands])
            for value, result in zip(op.yielded.values, op.outs, strict=True):
                local[result] = own[value]
        block.add_op(YieldOp.create(operands=[local[x] for x in results]))
        kernel = KernelOp("rows", list(inputs), [x.type for x in results], Region(block))
        kernel.location = next(
            (op.location for op in self.members if op.template.data != "cell"), self.last.location
        )
        kernel.properties["cost"] = kernel_cost(kernel)
        return kernel

    def merge(self) -> None:
        """One kernel stands where the last member did; what needs members' results, behind it."""
        late, leaving = self.late(), self.leaving()
        kernel = self._kernel(leaving)
        self.block.insert_op_before(kernel, self.last)
        after: Operation = self.last
        for op in late:
            op.detach()
            self.block.insert_op_after(op, after)
            after = op
        for old, new in zip(leaving, kernel.outs, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        for op in reversed(self.members):
            for x in op.outs:
                _forget_views(x)
            op.detach()
            op.operands = []
        for op in self.members:
            op.erase()


def _forget_views(value: SSAValue) -> None:
    """Views of what nobody stores any more; members read them alone."""
    for use in list(value.uses):
        view = use.operation
        if _is_view(view):
            _forget_views(view.results[0])
            if view.results[0].first_use is None:
                view.detach()
                view.erase()


def _is_view(op: Operation) -> bool:
    return isinstance(op, ReshapeOp) and op.unit_axes_only()
