"""The function that a module is about, its symbols and the slots of its arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.errors import MlcError

SYMBOLS = "mlc.symbols"
"""Function attribute: the names of its symbols, in the order of a call's sizes."""

ASSUME = "mlc.assume"
"""Function attribute: what it takes to be 0 or more, sizes that it was written for."""

DONATED = "mlc.donated"
"""Argument attribute: the number of the result that takes the place of the argument."""

UNIT = "mlc.unit"
"""Argument attribute: what its elements count, in the words of who wrote the program."""

RESULTS = "mlc.results"
"""Function attribute: the names of its first results, in the words of who wrote the program."""

UNROLLED = "mlc.unrolled"
"""Function attribute: why loops of the source, by file:line, stand there trip by trip."""

ALL_PASSES = "mlc.all_passes"
"""Function attribute: LLVM runs all its passes; other functions come as they shall stay."""

NO_PASSES = "mlc.no_passes"
"""Function attribute: LLVM runs none, and selects instructions as fast as it can."""

Take = Callable[[FuncOp], None]
"""Whom a function goes to when it is made, while others are not."""

ALIGNMENT_BYTES = 64  # of every slot of the arena: a cache line, and the widest vector


class ProgramError(MlcError, ValueError):
    """A module holds no function with a body, or several."""


def kept(function: FuncOp) -> None:
    """As `Take`, where nobody waits for functions."""


def is_entry(function: FuncOp) -> bool:
    """Whether a function of the loops level is what calls enter by."""
    return "mlc.entry" in function.attributes


def is_private(function: FuncOp) -> bool:
    """Whether only functions of the module use a function."""
    return function.sym_visibility is not None and function.sym_visibility.data == "private"


def entry_function(module: ModuleOp) -> FuncOp:
    """The function marked `mlc.entry`, else the only one with a body that is not private."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    marked = [f for f in functions if is_entry(f)]
    if len(marked) == 1:
        return marked[0]
    public = [f for f in functions if not is_private(f)]
    if len(public) != 1:
        found = f"{len(public)}" + (" that are not private" if len(public) < len(functions) else "")
        raise ProgramError(f"expected a module with one function, found {found}")
    return public[0]


def _names(function: FuncOp, attribute: str) -> tuple[str, ...] | None:
    listed = function.attributes.get(attribute)
    if not isinstance(listed, ArrayAttr):
        return None
    names = cast("ArrayAttr[Attribute]", listed)
    return tuple(name.data for name in names if isinstance(name, StringAttr))


def result_names(function: FuncOp) -> tuple[str, ...]:
    """The names of its first results, as far as somebody has given them."""
    return _names(function, RESULTS) or ()


def symbols_of(function: FuncOp) -> tuple[str, ...]:
    """The function's symbols: as `SYMBOLS` lists them, else as its arguments mention them."""
    if (listed := _names(function, SYMBOLS)) is not None:
        return listed
    dims = [dim for t in function.function_type.inputs for dim in shape_of(t)]
    dims.sort(key=lambda dim: dim.single_symbol is None)  # plain ones first: they bind first
    return tuple(dict.fromkeys(name for dim in dims for name in sorted(dim.symbols())))


def unrolled_attributes(reasons: Mapping[str, str]) -> dict[str, Attribute]:
    """`UNROLLED` with reasons by ``file:line``, if there are any."""
    items = [
        DictionaryAttr({"at": StringAttr(at), "why": StringAttr(why)})
        for at, why in reasons.items()
    ]
    return {UNROLLED: ArrayAttr(items)} if items else {}


def unrolled_loops(function: FuncOp) -> list[tuple[str, str]]:
    """``file:line`` and reason of each loop that is no loop in the program."""
    listed = function.attributes.get(UNROLLED)
    found: list[tuple[str, str]] = []
    for each in cast("ArrayAttr[Attribute]", listed) if isinstance(listed, ArrayAttr) else ():
        if isinstance(each, DictionaryAttr):
            at, why = each.data.get("at"), each.data.get("why")
            if isinstance(at, StringAttr) and isinstance(why, StringAttr):
                found.append((at.data, why.data))
    return found


def arena_slots(function: Operation) -> list[tuple[Dim, ...]]:
    """The slots of a planned function, as `mlc.arena` states them."""
    arena = function.attributes.get("mlc.arena")
    if not isinstance(arena, DictionaryAttr):
        return []
    slots = [arena.data[str(k)] for k in range(len(arena.data))]
    return [slot.data for slot in slots if isinstance(slot, DimsAttr)]
