"""Kernels: tensor ops in groups that run as one loop nest each, with their cost (D16, D22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.views import is_buffer, is_view, through_reshapes
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import BufferAttr, KernelOp, Template
from mlc.dialects.program import SYMBOLS, symbols_of
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.dialects.tensor.window import Windowed
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.model import kernel_cost
from mlc.passes.plan.fusion.choose_fusion import ChooseFusionPass, take_choices, unformed
from mlc.passes.plan.fusion.grouping import Grouping, Kernel
from mlc.passes.plan.fusion.planner import BUDGET_MS
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.remarks import place


@dataclass(frozen=True)
class FormKernelsPass(ModulePass):
    """
    Puts every op that computes into an `mlc.kernel`; outside stay buffers and their views.

    Which values are stored, `mlc.state` of their ops says; of a function without,
    `mlc-choose-fusion` is asked first, whose options these are.
    """

    name = "mlc-form-kernels"

    fusion: str = "exact"
    budget_ms: float = BUDGET_MS
    forced: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.form(op)

    def form(self, module: ModuleOp) -> float:
        """Applies the pass; the seconds of the plan by the cost that the search compares."""
        seconds = ChooseFusionPass(self.fusion, self.budget_ms, self.forced).choose_all(module)
        for function in unformed(module):
            _form(function)
        return seconds


def _form(function: FuncOp) -> None:
    block = function.body.block
    symbols = symbols_of(function)
    if symbols and SYMBOLS not in function.attributes:
        function.attributes[SYMBOLS] = ArrayAttr([StringAttr(name) for name in symbols])
    order = {op: index for index, op in enumerate(function.walk())}
    general = set[SSAValue](block.args[k] for k in general_arguments(function))
    grouping = Grouping(block, Ownership(function), take_choices(function)).run()
    _Build(grouping, order, general, None).run()


def general_arguments(function: FuncOp) -> list[int]:
    """The arguments that may have any strides."""
    if function.arg_attrs is None:
        return []
    general = StringAttr("general")
    entries = function.arg_attrs
    return [k for k, entry in enumerate(entries) if entry.data.get("mlc.layout") == general]


class _Build:
    """Rewrites one block by the grouping's decisions."""

    def __init__(
        self,
        grouping: Grouping,
        order: dict[Operation, int],
        general: set[SSAValue],
        parent: _Build | None,
    ) -> None:
        self.grouping = grouping
        self.block = grouping.block
        self.order = order
        self.general = general
        self.parent = parent
        self.new: dict[SSAValue, SSAValue] = {}  # buffers, by the value they hold
        self.leaving: dict[SSAValue, list[SSAValue]] = {}
        self.made: dict[Kernel, KernelOp] = {}
        self.ops: list[Operation] = []

    def run(self) -> None:
        """Fills the block anew."""
        old = list(self.block.ops)
        at: dict[int, list[Kernel]] = {}
        for kernel in reversed(self.grouping.kernels):
            at.setdefault(kernel.position, []).append(kernel)
        for index, op in enumerate(old):
            for kernel in at.get(index, ()):
                self.kernel(kernel)
            if isinstance(op, ControlOp):
                self.control(op)
            elif isinstance(op, KernelOp):
                op.operands = [self.contiguous(x) for x in op.inputs]
                self.ops.append(op)
        terminator = old[-1]
        for kernel in at.get(len(old), ()):
            self.kernel(kernel)
        values = [self.left(terminator, k) for k in range(len(terminator.operands))]
        kept = {*self.ops, terminator}
        for op in reversed(old):
            op.detach()
            if not isinstance(op, ControlOp | KernelOp) and op not in kept:
                op.erase(safe_erase=False)
        self.block.add_ops([*self.ops, terminator])
        terminator.operands = values

    def left(self, terminator: Operation, k: int) -> SSAValue:
        """The buffer in which a value leaves the block; a second time, the next copy of it."""
        value = terminator.operands[k]
        if isinstance(terminator, YieldOp) or (terminator, k) in self.grouping.copies:
            return self.handed_on(terminator, k)
        root = through_reshapes(value, self.block)
        is_loop = isinstance(root.owner, ControlOp | KernelOp)
        buffer = self.buffer(root) if is_loop else self.leaving[root].pop(0)
        return buffer if value is root else self.reshape(cast(ReshapeOp, value.owner), buffer)

    def handed_on(self, op: Operation, k: int) -> SSAValue:
        """An operand in memory, row by row; its copy where it must not be handed on itself."""
        copy = self.grouping.copies.get((op, k))
        return self.contiguous(op.operands[k]) if copy is None else self.made[copy].results[0]

    def control(self, op: ControlOp) -> None:
        """Rewrites the regions; operands become buffers."""
        if isinstance(op, TilesOp) and op.combine is not None:
            raise PlanError(
                f"{place(op)}: mlc-form-kernels: mlc.tiles with a region that combines states;"
                " expected none behind mlc-split-folds: run it first"
            )
        for block in op.blocks:
            for value in self.grouping.inner[block].outer:
                self.buffer(value)
        first = len(op.operands) - len(op.starts)
        for value in op.operands[:first]:
            owner = value.owner
            is_free = isinstance(owner, TensorOp) and is_view(owner) and not owner.operands
            if is_free and value not in self.new and owner.parent is self.block:
                self.new[value] = self.emit(cast(TensorOp, owner).on([])).results[0]
        op.operands = [
            self.buffer(value) if k < first else self.handed_on(op, k)
            for k, value in enumerate(op.operands)
        ]
        for block in op.blocks:
            _Build(self.grouping.inner[block], self.order, self.general, self).run()
        self.ops.append(op)

    def emit(self, op: Operation) -> Operation:
        """Appends an op to the new block."""
        self.ops.append(op)
        return op

    def buffer(self, value: SSAValue) -> SSAValue:
        """The value in memory."""
        found = self.new.get(value)
        if found is not None:
            return found
        owner = value.owner
        if not isinstance(owner, TensorOp) or owner.parent is not self.block:
            if self.parent is None or owner is self.block or isinstance(owner, ControlOp):
                return value
            return self.parent.buffer(value)
        if isinstance(owner, ReshapeOp):
            new = self.reshape(owner, self.contiguous(owner.x))
        elif isinstance(owner, TileOp):
            new = self.emit(owner.on([self.buffer(x) for x in owner.operands])).results[0]
            if owner.x in self.general or not owner.is_dense:
                self.general.add(owner.result)
        else:
            new = self.emit(owner.on([])).results[0]
        self.new[value] = new
        return new

    def contiguous(self, value: SSAValue) -> SSAValue:
        """The value in memory, row by row: an argument of any strides is copied first."""
        buffer = self.buffer(value)
        if value not in self.general:
            return buffer
        copy = self.kernel(Kernel(0, (), [value], is_copy=True))
        return copy.results[0]

    def reshape(self, op: ReshapeOp, buffer: SSAValue) -> SSAValue:
        """Another view of a buffer."""
        return self.emit(op.on([buffer])).results[0]

    def kernel(self, kernel: Kernel) -> KernelOp:
        """The `mlc.kernel` op, appended."""
        needed, inputs = self.contents(kernel)
        block = Block(arg_types=[x.type for x in inputs])
        local: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for op in needed:
            copy = op.on([local[x] for x in op.operands])
            block.add_op(copy)
            local[op.results[0]] = copy.results[0]
        own = kernel.outputs[: kernel.is_copy]
        others = kernel.outputs[kernel.is_copy :]
        outputs = own + [v for v in others for _ in range(self.grouping.leaving.get(v, 1))]
        block.add_op(YieldOp.create(operands=[local[v] for v in outputs]))
        new = KernelOp(
            _template(needed, kernel),
            [self.buffer(x) for x in inputs],
            [v.type for v in outputs],
            Region(block),
        )
        new.location = _location(kernel, needed)
        if (update := outputs[0].owner) in self.grouping.ownership.in_place and needed:
            target = inputs.index(cast(TensorOp, update).operands[0])
            new.properties["buffers"] = ArrayAttr([BufferAttr(("input", (target,)))])
        if kernel.is_unwritten:
            new.properties["unwritten"] = UnitAttr()
        new.properties["cost"] = kernel_cost(new)
        self.emit(new)
        self.made[kernel] = new
        for value, result in list(zip(outputs, new.results, strict=True))[len(own) :]:
            if value in self.grouping.home:
                self.new.setdefault(value, result)
                self.leaving.setdefault(value, []).append(result)
        return new

    def contents(self, kernel: Kernel) -> tuple[list[TensorOp], list[SSAValue]]:
        """The ops to copy into the kernel, in program order, and the values it reads."""
        needed: dict[Operation, None] = {}
        inputs: dict[SSAValue, None] = {}
        pending = [(value, False) for value in kernel.outputs]
        while pending:
            value, must_be_input = pending.pop()
            owner = value.owner
            elsewhere = self.is_elsewhere(value, kernel)
            if must_be_input or elsewhere or not isinstance(owner, TensorOp):
                inputs[value] = None
            elif owner not in needed:
                needed[owner] = None
                in_place = owner in self.grouping.ownership.in_place
                stored = (0,) if in_place else owner.stored_operands()
                home = self.grouping.home
                for k, x in enumerate(owner.operands):
                    # a view of what is written over is made before, as everything else of it is
                    before = in_place and home.get(x, kernel) is not kernel
                    pending.append((x, k in stored or before))
        ops = [op for op in needed if isinstance(op, TensorOp)]
        ops.sort(key=lambda op: self.order[op])
        return ops, sorted(inputs, key=_input_order(self.order))

    def is_elsewhere(self, value: SSAValue, kernel: Kernel) -> bool:
        """Whether the kernel reads the value from memory."""
        if is_buffer(value):
            return True
        owner = value.owner
        if isinstance(owner, TensorOp) and is_view(owner):
            return owner.parent is not self.block and self.is_made_around(value)
        home = self.grouping.home.get(value)
        return home is not kernel if home is not None else owner.parent is not self.block

    def is_made_around(self, value: SSAValue) -> bool:
        """Whether a kernel of a block around this one writes the value."""
        around = self.parent
        while around is not None and value not in around.grouping.home:
            around = around.parent
        return around is not None


def _input_order(order: dict[Operation, int]) -> Callable[[SSAValue], tuple[int, int]]:
    """Arguments first, then in program order."""

    def key(value: SSAValue) -> tuple[int, int]:
        owner = value.owner
        if isinstance(owner, Operation):
            return order.get(owner, -1) + 1, cast(OpResult, value).index
        return 0, cast(BlockArgument, value).index

    return key


def _location(kernel: Kernel, ops: Sequence[TensorOp]) -> LocationAttr:
    """Where the user wrote the last op."""
    if kernel.reduction is not None:
        return kernel.reduction.location
    return ops[-1].location if ops else UnknownLoc()


def _template(ops: Sequence[TensorOp], kernel: Kernel) -> Template:
    reduction = kernel.reduction
    if isinstance(reduction, ContractOp):
        return "contraction"
    if isinstance(reduction, Windowed):
        return "window"
    if isinstance(reduction, ReduceOp):
        return "row" if kernel.shape else "magg"
    for op in ops:
        if isinstance(op, OpaqueOp):
            return op.TEMPLATE
    if any(isinstance(op, GatherOp) for op in ops):
        return "gather"
    if all(op.only_moves for op in ops):
        return "copy"
    return "cell"
