"""
Values that a traced function computes from constants alone: known while it is compiled.

`int(np.prod([2, 3]))` asks a traced number for its value. Where no argument had a part in it, the
reference interpreter has the answer. Arrays from outside that had a part are guarded by their
contents: when they have changed at a later call, the function is traced again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.calls import end_of
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.trace.paths import Guard, HiddenInput
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.value import Value

Array = NDArray[Any]
Source = tuple[Array, HiddenInput]
MAX_OPS = 200
"""A computation longer than this is not repeated in the interpreter."""
MAX_SIZE = 1 << 16
"""Elements of an array from outside that a guard compares at every call."""


def known_array(trace: Trace, value: SSAValue) -> Array | None:
    """The value, where it is computed from constants and arrays from outside; None otherwise."""
    ops = _computation(trace, value)
    if ops is None:
        return None
    sources = _sources(trace, {x for op in ops for x in op.operands} | {value})
    if sources is None:
        return None
    for array, hidden in sources.values():
        guard_contents(trace, array, hidden)
    return _evaluated(trace, value, ops, sources)


def known_dim(value: Any) -> Dim | None:
    """The dim of an int, a size or a traced number; None for what is not an integer."""
    if not isinstance(value, Value):
        return as_dim(value)
    index: Callable[[], object] = getattr(value, "__index__")  # noqa: B009 - of a Tracer
    return as_dim(index())


def guard_contents(trace: Trace, array: Array, hidden: HiddenInput) -> None:
    """The function is traced again when the array from outside has other contents."""
    path = hidden.path
    guard = Guard("value", path, array)
    if guard.key not in trace.guards:
        trace.guards[guard.key] = replace(guard, value=array.copy())


def _constant_of(trace: Trace, value: SSAValue) -> SSAValue:
    """Of what a private function gives, the constant that it returns; another value itself."""
    end = end_of(value, trace.private)
    return end if isinstance(end.owner, ConstantOp | SizeOp) else value


def _computation(trace: Trace, value: SSAValue) -> list[Operation] | None:
    """The ops that lead to the value, in order; None where one's result is not known."""
    found: dict[Operation, None] = {}
    met: set[Operation] = set()
    pending = [value]
    while pending:
        op = _constant_of(trace, pending[-1]).owner
        if isinstance(op, Block) or op in found:
            pending.pop()
        elif op in met:  # what it reads is found
            found[op] = None
        elif len(met) < MAX_OPS and _is_plain(op):
            met.add(op)
            pending += reversed(op.operands)
        else:
            return None
    return list(found)


def _is_plain(op: Operation) -> bool:
    """Whether the op is computed from its operands alone, and its sizes are known."""
    if not isinstance(op, TensorOp) or op.regions:
        return False
    if isinstance(op, SizeOp) and op.dim.constant is None:
        return False
    return all(dim.constant is not None for r in op.results for dim in shape_of(r.type))


def _sources(trace: Trace, values: set[SSAValue]) -> dict[SSAValue, Source] | None:
    """The arrays from outside among the values; None where another argument is among them."""
    found: dict[SSAValue, Source] = {}
    first = len(trace.block.args) - len(trace.hidden)
    for value in values:
        if not isinstance(value, BlockArgument):
            continue
        position = value.index - first
        if value.block is not trace.block or position < 0:
            return None
        array = trace.hidden_arrays[position]
        if array.size > MAX_SIZE:
            return None
        found[value] = (array, trace.hidden[position])
    return found


def _evaluated(
    trace: Trace, value: SSAValue, ops: list[Operation], sources: dict[SSAValue, Source]
) -> Array:
    from mlc.runtime.interpret import interpret

    block = Block(arg_types=[x.type for x in sources])
    mapping: dict[SSAValue, SSAValue] = dict(zip(sources, block.args, strict=True))
    for op in ops:
        for x in op.operands:
            mapping[x] = mapping[_constant_of(trace, x)]
        block.add_op(op.clone(mapping))
    result = mapping[_constant_of(trace, value)]
    block.add_op(ReturnOp(result))
    types = ([x.type for x in sources], [result.type])
    module = ModuleOp([FuncOp("known", types, Region(block))])
    return interpret(module, [array for array, _ in sources.values()])[0]
