"""
Which ops share a kernel, by the states that `planner.py` decided, from the last op backwards.

An op is visited after everything that reads it, so it knows who wants it: kernels, element by
element, or somebody who needs it in memory. It is then computed inside all those kernels, or once,
in a kernel that writes it. Views and scalar constants are copied into whatever reads them.

Every kernel runs at the position of its last op in program order, and a value joins a later kernel
only if all its other readers come after that kernel: so no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.views import (
    is_splat,
    is_stored_constant,
    is_trip_number,
    is_view,
    through_reshapes,
)
from mlc.dialects.dims import Shape, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import ControlOp, ForOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import AGAIN, SAME, OpaqueOp, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp, TransposeOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.factors import widens
from mlc.passes.plan.fusion.legality import MAX_OPS, MAX_OUTPUTS, Chosen, Stage, ops_of
from mlc.passes.plan.fusion.points import OWN, Points
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.plan.memory.in_place.placed import is_own, is_placed, is_shared, is_written_there
from mlc.passes.tensor.constants import is_splat_of
from mlc.passes.tensor.scan_rows import stacked_outputs


@dataclass(eq=False)
class Kernel:
    """One kernel to be. `position` is the index of its last op in program order."""

    position: int
    shape: Shape
    outputs: list[SSAValue]
    reduction: TensorOp | None = None
    is_whole: bool = False
    is_copy: bool = False  # the first output is for one reader alone
    is_unwritten: bool = False  # what the output holds is written again before it is read
    ops: int = 0


class Demand(NamedTuple):
    """Somebody reads a value: a kernel, or (None) somebody who needs it in memory."""

    position: int
    kernel: Kernel | None = None
    stage: Stage = "result"
    reads: int = SAME
    point: int = OWN  # of the kernel's points, as `Points` numbers them


@dataclass
class Grouping:
    """The decisions for one block."""

    block: Block
    ownership: Ownership
    states: Mapping[SSAValue, Chosen]  # of values of this block and of those inside it
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    home: dict[SSAValue, Kernel] = field(default_factory=dict[SSAValue, Kernel])
    inner: dict[Block, Grouping] = field(default_factory=dict[Block, "Grouping"])
    # buffers needed from outside
    outer: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    leaving: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    # by op and operand: kernels that write what is handed on, where it must not be handed on itself
    copies: dict[tuple[Operation, int], Kernel] = field(
        default_factory=dict[tuple[Operation, int], Kernel]
    )

    def run(self) -> Grouping:
        """Decides every op of the block, and of the blocks inside it."""
        ops = list(self.block.ops)
        self._demands: dict[SSAValue, list[Demand]] = {}
        self._points = Points()
        self._over: dict[Shape, list[Kernel]] = {}
        self._facts = _Facts(ops, self.ownership)
        self.overwritten: dict[SSAValue, int] = {}  # buffers, by the op that writes over them
        self._leave(ops[-1], len(ops))
        for index in range(len(ops) - 2, -1, -1):
            op = ops[index]
            if isinstance(op, ControlOp):
                self._control(op, index)
            elif isinstance(op, KernelOp):
                for value in op.inputs:
                    self._need(value, Demand(index))
            elif isinstance(op, TensorOp):
                demands = self._demands.pop(op.results[0], None)
                if demands:
                    self._decide(op, index, list(dict.fromkeys(demands)))
        return self

    # Who reads what -----------------------------------------------------------------------------

    def _need(self, value: SSAValue, demand: Demand) -> None:
        owner = value.owner
        if owner is self.block:
            return
        if isinstance(owner, Operation) and owner.parent is self.block:
            self._demands.setdefault(value, []).append(demand)
        elif (
            demand.kernel is not None
            and isinstance(owner, TensorOp)
            and is_view(owner)
            and not (isinstance(owner, TransposeOp) and demand.stage == "operand")
        ):
            for k, x in enumerate(owner.operands):
                self._need(x, demand._replace(reads=max(demand.reads, owner.reads(k))))
        else:
            self.outer[value] = None

    def _leave(self, terminator: Operation, end: int) -> None:
        """
        A region hands on buffers. What a function ends with is written by kernels of its block,
        each value by its own; what is written as a whole is written once, and copied.
        """
        for k, value in enumerate(terminator.operands):
            if isinstance(terminator, YieldOp) and not is_placed(terminator, k):
                self._hand_on(terminator, k, end)
                continue
            root = through_reshapes(value, self.block)
            owner = root.owner
            computed = is_written_there(terminator, k, root)
            again = root in self.leaving and (
                isinstance(owner, OpaqueOp | ControlOp) or isinstance(terminator, YieldOp)
            )
            if computed and owner.parent is self.block and not again:
                self.leaving[root] = self.leaving.get(root, 0) + 1
                self._need(value, Demand(end))
            else:
                self._copy(terminator, k, end)

    def _hand_on(self, op: Operation, k: int, index: int) -> None:
        """An operand goes into or out of a region as it lies in memory."""
        value = op.operands[k]
        known = root_of(value)
        # its memory is written by the time it is read; or would be shared by what has one content
        own = is_own(through_reshapes(value, self.block)) or is_shared(known, op)
        own = own or is_trip_number(known) or is_splat(known) or _is_identity(op, k)
        if own or (op, k) in self.ownership.copied:
            self._copy(op, k, index)
        else:
            self._need(value, Demand(index))

    def _copy(self, op: Operation, k: int, index: int) -> None:
        value = op.operands[k]
        kernel = Kernel(index, shape_of(value.type), [value], is_copy=True)
        if isinstance(op, ForOp) and is_splat(root_of(value)):
            kernel.is_unwritten = k - 1 in stacked_outputs(op)
        if _is_identity(op, k):
            kernel.is_unwritten = True
        self.copies[op, k] = kernel
        self._add(kernel)
        self._need(value, Demand(index, kernel))

    def _control(self, op: ControlOp, index: int) -> None:
        for block in op.blocks:
            inner = self.inner[block] = Grouping(block, self.ownership, self.states).run()
            self.overwritten.update(dict.fromkeys(inner.overwritten, index))
            for value in inner.outer:
                self._need(value, Demand(index))
        first = len(op.operands) - len(op.starts)
        for k, value in enumerate(op.operands):
            if k >= first:
                self._hand_on(op, k, index)
            elif not isinstance(value.owner, ConstantOp | SizeOp):
                self._need(value, Demand(index))

    def _decide(self, op: TensorOp, index: int, demands: list[Demand]) -> None:
        if isinstance(op, ReshapeOp) and (not op.unit_axes_only() or _all_buffers(demands)):
            self._need(op.x, Demand(min(d.position for d in demands)))
        elif isinstance(op, TileOp) and op.looks_at_memory:
            for x in op.operands:
                self._need(x, Demand(min(d.position for d in demands)))
        elif is_stored_constant(op):
            return
        elif op in self.ownership.in_place:
            self._update_in_place(op, index)
        elif is_view(op):
            self._decide_view(op, index, demands)
        elif isinstance(op, Reduction):
            self._decide_reduction(op, index, demands)
        elif isinstance(op, OpaqueOp):
            kernel = self._around(op, demands)
            if kernel is None:
                kernel = self._new_kernel(op, index, is_whole=True)
            stored = op.stored_operands()
            for k, part in enumerate(op.operands):
                if k in stored:
                    self._need(part, Demand(kernel.position))
                    continue
                (point,) = self._points.alone(op, k, len(shape_of(part.type)))
                self._need(part, Demand(kernel.position, kernel, "piece", op.reads(k), point))
        else:
            self._decide_pointwise(op, index, demands)

    def _around(self, op: OpaqueOp, demands: list[Demand]) -> Kernel | None:
        """The concatenation that alone reads a concatenation, as one of its pieces."""
        users = [use.operation for use in op.results[0].uses]
        kernel = demands[0].kernel
        if kernel is None or self._is_apart(op) or len(users) != 1:
            return None
        nested = all(isinstance(x, ConcatOp) for x in (op, users[0]))
        if not nested or kernel.ops >= MAX_OPS or self._is_late(op, kernel.position):
            return None
        kernel.ops += len(op.operands)
        return kernel

    def _is_apart(self, op: TensorOp) -> bool:
        return self.states.get(op.results[0]) == "apart"

    def _update_in_place(self, op: TensorOp, index: int) -> None:
        """A kernel over the update alone; what that is made of the old tensor is made before."""
        target, *others = op.operands
        kernel = self._new_kernel(op, index, is_whole=True)
        old = root_of(target)
        self.overwritten[old] = index
        self._need(target, Demand(index))
        for k, x in enumerate(others):
            reads_old = bool(self._facts.mask(x) & self._facts.roots.get(old, 0))
            (point,) = self._points.alone(op, k + 1, len(shape_of(x.type)))
            part = Demand(index, kernel, "piece", SAME if k == 0 else AGAIN, point)
            self._need(x, Demand(index) if reads_old else part)

    def _is_late(self, op: TensorOp, position: int) -> bool:
        """Whether something the op reads is written over before that position."""
        if not self.overwritten:
            return False
        below = 0
        for x in op.operands:
            below |= self._facts.mask(x)
        return any(
            index < position and below & self._facts.roots.get(root, 0)
            for root, index in self.overwritten.items()
        )

    def _decide_view(self, op: TensorOp, index: int, demands: list[Demand]) -> None:
        if any(d.kernel is None for d in demands):
            if isinstance(op, ReshapeOp):
                self._need(op.x, Demand(min(d.position for d in demands if d.kernel is None)))
            else:
                self._compute(op, Demand(index, self._new_kernel(op, index)))
        for d in demands:
            self._compute(op, d)

    def _decide_reduction(self, op: TensorOp, index: int, demands: list[Demand]) -> None:
        kernel = self._epilogue(op, demands)
        if kernel is None:
            kernel = self._new_kernel(op, index)
        elif any(d.kernel is None for d in demands):
            self._write(op.results[0], kernel)
        kernel.reduction = op
        kernel.ops += ops_of(op)
        stage = "operand" if isinstance(op, Product) else "prologue"
        stored = op.stored_operands()
        for k, x in enumerate(op.operands):
            reads = AGAIN if stage == "operand" else SAME
            if k in stored:
                self._need(x, Demand(kernel.position))
                continue
            for point in self._points.read(op, k):
                self._need(x, Demand(kernel.position, kernel, stage, reads, point))

    def _epilogue(self, op: TensorOp, demands: list[Demand]) -> Kernel | None:
        """The pointwise kernel that alone reads the reduction, at the reduction's own points."""
        readers = {d.kernel for d in demands if d.kernel is not None}
        if len(readers) != 1 or self.states.get(op.results[0]) in ("buffer", "apart"):
            return None
        (kernel,) = readers
        taken = kernel.reduction is not None or kernel.is_whole or kernel.shape != op.shape
        taken = taken or self._is_late(op, kernel.position)
        return None if taken or not _fits(kernel, demands) else kernel

    def _decide_pointwise(self, op: TensorOp, index: int, demands: list[Demand]) -> None:
        if self._is_inlined(op, demands):
            for kernel, _ in {(d.kernel, d.point) for d in demands}:
                assert kernel is not None
                kernel.ops += ops_of(op)
            for d in demands:
                self._compute(op, d)
            return
        kernel = self._joined(op, demands)
        if kernel is None:
            kernel = self._new_kernel(op, index)
        else:
            self._write(op.results[0], kernel)
        kernel.ops += ops_of(op)
        self._compute(op, Demand(kernel.position, kernel))

    def _is_inlined(self, op: TensorOp, demands: list[Demand]) -> bool:
        """Whether the op is computed inside each kernel that reads it, and stored nowhere."""
        kernels = {d.kernel for d in demands}
        if None in kernels or self.states.get(op.results[0]) != "inline":
            return False
        ops = ops_of(op)
        if any(k is not None and k.ops + ops > MAX_OPS for k in kernels):
            return False
        if any(k is not None and self._is_late(op, k.position) for k in kernels):
            return False
        if any(d.stage == "operand" for d in demands):
            return widens(op) or (isinstance(op, ConvertOp) and len(kernels) == 1)
        return True

    def _joined(self, op: TensorOp, demands: list[Demand]) -> Kernel | None:
        """An existing kernel over the same points that can write the value on its way."""
        if self._is_apart(op):
            return None
        over = self._over.get(op.shape, [])
        readers = {d.kernel for d in demands}
        joined = self._first(op, [kernel for kernel in over if kernel in readers], demands)
        if joined is not None:
            return joined
        mine, before = self._facts.mask(op.results[0]), min(d.position for d in demands)
        others: list[Kernel] = []
        for kernel in reversed(over):  # the last ones made stand first in the program
            if kernel.position >= before:
                break
            if kernel.reduction is None and any(mine & self._facts.mask(v) for v in kernel.outputs):
                others.append(kernel)
        return self._first(op, others[::-1], demands)

    def _first(
        self, op: TensorOp, kernels: Sequence[Kernel], demands: Sequence[Demand]
    ) -> Kernel | None:
        """The kernel that runs first of those that may write the value on their way."""
        best: Kernel | None = None
        ops = ops_of(op)
        for kernel in kernels:
            if kernel.is_whole or len(kernel.outputs) >= MAX_OUTPUTS or kernel.ops + ops > MAX_OPS:
                continue
            if not _fits(kernel, demands) or self._is_late(op, kernel.position):
                continue
            if best is None or kernel.position < best.position:
                best = kernel
        return best

    # Kernels ------------------------------------------------------------------------------------

    def _new_kernel(self, op: TensorOp, index: int, *, is_whole: bool = False) -> Kernel:
        kernel = Kernel(index, op.shape, [], is_whole=is_whole)
        self._add(kernel)
        self._write(op.results[0], kernel)
        return kernel

    def _add(self, kernel: Kernel) -> None:
        self.kernels.append(kernel)
        self._over.setdefault(kernel.shape, []).append(kernel)

    def _write(self, value: SSAValue, kernel: Kernel) -> None:
        kernel.outputs.append(value)
        self.home[value] = kernel

    def _compute(self, op: TensorOp, demand: Demand) -> None:
        """The op is computed where a kernel wants it: so the kernel reads its operands."""
        if demand.kernel is None:
            return
        stored = op.stored_operands()
        for k, x in enumerate(op.operands):
            if k in stored:
                self._need(x, Demand(demand.kernel.position))
                continue
            reads = max(demand.reads, op.reads(k))
            inner = demand._replace(position=demand.kernel.position, reads=reads)
            for read in self._points.read(op, k):
                self._need(x, inner._replace(point=self._points.behind(demand.point, read)))


class _Facts:
    """
    Of each value of a block: what it is made of, back to reductions and to memory, as bits.
    `roots`: the bits of the values that lie in some memory.
    """

    def __init__(self, ops: Iterable[Operation], ownership: Ownership) -> None:
        self.stored = ownership.in_place
        self.roots: dict[SSAValue, int] = {}
        self._masks: dict[SSAValue, int] = {}
        self._count = 0
        for op in ops:
            for value in op.results:
                self._value(op, value)

    def _value(self, op: Operation, value: SSAValue) -> None:
        stops = not isinstance(op, TensorOp) or isinstance(op, Reduction | OpaqueOp)
        stops = stops or op in self.stored or (isinstance(op, TileOp) and op.looks_at_memory)
        if stops or (isinstance(op, ReshapeOp) and not op.unit_axes_only()):
            self.mask(value)
            return
        mask = 0
        for x in op.operands:
            mask |= self.mask(x)
        self._masks[value] = mask

    def mask(self, value: SSAValue) -> int:
        """What the value is made of; what is made elsewhere is made of itself."""
        found = self._masks.get(value)
        if found is None:
            found = self._masks[value] = 1 << self._count
            self._count += 1
            root = root_of(value)
            self.roots[root] = self.roots.get(root, 0) | found
        return found


def _is_identity(op: Operation, k: int) -> bool:
    """Whether an operand is a fold's start, and what its chunks of trips start from anyway."""
    if not isinstance(op, TilesOp) or not op.spreads or op.parts is not None:
        return False
    value, fold = op.operands[k], op.folds[k - (len(op.operands) - len(op.starts))]
    (identity,) = MONOIDS[fold].identity(element_dtype(value))
    return is_splat_of(value, identity)


def _all_buffers(demands: Sequence[Demand]) -> bool:
    return all(d.kernel is None for d in demands)


def _fits(kernel: Kernel, demands: Sequence[Demand]) -> bool:
    """Whether the kernel may write what these read: itself at its points, others later."""
    for d in demands:
        if d.kernel is kernel:
            if d.stage != "result" or d.reads != SAME:
                return False
        elif d.position <= kernel.position:
            return False
    return True
