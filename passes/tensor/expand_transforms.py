"""Derivatives and many examples at once: functions made of functions are written out."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain, count

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.program import SYMBOLS, symbols_of
from mlc.dialects.tensor.calls import (
    NONE,
    BatchOp,
    CallOp,
    DerivativeUse,
    FunctionUse,
    PullBackOp,
    PushForwardOp,
    used_by,
    uses_of_functions,
)
from mlc.dialects.tensor.control import YieldOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.call_graph import callees_first, inline_call, uses_functions
from mlc.passes.tensor.inline_calls import inline_calls
from mlc.passes.tensor.made_of import batched, pulled_back, pushed_forward, taken_apart
from mlc.passes.wellformed import check_unplanned

Key = tuple[object, ...]


@dataclass(frozen=True)
class ExpandTransformsPass(ModulePass):
    """
    pull_back @f(x, dy)     ->  call @f_pull_back(x, dy)
    push_forward @f(x, dx)  ->  call @f_push_forward(x, dx)
    batch @f(xs)            ->  call @f_batch(xs)

    with a new private function, one for all ops that say the same of one function. Innermost first:
    what a function uses is written out before it is differentiated itself. Where a call before it
    has computed the function for the same arguments, it is not computed again:

    call @f(x); pull_back @f(x, dy)  ->  y, kept = call @f_kept(x); call @f_pull_back(dy, kept)

    PlanError where a function uses itself.
    """

    name = "mlc-expand-transforms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if uses_functions(op):
            _Expansion(op).run()


def one_function(module: ModuleOp) -> ModuleOp:
    """A module of which nothing uses functions: itself, or a copy, written out."""
    if not uses_functions(module):
        return module
    made = module.clone()
    _Expansion(made).run()
    inline_calls(made)
    return made


def write_out(
    block: Block, ends: Sequence[SSAValue], functions: Sequence[FuncOp]
) -> list[SSAValue]:
    """
    Puts in what a block, which is in no function yet, names of these functions, so that it may be
    differentiated itself; gives what it ends with, as it is called then. The functions stay as they
    are.
    """
    expansion = _Expansion(ModuleOp([function.clone() for function in used_by(block, functions)]))
    expansion.run()
    last = YieldOp.create(operands=ends)
    block.add_op(last)
    expansion.expand(block)
    expansion.inline(block)
    found = list(last.operands)
    block.erase_op(last)
    return found


class _Expansion:
    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.order = callees_first(module)
        self.functions = {f.sym_name.data: f for f in self.order}
        self.made: dict[Key, FuncOp] = {}
        self.apart: dict[Key, tuple[FuncOp, FuncOp]] = {}

    def run(self) -> None:
        """What a function uses comes before it, and has calls alone by then."""
        for function in self.order:
            self.expand(function)

    def inline(self, inside: FuncOp | Block) -> None:
        """Calls, of which there is nothing else, become what they call."""
        while uses := list(uses_of_functions(inside)):
            for use in uses:
                assert isinstance(use, CallOp)
                inline_call(use, self.functions[use.callee_name], last=False)

    def expand(self, inside: FuncOp | Block) -> None:
        """All ops that are no calls become some."""
        uses = list(uses_of_functions(inside))
        values = [_Value(use) for use in uses if isinstance(use, CallOp)]
        for use in uses:
            if isinstance(use, DerivativeUse) and (value := _value_of(use, values)) is not None:
                self._expand_apart(use, value)
            elif not isinstance(use, CallOp):
                self._replace(use, self._function_of(use), use.operands)

    def _expand_apart(self, op: DerivativeUse, value: _Value) -> None:
        """A derivative where a call has computed the function: that is not repeated."""
        key = _key(op)
        if value.key is None:
            forward = self._parts_of(op, key)[0]
            value.key, value.call = key, self._replace(value.call, forward, value.inputs)
        if value.key != key:
            self._replace(op, self._function_of(op), op.operands)
            return
        kind = self.functions[op.callee_name].function_type
        results = value.call.results[: len(kind.outputs)]
        kept = value.call.results[len(kind.outputs) :]
        given = [*op.operands[len(kind.inputs) :], *kept]
        self._replace(op, self._parts_of(op, key)[1], given, results)

    def _replace(
        self,
        op: FunctionUse,
        made: FuncOp,
        operands: Sequence[SSAValue],
        known: Sequence[SSAValue] = (),
    ) -> CallOp:
        """A call takes the place of an op, whose first results are `known` ones."""
        size = op.size.data[0] if isinstance(op, BatchOp) else None
        sizes = () if op.sizes is None else op.sizes.data
        if size is not None and size.constant is None:
            sizes = (*sizes, size)
        properties = {"sizes": DimsAttr(sizes)} if sizes else {}
        call = CallOp.of(made, operands, **properties)
        call.location = op.location
        around = op.parent
        assert around is not None
        around.insert_op_before(call, op)
        for old, new in zip(op.results, (*known, *call.results), strict=False):
            new.name_hint = new.name_hint or old.name_hint
            old.replace_all_uses_with(new)
        around.erase_op(op)
        return call

    def _function_of(self, op: FunctionUse) -> FuncOp:
        """The function made of the one that an op names: one for all that say the same of it."""
        key = _key(op)
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = self._copied(op, op.name.removeprefix("mlc."))
            match op:
                case PullBackOp():
                    pulled_back(made, op.numbers("wrt"), op.numbers("of"))
                case PushForwardOp():
                    pushed_forward(made, op.numbers("wrt"), op.numbers("of"))
                case BatchOp():
                    ins, outs = (
                        [None if axis == NONE else axis for axis in op.numbers(name)]
                        for name in ("in", "out")
                    )
                    batched(made, ins, outs, _size_in(made, op.size.data[0]))
                case _:
                    raise AssertionError(op.name)
        return made

    def _parts_of(self, op: DerivativeUse, key: Key) -> tuple[FuncOp, FuncOp]:
        """The function with what its derivative reads of it, and the derivative of that."""
        parts = self.apart.get(key)
        if parts is None:
            forward = self._copied(op, "kept")
            linear = taken_apart(
                forward, op.numbers("wrt"), op.numbers("of"), back=isinstance(op, PullBackOp)
            )
            self._add(linear, f"{op.callee_name}_{op.name.removeprefix('mlc.')}", forward)
            parts = self.apart[key] = forward, linear
        return parts

    def _copied(self, op: FunctionUse, suffix: str) -> FuncOp:
        """The function that an op names, without calls, to be changed."""
        base = self.functions[op.callee_name]
        made = base.clone()
        if symbols := symbols_of(base):  # new arguments change nothing about their order
            made.attributes[SYMBOLS] = _names(symbols)
        for attributes in ("arg_attrs", "res_attrs"):
            made.properties.pop(attributes, None)
        self._add(made, f"{op.callee_name}_{suffix}", base)
        self.inline(made)
        check_unplanned(ExpandTransformsPass.name, made)
        return made

    def _add(self, made: FuncOp, name: str, base: FuncOp) -> None:
        """A new function of the module, by a name that no other one has."""
        name = _unused(name, self.functions)
        made.properties["sym_name"] = StringAttr(name)
        self.module.body.block.insert_op_after(made, base)
        self.functions[name] = made


class _Value:
    """A call that has computed a function, of which a derivative may be asked behind it."""

    def __init__(self, call: CallOp) -> None:
        self.call, self.callee = call, call.callee_name
        self.inputs, self.sizes = tuple(call.inputs), call.sizes
        self.key: Key | None = None  # of the derivative for which it keeps values


def _value_of(op: DerivativeUse, values: Sequence[_Value]) -> _Value | None:
    """The call that has computed, before an op, its function for the same arguments."""
    for value in values:
        if (value.callee, value.sizes) != (op.callee_name, op.sizes):
            continue
        around = value.call.parent
        assert around is not None
        above = around.find_ancestor_op_in_block(op)
        if above is None or not value.call.is_before_in_block(above):
            continue
        if value.inputs == tuple(op.inputs[: len(value.inputs)]):
            return value
    return None


def _key(op: FunctionUse) -> Key:
    """What an op says of its function, for which it does not matter where it stands."""
    size = op.size.data[0].constant if isinstance(op, BatchOp) else None
    return op.name, op.callee_name, *(op.properties[name] for name in op.LISTS), size


def _size_in(function: FuncOp, size: Dim) -> Dim:
    """How many examples there are, in a function that has a symbol for it if it is no number."""
    if size.constant is not None:
        return size
    symbols = symbols_of(function)
    name = _unused(size.single_symbol or "examples", symbols)
    function.attributes[SYMBOLS] = _names((*symbols, name))
    return Dim.symbol(name)


def _names(symbols: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in symbols])


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it where it is taken."""
    return next(x for x in chain([name], (f"{name}_{k}" for k in count(2))) if x not in taken)
