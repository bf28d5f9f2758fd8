"""A kernel as a function: its arguments in order, their types, and what its caller passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import par
from mlc.dialects.dims import Dim, DimsAttr, product, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.nest import nest_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.tensor.op import tensor_of
from mlc.lowering.loops.builder import INDEX, LoopBuilder, buffer_type, memory_type
from mlc.lowering.loops.element import buffer_of
from mlc.lowering.loops.kernel import KernelScope, merged_axes

NOALIAS = DictionaryAttr({"mlc.noalias": UnitAttr()})
READONLY = DictionaryAttr({"mlc.readonly": UnitAttr()})
NOTHING = DictionaryAttr({})


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs while it runs."""

    element: Attribute  # as it is in memory
    count: Dim  # elements


@dataclass(frozen=True)
class Kernel:
    """A lowered kernel and what its caller passes: symbols, strides of strided inputs, inputs, scratch, outputs."""

    name: str
    function: func.FuncOp
    symbols: tuple[str, ...]
    strided: tuple[int, ...]
    input_groups: tuple[tuple[tuple[int, ...], ...], ...]
    output_groups: tuple[tuple[int, ...], ...]
    scratch: tuple[Scratch, ...]


def lower_kernel(
    op: KernelOp,
    name: str,
    all_symbols: Sequence[str],
    strided: tuple[int, ...],
    sites: dict[Operation, int],
    *,
    scratch: tuple[Scratch, ...],
    write: Callable[[KernelScope], None],
    builder: type[LoopBuilder] = LoopBuilder,
) -> Kernel:
    """One kernel as a function whose body `write` fills in."""
    nest = nest_of(op)
    groups = nest.groups(frozenset(strided)) if nest is not None else ()
    used = _symbols_of(op)
    symbols = tuple(s for s in all_symbols if s in used)
    input_groups = tuple(
        tuple(merged_axes(nest, k, len(shape_of(x.type)), () if k in strided else groups))
        for k, x in enumerate(op.inputs)
    )
    rank = len(shape_of(op.outs[0].type))
    output_groups = (
        tuple((a,) for a in range(rank))
        if nest is None
        else tuple(g for g in groups if g[0] < nest.rank)
    )

    # the function's arguments: their types need sizes, which need the symbols, so types are computed from dims
    def view_type(tensor: SSAValue, axes: Sequence[tuple[int, ...]], is_strided: bool) -> Attribute:
        shape = shape_of(tensor.type)
        sizes = [product(shape[a] for a in group).constant for group in axes]
        element = memory_type(dtype_of(tensor_of(tensor).element_type))
        return buffer_type(element, tuple(-1 if s is None else s for s in sizes), is_strided)

    types: list[Attribute] = [par.CONTEXT, *[INDEX] * len(symbols)]
    stride_count = sum(len(shape_of(op.inputs[k].type)) for k in strided)
    types += [INDEX] * stride_count
    marks: list[Attribute] = [NOTHING] * len(types)
    for k, x in enumerate(op.inputs):
        types.append(view_type(x, input_groups[k], k in strided))
        marks.append(READONLY)
    for buffer in scratch:
        count = buffer.count.constant
        types.append(buffer_type(buffer.element, (-1 if count is None else count,)))
        marks.append(NOALIAS)
    for x in op.outs:
        types.append(view_type(x, output_groups, False))
        marks.append(NOALIAS)
    block = Block(arg_types=types)
    b = builder(block)
    arguments = iter(block.args)
    context = next(arguments)
    context.name_hint = "ctx"
    for symbol in symbols:
        b.symbols[symbol] = value = next(arguments)
        value.name_hint = symbol
    strides = {k: tuple(next(arguments) for _ in shape_of(op.inputs[k].type)) for k in strided}
    inputs = {
        argument: buffer_of(
            b, _named(next(arguments), x.name_hint), argument, input_groups[k], strides.get(k)
        )
        for k, (argument, x) in enumerate(zip(op.block.args, op.inputs, strict=False))
    }
    packed = tuple(_named(next(arguments), "scratch") for _ in scratch)
    outputs = [
        buffer_of(b, _named(next(arguments), "out"), x, output_groups, None) for x in op.outs
    ]
    scope = KernelScope(
        b=b,
        kernel=op,
        nest=nest,
        schedule=op.schedule.data if op.schedule is not None else Schedule(),
        context=context,
        inputs=dict(inputs),
        outputs=outputs,
        sites=sites,
        strided=frozenset(strided),
        scratch=packed,
    )
    write(scope)
    b.block.add_op(func.ReturnOp.create())
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(types, []),
            "arg_attrs": ArrayAttr(marks),
        },
        regions=[Region(block)],
    )
    return Kernel(name, function, symbols, strided, input_groups, output_groups, scratch)


def _named(value: SSAValue, name: str | None) -> SSAValue:
    value.name_hint = name
    return value


def _symbols_of(op: KernelOp) -> set[str]:
    found: set[str] = set()
    values = [*op.inputs, *op.outs, *(r for o in op.block.ops for r in o.results)]
    for value in values:
        for dim in shape_of(value.type):
            found |= dim.symbols()
    for inner in op.block.ops:
        for attribute in inner.properties.values():
            if isinstance(attribute, DimsAttr):
                for dim in attribute.data:
                    found |= dim.symbols()
    return found


def structure(op: KernelOp, strided: Sequence[int], sites: Sequence[int]) -> str:
    """A text that two kernels share exactly when their code is the same."""
    numbers: dict[SSAValue, int] = {a: k for k, a in enumerate(op.block.args)}
    lines = [str(op.schedule), str(list(strided)), str(list(sites))]
    lines += [str(a.type) for a in op.block.args]
    for inner in op.block.ops:
        operands = [numbers[x] for x in inner.operands]
        for result in inner.results:
            numbers[result] = len(numbers)
        properties = sorted((k, str(v)) for k, v in inner.properties.items())
        lines.append(f"{inner.name} {operands} {properties} {[str(r.type) for r in inner.results]}")
    return "\n".join(lines)
