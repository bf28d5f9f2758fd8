"""
What a transformation is of, as a private function of the module: the program names it, and is
written out when it is compiled, not while it is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.analysis.closed import close_block
from mlc.dialects.analysis.homes import block_of
from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.program import ASSUME, SYMBOLS
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.calls import FunctionUse, used_by, uses_of_functions
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.subprogram import Subprogram
from mlc.frontend.trace.trace import Trace, here
from mlc.frontend.trace.unread import may_raise
from mlc.lazy_dataclass import dataclass

MOST_COMPARED = 32
"""Names of ops by which functions are known to differ, before they are compared."""


@dataclass(frozen=True)
class PrivateFunction:
    """A function of the module, and what is around it in the program."""

    function: FuncOp
    arguments: tuple[SSAValue, ...]  # with values from around it, which are the last ones
    sizes: tuple[Dim, ...]
    plain: Mapping[int, SSAValue | None]  # results that come from around it, by number

    def use(
        self, op: type[FunctionUse], more: Sequence[SSAValue] = (), **properties: Attribute
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """
        The function's results and what `op` gives beside, as an op of the program. `more` are the
        operands after the function's arguments.
        """
        if self.sizes:
            properties["sizes"] = DimsAttr(self.sizes)
        made = op.of(self.function, [*self.arguments, *more], **properties)
        if (site := user_site()) is not None:
            made.location = site.location
        here().scopes[-1].add_op(made)
        count = len(self.function.function_type.outputs)
        values = [self.plain.get(k) or x for k, x in enumerate(made.results[:count])]
        return values, list(made.results[count:])


def private_function(
    sub: Subprogram,
    arguments: Sequence[SSAValue],
    function: Callable[..., Any] | str,
    *,
    once: bool,
) -> PrivateFunction | None:
    """
    What was traced of `function`, or of what is called so, as a function that the program has from
    here on and uses for these arguments, `once` or for many examples of them: the one that it has
    already where another trace has given the same. None where it must be part of the program at
    once:

    - where it does something beside its results, or binds sizes, which what follows may say;
    - where something else than its result holds values of it;
    - where something is computed only because that may fail.
    """
    trace, block = here(), sub.block
    if sub.effects or trace.counted:
        return None
    ops = list(block.walk())
    if any(map(_is_refused, ops)) or _is_held(sub, ops):
        return None
    outputs = sub.outputs
    said = {s for op in ops for s in symbols_in(op)}
    said |= {s for x in (*block.args, *outputs) for d in shape_of(x.type) for s in d.symbols()}
    if not said.isdisjoint(trace.limits) or (trace.checks and _asks(sub, ops)):
        return None
    plain = {k: _plain(x, block, arguments) for k, x in enumerate(outputs)} if once else {}
    captured = close_block(block, ops, outputs)
    symbols = [name for name in trace.symbols if name in said]
    block.add_op(ReturnOp(*(captured.get(x, x) for x in outputs)))
    made = FuncOp(
        _unused(function if isinstance(function, str) else _name_of(function), trace),
        ([x.type for x in block.args], [x.type for x in outputs]),
        Region(block),
        visibility="private",
    )
    if symbols:
        made.attributes[SYMBOLS] = ArrayAttr([StringAttr(name) for name in symbols])
    sizes = tuple(map(Dim.symbol, symbols))
    return PrivateFunction(_only(made, ops, trace), (*arguments, *captured), sizes, plain)


def imported(entry: FuncOp, functions: Sequence[FuncOp]) -> FuncOp:
    """
    A function of another module, without what it says to those who call it from outside, as one of
    this program, with those of its module that it uses; the same one each time.
    """
    trace = here()
    if entry in trace.imported:
        return trace.imported[entry]
    names: dict[str, SymbolRefAttr] = {}
    for function in (*used_by(entry, functions), entry):
        made = function.clone()
        made.properties["sym_visibility"] = StringAttr("private")
        for said in ("arg_attrs", "res_attrs"):
            made.properties.pop(said, None)
        if function is entry:
            made.attributes.pop(ASSUME, None)
        name = _unused(function.sym_name.data, trace)
        made.properties["sym_name"] = StringAttr(name)
        names[function.sym_name.data] = SymbolRefAttr(name)
        trace.private.append(made)
        trace.imported[function] = made
    for function in (*used_by(entry, functions), entry):
        for use in uses_of_functions(trace.imported[function]):
            use.properties["callee"] = names[use.callee_name]
    made = trace.imported[entry]
    trace.checks = trace.checks or any(
        isinstance(op, TensorOp) and op.may_fail
        for function in (made, *used_by(made, trace.private))
        for op in function.walk()
    )
    return made


def _only(made: FuncOp, ops: Sequence[Operation], trace: Trace) -> FuncOp:
    """Of functions that are the same but for their name the first."""
    key = made.function_type, len(ops), tuple(op.name for op in ops[:MOST_COMPARED])
    for known in trace.alike.setdefault(key, []):
        name = made.properties["sym_name"]
        made.properties["sym_name"] = known.properties["sym_name"]
        if known.is_structurally_equivalent(made):
            return known
        made.properties["sym_name"] = name
    trace.alike[key].append(made)
    trace.private.append(made)
    return made


def _is_refused(op: Operation) -> bool:
    known = TensorOp | ControlOp | FunctionUse | YieldOp
    return isinstance(op, BindOp) or not isinstance(op, known)


def _is_held(sub: Subprogram, ops: Sequence[Operation]) -> bool:
    """Whether something holds values of it beside its result."""
    blocks = {sub.block, *(block for op in ops for region in op.regions for block in region.blocks)}
    own = {id(x) for x in sub.outcome.arrays}
    made = (reference() for reference in here().made[sub.first_made :])
    return any(x is not None and id(x) not in own and x.is_made_in(blocks) for x in made)


def _asks(sub: Subprogram, ops: Sequence[Operation]) -> bool:
    """Whether something is computed only because that may fail."""
    from mlc.passes.tensor.dce import needed

    read = needed(sub.block, sub.outputs)
    return any(may_raise(op) and op.results[0] not in read for op in ops)


def _plain(value: SSAValue, block: Block, arguments: Sequence[SSAValue]) -> SSAValue | None:
    """A result as it is called around the function, where it comes from there."""
    if block_of(value) is not block:
        return value
    return arguments[value.index] if isinstance(value, BlockArgument) else None


def _name_of(function: Callable[..., Any]) -> str:
    """What a function is called; nothing where it has no name."""
    return str(getattr(function, "__name__", ""))


def _unused(name: str, trace: Trace) -> str:
    """The name, with a number behind it where it is taken."""
    taken = {trace.name, *(function.sym_name.data for function in trace.private)}
    wanted = name if name.isidentifier() else "function"
    names = chain([wanted], (f"{wanted}_{k}" for k in count(1)))
    return next(x for x in names if x not in taken)
