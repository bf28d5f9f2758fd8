"""Derivatives of functions of a module, as functions beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mlc.dialects.errors import DTypeError
from mlc.dialects.program import ASSUME, SYMBOLS
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import is_differentiable
from mlc.passes.tensor.made_of import pulled_back, pushed_forward
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
        wrt = self._wrt(function.sym_name.data, new.body.block)
        every = range(len(function.function_type.outputs))
        if self.mode == "forward":
            pushed_forward(new, wrt, every)
        else:
            pulled_back(new, wrt, every)
        suffix = "jvp" if self.mode == "forward" else "vjp"
        kind = new.function_type
        made = FuncOp(f"{function.sym_name.data}_{suffix}", kind, new.detach_region(0))
        for name in (SYMBOLS, ASSUME):
            if name in function.attributes:
                made.attributes[name] = function.attributes[name]
        return made

    def _wrt(self, name: str, block: Block) -> Sequence[int]:
        if self.wrt is None:
            return [k for k, x in enumerate(block.args) if is_differentiable(x)]
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
        return self.wrt
