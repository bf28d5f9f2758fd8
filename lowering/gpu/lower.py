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
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import gpu
from mlc.dialects.analysis.access import Nest, nest_of, whole_of
from mlc.dialects.errors import PlanError
from mlc.dialects.gpu_async import BarrierFenceOp, TensorMapOp
from mlc.dialects.gpu_clusters import FollowOp, LeadOp
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.program import entry_function
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import ConcatOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile.kernel import CallOp, called
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.cell import CellPhase, PiecePhase
from mlc.lowering.gpu.columns import column_work
from mlc.lowering.gpu.contract import product_work
from mlc.lowering.gpu.phase import Phase, Repeated, Work, mark_unchanging
from mlc.lowering.gpu.reduce import (
    FoldPhase,
    PartialPhase,
    PlainPhase,
    RowPhase,
    needs_two_phases,
    partial_scratch,
)
from mlc.lowering.gpu.scan import scan_work
from mlc.lowering.gpu.scatter import scatter_work
from mlc.lowering.gpu.sort import sort_work
from mlc.lowering.gpu.transpose import transposed
from mlc.lowering.gpu.update import UpdatePhase
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import buffer_type
from mlc.lowering.loops.function import Kernel, Scratch, Strides, lower_kernel, mentioned
from mlc.lowering.loops.lower import EntryLowering
from mlc.lowering.loops.opaque.library import call_library, operand_scratch
from mlc.lowering.loops.update import update_of
from mlc.lowering.tiles.gpu.clear import CLEARING_THREADS, clearing
from mlc.lowering.tiles.gpu.control import items_of
from mlc.lowering.tiles.gpu.kernel import BlockKernel, lower_block_kernel
from mlc.lowering.tiles.scope import TileScope


def lower_to_gpu(module: ModuleOp) -> ModuleOp:
    """A loops-level module with the GPU kernels and the entry of the module's function.

    `mlc.sites` lists what the numbers in `mlc_par.fail` stand for, from 1.
    """
    function, target = entry_function(module), gpu_of(module, "plan to GPU")
    lowered = _GpuEntry(module, function).lower()
    if target.has_grid_dependencies:
        for op in lowered.body.block.ops:
            if isinstance(op, func.FuncOp) and gpu.KERNEL_ATTRIBUTE in op.attributes:
                _follow(op.body.block)
    return lowered


def _follow(body: Block) -> None:
    """
    Blocks wait for the kernels before, and let the next ones begin. Those with rings make them
    ready first, and let nobody begin: they take whole multiprocessors, and what begins on the first
    ones that are free lies unevenly. Measured: docs/measurements.md, "Host time of a call"
    """
    if any(isinstance(op, BarrierFenceOp) for op in body.walk()):
        ready = next(op for op in body.ops if isinstance(op, gpu.BarrierOp))
        body.insert_op_after(FollowOp.create(), ready)
        return
    assert body.first_op is not None
    body.insert_ops_before([LeadOp.create(), FollowOp.create()], body.first_op)


def work_of(kernel: KernelOp, strided: frozenset[int]) -> Work:
    """The functions that compute a kernel's results, by its template and schedule."""
    nest, schedule = nest_of(kernel), kernel.schedule.data if kernel.schedule else Schedule()
    if not schedule.threads:
        raise PlanError("plan to loops: a kernel has no schedule for a GPU: run mlc-schedule first")
    if kernel.overwritten is not None:
        return Work((UpdatePhase(update_of(kernel), schedule),))
    if nest is None:
        return _whole(kernel, schedule)
    if nest.reduction is None:
        return Work((transposed(kernel, nest, strided) or CellPhase(nest, schedule, strided),))
    if schedule.stage is not None:
        return product_work(nest, schedule, strided)
    return _reduction(nest, schedule, strided)


def _reduction(nest: Nest, schedule: Schedule, strided: frozenset[int]) -> Work:
    if len(nest.sizes) == nest.rank:
        return Work((PlainPhase(nest, schedule, strided),))
    if schedule.vector_axis < nest.rank:
        return column_work(nest, schedule, strided)
    if needs_two_phases(nest, schedule):
        first = PartialPhase(nest, schedule, strided)
        return Work((first, FoldPhase(first)), partial_scratch(nest))
    return Work((RowPhase(nest, schedule, strided),))


def _whole(kernel: KernelOp, schedule: Schedule) -> Work:
    match whole_of(kernel):
        case ConcatOp() as op:
            return Work(tuple(PiecePhase(part, schedule, start) for part, start in op.pieces()))
        case ScanOp() as op:
            return scan_work(op, schedule)
        case SortOp() | ArgsortOp() as op:
            return sort_work(op, schedule)
        case ScatterOp() as op:
            return scatter_work(op, schedule)
        case LibraryOp() as op:
            # the host takes the operands from there: see `_GpuEntry._run`
            copies = (PiecePhase(x, schedule, scratch=k) for k, x in enumerate(op.inputs))
            return Work(tuple(copies), operand_scratch(kernel))
        case op:
            raise PlanError(f"no GPU template writes {op.name if op else kernel.name}")


UNSTAGED = 2
"""
Blocks of a multiprocessor that a product without tiles asks for: ptxas would take so few registers
that a third has room, and spill some.
"""


class _GpuEntry(EntryLowering):
    """Kernels are launched; the number of a trip is written to the device."""

    def __init__(self, module: ModuleOp, function: func.FuncOp) -> None:
        super().__init__(module, function)
        self.phases: dict[str, Phase] = {}
        self.site_numbers: dict[str, dict[Operation, int]] = {}
        self.blocks: dict[str, BlockKernel] = {}

    def _control(self, op: ControlOp) -> None:
        if isinstance(op, BindOp):
            raise PlanError("mlc.bind: sizes that the program computes are for CPUs only yet")
        super()._control(op)

    def _tiles(self, op: TilesOp) -> None:
        raise PlanError("plan to loops: GPUs run no tile loops: leave mlc-form-tiles out")

    def _scratch(self, op: KernelOp) -> tuple[Scratch, ...]:
        return work_of(op, frozenset()).scratch

    def _functions(
        self, op: KernelOp, name: str, strides: Strides, sites: dict[Operation, int]
    ) -> tuple[Kernel, ...]:
        computed = mentioned(op) - set(self.symbols)
        if computed:
            raise PlanError(
                f"plan to loops: kernels on a GPU take no sizes that the program computes, such as"
                f" {min(computed)}: choose elements of whole arrays by np.where(…)"
            )
        work, schedule = work_of(op, strides.numbers), op.schedule
        found: list[Kernel] = []
        for number, phase in enumerate(work.phases):
            own = name if len(work.phases) == 1 else f"{name}_{number}"
            kernel = lower_kernel(
                op,
                own,
                self.symbols,
                strides,
                sites,
                scratch=work.scratch,
                write=phase.write,
                builder=GpuBuilder,
                numbered=isinstance(phase, Repeated),
            )
            kernel.function.attributes[gpu.KERNEL_ATTRIBUTE] = IntegerAttr(phase.threads, i64)
            stage = None if schedule is None else schedule.data.stage
            if stage is not None:  # what lies otherwise is no copy: that takes registers to read it
                resident = 0 if strides.numbers else stage.resident
            else:
                resident = UNSTAGED if op.template.data == "contraction" else 0
            if resident:
                attribute = IntegerAttr(resident, i64)
                kernel.function.attributes[gpu.RESIDENT_ATTRIBUTE] = attribute
            mark_unchanging(kernel.function)
            self.phases[own] = phase
            found.append(kernel)
        self.site_numbers[found[0].name] = sites
        return tuple(found)

    def _called(self, op: CallOp) -> Kernel:
        name = op.callee.string_value()
        if name not in self.blocks:
            program = called(op)
            assert program is not None
            found = self.blocks[name] = lower_block_kernel(op, program, self.symbols)
            cleared = (found.kernel.scratch[n] for n in found.cleared)
            clears = (clearing(f"{name}_clear{n}", x) for n, x in enumerate(cleared))
            self.kernels[name] = (found.kernel, *clears)
        return self.blocks[name].kernel

    def _run(
        self, kernels: Sequence[Kernel], op: KernelOp | CallOp, arguments: Sequence[SSAValue]
    ) -> None:
        if isinstance(op, CallOp):
            self._clear(self.blocks[kernels[0].name], arguments)
            self._start_blocks(self.blocks[kernels[0].name], arguments)
            return
        for kernel in kernels:
            self._start(kernel, arguments)
        whole = whole_of(op)
        if isinstance(whole, LibraryOp):
            memory = arguments[-len(whole.inputs) - 1 :]  # the scratch, and the result
            site = self.site_numbers[kernels[0].name][whole]
            call_library(self.b, self.context, whole, site, memory)

    def _clear(self, found: BlockKernel, arguments: Sequence[SSAValue]) -> None:
        """Scratch that is 0 when a tile program begins."""
        b, kernel = self.b, found.kernel
        first = 1 + len(kernel.symbols) + len(kernel.input_groups)
        one = b.index(1)
        for clear, number in zip(self.kernels[kernel.name][1:], found.cleared, strict=True):
            blocks = b.index(-(-(kernel.scratch[number].count.constant or 0) // CLEARING_THREADS))
            threads = [b.index(CLEARING_THREADS), one, one]
            passed = [arguments[0], arguments[first + number]]
            b.add_op(gpu.LaunchOp.of(clear.name, [blocks, one, one], threads, passed))

    def _start_blocks(self, found: BlockKernel, arguments: Sequence[SSAValue]) -> None:
        """Starts a tile program: a block for each item, or for each multiprocessor."""
        b, target = self.b, gpu_of(self.module, "tiles to GPU")
        work, one = found.work, b.index(1)
        if work.shares is None:
            items = b.product(items_of(TileScope(b, self.context, 1, {}), work))
            if found.stays:
                items = b.min(items, target.sm_count // work.blocks)
            elif work.walkers is not None:
                items = b.min(items, work.walkers.value.data)
            blocks = b.mul(items, work.blocks)
        else:
            blocks = work.sharing
        grid = [b.index(blocks), one, one]
        first = 1 + len(found.kernel.symbols)
        maps = [b.value(TensorMapOp.of(arguments[first + k], box)) for k, box in found.maps]
        b.add_op(
            gpu.LaunchOp.of(
                found.kernel.name,
                grid,
                [b.index(found.threads), one, one],
                [*arguments, *maps],
                found.shared_bytes,
            )
        )

    def _start(self, kernel: Kernel, arguments: Sequence[SSAValue]) -> None:
        """Starts one function of a kernel, as often as its phase asks for."""
        b, phase = self.b, self.phases[kernel.name]
        grid = phase.grid(b)
        blocks = [b.index(i) for i in grid.blocks]
        threads = [b.index(i) for i in grid.threads]

        def launch(*number: Index) -> None:
            passed = [*arguments, *map(b.index, number)]
            b.add_op(gpu.LaunchOp.of(kernel.name, blocks, threads, passed))

        if isinstance(phase, Repeated):
            b.loop(0, phase.times(b), 1, launch)
        else:
            launch()

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
