"""The function that a module is about."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlc.dialects.errors import MlcError


class ProgramError(MlcError, ValueError):
    """A module holds no function with a body, or several."""


def entry_function(module: ModuleOp) -> FuncOp:
    """The function marked `mlc.entry`, else the only one with a body."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    marked = [f for f in functions if "mlc.entry" in f.attributes]
    if len(marked) == 1:
        return marked[0]
    if len(functions) != 1:
        raise ProgramError(f"expected a module with one function, found {len(functions)}")
    return functions[0]
