"""
The short way to a program that needs Python's help: static arguments, containers, captured values.

`make_route` writes a Python function for one program. It takes the arguments apart as the program
expects them, hands the arrays to the native entry, whose own checks decide, and rebuilds the
result. Where anything differs it gives MISS, and the full dispatch follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects.errors import RoomError
from mlc.frontend.call.arguments import Call, Leaf
from mlc.frontend.call.loaded_program import FAILURES, CaughtError
from mlc.frontend.call.program import MISS, Program, ResultLeaf
from mlc.frontend.trace.containers import Leaf as StructureLeaf
from mlc.frontend.trace.containers import Structure, rebuilt
from mlc.frontend.trace.deferred import Found
from mlc.frontend.trace.kinds import class_of, is_array, is_scalar
from mlc.frontend.trace.paths import Constants, equal_value, told_by_equality
from mlc.runtime.returned import counted

if TYPE_CHECKING:
    from mlc.dialects.dims import Shape

Route = Callable[[Sequence[Any]], Any]


def missing(*_: object, **__: object) -> object:
    """What entries behind routes call with arguments that they do not take."""
    return MISS


def make_route(
    program: Program,
    call: Call,
    shapes: Sequence[Shape],
    entry: Callable[..., Any],
    slow: Callable[..., Any],
    again: Callable[..., Any] | None,
) -> tuple[Route, Callable[..., Any]] | None:
    """
    The route to a program, and the same as a `__call__` that gives what it does not take to `slow`;
    None where it needs the full dispatch. `again`: what runs a call that fails, from its start; the
    route raises CaughtError there.
    """
    if any(map(_is_converted, call.leaves)) or _writes_to_device(program, call) or program.stores:
        return None
    if program.outcome is not None and (program.outcome.waits or program.outcome.unread):
        return None
    names = Constants(
        entry=entry,
        MISS=MISS,
        slow=slow,
        again=again,
        CaughtError=CaughtError,
        FAILURES=FAILURES,
        copyto=np.copyto,
        share=np.may_share_memory,
        asarray=np.asarray,
        RoomError=RoomError,
    )
    writer = _Writer(program, call, names)
    lines = writer.arguments()
    checked = writer.assumptions(shapes)
    if checked is None:
        return None
    lines += checked
    lines += [f"if not ({guard.source(writer.constants)}): return MISS" for guard in program.guards]
    hidden = [h.path.source(writer.constants) for h in program.hidden]
    lines += [f"h{k} = {source}" for k, source in enumerate(hidden)]
    inputs = [*(f"a{k}" for k in program.inputs), *(f"h{k}" for k in range(len(hidden)))]
    for k in program.written:
        if _on_device(call.leaves[k]):
            continue
        lines.append(f"if not a{k}.flags.writeable: return MISS")
        if k in program.in_place.values():
            continue  # the entry looks itself
        shared = [f"share(a{k}, {other})" for other in inputs if other != f"a{k}"]
        lines += [f"if {' or '.join(shared)}: return MISS"] if shared else []
    asked = [f"r = entry({', '.join(inputs)})"]
    if again is not None:
        asked = _saving(asked, list(program.in_place.values()))
    if program.room is not None:  # the full dispatch makes more of it
        asked = ["try:", *(f"    {line}" for line in asked), "except RoomError:", "    return MISS"]
    after = [*asked, "if r is MISS: return MISS", *writer.result()]
    body = [
        "    try:",
        *(f"        {line}" for line in lines or ["pass"]),
        "    except (LookupError, AttributeError, TypeError, ValueError):",
        "        return MISS",
        *(f"    {line}" for line in after),
    ]
    source = _source(body, len(call.structures))
    space = writer.constants.space
    exec(compile(source, f"<route to {program.name}>", "exec"), space)
    return space["route"], space["front"]


def _saving(lines: Sequence[str], in_place: Sequence[int]) -> list[str]:
    """A call's lines; where it fails, the arrays are as they were."""
    return [
        *(f"b{k} = a{k}.copy()" for k in in_place),
        "failed = False",
        "try:",
        *(f"    {line}" for line in lines),
        "except FAILURES:",
        "    failed = True",  # what is raised next has nothing to do with it
        "if failed:",
        *(f"    copyto(a{k}, b{k})" for k in in_place),
        "    raise CaughtError",
    ]


def _source(body: Sequence[str], count: int) -> str:
    """Both functions; in `front` what `slow` raises is not caught, and nothing is run twice."""
    inline = {"return MISS": "break", "raise CaughtError": "return again(*v)"}
    front = [reduce(lambda x, new: x.replace(*new), inline.items(), line) for line in body]
    return "\n".join(
        [
            "def route(v):",
            *body,
            "def front(self, /, *v, **named):",
            f"    if named or len(v) != {count}: return slow(*v, **named)",
            "    while True:",  # left where another program serves the call
            *(f"    {line}" for line in front),
            "    return slow(*v)",
        ]
    )


class _Writer:
    """The lines of one route."""

    def __init__(self, program: Program, call: Call, constants: Constants) -> None:
        self.program = program
        self.call = call
        self.constants = constants

    def arguments(self) -> list[str]:
        """Leaf k of the arguments becomes ``a{k}``; static values and structures are checked."""
        lines: list[str] = []
        position = 0
        for number, structure in enumerate(self.call.structures):
            position = self._take_apart(f"v[{number}]", structure, position, lines)
        return lines

    def _take_apart(self, value: str, structure: Structure, position: int, lines: list[str]) -> int:
        if isinstance(structure, StructureLeaf):
            leaf = self.call.leaves[position]
            lines.append(f"a{position} = {value}")
            if leaf.kind == "static":
                same, fixed = self.constants.name(equal_value), self.constants.name(leaf.value)
                kind = self.constants.name(class_of(leaf.value))
                equal = f"(type(a{position}) is {kind} and a{position} == {fixed})"
                either = f" or {equal}" if told_by_equality(leaf.value) else ""
                lines.append(
                    f"if not (a{position} is {fixed} or {same}(a{position}, {fixed}){either}):"
                    " return MISS"
                )
            elif leaf.kind in ("opaque", "size"):
                lines.append(self._only(f"a{position}", leaf.value))
            elif is_scalar(given := leaf.given):  # entries take arrays
                lines.append(self._only(f"a{position}", given))
                lines.append(f"a{position} = asarray(a{position})")
            return position + 1
        kind, keys = structure.kind, structure.keys
        name = f"p{len(lines)}"
        lines.append(f"{name} = {value}")
        lines.append(f"if type({name}) is not {self.constants.name(kind)}: return MISS")
        if issubclass(kind, tuple | list | dict):
            lines.append(f"if len({name}) != {len(structure.children)}: return MISS")
        if kind is dict:
            lines.append(f"if tuple({name}) != {self.constants.name(keys)}: return MISS")
        for number, child in enumerate(structure.children):
            if kind is dict:
                part = f"{name}[{self.constants.name(keys[number])}]"
            elif issubclass(kind, tuple | list):
                part = f"{name}[{number}]"
            else:
                part = f"{name}.{keys[number]}"
            position = self._take_apart(part, child, position, lines)
        return position

    def _only(self, name: str, value: object) -> str:
        """A line that lets pass what is of the value's type."""
        return f"if type({name}) is not {self.constants.name(class_of(value))}: return MISS"

    def assumptions(self, shapes: Sequence[Shape]) -> list[str] | None:
        """What tracing assumed about symbolic sizes; None where a symbol is no axis."""
        needed = {s for a in self.program.assumptions for s in a.dim.symbols()}
        lines: list[str] = []
        for k, shape in enumerate(shapes):
            for axis, dim in enumerate(shape):
                if dim.single_symbol in needed:
                    needed.discard(str(dim))
                    lines.append(f"{_local(str(dim))} = a{k}.shape[{axis}]")
        for symbol in sorted(needed & self.program.ints.ways.keys()):
            needed.discard(symbol)
            way = self.program.ints.ways[symbol].source(self.constants)
            lines.append(f"{_local(symbol)} = {way}")
        if needed:
            return None
        for assumption in self.program.assumptions:
            dim = assumption.dim
            text = str(dim.substitute({s: type(dim).symbol(_local(s)) for s in dim.symbols()}))
            lines.append(f"if {text} < 0: return MISS")
        return lines

    def result(self) -> list[str]:
        """Writes back what the function wrote to, and returns the user's structure."""
        program = self.program
        if program.direct_result:
            return ["return r"]
        lines: list[str] = []
        if program.counted:
            cut, axes = self.constants.name(counted), self.constants.name(program.counted)
            lines.append(f"r = {cut}(r, {axes})")
        for number, k in enumerate(program.written):
            if k in program.in_place.values():
                continue
            lines.append(f"copyto(a{k}, r[{number - len(program.written)}])")
        if (beside := program.outcome) is not None:
            held, first = self.constants.name(beside), -len(program.written) - beside.results
            lines.append(f"if {held}.failed: {held}.check()")
            if beside.raises:
                lines.append(f"if r[{first}]: {held}.raise_for(r[{first}:])")
        lines += ["made = {}"] * any(leaf.kind == "made" for leaf in program.results)
        leaves = iter(self._leaf_expressions(program.results))
        lines.append(f"return {self._rebuilt(program.structure, leaves)}")
        return lines

    def _leaf_expressions(self, leaves: Sequence[ResultLeaf]) -> list[str]:
        texts: list[str] = []
        number = 0
        for leaf in leaves:
            if leaf.kind == "constant":
                texts.append(self.constants.name(leaf.value))
                continue
            if leaf.kind == "made":
                make, found = self.constants.name(leaf.value), self.constants.name(Found)
                held = ", ".join(path.source(self.constants) for path in leaf.kept)
                texts.append(f"{make}({found}(r[{number}:], [{held}], made))")
            else:
                texts.append(f"r[{number}]" + (".item()" if leaf.kind == "number" else ""))
            number += leaf.takes
        return texts

    def _rebuilt(self, structure: Structure, leaves: Any) -> str:
        if isinstance(structure, StructureLeaf):
            return next(leaves)
        parts = [self._rebuilt(child, leaves) for child in structure.children]
        if structure.kind is tuple:
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if structure.kind is list:
            return f"[{', '.join(parts)}]"
        if structure.kind is dict:
            names = [self.constants.name(key) for key in structure.keys]
            return "{" + ", ".join(f"{k}: {p}" for k, p in zip(names, parts, strict=True)) + "}"
        make, kind, keys = (
            self.constants.name(x) for x in (rebuilt, structure.kind, structure.keys)
        )
        return f"{make}({kind}, {keys}, [{', '.join(parts)}])"


def _on_device(leaf: Leaf) -> bool:
    """Whether an argument stays where it is, on a GPU, whose programs make results like it."""
    return leaf.kind == "array" and not is_array(leaf.value)


def _is_converted(leaf: Leaf) -> bool:
    """Whether an argument is an array of another library, to which results are converted back."""
    given = leaf.given
    foreign = given is not None and type(given) is not np.ndarray and not is_scalar(given)
    return foreign and not _on_device(leaf)


def _writes_to_device(program: Program, call: Call) -> bool:
    """Whether results are copied into arrays on a GPU, or made numbers of from there."""
    if not any(map(_on_device, call.leaves)):
        return False
    in_place = program.in_place.values()
    copied = any(k not in in_place and _on_device(call.leaves[k]) for k in program.written)
    return copied or any(leaf.kind == "number" for leaf in program.results)


def _local(symbol: str) -> str:
    return f"s_{symbol}"
