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
from mlc.passes.tensor.made_of import batched, pulled_back, pushed_forward
from mlc.passes.wellformed import check_unplanned


@dataclass(frozen=True)
class ExpandTransformsPass(ModulePass):
    """
    pull_back @f(x, dy)     ->  call @f_pull_back(x, dy)
    push_forward @f(x, dx)  ->  call @f_push_forward(x, dx)
    batch @f(xs)            ->  call @f_batch(xs)

    with a new private function, one for all ops that say the same of one function. Innermost first:
    what a function uses is written out before it is differentiated itself. PlanError where a
    function uses itself.
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
    for use in list(uses_of_functions(block)):
        expansion.expand(use)
    expansion.inline(block)
    found = list(last.operands)
    block.erase_op(last)
    return found


class _Expansion:
    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.order = callees_first(module)
        self.functions = {f.sym_name.data: f for f in self.order}
        self.made: dict[tuple[object, ...], FuncOp] = {}

    def run(self) -> None:
        """What a function uses comes before it, and has calls alone by then."""
        for function in self.order:
            for use in list(uses_of_functions(function)):
                self.expand(use)

    def inline(self, inside: FuncOp | Block) -> None:
        """Calls, of which there is nothing else, become what they call."""
        while uses := list(uses_of_functions(inside)):
            for use in uses:
                assert isinstance(use, CallOp)
                inline_call(use, self.functions[use.callee_name], last=False)

    def expand(self, op: FunctionUse) -> None:
        """An op that is no call becomes one."""
        if isinstance(op, CallOp):
            return
        size = op.size.data[0] if isinstance(op, BatchOp) else None
        said = [op.properties[name] for name in op.LISTS]
        key = (op.name, op.callee_name, *said, None if size is None else size.constant)
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = self._function(op)
        sizes = () if op.sizes is None else op.sizes.data
        if size is not None and size.constant is None:
            sizes = (*sizes, size)
        properties = {"sizes": DimsAttr(sizes)} if sizes else {}
        call = CallOp.of(made, op.operands, **properties)
        call.location = op.location
        around = op.parent
        assert around is not None
        around.insert_op_before(call, op)
        for old, new in zip(op.results, call.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        around.erase_op(op)

    def _function(self, op: FunctionUse) -> FuncOp:
        """The function made of the one that an op names."""
        base = self.functions[op.callee_name]
        made = base.clone()
        made.properties["sym_name"] = StringAttr(self._name(op))
        if symbols := symbols_of(base):  # new arguments change nothing about their order
            made.attributes[SYMBOLS] = _names(symbols)
        for attributes in ("arg_attrs", "res_attrs"):
            made.properties.pop(attributes, None)
        self.module.body.block.insert_op_after(made, base)
        self.inline(made)
        check_unplanned(ExpandTransformsPass.name, made)
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
        self.functions[made.sym_name.data] = made
        return made

    def _name(self, op: FunctionUse) -> str:
        """A name that no function has."""
        name = f"{op.callee_name}_{op.name.removeprefix('mlc.')}"
        return _unused(name, self.functions)


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
