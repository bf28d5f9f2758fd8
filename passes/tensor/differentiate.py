"""Derivatives of functions of a module, as functions beside them."""

from __future__ import annotations

from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.errors import DTypeError
from mlc.dialects.program import ASSUME, SYMBOLS
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import Emitter, is_differentiable
from mlc.passes.tensor.derivative.forward import push_forward
from mlc.passes.tensor.derivative.reverse import pull_back
from mlc.passes.wellformed import check_unplanned


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """
    Adds a function for each one (or only for `function`) of the module.

    `mode` "reverse": NAME_vjp, arguments and cotangents of the results -> results and cotangents of
    the arguments. "forward": NAME_jvp, arguments and tangents -> results and their tangents. `wrt`:
    positions of the arguments to differentiate by; all with a floating dtype if not given.
    """

    name = "mlc-differentiate"

    function: str | None = None
    mode: Literal["reverse", "forward"] = "reverse"
    wrt: tuple[int, ...] | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = [x for x in op.body.block.ops if isinstance(x, FuncOp) and x.body.blocks]
        chosen = [x for x in found if self.function in (None, x.sym_name.data)]
        if not chosen:
            names = ", ".join(x.sym_name.data for x in found) or "none"
            wanted = "with a body; expected one"
            if self.function is not None:
                wanted = f"{self.function!r}; there is {names}"
            raise DTypeError(f"mlc-differentiate: no function {wanted}")
        for function in chosen:
            check_unplanned(self.name, function)
            op.body.block.insert_op_after(self._derivative(function), function)

    def _derivative(self, function: FuncOp) -> FuncOp:
        new = function.clone()
        block = new.body.block
        inputs = self._inputs(function.sym_name.data, block)
        last = block.last_op
        assert isinstance(last, ReturnOp)
        outputs = list(last.operands)
        block.erase_op(last)
        if self.mode == "forward":
            suffix, results = "jvp", _forward(block, inputs, outputs)
        else:
            suffix, results = "vjp", _reverse(block, inputs, outputs)
        block.add_op(ReturnOp(*results))
        made = FuncOp(
            f"{function.sym_name.data}_{suffix}",
            ([x.type for x in block.args], [x.type for x in results]),
            Region(new.body.detach_block(block)),
        )
        for name in (SYMBOLS, ASSUME):
            if name in function.attributes:
                made.attributes[name] = function.attributes[name]
        return made

    def _inputs(self, name: str, block: Block) -> list[SSAValue]:
        if self.wrt is None:
            return [x for x in block.args if is_differentiable(x)]
        for position in self.wrt:
            if not 0 <= position < len(block.args):
                raise DTypeError(
                    f"mlc-differentiate: wrt names argument {position};"
                    f" @{name} has {len(block.args)}"
                )
            if not is_differentiable(block.args[position]):
                raise DTypeError(
                    f"mlc-differentiate: argument {position} of @{name} is"
                    f" {block.args[position].type}, which has no derivative"
                )
        return [block.args[k] for k in self.wrt]


def _more(block: Block, values: list[SSAValue], prefix: str) -> list[SSAValue]:
    """New arguments, typed as the values."""
    found: list[SSAValue] = []
    for x in values:
        argument = block.insert_arg(x.type, len(block.args))
        argument.name_hint = f"{prefix}{x.name_hint}" if x.name_hint else None
        found.append(argument)
    return found


def _forward(block: Block, inputs: list[SSAValue], outputs: list[SSAValue]) -> list[SSAValue]:
    tangents = _more(block, inputs, "d")
    values, found = push_forward(block, outputs, inputs, tangents)
    return [*values, *_present(block, values, found)]


def _reverse(block: Block, inputs: list[SSAValue], outputs: list[SSAValue]) -> list[SSAValue]:
    cotangents = _more(block, outputs, "bar_")
    ops = list(block.ops)
    seeds = [c if is_differentiable(x) else None for c, x in zip(cotangents, outputs, strict=True)]
    values, found = pull_back(ops, outputs, inputs, block, seeds)
    return [*values, *_present(block, inputs, found)]


def _present(block: Block, values: list[SSAValue], found: list[SSAValue | None]) -> list[SSAValue]:
    """Zeros where there is no derivative."""
    return Emitter(block).or_zeros(found, values)
