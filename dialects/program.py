"""The function that a module is about, and its symbols."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mlc.dialects.dims import shape_of
from mlc.dialects.errors import MlcError

SYMBOLS = "mlc.symbols"
"""Function attribute: the names of its symbols, in the order of a call's sizes."""


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


def symbols_of(function: FuncOp) -> tuple[str, ...]:
    """The function's symbols: as `SYMBOLS` lists them, else as its arguments mention them."""
    listed = function.attributes.get(SYMBOLS)
    if isinstance(listed, ArrayAttr):
        names = cast("ArrayAttr[Attribute]", listed)
        return tuple(name.data for name in names if isinstance(name, StringAttr))
    dims = [dim for t in function.function_type.inputs for dim in shape_of(t)]
    dims.sort(key=lambda dim: dim.single_symbol is None)  # plain ones first: they bind first
    return tuple(dict.fromkeys(name for dim in dims for name in sorted(dim.symbols())))
