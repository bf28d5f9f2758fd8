"""The plan level's function as the entry that calls kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.access import nests_stay, whole_of
from mlc.dialects.analysis.nests import ops_in
from mlc.dialects.analysis.shares import TEAM, WAIT, is_dealt
from mlc.dialects.dims import Dim, DimsAttr, as_tensor, highest, product, shape_of
from mlc.dialects.dtypes import BOOL, dtype_of
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import Take, entry_function, kept, symbols_of
from mlc.dialects.tensor.control import ControlOp, WhileOp
from mlc.dialects.tensor.create import ConstantOp, SizeOp, dense_array
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.partition import ArgpartitionOp, PartitionOp
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp, bounds_of, is_spread
from mlc.dialects.tile.kernel import CallOp
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder, buffer_type, item_bytes, memory_type, static
from mlc.lowering.loops.constants import global_of
from mlc.lowering.loops.control import Location, Thread
from mlc.lowering.loops.function import Kernel, Scratch, Strides, lower_kernel, mark_long, structure
from mlc.lowering.loops.in_lanes import lower_reduction
from mlc.lowering.loops.kernel import KernelScope, lower_cell, lower_concat
from mlc.lowering.loops.nest import lower_nest
from mlc.lowering.loops.opaque.library import lower_library
from mlc.lowering.loops.opaque.positions import lower_positions
from mlc.lowering.loops.opaque.scan import lower_scan
from mlc.lowering.loops.opaque.scatter import lower_scatter
from mlc.lowering.loops.opaque.selection import lower_selection
from mlc.lowering.loops.opaque.sort import lower_sort
from mlc.lowering.loops.scratch import ALIGNMENT, scratch_of
from mlc.lowering.loops.tiles import TilesLowering
from mlc.lowering.loops.update import lower_update


def lower_to_loops(module: ModuleOp, take: Take = kept) -> ModuleOp:
    """
    A loops-level module with the kernels and the entry of the module's function; `mlc.sites` lists
    what the numbers in `mlc_par.fail` stand for, from 1. `take` gets each function when it is made.
    """
    with nests_stay():
        return EntryLowering(module, entry_function(module), take).lower()


class _Sites:
    """The places that may fail at run time, numbered from 1."""

    def __init__(self) -> None:
        self.known: list[Attribute] = []

    def number(self, op: Operation, kind: str) -> int:
        entry = {"kind": StringAttr(kind), "op": StringAttr(op.name), "location": op.location}
        self.known.append(DictionaryAttr(entry))
        return len(self.known)


class EntryLowering(TilesLowering):
    """Builds the entry function.

    A target with another way to run kernels overrides the last part.
    """

    def __init__(self, module: ModuleOp, function: func.FuncOp, take: Take = kept) -> None:
        self.module = module
        self.function = function
        self.take = take
        self.symbols = list(symbols_of(function))
        self.sites = _Sites()
        self.kernels: dict[str, tuple[Kernel, ...]] = {}
        self.globals: list[Operation] = []
        self.contents: dict[tuple[Attribute, bytes], str] = {}  # of a global -> its name
        self.homes: dict[SSAValue, Location] = {}
        self.slots: list[Index] = []
        self.scratch_at: Index = 0
        self.private: list[Index] = []
        self.thread: Thread | None = None
        self.team: tuple[SSAValue, SSAValue] | None = None
        self.cells: dict[KernelOp, list[SSAValue]] = {}
        self.needed: dict[KernelOp, tuple[Scratch, ...]] = {}
        self.positions: dict[SSAValue, Index] = {}
        self.tile_places: dict[TilesOp, list[Location]] = {}
        self.standing: dict[SSAValue, Location] = {}

    def lower(self) -> ModuleOp:
        inputs, outputs = self.function.args, self.function.function_type.outputs.data
        strided = [k for k in range(len(inputs)) if self._is_strided(k)]
        ranks = [len(shape_of(x.type)) for x in inputs]
        strides = [(k, axis) for k in strided for axis in range(ranks[k])]
        types = [par.CONTEXT, *[INDEX] * (len(self.symbols) + len(strides))]
        types += [self._base_type(x.type, k in strided) for k, x in enumerate(inputs)]
        types += [self._base_type(t, False) for t in outputs]
        block = Block(arg_types=types)
        self.b = b = LoopBuilder(block)
        arguments = iter(block.args)
        self.context = next(arguments)
        b.symbols = {name: next(arguments) for name in self.symbols}
        values: dict[int, list[Index]] = {k: [] for k in strided}
        for k, _ in strides:
            values[k].append(next(arguments))
        for k, x in enumerate(inputs):
            self.homes[x] = Location(next(arguments), tuple(values[k]) if k in values else None)
        self.outputs = list(arguments)
        self._reserve()
        self._body()
        block.add_op(func.ReturnOp.create())
        ends = ("inputs", inputs), ("outputs", outputs)
        counts = {name: IntegerAttr(len(buffers), i64) for name, buffers in ends}
        entry = func.FuncOp.create(
            properties={
                "sym_name": self.function.sym_name,
                "function_type": FunctionType.from_lists(types, []),
            },
            attributes={"mlc.entry": DictionaryAttr(counts)},
            regions=[Region(block)],
        )
        mark_long(entry)
        ops = [
            *self.globals,
            *(k.function for found in self.kernels.values() for k in found),
            entry,
        ]
        attributes = dict(self.module.attributes)
        attributes["mlc.sites"] = ArrayAttr(self.sites.known)
        loops = ModuleOp(ops, attributes=attributes)
        self.take(entry)
        return loops

    def _body(self) -> None:
        """The function's ops: run by one team where the plan says so."""
        block = self.function.body.block
        if TEAM not in self.function.attributes:
            self._block(block)
            return
        for op in self.function.walk():
            if isinstance(op, KernelOp) and op.unwritten is None:
                self._cells(op)

        def run(worker: SSAValue, workers: SSAValue) -> None:
            self.team = worker, workers
            self._block(block)
            self.team = None

        shared = [op for op in self.function.walk() if self._shares(op)]
        self.b.region(self.context, self._workers(shared), run)
        self._check()

    def _shares(self, op: Operation) -> bool:
        """Whether workers share what an op does."""
        if isinstance(op, TilesOp):
            return op.spreads
        if isinstance(op, KernelOp) and op.unwritten is not None:
            return False
        return isinstance(op, KernelOp | CallOp) and is_dealt(op)

    def _is_strided(self, argument: int) -> bool:
        attributes = self.function.arg_attrs
        if attributes is None:
            return False
        return attributes.data[argument].data.get("mlc.layout") == StringAttr("general")

    def _base_type(self, kind: Attribute, strided: bool) -> MemRefType[Attribute]:
        size = product(shape_of(kind)).constant
        element = memory_type(dtype_of(as_tensor(kind).element_type))
        return buffer_type(element, (-1 if size is None or strided else size,))

    def _reserve(self) -> None:
        """
        Lays out the arena: the plan's slots, then the scratch of whichever kernel is running, then
        what tile loops need.
        """
        b = self.b
        self.slots, self.scratch_at = self._slots("mlc.arena")
        kernels = [op for op in self.function.walk() if isinstance(op, KernelOp | CallOp)]
        total = b.add(self.scratch_at, self._most_scratch(k for k in kernels if not is_spread(k)))
        total = self._reserve_for_tiles(total)
        if total != 0:
            b.add_op(par.ReserveOp.of(self.context, b.index(total)))

    def _slots(self, name: str) -> tuple[list[Index], Index]:
        """Where each slot of the function's attribute begins, and bytes of all."""
        b, found = self.b, list[Index]()
        total: Index = 0
        slots = self.function.attributes.get(name)
        if isinstance(slots, DictionaryAttr):
            for slot in sorted(slots.data, key=int):
                dims = slots.data[slot]
                assert isinstance(dims, DimsAttr)
                size = self._largest(b.dim(dim) for dim in dims.data)
                found.append(total)
                total = b.add(total, b.round_up(size, ALIGNMENT))
        return found, total

    def _most_scratch(self, kernels: Iterable[KernelOp | CallOp]) -> Index:
        return self._largest(n for k in kernels if (n := self._scratch_bytes(k)) != 0)

    # ops ------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if WAIT in op.attributes and not isinstance(op, WhileOp):
                self._wait()
            match op:
                case KernelOp():
                    self._kernel(op)
                case CallOp():
                    for k, x in enumerate(op.outs):
                        self.homes[x] = self._home(op, k)
                    self._pass((self._called(op),), op)
                case ReshapeOp():
                    self.homes[op.result] = self.homes[op.x]
                case TileOp():
                    self._tile(op)
                case ConstantOp():
                    self._constant(op)
                case ControlOp():
                    self._control(op)
                case SizeOp():
                    continue  # read where it is used: as the trip count of a loop
                case _ if op.name in ("func.return", "mlc.yield"):
                    continue
                case _:
                    raise PlanError(
                        f"plan to loops: {op.name} stands outside a kernel: run mlc-form-kernels"
                    )

    def _constant(self, op: ConstantOp) -> None:
        array = dense_array(op.value)
        dtype = op.dtype
        kind = buffer_type(memory_type(dtype), (array.size,))
        stored = array.astype("uint8") if dtype is BOOL else array
        self.homes[op.result] = Location(self._global(kind, stored.tobytes()))

    def _global(self, kind: MemRefType[Attribute], content: bytes) -> SSAValue:
        """What the program has from the beginning."""
        name = self.contents.get((kind, content))
        if name is None:
            name = self.contents[kind, content] = f"constant{len(self.globals)}"
            self.globals.append(global_of(name, kind, content))
        get = memref.GetGlobalOp.create(
            result_types=[kind], properties={"name": SymbolRefAttr(name)}
        )
        return self.b.value(get)

    def _arena(self, offset: Index, tensor: Attribute) -> SSAValue:
        kind = self._base_type(tensor, False)
        count = self.b.dim(product(shape_of(tensor)))
        sizes = [] if isinstance(count, int) else [count]
        return self.b.value(par.ArenaOp.of(self.context, self.b.index(offset), sizes, kind))

    def _kernel(self, op: KernelOp) -> None:
        if op.unwritten is not None:
            for k, x in enumerate(op.outs):
                self.homes[x] = self._home(op, k)
            return
        self._guard_empty(op)
        for k, x in enumerate(op.outs):
            self.homes[x] = self._home(op, k)
        self._pass(self._lowered(op), op)

    def _pass(self, kernels: tuple[Kernel, ...], op: KernelOp | CallOp) -> None:
        """Hands the functions of a kernel what they take, and runs them."""
        b, kernel = self.b, kernels[0]
        arguments: list[SSAValue] = [self.context]
        arguments += [b.index(b.symbols[name]) for name in kernel.symbols]
        strided = [op.inputs[k] for k in kernel.strides.inputs]
        strided += [op.outs[k] for k in kernel.strides.outputs]
        for x in strided:
            arguments += [b.index(s) for s in self.homes[x].strides or ()]
        for k, x in enumerate(op.inputs):
            arguments.append(self._view(self.homes[x], x, kernel.input_groups[k]))
        offset = self.scratch_at if self.thread is None else self.thread.scratch
        arguments += self._cells(op) if isinstance(op, KernelOp) else []
        for buffer in kernel.scratch:
            if buffer.on_stack:
                continue
            if buffer.content:
                kind = buffer_type(buffer.element, (buffer.count.evaluate({}),))
                arguments.append(self._global(kind, buffer.content))
                continue
            count = self._scratch_count(buffer)
            kind = buffer_type(buffer.element, (static(count),))
            sizes = [] if isinstance(count, int) else [count]
            arguments.append(b.value(par.ArenaOp.of(self.context, b.index(offset), sizes, kind)))
            offset = b.add(offset, self._bytes(buffer))
        for x, groups in zip(op.outs, kernel.output_groups, strict=True):
            arguments.append(self._view(self.homes[x], x, groups))
        self._run(kernels, op, arguments)
        self._check()

    def _view(
        self, home: Location, tensor: SSAValue, groups: Sequence[tuple[int, ...]]
    ) -> SSAValue:
        shape = shape_of(tensor.type)
        if home.strides is not None:
            return self.b.view(home.base, [self.b.dim(d) for d in shape], home.strides)
        sizes = [self.b.dim(product(shape[a] for a in group)) for group in groups]
        return self.b.view(home.base, sizes)

    def _guard_empty(self, op: KernelOp) -> None:
        """max over an axis that turns out empty is an error, as in NumPy."""
        for inner in op.block.ops:
            if not isinstance(inner, Reduction) or not inner.combiner().needs_element:
                continue
            _, result, reduced = inner.words()
            sizes = inner.sizes()
            count = product(sizes[c] for c in reduced)
            if count.constant is not None:
                continue
            b = self.b
            empty = b.both(
                b.compare("eq", b.dim(count), 0),
                b.compare("ne", b.dim(product(sizes[c] for c in result)), 0),
            )
            site = self.sites.number(inner, f"empty {inner.combiner().name}")
            b.when(empty, partial(self._fail, site, b.index(0)))
            self._wait()

    def _fail(self, site: int, zero: SSAValue) -> None:
        self.b.add_op(par.FailOp.of(self.context, site, zero, zero))

    def _scratch_bytes(self, op: KernelOp | CallOp) -> Index:
        """The most that the kernel needs."""
        total: Index = 0
        most = bounds_of(op)
        if isinstance(op, KernelOp):
            self.needed[op] = needed = self._scratch(op)
        else:
            needed = self._called(op).scratch
        for buffer in (x for x in needed if x.in_arena):
            largest = replace(buffer, count=highest(buffer.count, most))
            total = self.b.add(total, self._bytes(largest))
        return total

    def _cells(self, op: KernelOp) -> list[SSAValue]:
        """What a kernel's workers share on the stack of the entry."""
        if op not in self.cells:
            known = self.needed.get(op)
            stacked = (x for x in (self._scratch(op) if known is None else known) if x.on_stack)
            self.cells[op] = [self.b.cell(x.element, x.count.evaluate({})) for x in stacked]
        return self.cells[op]

    def _scratch_count(self, buffer: Scratch) -> Index:
        """Elements of all copies that the call's threads may need."""
        b, count = self.b, self.b.dim(buffer.count)
        if buffer.copies == Dim.const(1):
            return count
        return b.mul(b.max(b.min(self._available(), b.dim(buffer.copies)), 1), count)

    def _bytes(self, buffer: Scratch) -> Index:
        bytes_ = self.b.mul(self._scratch_count(buffer), item_bytes(buffer.element))
        return self.b.round_up(bytes_, ALIGNMENT)

    def _lowered(self, op: KernelOp) -> tuple[Kernel, ...]:
        strides = self._strides(op)
        numbers: dict[Operation, int] = {
            o: self.sites.number(o, o.site)
            for o in ops_in(op.block)
            if isinstance(o, TensorOp) and o.CHECKS
        }
        key = structure(op, strides, list(numbers.values()), serial=not is_dealt(op))
        name = f"{op.template.data}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        found = self.kernels.get(name)
        if found is None:
            found = self.kernels[name] = self._functions(op, name, strides, numbers)
            for kernel in found:
                self.take(kernel.function)
        return found

    def _symbols_at(self, op: KernelOp | CallOp) -> list[str]:
        return list(dict.fromkeys([*self.b.symbols, *bounds_of(op)]))  # tile loops give theirs

    def _called(self, op: CallOp) -> Kernel:
        """The function of a tile program."""
        from mlc.lowering.tiles.kernel import lower_called

        name = op.callee.string_value()
        if name not in self.kernels:
            kernel = lower_called(op, self._symbols_at(op), self.module)
            self.kernels[name] = (kernel,)
            self.take(kernel.function)
        return self.kernels[name][0]

    def _strides(self, op: KernelOp) -> Strides:
        """Which of the kernel's buffers are not row-major."""
        homes = [self.homes[x] for x in op.inputs]
        inputs = tuple(k for k, home in enumerate(homes) if home.strides is not None)
        dense = tuple(k for k in inputs if homes[k].is_dense)
        outputs = (k for k, x in enumerate(op.outs) if self.homes[x].strides is not None)
        return Strides(inputs, tuple(outputs), dense)

    # what depends on how kernels are run ------------------------------------------------------

    def _scratch(self, op: KernelOp) -> tuple[Scratch, ...]:
        """The memory that the kernel needs while it runs."""
        return scratch_of(op)

    def _functions(
        self, op: KernelOp, name: str, strides: Strides, sites: dict[Operation, int]
    ) -> tuple[Kernel, ...]:
        """The functions that do a kernel's work in turn, all with the same arguments."""
        symbols, scratch, dealt = self._symbols_at(op), self._scratch(op), is_dealt(op)
        kernel = lower_kernel(
            op, name, symbols, strides, sites, scratch=scratch, write=write_kernel, dealt=dealt
        )
        return (kernel,)

    def _run(
        self, kernels: Sequence[Kernel], op: KernelOp | CallOp, arguments: Sequence[SSAValue]
    ) -> None:
        """Runs the functions of a kernel in turn, each by a team of its own or by the call's."""
        for kernel in kernels:
            call = partial(self._call, kernel, arguments)
            if kernel.dealt and self.team is not None:
                call(*self.team)
            elif kernel.dealt:
                self.b.region(self.context, self._workers([op]), call)
            else:
                self._alone(call)

    def _call(self, kernel: Kernel, arguments: Sequence[SSAValue], *worker: SSAValue) -> None:
        context, *others = arguments
        callee = SymbolRefAttr(kernel.name)
        call = func.CallOp.create(
            operands=[context, *worker, *others], properties={"callee": callee}
        )
        self.b.add_op(call)

    def _trip_number(self, index: Index) -> SSAValue:
        """A buffer that holds the number of a loop's trip, as i64."""
        b = self.b
        cell = b.cell(i64, 1)
        b.store(_as_i64(b, index), cell, [0])
        return cell


def write_kernel(s: KernelScope) -> None:
    """The body of a kernel on a CPU, by its template."""
    if s.kernel.is_nest:
        lower_nest(s)
    elif s.kernel.overwritten is not None and whole_of(s.kernel) is None:
        lower_update(s)
    elif s.nest is None:
        whole = whole_of(s.kernel)
        assert whole is not None
        if type(whole) not in _WHOLE:
            raise PlanError(f"plan to loops: {whole.name} is a program of blocks of a GPU")
        _WHOLE[type(whole)](s)
    elif s.nest.reduction is None:
        lower_cell(s)
    else:
        lower_reduction(s)


_WHOLE: Mapping[type[OpaqueOp], Callable[[KernelScope], None]] = {
    ConcatOp: lower_concat,
    ScanOp: lower_scan,
    ScatterOp: lower_scatter,
    SortOp: lower_sort,
    ArgsortOp: lower_sort,
    PartitionOp: lower_selection,
    ArgpartitionOp: lower_selection,
    LibraryOp: lower_library,
    PositionsOp: lower_positions,
}
"""Kernels written as a whole, by their op."""


def _as_i64(b: LoopBuilder, index: Index) -> SSAValue:
    if isinstance(index, int):
        return b.constant(IntegerAttr(index, i64), i64)
    return b.value(arith.IndexCastOp.create(operands=[index], result_types=[i64]))
