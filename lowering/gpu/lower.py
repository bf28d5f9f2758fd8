"""The plan level's function as an entry that launches kernels, and its kernels as GPU functions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import gpu
from mlc.dialects.errors import MlcError
from mlc.dialects.nest import Nest, nest_of, whole_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.roles import contraction_roles
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ConcatOp
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.cell import CellPhase, PiecePhase
from mlc.lowering.gpu.contract import TilePhase
from mlc.lowering.gpu.phase import Phase
from mlc.lowering.gpu.reduce import (
    ColumnPhase,
    FoldPhase,
    PartialPhase,
    PlainPhase,
    RowPhase,
    needs_two_phases,
    partial_scratch,
)
from mlc.lowering.gpu.transpose import transposed
from mlc.lowering.gpu.update import UpdatePhase
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import buffer_type
from mlc.lowering.loops.function import Kernel, Scratch, lower_kernel
from mlc.lowering.loops.lower import EntryLowering
from mlc.lowering.loops.update import update_of


class NoGpuTemplateError(MlcError, NotImplementedError):
    """
    A kernel of a shape that the GPU lowering does not know yet.

    ``mlc.sort`` on a GPU — compile the function for a CPU.
    """


def lower_to_gpu(module: ModuleOp) -> ModuleOp:
    """A loops-level module with the GPU kernels and the entry of the module's function.

    `mlc.sites` lists what the numbers in `mlc_par.fail` stand for, from 1.
    """
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    return _GpuEntry(module, function).lower()


def phases_of(kernel: KernelOp, strided: frozenset[int]) -> tuple[Phase, ...]:
    """The functions that compute a kernel's results, by its template and schedule."""
    nest, schedule = nest_of(kernel), kernel.schedule.data if kernel.schedule else Schedule()
    if kernel.overwritten is not None:
        return (UpdatePhase(update_of(kernel), schedule),)
    if nest is None:
        return _pieces(kernel, schedule)
    if nest.reduction is None:
        return (transposed(nest, strided) or CellPhase(nest, schedule, strided),)
    if isinstance(nest.reduction, ContractOp) and schedule.tile_m:
        roles = contraction_roles(nest.reduction)
        assert roles is not None
        return (TilePhase(nest, schedule, strided, nest.reduction, roles),)
    return _reduction(nest, schedule, strided)


def _reduction(nest: Nest, schedule: Schedule, strided: frozenset[int]) -> tuple[Phase, ...]:
    if len(nest.sizes) == nest.rank:
        return (PlainPhase(nest, schedule, strided),)
    if schedule.vector_axis < nest.rank:
        return (ColumnPhase(nest, schedule, strided),)
    if needs_two_phases(nest, schedule):
        first = PartialPhase(nest, schedule, strided)
        return (first, FoldPhase(first))
    return (RowPhase(nest, schedule, strided),)


def _pieces(kernel: KernelOp, schedule: Schedule) -> tuple[Phase, ...]:
    op = whole_of(kernel)
    if not isinstance(op, ConcatOp):
        raise NoGpuTemplateError(
            f"{op.name if op else kernel.name}: kernels of template"
            f' "{kernel.template.data}" have no GPU lowering yet; compile this function for a CPU'
        )
    pieces = zip(op.parts, op.piece_offsets(), strict=True)
    return tuple(PiecePhase(part, op.axis.value.data, at, schedule) for part, at in pieces)


class _GpuEntry(EntryLowering):
    """Kernels are launched; the number of a trip is written to the device."""

    def __init__(self, module: ModuleOp, function: func.FuncOp) -> None:
        super().__init__(module, function)
        self.phases: dict[str, Phase] = {}

    def _scratch(self, op: KernelOp) -> tuple[Scratch, ...]:
        phases = phases_of(op, frozenset())
        if isinstance(phases[0], PartialPhase):
            return partial_scratch(phases[0].nest)
        return ()

    def _functions(
        self, op: KernelOp, name: str, strided: tuple[int, ...], sites: dict[Operation, int]
    ) -> tuple[Kernel, ...]:
        phases = phases_of(op, frozenset(strided))
        found: list[Kernel] = []
        for number, phase in enumerate(phases):
            own = name if len(phases) == 1 else f"{name}_{number}"
            kernel = lower_kernel(
                op,
                own,
                self.symbols,
                strided,
                sites,
                scratch=self._scratch(op),
                write=phase.write,
                builder=GpuBuilder,
            )
            kernel.function.attributes[gpu.KERNEL_ATTRIBUTE] = IntegerAttr(phase.threads, i64)
            self.phases[own] = phase
            found.append(kernel)
        return tuple(found)

    def _call(self, kernel: Kernel, op: KernelOp, arguments: Sequence[SSAValue]) -> None:
        b = self.b
        grid = self.phases[kernel.name].grid(b)
        blocks = [b.index(i) for i in grid.blocks]
        threads = [b.index(i) for i in grid.threads]
        b.add_op(gpu.LaunchOp.of(kernel.name, blocks, threads, arguments))

    def _trip_number(self, index: Index) -> SSAValue:
        """A cell of its own on the device for each loop."""
        kind = buffer_type(i64, (1,))
        name = f"trip{len(self.globals)}"
        zero = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [1]), [0])
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "type": kind,
            "initial_value": zero,
            "sym_visibility": StringAttr("private"),
        }
        self.globals.append(memref.GlobalOp.create(properties=properties))
        get = memref.GetGlobalOp.create(
            result_types=[kind], properties={"name": SymbolRefAttr(name)}
        )
        cell = self.b.value(get)
        self.b.add_op(gpu.WriteIndexOp.of(self.b.index(index), cell))
        return cell
