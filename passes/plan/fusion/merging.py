"""Kernels that become one: which may, what stands between them, and what the one consists of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.analysis.aliases import values_from_outside
from mlc.dialects.plan import KernelOp, Template
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.passes.cost.model import kernel_cost


def blocks_of(op: Operation) -> Iterator[Block]:
    """The blocks that kernels stand in."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in list(block.ops):
                if inner.regions and not isinstance(inner, KernelOp):
                    yield from blocks_of(inner)


def may_join(op: KernelOp) -> bool:
    """Whether a kernel's ops may stand beside others': it owns what it writes."""
    plain = op.buffers is None and op.unwritten is None and whole_of(op) is None
    return plain and op.template.data != "rows"


def looked_at(value: SSAValue) -> SSAValue:
    """What a value is, behind views that only leave axes of one element out."""
    while isinstance(value.owner, ReshapeOp) and value.owner.unit_axes_only():
        value = value.owner.x
    return value


class Group:
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
        if any(isinstance(op, KernelOp) and not may_join(op) and op.buffers for op in between):
            return False  # it writes over what others read
        if any(isinstance(op, BindOp) for op in self.late()):
            return False  # what says its symbol stays behind it
        views = {x for op in self.late() if _is_view(op) for x in op.results}
        others = {x for op in self.late() for x in op.results} - views
        return not any({looked_at(x), x} & others for op in self.members for x in op.inputs)

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

    def kernel(self, template: Template, results: Sequence[SSAValue]) -> KernelOp:
        """One kernel of all members, with equal ops once; it stands nowhere yet."""
        inputs: dict[SSAValue, None] = {}
        for op in self.members:
            inputs.update(dict.fromkeys(x for x in op.inputs if looked_at(x) not in self.made))
        block = Block(arg_types=[x.type for x in inputs])
        local: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        known: dict[object, Operation] = {}

        def add(op: TensorOp, operands: Sequence[SSAValue]) -> SSAValue:
            properties = tuple(sorted((k, str(v)) for k, v in op.properties.items()))
            inner = id(op) if op.regions else None  # none is equal to another one
            key = (op.name, tuple(operands), properties, op.results[0].type, inner)
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
        kernel = KernelOp(template, list(inputs), [x.type for x in results], Region(block))
        kernel.location = next(
            (op.location for op in self.members if op.template.data != "cell"), self.last.location
        )
        kernel.properties["cost"] = kernel_cost(kernel)
        return kernel

    def merge(self, template: Template) -> None:
        """One kernel stands where the last member did; what needs members' results, behind it."""
        late, leaving = self.late(), self.leaving()
        kernel = self.kernel(template, leaving)
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
