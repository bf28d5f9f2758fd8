"""A kernel as a function: its arguments in order, their types, and what its caller passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.access import RESULTS, Nest, nest_of
from mlc.dialects.analysis.alike import spelled
from mlc.dialects.analysis.in_place import reads_where_it_writes
from mlc.dialects.analysis.nests import ops_in
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.numerics import numerics_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.program import ALL_PASSES, NO_PASSES
from mlc.dialects.tensor.bind import symbols_in
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder, buffer_type, memory_type
from mlc.lowering.loops.element import Buffer, buffer_of
from mlc.lowering.loops.kernel import KernelScope, merged_axes

NOALIAS = DictionaryAttr({"mlc.noalias": UnitAttr()})
READONLY = DictionaryAttr({"mlc.readonly": UnitAttr()})
UNCHANGING = DictionaryAttr({"mlc.noalias": UnitAttr(), "mlc.readonly": UnitAttr()})
NOTHING = DictionaryAttr({})
ONE = Dim.const(1)

MOST_CALLS = 8
"""Of kernels, by an entry that LLVM optimises. Measured: docs/measurements.md, First call."""


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs while it runs."""

    element: Attribute  # as it is in memory
    count: Dim  # elements
    copies: Dim = ONE  # one for each thread, up to so many
    on_stack: bool = False  # of the entry, since it is small
    content: bytes = b""  # what is there from the beginning and stays

    @property
    def in_arena(self) -> bool:
        """Whether the call's memory has it."""
        return not (self.on_stack or self.content)

    def copies_for(self, threads: int, sizes: Mapping[str, int]) -> int:
        """How many copies that many threads need."""
        return max(min(threads, self.copies.evaluate(sizes)), 1)


@dataclass(frozen=True)
class Strides:
    """Which of a kernel's buffers are not row-major."""

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    dense: tuple[int, ...] = ()  # of the inputs those whose last axis has stride 1, as outputs have

    @property
    def numbers(self) -> frozenset[int]:
        """As `Nest.groups` wants them."""
        return frozenset(self.inputs) | ({RESULTS} if self.outputs else set[int]())


@dataclass(frozen=True)
class Kernel:
    """A lowered kernel, and what its caller passes.

    In order: worker and workers where it is dealt, symbols, strides of strided inputs and outputs,
    inputs, scratch, outputs, the number
    of the run where it runs several times.
    """

    name: str
    function: func.FuncOp
    symbols: tuple[str, ...]
    strides: Strides
    input_groups: tuple[tuple[tuple[int, ...], ...], ...]
    output_groups: tuple[tuple[tuple[int, ...], ...], ...]
    scratch: tuple[Scratch, ...]
    dealt: bool


@dataclass(frozen=True, kw_only=True)
class _Signature:
    """The arguments of a kernel's function, known from dims alone."""

    op: KernelOp
    nest: Nest | None
    symbols: tuple[str, ...]
    strides: Strides
    input_groups: tuple[tuple[tuple[int, ...], ...], ...]
    output_groups: tuple[tuple[tuple[int, ...], ...], ...]
    scratch: tuple[Scratch, ...]
    numbered: bool
    dealt: bool

    @staticmethod
    def of(
        op: KernelOp,
        all_symbols: Sequence[str],
        strides: Strides,
        scratch: tuple[Scratch, ...],
        numbered: bool,
        dealt: bool,
    ) -> _Signature:
        """The signature of a kernel whose buffers lie so."""
        strided = strides.inputs
        nest = nest_of(op)
        used = mentioned(op)
        if nest is None:
            groups = ()
            ranks = [len(shape_of(x.type)) for x in op.outs]
            output_groups = tuple(tuple((axis,) for axis in range(rank)) for rank in ranks)
        else:
            groups = nest.groups(strides.numbers)
            kept = tuple(group for group in groups if group[0] < nest.rank)
            output_groups = (kept,) * len(op.outs)
        return _Signature(
            op=op,
            nest=nest,
            symbols=tuple(s for s in all_symbols if s in used),
            strides=strides,
            input_groups=tuple(
                tuple(merged_axes(nest, k, len(shape_of(x.type)), () if k in strided else groups))
                for k, x in enumerate(op.inputs)
            ),
            output_groups=output_groups,
            scratch=scratch,
            numbered=numbered,
            dealt=dealt,
        )

    def arguments(self) -> list[tuple[Attribute, DictionaryAttr]]:
        """Type and attributes of each argument."""
        given = self.strides
        counts = [len(shape_of(x.type)) for x in self._strided()]
        found: list[tuple[Attribute, DictionaryAttr]] = [(par.CONTEXT, NOTHING)]
        found += [(INDEX, NOTHING)] * (2 * self.dealt + len(self.symbols) + sum(counts))
        for k, x in enumerate(self.op.inputs):
            kind = _view_type(
                x, self.input_groups[k], strided=k in given.inputs, dense=k in given.dense
            )
            found.append((kind, UNCHANGING if self._lies_apart(k) else READONLY))
        for buffer in self.scratch:
            count = buffer.count.constant if buffer.copies == Dim.const(1) else None
            marks = READONLY if buffer.content else NOALIAS
            found.append((buffer_type(buffer.element, (-1 if count is None else count,)), marks))
        alone = self.op.is_nest  # what lies there too is not touched then
        for k, (x, shared) in enumerate(zip(self.op.outs, self.op.shared_inputs, strict=True)):
            marks = NOALIAS if shared < 0 or alone else NOTHING
            apart, groups = k in given.outputs, self.output_groups[k]
            found.append((_view_type(x, groups, strided=apart, dense=apart), marks))
        if self.numbered:
            found.append((INDEX, NOTHING))
        return found

    def _lies_apart(self, number: int) -> bool:
        """
        Whether nothing is written where an input is read while results may lie over others: what a
        kernel reads at other elements than it writes, no result lies over.
        """
        shared = {*self.op.shared_inputs, self.op.overwritten} - {-1, None}
        if not shared or number in shared or self.op.is_nest:
            return False
        return not reads_where_it_writes(self.op, number)

    def _strided(self) -> list[SSAValue]:
        """The buffers of which strides are passed, in order."""
        inputs = [self.op.inputs[k] for k in self.strides.inputs]
        return [*inputs, *(self.op.outs[k] for k in self.strides.outputs)]

    def scope(self, b: LoopBuilder, block: Block, sites: dict[Operation, int]) -> KernelScope:
        """The arguments as the kernel's body knows them."""
        op, arguments = self.op, iter(block.args)
        context = _named(next(arguments), "ctx")
        worker: Index = _named(next(arguments), "worker") if self.dealt else 0
        workers: Index = _named(next(arguments), "workers") if self.dealt else 1
        for symbol in self.symbols:
            b.symbols[symbol] = _named(next(arguments), symbol)
        strides: dict[SSAValue, tuple[Index, ...]] = {}
        dense = {*(op.inputs[k] for k in self.strides.dense), *op.outs}
        for x in self._strided():
            values = tuple(next(arguments) for _ in shape_of(x.type))
            strides[x] = (*values[:-1], 1) if x in dense else values
        inputs: dict[SSAValue, Buffer] = {}
        for k, (argument, x) in enumerate(zip(op.block.args, op.inputs, strict=True)):
            memref = _named(next(arguments), x.name_hint)
            groups = self.input_groups[k]
            inputs[argument] = buffer_of(b, memref, argument, groups, strides.get(x))
        scratch = tuple(_named(next(arguments), "scratch") for _ in self.scratch)
        outputs = [
            buffer_of(b, _named(next(arguments), "out"), x, groups, strides.get(x))
            for x, groups in zip(op.outs, self.output_groups, strict=True)
        ]
        number = _named(next(arguments), "number") if self.numbered else 0
        b.unchanging = frozenset(
            buffer.memref
            for k, buffer in enumerate(inputs.values())
            if k not in op.shared_inputs and k != op.overwritten
        )
        return KernelScope(
            b=b,
            kernel=op,
            nest=self.nest,
            schedule=op.schedule.data if op.schedule is not None else Schedule(),
            context=context,
            inputs=inputs,
            outputs=outputs,
            sites=sites,
            strided=self.strides.numbers,
            scratch=scratch,
            number=number,
            worker=worker,
            workers=workers,
        )


def _view_type(
    tensor: SSAValue, groups: Sequence[tuple[int, ...]], *, strided: bool, dense: bool
) -> MemRefType[Attribute]:
    """The memref of a tensor whose axes are walked in groups."""
    shape = shape_of(tensor.type)
    sizes = [product(shape[axis] for axis in group).constant for group in groups]
    element = memory_type(element_dtype(tensor))
    return buffer_type(element, tuple(-1 if s is None else s for s in sizes), strided, dense)


def lower_kernel(
    op: KernelOp,
    name: str,
    all_symbols: Sequence[str],
    strides: Strides,
    sites: dict[Operation, int],
    *,
    scratch: tuple[Scratch, ...],
    write: Callable[[KernelScope], None],
    builder: type[LoopBuilder] = LoopBuilder,
    numbered: bool = False,
    dealt: bool = False,
) -> Kernel:
    """
    One kernel as a function whose body `write` fills in; `numbered`: it runs several times,
    `dealt`: workers share it.
    """
    signature = _Signature.of(op, all_symbols, strides, scratch, numbered, dealt)
    arguments = signature.arguments()
    types = [kind for kind, _ in arguments]
    block = Block(arg_types=types)
    b = builder(block)
    b.numerics = numerics_of(op)
    write(signature.scope(b, block, sites))
    b.block.add_op(func.ReturnOp.create())
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(types, []),
            "arg_attrs": ArrayAttr([marks for _, marks in arguments]),
        },
        regions=[Region(block)],
    )
    if op.is_nest:
        function.attributes[ALL_PASSES] = UnitAttr()
    return Kernel(
        name,
        function,
        signature.symbols,
        strides,
        signature.input_groups,
        signature.output_groups,
        scratch,
        dealt,
    )


def _named(value: SSAValue, name: str | None) -> SSAValue:
    value.name_hint = name
    return value


def mentioned(op: KernelOp) -> set[str]:
    """The symbols that a kernel's types and properties say."""
    return {name for inner in (op, *ops_in(op.block)) for name in symbols_in(inner)}


def structure(op: KernelOp, strides: Strides, sites: Sequence[int], *, serial: bool = False) -> str:
    """A text that two kernels share exactly when their code is the same."""
    numbers: dict[SSAValue, int] = {a: k for k, a in enumerate(op.block.args)}
    lines = [
        "None" if op.schedule is None else spelled(op.schedule),
        str(list(strides.inputs)),
        str(list(sites)),
        str(op.overwritten),
    ]
    if serial:
        lines.append(f"serial, strides {strides.dense} {strides.outputs}")
    lines.append(str(op.shared_inputs))
    lines += [spelled(a.type) for a in op.block.args]
    for inner in ops_in(op.block):
        operands = [numbers[x] for x in inner.operands]
        arguments = (a for region in inner.regions for a in region.block.args)
        for result in (*inner.results, *arguments):
            numbers[result] = len(numbers)
        properties = sorted((k, spelled(v)) for k, v in inner.properties.items())
        kinds = [spelled(r.type) for r in inner.results]
        lines.append(f"{inner.name} {operands} {properties} {kinds}")
    return "\n".join(lines)


def mark_long(entry: func.FuncOp) -> None:
    """Says of an entry with many calls that it comes as it is written, sooner."""
    if sum(isinstance(op, func.CallOp) for op in entry.walk()) > MOST_CALLS:
        entry.attributes[NO_PASSES] = UnitAttr()
