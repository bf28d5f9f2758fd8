"""
Programs of certificates as lines of text: read, numbered by formula, and changed (`mlc.check`).
Nothing here is the compiler's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

ENDS = ("return", "yield")
Json = dict[str, Any]


class CertificateError(Exception):
    """What is wrong with a certificate, and in which of its lines."""


class Op(NamedTuple):
    """One op; `uses` are its operands, and what its regions read from outside."""

    results: tuple[str, ...]
    name: str
    props: Json
    operands: tuple[str, ...]
    types: tuple[str, ...]
    regions: tuple[Block, ...]
    uses: tuple[str, ...]


class Block(NamedTuple):
    """What a region, or a function, is given and does; its last op is the end."""

    args: tuple[str, ...]
    ops: tuple[Op, ...]


class Program:
    """Functions, the first of which is the program; of each value its op and its type."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.functions: dict[str, tuple[Block, list[str]]] = {}
        self.types: dict[str, str] = {}
        self.makers: dict[str, Op] = {}
        self.order: list[Op] = []
        self.lines, self.at = lines, 0
        while self.at < len(lines):
            head = re.fullmatch(r'func ("[^"]*")\((.*)\) (\[.*\]) \{', self.next())
            if head is None:
                raise CertificateError(f"expected a function, found {lines[self.at - 1]!r}")
            name = json.loads(head[1])
            if name in self.functions:
                raise CertificateError(f"two functions are called {name}")
            self.functions[name] = (self.block(head[2], set()), json.loads(head[3]))
            if self.next() != "}":
                raise CertificateError(f"function {name} does not end")

    def calls(self) -> int:
        """How many calls there are."""
        return sum(op.name == "call" for op in self.order)

    def next(self) -> str:
        """The next line, without the spaces in front of it."""
        if self.at >= len(self.lines):
            raise CertificateError("the program ends too early")
        self.at += 1
        return self.lines[self.at - 1].lstrip()

    def define(self, ids: Iterable[str], types: Iterable[str], visible: set[str]) -> None:
        """Values, each of which is defined once."""
        for name, kind in zip(ids, types, strict=True):
            if name in self.types:
                raise CertificateError(f"{name} is defined twice")
            self.types[name] = kind
            visible.add(name)

    def block(self, args: str, visible: set[str]) -> Block:
        """Ops up to the end of a block."""
        given = re.findall(r"(%\d+): (\w+\[[^\]]*\])", args)
        names, inside, ops = tuple(x for x, _ in given), set(visible), list[Op]()
        self.define(names, [kind for _, kind in given], inside)
        while not ops or ops[-1].name not in ENDS:
            ops.append(self.op(inside))
        return Block(names, tuple(ops))

    def op(self, visible: set[str]) -> Op:
        """One op, with its regions; what it reads is defined before it."""
        results, name, props, operands, types, opens = _parsed(self.next())
        if missing := [x for x in operands if x not in visible]:
            raise CertificateError(f"{name} reads {missing[0]}, which is not defined before it")
        first, regions = len(self.order), list[Block]()
        while opens and (head := self.next()) != "}":
            if not head.startswith("^"):
                raise CertificateError(f"expected a region of {name}, found {head!r}")
            regions.append(self.block(head, visible))
        inner = [x for op in self.order[first:] for x in op.uses if x in visible]
        uses = tuple(dict.fromkeys([*operands, *inner]))
        self.define(results, types, visible)
        found = Op(results, name, props, operands, types, tuple(regions), uses)
        self.makers.update(dict.fromkeys(results, found))
        self.order.append(found)
        return found


@lru_cache(maxsize=1 << 16)
def _parsed(line: str) -> tuple[tuple[str, ...], str, Json, tuple[str, ...], tuple[str, ...], bool]:
    pattern = r"(?:(%[\d, %]+) = )?([a-z_0-9.]+)(?: (\{.*\}))?((?: %\d+)*)(?: : ([^{}]*?))?( \{)?"
    found = re.fullmatch(pattern, line)
    if found is None:
        raise CertificateError(f"expected an op, found {line!r}")
    results, name, props, operands, types, opens = found.groups()
    ids = tuple(results.split(", ")) if results else ()
    kinds = tuple(re.findall(r"\w+\[[^\]]*\]", types or ""))
    return ids, name, json.loads(props or "{}"), tuple(operands.split()), kinds, bool(opens)


class Numbering:
    """
    Numbers for values: equal where they are one formula, also across programs that share `table`.
    `same`: values that have the number of another value, which comes before, or is in `other`.
    `inlines`: a call is what is called, of which nothing is claimed then.
    """

    def __init__(
        self,
        program: Program,
        same: Mapping[str, str],
        other: Numbering | None = None,
        *,
        inlines: bool = False,
    ) -> None:
        self.table: dict[Any, int] = {} if other is None else other.table
        self.numbers: dict[str, int] = {}
        self.own: dict[str, int] = {}  # as their formula says
        self.inlines = inlines
        self.known = self.numbers if other is None else other.numbers
        self.program = program
        self.same: Mapping[str, str] = same
        self.functions: dict[str, int] = {}
        self.state = 0  # of ops without results, which say what sizes are
        for name in program.functions:
            self.function(name, ())

    def number(self, key: Any) -> int:
        """Of a formula."""
        return self.table.setdefault(key, len(self.table))

    def function(self, name: str, callers: tuple[str, ...]) -> int:
        """Of what a function returns."""
        if name not in self.program.functions or name in callers:
            raise CertificateError(f"function {name} is not there, or uses itself")
        if name not in self.functions:
            block, symbols = self.program.functions[name]
            kept, self.state = self.state, 0
            self.functions[name] = self.block(("func", *symbols), block, (*callers, name))
            self.state = kept
        return self.functions[name]

    def block(self, path: tuple[Any, ...], block: Block, callers: tuple[str, ...]) -> int:
        """Of what a block ends with."""
        given = [
            self.number(("arg", *path, k, self.program.types[x])) for k, x in enumerate(block.args)
        ]
        return self.number(("end", *self.ends(block, given, callers)))

    def ends(self, block: Block, given: Sequence[int], callers: tuple[str, ...]) -> list[int]:
        """Of each value that a block ends with."""
        self.numbers.update(zip(block.args, given, strict=True))
        self.own.update(zip(block.args, given, strict=True))
        before = self.state
        for op in block.ops:
            read = [self.numbers[x] for x in op.operands]
            key: tuple[Any, ...] = (op.name, json.dumps(op.props, sort_keys=True), *read, op.types)
            called: str = op.props.get("callee", "")
            if called:
                key = (*key, self.function(called, callers))
            regions = [self.block((key, k), r, callers) for k, r in enumerate(op.regions)]
            whole = self.number((self.state, *key, *regions))
            if not op.results and op.name not in ENDS:
                self.state = whole
            own = [self.number((whole, k)) for k in range(len(op.results))]
            if self.inlines and op.name == "call" and not self.program.functions[called][1]:
                kept = self.numbers, self.own, self.same
                self.numbers, self.own, self.same = {}, {}, {}
                own = self.ends(self.program.functions[called][0], read, (*callers, called))
                self.numbers, self.own, self.same = kept
            for x, number in zip(op.results, own, strict=True):
                self.own[x] = number
                self.numbers[x] = self.known.get(self.same.get(x, ""), number)
        self.state = before
        return [self.numbers[x] for x in block.ops[-1].operands]


def ordered(changes: Sequence[str | int], lines: Sequence[str]) -> Iterator[str]:
    """Lines after a change: numbers keep so many, `-` drops a line, `+` adds one."""
    at = 0
    for change in changes:
        if isinstance(change, int):
            yield from lines[at : at + change]
            at += change
        elif change[:1] == "+":
            yield change[1:]
        elif at < len(lines) and change == "-" + lines[at]:
            at += 1
        else:
            raise CertificateError(f"the program has no line {change[1:]!r} at this place")
    yield from lines[at:]


def renamed(lines: Sequence[str], claims: Mapping[str, str]) -> list[str]:
    """Lines that read other values: `claims` from old to new."""

    def one(line: str) -> str:
        start = line.find(" = ") + 1
        return line[:start] + re.sub(r"%\d+", lambda m: claims.get(m[0], m[0]), line[start:])

    heads = ("^", "func")
    return [x if x.lstrip().startswith(heads) or "%" not in x else one(x) for x in lines]


def after(lines: Sequence[str], step: Json) -> list[str]:
    """The program's lines after a step."""
    claims = {c["was"]: c["is"] for c in step["claims"] if c["was"] != c["is"]}
    return list(ordered(step["change"], renamed(lines, claims)))


def near(program: Program, value: str, depth: int, kept: set[str]) -> set[str]:
    """Of what a value is computed from, what is `kept` and no more than so many ops away."""
    found: dict[str, int] = {}
    pending = [(value, depth - (value in kept))]
    while pending:
        name, left = pending.pop()
        maker = program.makers.get(name)
        if left >= 0 and maker is not None and found.get(name, -1) < left:
            found[name] = left
            pending += [(x, left - (x in kept)) for x in maker.uses]
    return kept & set(found)


def cone(program: Program, value: str, outside: set[str]) -> set[str]:
    """What a value is computed from, but for what is `outside`: that may be anything."""
    inside, pending = set[str](), [value]
    while pending:
        maker = program.makers.get(pending.pop())
        if maker is not None and maker.results[0] not in inside:
            inside.add(maker.results[0])
            pending += [x for x in maker.uses if x not in outside]
    return inside
