"""Loops of numbers and single elements: one kernel each, which runs them as they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.nests import (
    HELD,
    NotANestError,
    held_in,
    is_number,
    loop_of,
    places_of,
)
from mlc.dialects.analysis.views import STORED, is_view
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import (
    PARALLEL,
    ControlOp,
    ForOp,
    WhileOp,
    YieldOp,
    is_inside,
)
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.nests import nest_cost


@dataclass(frozen=True)
class FormNestsPass(ModulePass):
    """
    mlc.for … { kernels of one element }  ->  mlc.kernel "nest" { mlc.for … { their ops } }

    A nest has numbers in registers and arrays in memory, which it writes element by element: so a
    loop is one where every kernel in it computes one element or writes one in place, and no array
    is read after it was written over. Outermost loops first.
    """

    name = "mlc-form-nests"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _form(function.body.block)


def _form(block: Block) -> None:
    for op in list(block.ops):
        if isinstance(op, KernelOp) and op.is_nest:
            _hold_again(op.block)
            for out in op.outs:
                _without_copy(out)
        if isinstance(op, TilesOp) or not isinstance(op, ControlOp):
            continue
        if isinstance(op, ForOp | WhileOp) and _holds_elements(op) and not _deals_inside(op):
            try:
                NestBuilder(op).run()
                continue
            except NotANestError:
                pass
        for inner in op.blocks:
            _form(inner)


def _hold_again(block: Block) -> None:
    """Ops that rules have put in the place of others since the nest was made must be held too."""
    loop = loop_of(block)
    assert loop is not None
    for op in held_in(loop):
        op.attributes[HELD] = UnitAttr()


def _holds_elements(loop: ControlOp) -> bool:
    """Whether something is computed inside, and all of it is single elements, or written to one."""
    computed = [op for block in loop.blocks for op in _computed_in(block)]
    return bool(computed) and all(map(_is_of_elements, computed))


def _computed_in(block: Block) -> Iterator[Operation]:
    """The ops of a block and of the regions in it, but what moves elements only; kernels whole."""
    for op in block.ops:
        if isinstance(op, ControlOp) and not isinstance(op, TilesOp):
            for inner in op.blocks:
                yield from _computed_in(inner)
        elif not isinstance(op, YieldOp | BindOp | ConstantOp | SizeOp) and not is_view(op):
            yield op


def _is_of_elements(op: Operation) -> bool:
    if isinstance(op, KernelOp):
        return op.overwritten is not None or all(map(is_number, op.outs))
    if isinstance(op, DynamicUpdateOp):
        return is_number(op.update)
    return isinstance(op, TensorOp) and is_number(op.results[0])


def _deals_inside(loop: ControlOp) -> bool:
    """Whether loops within one may be shared by workers, and it may not."""
    inner = (x for x in loop.walk() if x is not loop)
    return PARALLEL not in loop.attributes and any(PARALLEL in x.attributes for x in inner)


class NestBuilder:
    """A loop as the body of a kernel; `held`: what has memory of its own in it."""

    def __init__(self, loop: ForOp | WhileOp, held: Collection[Operation] = ()) -> None:
        self.loop = loop
        self.held = held
        self.block = Block()
        self.new: dict[SSAValue, SSAValue] = {}
        self.inputs: list[SSAValue] = []
        self.replaced: list[KernelOp] = []  # what the nest computes itself where it starts

    def run(self) -> None:
        """Puts the kernel in the loop's place. Raises NotANestError."""
        loop = self.loop
        first = len(loop.operands) - len(loop.starts)
        operands = [self._outer(x) for x in loop.operands[:first]]
        operands += [self._start(x) for x in loop.operands[first:]]
        made = self._control(loop, operands)
        self.block.add_op(made)
        self.block.add_op(YieldOp.create(operands=made.results))
        places_of(self.block)
        kernel = KernelOp("nest", self.inputs, [x.type for x in loop.results], Region(self.block))
        kernel.location = loop.location
        kernel.properties["cost"] = nest_cost(kernel)
        assert loop.parent is not None
        loop.parent.insert_op_before(kernel, loop)
        for old, new in zip(loop.results, kernel.outs, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        loop.detach()
        loop.erase(safe_erase=False)
        for copy in self.replaced:
            if all(x.first_use is None for x in copy.outs):
                copy.detach()
                copy.erase()
        for out in kernel.outs:
            _without_copy(out)

    # values from outside ----------------------------------------------------------------------

    def _outer(self, value: SSAValue) -> SSAValue:
        """A value as the nest has it: an input, if it comes from outside."""
        found = self.new.get(value)
        if found is not None:
            return found
        owner = value.owner
        if isinstance(owner, SizeOp) or (isinstance(owner, ConstantOp) and owner.only_moves):
            return self._copied(owner)
        if isinstance(owner, Operation) and is_inside(value, self.loop):
            if not isinstance(owner, ConstantOp):
                raise NotANestError(f"{owner.name} in the loop is read from memory")
            self._move_out(owner)
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        self.inputs.append(value)
        self.new[value] = argument
        return argument

    def _copied(self, op: TensorOp) -> SSAValue:
        copy = op.on([])
        self.block.add_op(copy)
        self.new[op.results[0]] = copy.results[0]
        return copy.results[0]

    def _move_out(self, constant: ConstantOp) -> None:
        """A table stands before the loop."""
        constant.detach()
        assert self.loop.parent is not None
        self.loop.parent.insert_op_before(constant, self.loop)

    def _start(self, value: SSAValue) -> SSAValue:
        """What a carried value starts from: of a copy, what it copies."""
        copy = value.owner
        if not isinstance(copy, KernelOp) or not self._only_copies(copy):
            return self._outer(value)
        self.replaced.append(copy)
        pairs = zip(copy.block.args, map(self._outer, copy.inputs), strict=True)
        local = dict[SSAValue, SSAValue](pairs)
        for op in copy.block.ops:
            if isinstance(op, TensorOp):
                new = op.on([local[x] for x in op.operands])
                self.block.add_op(new)
                local[op.results[0]] = new.results[0]
        return local[copy.yielded.values[0]]

    def _only_copies(self, kernel: KernelOp) -> bool:
        """Whether a kernel makes the start of this loop alone, of equal elements or as a copy."""
        if kernel.parent is not self.loop.parent or len(kernel.outs) != 1:
            return False
        if kernel.overwritten is not None or not kernel.outs[0].has_one_use():
            return False
        op = kernel.next_op
        while op is not None and op is not self.loop:
            if not isinstance(op, KernelOp | ConstantOp | SizeOp | ReshapeOp):
                return False
            if isinstance(op, KernelOp) and op.overwritten is not None:
                return False
            op = op.next_op
        if op is None:
            return False
        return _is_plain_copy(kernel) or all(
            isinstance(inner, ConstantOp | YieldOp) for inner in kernel.block.ops
        )

    # the loop ---------------------------------------------------------------------------------

    def _control(self, op: ControlOp, operands: list[SSAValue]) -> ControlOp:
        regions: list[Region] = []
        for block in op.blocks:
            new = Block(arg_types=[x.type for x in block.args])
            for old, argument in zip(block.args, new.args, strict=True):
                argument.name_hint = old.name_hint
                self.new[old] = argument
            self._fill(block, new)
            regions.append(Region(new))
        kept = {PARALLEL: UnitAttr()} if PARALLEL in op.attributes else {}
        types = [x.type for x in op.results]
        made = type(op).create(
            operands=operands, result_types=types, regions=regions, attributes=kept
        )
        made.location = op.location
        self.new.update(zip(op.results, made.results, strict=True))
        return made

    def _fill(self, block: Block, new: Block) -> None:
        for op in block.ops:
            if isinstance(op, KernelOp):
                self._kernel(op, new)
            elif isinstance(op, YieldOp):
                new.add_op(YieldOp.create(operands=[self._outer(x) for x in op.values]))
            elif isinstance(op, BindOp):
                new.add_op(BindOp.of(op.symbol.data, self._outer(op.x), op.highest))
            elif isinstance(op, ControlOp):
                new.add_op(self._control(op, [self._outer(x) for x in op.operands]))
            elif isinstance(op, ConstantOp) and not op.only_moves:
                continue  # a table stands where it is read
            elif isinstance(op, TensorOp) and not isinstance(op, OpaqueOp):
                self._add(op, new, self.new, map(self._outer, op.operands))
            else:
                raise NotANestError(f"holds {op.name}")

    def _kernel(self, kernel: KernelOp, new: Block) -> None:
        pairs = zip(kernel.block.args, map(self._outer, kernel.inputs), strict=True)
        local = dict[SSAValue, SSAValue](pairs)
        for op in kernel.block.ops:
            if isinstance(op, TensorOp):
                self._add(op, new, local, (local[x] for x in op.operands))
            elif not isinstance(op, YieldOp):
                new.add_op(op.clone(local))  # of a kernel that is a nest itself
        values = kernel.yielded.values
        self.new.update((x, local[v]) for x, v in zip(kernel.outs, values, strict=True))

    def _add(
        self,
        op: TensorOp,
        block: Block,
        local: dict[SSAValue, SSAValue],
        operands: Iterator[SSAValue],
    ) -> None:
        copy = op.on(list(operands))
        copy.attributes.pop(STORED, None)
        if op in self.held:
            copy.attributes[HELD] = UnitAttr()
        block.add_op(copy)
        local[op.results[0]] = copy.results[0]


def _is_plain_copy(kernel: KernelOp) -> bool:
    return len(kernel.inputs) == len(kernel.outs) == 1 and list(kernel.yielded.values) == list(
        kernel.block.args
    )


def _without_copy(value: SSAValue) -> None:
    """A result of which nobody but a copy knows is what the copy would be."""
    use = next(iter(value.uses), None)
    copy = use.operation if use is not None and value.has_one_use() else None
    if isinstance(copy, KernelOp) and _is_plain_copy(copy) and copy.overwritten is None:
        copy.outs[0].replace_all_uses_with(value)
        copy.detach()
        copy.erase()
