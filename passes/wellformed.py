"""
What must hold of a function at the tensor and plan levels beside what its ops say of themselves.
Everything that reads such a function relies on it; texts are checked before anything does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.dims import MOST, DimsAttr, shape_of
from mlc.dialects.errors import PlanError
from mlc.dialects.nest import nest_of
from mlc.dialects.places import DONATED
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import SYMBOLS, symbols_of
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.op import TensorOp, bytes_of, tensor_fault
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.tiles import TilesOp

_NUMERICS = ("strict", "standard", "fast")

Fault = tuple[Operation, str]


def faults(module: ModuleOp) -> Iterator[Fault]:
    """Every op that does not fit, and the message about it; functions without a body count not."""
    numerics = module.attributes.get("mlc.numerics", StringAttr("standard"))
    if not isinstance(numerics, StringAttr) or numerics.data not in _NUMERICS:
        yield module, f"mlc.numerics = {numerics}; expected one of {', '.join(_NUMERICS)}"
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            found = next(_signature_faults(function), None)
            if found is not None:
                yield found
                continue  # nothing else can be said of it
            found = next(_body_faults(function), None)
            if found is not None:
                yield found
            else:
                yield from _plan_faults(function)


def _signature_faults(function: FuncOp) -> Iterator[Fault]:
    kind = function.function_type
    for where, types in (("argument", kind.inputs), ("result", kind.outputs)):
        for k, found in enumerate(types):
            if fault := tensor_fault(found):
                yield (
                    function,
                    f"{where} {k}: {fault}; expected the tensor or the plan level, with tensors of"
                    " known dtypes",
                )
    if len(function.body.blocks) != 1:
        yield function, "found several blocks; expected one, with control flow as mlc.if, mlc.for"
        return
    if not isinstance(function.body.block.last_op, ReturnOp):
        yield function, "the body must end with func.return"
    if message := _symbols_fault(function):
        yield function, message
    yield from ((function, message) for message in _donation_faults(function))


def _symbols_fault(function: FuncOp) -> str | None:
    listed = function.attributes.get(SYMBOLS)
    if listed is None:
        return None
    if not isinstance(listed, ArrayAttr):
        return f"{SYMBOLS} = {listed}; expected a list of names"
    entries = cast("tuple[Attribute, ...]", listed.data)  # pyright: ignore[reportUnknownMemberType]
    names = [entry.data for entry in entries if isinstance(entry, StringAttr)]
    if len(names) != len(entries) or len(set(names)) != len(names):
        return f"{SYMBOLS} = {listed}; expected different names"
    return None


def _donation_faults(function: FuncOp) -> Iterator[str]:
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    taken: set[int] = set()
    for k, attributes in enumerate(function.arg_attrs or ()):
        entry = attributes.data.get(DONATED)
        if entry is None:
            continue
        number = entry.value.data if isinstance(entry, IntegerAttr) else -1
        if not 0 <= number < len(outputs):
            yield f"{DONATED} = {entry} of argument {k}; expected the number of a result"
        elif inputs[k] != outputs[number]:
            yield (
                f"argument {k} is {inputs[k]} and result {number}, which takes its place,"
                f" {outputs[number]}; expected one type"
            )
        elif number in taken:
            yield f"result {number} takes the place of two arguments; expected one"
        taken.add(number)


def _body_faults(function: FuncOp) -> Iterator[Fault]:
    pending = [(function.body.block, frozenset(symbols_of(function)), False)]
    while pending:
        block, symbols, in_kernel = pending.pop()
        for op in block.ops:
            if message := _level_fault(op, in_kernel) or _symbol_fault(op, symbols):
                yield op, message
            inner = symbols | set(op.symbols) if isinstance(op, TilesOp) else symbols
            inside = in_kernel or isinstance(op, KernelOp)
            pending += [(b, inner, inside) for region in op.regions for b in region.blocks]


def _plan_faults(function: FuncOp) -> Iterator[Fault]:
    """What kernels say of the function and of their own nests."""
    arena, private = (_slots(function, name) for name in ("mlc.arena", "mlc.private"))
    if arena is None or private is None:
        yield function, "the slots of mlc.arena and mlc.private are numbered dims, from 0 on"
        return
    results = function.function_type.outputs.data
    most = {"arena": arena, "private": private, "out": len(results)}
    for op in function.walk():
        if isinstance(op, KernelOp):
            yield from ((op, message) for message in _buffer_faults(op, most, results))
            if message := _axis_fault(op):
                yield op, message


def _buffer_faults(
    op: KernelOp, most: Mapping[str, int], results: Sequence[Attribute]
) -> Iterator[str]:
    if op.buffers is None:
        return
    for buffer, value in zip(op.buffers, op.outs, strict=True):
        place, numbers = buffer.data
        if max(numbers) >= most.get(place, MOST):
            yield f"{buffer}: there are {most[place]}"
        elif place == "out" and bytes_of(results[numbers[0]]) != bytes_of(value.type):
            yield f"{buffer}: it holds {results[numbers[0]]}, not {value.type}"


def _axis_fault(op: KernelOp) -> str | None:
    """Lanes run along the last axis of the results or a reduced one."""
    axis = -1 if op.schedule is None else op.schedule.data.vector_axis
    if axis < 0:
        return None
    nest = nest_of(op)
    first, axes = 0, 0
    if nest is not None:
        first, axes = 0 if nest.reduction is None else max(0, nest.rank - 1), len(nest.sizes)
    if first <= axis < axes:
        return None
    return f"vector_axis = {axis}; expected -1 or an axis from {first} to {axes - 1}"


def _slots(function: FuncOp, name: str) -> int | None:
    """How many slots an attribute lists; None where it is not a list of slots."""
    found = function.attributes.get(name)
    if found is None:
        return 0
    if not isinstance(found, DictionaryAttr):
        return None
    known, names = frozenset(symbols_of(function)), {str(k) for k in range(len(found.data))}
    good = set(found.data) == names and all(
        isinstance(dims, DimsAttr) and all(dim.symbols() <= known for dim in dims.data)
        for dims in found.data.values()
    )
    return len(found.data) if good else None


def _level_fault(op: Operation, in_kernel: bool) -> str | None:
    if in_kernel:
        if not isinstance(op, TensorOp | YieldOp):
            return "stands in a kernel; expected tensor ops"
    elif not isinstance(op, TensorOp | ControlOp | KernelOp | YieldOp | ReturnOp | RuleOp):
        return "belongs to neither the tensor nor the plan level; expected ops of mlc"
    return None


def check_unplanned(name: str, function: FuncOp) -> None:
    """PlanError where the pass `name`, which reads programs as they are written, meets a plan."""
    for op in function.walk():
        if isinstance(op, TilesOp | KernelOp):
            raise PlanError(
                f"{name}: @{function.sym_name.data} holds {op.name}; expected the tensor level,"
                " before tiles and kernels are formed"
            )


def _symbol_fault(op: Operation, symbols: frozenset[str]) -> str | None:
    types: list[Attribute] = [x.type for x in op.results]
    shapes = [shape_of(kind) for kind in types if tensor_fault(kind) is None]
    shapes += [entry.data for entry in op.properties.values() if isinstance(entry, DimsAttr)]
    unknown = {name for shape in shapes for dim in shape for name in dim.symbols()} - symbols
    if not unknown:
        return None
    known = ", ".join(sorted(symbols)) or "none"
    return f"nobody gives {min(unknown)!r} a value; the symbols are those of arguments: {known}"
