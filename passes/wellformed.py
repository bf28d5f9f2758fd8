"""
What must hold of a function at the tensor and plan levels beside what its ops say of themselves.
Everything that reads such a function relies on it; texts are checked before anything does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.dims import DimsAttr, shape_of
from mlc.dialects.places import DONATED
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.op import TensorOp, tensor_fault
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.tiles import TilesOp

SYMBOLS = "mlc.symbols"

Fault = tuple[Operation, str]


def faults(module: ModuleOp) -> Iterator[Fault]:
    """Every op that does not fit, and the message about it; functions without a body count not."""
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            found = next(_signature_faults(function), None)
            if found is not None:
                yield found
                continue  # nothing else can be said of it
            yield from _body_faults(function)


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
    pending = [(function.body.block, _known_symbols(function), False)]
    while pending:
        block, symbols, in_kernel = pending.pop()
        for op in block.ops:
            if message := _level_fault(op, in_kernel) or _symbol_fault(op, symbols):
                yield op, message
            inner = symbols | set(op.symbols) if isinstance(op, TilesOp) else symbols
            inside = in_kernel or isinstance(op, KernelOp)
            pending += [(b, inner, inside) for region in op.regions for b in region.blocks]


def _level_fault(op: Operation, in_kernel: bool) -> str | None:
    if in_kernel:
        if not isinstance(op, TensorOp | YieldOp):
            return "stands in a kernel; expected tensor ops"
    elif not isinstance(op, TensorOp | ControlOp | KernelOp | YieldOp | ReturnOp | RuleOp):
        return "belongs to neither the tensor nor the plan level; expected ops of mlc"
    return None


def _known_symbols(function: FuncOp) -> frozenset[str]:
    """Those listed, else those that arguments mention."""
    listed = function.attributes.get(SYMBOLS)
    if isinstance(listed, ArrayAttr):
        entries = cast("tuple[Attribute, ...]", listed.data)  # pyright: ignore[reportUnknownMemberType]
        return frozenset(entry.data for entry in entries if isinstance(entry, StringAttr))
    dims = (dim for kind in function.function_type.inputs for dim in shape_of(kind))
    return frozenset(name for dim in dims for name in dim.symbols())


def _symbol_fault(op: Operation, symbols: frozenset[str]) -> str | None:
    types: list[Attribute] = [x.type for x in op.results]
    shapes = [shape_of(kind) for kind in types if tensor_fault(kind) is None]
    shapes += [entry.data for entry in op.properties.values() if isinstance(entry, DimsAttr)]
    unknown = {name for shape in shapes for dim in shape for name in dim.symbols()} - symbols
    if not unknown:
        return None
    known = ", ".join(sorted(symbols)) or "none"
    return f"nobody gives {min(unknown)!r} a value; the symbols are those of arguments: {known}"
