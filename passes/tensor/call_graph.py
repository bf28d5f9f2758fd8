"""Which functions of a module use which, and what is called in place of the call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from mlc.dialects.dims import Dim, DimsAttr, Shape
from mlc.dialects.errors import PlanError, ShapeError
from mlc.dialects.program import ASSUME, is_private, symbols_of
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.calls import (
    CallOp,
    FunctionUse,
    sized,
    sizes_of,
    substituted,
    uses_of_functions,
)


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """A module's functions with a body, by name."""
    found = (op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks)
    return {function.sym_name.data: function for function in found}


def uses_functions(module: ModuleOp) -> bool:
    """Whether a function of a module may use another one: nothing else is to be looked for."""
    return any(is_private(function) for function in functions_of(module).values())


def callees_first(module: ModuleOp) -> list[FuncOp]:
    """The functions, each behind those that it uses. PlanError where one uses itself."""
    functions = functions_of(module)
    found: dict[str, FuncOp] = {}
    path: list[str] = []
    pending: list[tuple[str, Iterator[FunctionUse]]] = []

    def enter(name: str) -> None:
        if name in path:
            way = " -> ".join(f"@{x}" for x in (*path[path.index(name) :], name))
            raise PlanError(f"a function uses itself: {way}; expected mlc.for or mlc.while")
        path.append(name)
        pending.append((name, uses_of_functions(functions[name])))

    for start in functions:
        if start not in found:
            enter(start)
        while pending:
            name, uses = pending[-1]
            use = next(uses, None)
            if use is None:
                pending.pop()
                path.pop()
                found[name] = functions[name]
            elif use.callee_name in functions and use.callee_name not in found:
                enter(use.callee_name)
    return list(found.values())


def inline_call(op: CallOp, callee: FuncOp, *, last: bool) -> None:
    """
    The ops of the function, which uses no other one, take the place of a call. `last`: nobody else
    calls it, so that they need not be copied.
    """
    values = {k: v for k, v in sizes_of(callee, op.properties).items() if v != Dim.symbol(k)}
    if isinstance(said := callee.attributes.get(ASSUME), DimsAttr):
        _assume(_function_around(op), callee, said.data, values)
    body = callee.detach_region(0) if last else callee.body.clone()
    block = body.block
    bound = {x.symbol.data for x in block.walk() if isinstance(x, BindOp)}
    fresh = _unlike(bound, _function_around(op)) if bound else {}
    if values or fresh:
        resize(block, {**values, **{old: Dim.symbol(new) for old, new in fresh.items()}}, fresh)
    for argument, value in zip(block.args, op.inputs, strict=True):
        argument.replace_all_uses_with(value)
    end = block.last_op
    assert isinstance(end, ReturnOp)
    results = list(end.operands)
    block.erase_op(end)
    for result, value in zip(op.results, results, strict=True):
        if value.name_hint is None and not isinstance(value.owner, Block):
            value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    around = op.parent
    assert around is not None
    for inner in list(block.ops):
        inner.detach()
        around.insert_op_before(inner, op)
    around.erase_op(op)


def resize(block: Block, values: Mapping[str, Dim], renamed: Mapping[str, str]) -> None:
    """Puts dims in place of symbols, in types and in what ops say. `renamed`: those of binds."""
    _resize_arguments(block, values)
    for op in block.walk():
        for result in op.results:
            _resize_value(result, values)
        for name, entry in op.properties.items():
            if isinstance(entry, DimsAttr):
                op.properties[name] = DimsAttr(substituted(entry.data, values))
        if isinstance(op, BindOp):
            op.properties["symbol"] = StringAttr(renamed.get(op.symbol.data, op.symbol.data))
        for region in op.regions:
            for inner in region.blocks:
                _resize_arguments(inner, values)


def _resize_arguments(block: Block, values: Mapping[str, Dim]) -> None:
    for argument in block.args:
        _resize_value(argument, values)


def _resize_value(value: SSAValue, values: Mapping[str, Dim]) -> None:
    kind = sized(value.type, values)
    if kind is not value.type:
        Rewriter.replace_value_with_new_type(value, kind)


def _unlike(bound: set[str], caller: FuncOp) -> dict[str, str]:
    """New names for those symbols of a function's blocks that its caller has already."""
    taken = {*symbols_of(caller), *(x.symbol.data for x in caller.walk() if isinstance(x, BindOp))}
    found: dict[str, str] = {}
    for name in sorted(bound & taken):
        found[name] = next(x for k in count(1) if (x := f"{name}_{k}") not in taken | bound)
        taken.add(found[name])
    return found


def _assume(caller: FuncOp, callee: FuncOp, said: Shape, values: Mapping[str, Dim]) -> None:
    """What the function takes to be 0 or more, its caller does too."""
    own = caller.attributes.get(ASSUME)
    known = list(own.data) if isinstance(own, DimsAttr) else []
    for assumed, dim in zip(said, substituted(said, values), strict=True):
        low = dim.constant is not None and dim.constant < 0
        if low or not dim.symbols() <= set(symbols_of(caller)):
            found = str(dim) if low else f"{dim}, known only when the program runs"
            raise ShapeError(
                f"@{callee.sym_name.data} takes {assumed} to be 0 or more; where"
                f" @{caller.sym_name.data} uses it, that is {found}"
            )
        if dim.constant is None and dim not in known:
            known.append(dim)
    if known:
        caller.attributes[ASSUME] = DimsAttr(tuple(known))


def _function_around(op: Operation) -> FuncOp:
    above = op.parent_op()
    while not isinstance(above, FuncOp):
        assert above is not None
        above = above.parent_op()
    return above
