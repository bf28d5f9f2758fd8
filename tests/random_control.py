"""
Random Python functions with control flow, as text: NumPy runs them, and what they compile to.

Every function gets arrays and numbers that are known only when it runs. A program that is answered
otherwise than by NumPy is reduced to the fewest statements that still show it.
"""

from __future__ import annotations

import ast
import copy
import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import mlc
from mlc.dialects.errors import CompilerBug
from mlc.frontend.errors import NotSupportedError

FLOATS = ("a", "b", "c")
INTEGERS = ("i", "j")
ARRAYS = ("v", "w")
SIZE = 4
_numbers = count()


class Writer:
    """Writes one function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.loops = 0  # around the statement
        self.fixed: list[str] = []  # variables of loops around it

    def text(self) -> str:
        """The function's definition."""
        self.lines = [
            "def f(x, s, n):",
            "    a, b, c = x[0], s, x[1]",
            "    i, j = n, n % 3",
            "    v, w = x * 1.0, np.zeros(4)",
            "    p = {'q': x[2], 'r': [x[3], 0]}",
        ]
        self.block("    ", self.random.randint(3, 6), 3)
        self.lines.append("    return a, b, c, i, j, v, w, p['q'], p['r'][0], p['r'][1]")
        return "\n".join(self.lines) + "\n"

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return self.random.choice(options)

    def number(self) -> str:
        """A float expression."""
        r = self.random
        return self.pick(
            *FLOATS,
            *FLOATS,
            f"{r.choice(FLOATS)} * 0.5",
            f"{r.choice(FLOATS)} + {r.choice(FLOATS)} * 0.25",
            f"np.sin({r.choice(FLOATS)})",
            f"{r.choice(ARRAYS)}[{self.index()}]",
            f"{r.choice(ARRAYS)}.sum() * 0.25",
            "p['q']",
            "p['r'][0] - 1.0",
            f"({r.choice(FLOATS)} if {self.condition(0)} else {r.choice(FLOATS)} - 1.0)",
            f"min({r.choice(FLOATS)}, 1.5)",
        )

    def index(self) -> str:
        """A place in an array."""
        return self.pick("0", "3", "-1", f"{self.pick(*INTEGERS)} % 4", *self.fixed[-1:])

    def integer(self) -> str:
        """An integer expression."""
        name = self.pick(*INTEGERS)
        return self.pick(f"{name} + 1", f"{name} // 2", f"{name} * 2 % 7", "n", "2", *self.fixed)

    def array(self) -> str:
        """An array expression."""
        x = self.pick(*ARRAYS)
        return self.pick(
            f"{x} * 0.5",
            f"{x} + {self.pick(*FLOATS)}",
            f"np.where({x} > 0, {x}, 0.1)",
            f"{x}[::-1].copy()",
        )

    def condition(self, depth: int = 1) -> str:
        """A test."""
        r = self.random
        simple = [
            f"{r.choice(FLOATS)} > {r.choice(FLOATS)}",
            f"{r.choice(INTEGERS)} % 2 == 0",
            f"{r.choice(ARRAYS)}[{self.pick('0', '1', '2')}] < 0.3",
            f"{r.choice(ARRAYS)}.max() > 1",
            f"0 <= {r.choice(INTEGERS)} < 4",
            f"{r.choice(INTEGERS)} in (1, 2, 5)",
            f"{r.choice(FLOATS)} in {r.choice(ARRAYS)}",
            f"{r.choice(INTEGERS)}",
        ]
        if depth <= 0 or r.random() < 0.6:
            return r.choice(simple)
        one, two = self.condition(depth - 1), self.condition(depth - 1)
        return self.pick(
            f"{one} and {two}", f"{one} or {two}", f"not ({one})", f"({one} or {two}) and a < 3"
        )

    def block(self, indent: str, length: int, depth: int) -> None:
        """Statements one after another."""
        for _ in range(length):
            self.statement(indent, depth)

    def statement(self, indent: str, depth: int) -> None:
        """One statement."""
        r = self.random
        if depth and r.random() < 0.45:
            self.pick(self.branch, self.branch, self.whiles, self.ranges, self.items)(indent, depth)
            return
        choices = [
            f"{r.choice(FLOATS)} = {self.number()}",
            f"{r.choice(FLOATS)} += {self.number()}",
            f"{r.choice(INTEGERS)} = {self.integer()}",
            f"{r.choice(INTEGERS)} += 1",
            f"{r.choice(ARRAYS)} = {self.array()}",
            f"{r.choice(ARRAYS)}[{self.index()}] = {self.number()}",
            f"{r.choice(ARRAYS)}[{self.index()}] += {self.number()}",
            f"{r.choice(ARRAYS)} += {self.number()}",
            f"{r.choice(ARRAYS)}[1:3] *= 0.5",
            "a, b = b, a",
            f"p['q'] = {self.number()}",
            f"p['r'][0] += {self.number()}",
            "p['r'][1] += 1",
            f"x[{self.pick('0', '1')}] = {self.number()}",
            f"t = {self.number()}\n{indent}a = t * 0.5",
        ]
        for line in r.choice(choices).split("\n"):
            self.lines.append(indent + line.strip())

    def leave(self, indent: str) -> None:
        """A way out of a loop, or of the function."""
        ways = ["return a, b, c, i, j, v, w, p['q'], p['r'][0], p['r'][1]"]
        if self.loops:
            ways += ["break", "break", "continue", "continue"]
        self.lines.append(indent + self.random.choice(ways))

    def branch(self, indent: str, depth: int) -> None:
        """if … elif … else"""
        inner, r = indent + "    ", self.random
        self.lines.append(f"{indent}if {self.condition()}:")
        self.block(inner, r.randint(1, 2), depth - 1)
        if r.random() < 0.25:
            self.leave(inner)
        if r.random() < 0.3:
            self.lines.append(f"{indent}elif {self.condition()}:")
            self.block(inner, r.randint(1, 2), depth - 1)
        if r.random() < 0.5:
            self.lines.append(f"{indent}else:")
            self.block(inner, r.randint(1, 2), depth - 1)
            if r.random() < 0.15:
                self.leave(inner)

    def trips(self, indent: str, depth: int, name: str | None) -> None:
        """A loop's body, and perhaps an else."""
        fixed = self.fixed
        self.fixed = [*fixed, name] if name else fixed
        self.loops += 1
        self.block(indent + "    ", self.random.randint(1, 3), depth - 1)
        self.loops -= 1
        self.fixed = fixed
        if self.random.random() < 0.15:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", 1, 0)

    def whiles(self, indent: str, depth: int) -> None:
        """A while that ends after some trips at the latest."""
        self.counters += 1
        k = f"k{self.counters}"
        self.lines.append(f"{indent}{k} = {self.pick('0', 'n * 0')}")
        test = self.pick(f"({self.condition()}) and {k} < 5", f"{k} < n", f"{k} < 3 and a < 5")
        self.lines += [f"{indent}while {test}:", f"{indent}    {k} += 1"]
        self.trips(indent, depth, None)

    def ranges(self, indent: str, depth: int) -> None:
        """for … in range(…)"""
        self.counters += 1
        k = f"k{self.counters}"
        bounds = self.pick("n", "3", "1, 4", "n - 1", "3, -1, -1", "0")
        self.lines.append(f"{indent}for {k} in range({bounds}):")
        self.trips(indent, depth, k)

    def items(self, indent: str, depth: int) -> None:
        """for … in an array, with a place or beside another."""
        self.counters += 1
        k = f"k{self.counters}"
        head = self.pick(
            "c in x", f"{k}, c in enumerate(x)", "c, b in zip(x, v * 1)", "c in reversed(x)"
        )
        self.lines.append(f"{indent}for {head}:")
        self.trips(indent, depth, k if k in head else None)


def compiled_text(text: str) -> Callable[..., Any]:
    """The function of a program's text, which errors and the compiler can read."""
    name = f"<random program {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "__name__": "random_program"}
    exec(compile(text, name, "exec"), space)
    return space["f"]


@dataclass(frozen=True)
class Verdict:
    """What became of a program: "same", "refused", or "differs"."""

    kind: str
    detail: str = ""


Run = Callable[[Callable[..., Any], tuple[Any, ...]], Any]


def by_reference(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result of the program that is traced, by the interpreter."""
    return mlc.compile(f).reference(*arguments)


def by_code(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result of compiled code."""
    return mlc.compile(f)(*arguments)


def arguments_of(seed: int) -> tuple[Any, ...]:
    """x, s and n."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(SIZE), np.float64(rng.standard_normal()), np.int64(seed % 5))


def judged(text: str, seeds: Iterator[int] | range, run: Run) -> Verdict:
    """Compares values, dtypes, changed arguments and exception classes."""
    for seed in seeds:
        arguments = arguments_of(seed)
        expected, found = copy.deepcopy(arguments), copy.deepcopy(arguments)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = _outcome(lambda: compiled_text(text)(*expected))  # noqa: B023 - called here
            given = _outcome(lambda: run(compiled_text(text), found))  # noqa: B023
        if isinstance(given, NotSupportedError):
            return Verdict("refused", str(given).splitlines()[0])
        difference = _difference((wanted, expected[0]), (given, found[0]))
        if difference:
            return Verdict("differs", f"seed {seed}: {difference}")
    return Verdict("same")


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CompilerBug as error:
        return RuntimeError(str(error))
    except Exception as error:  # noqa: BLE001 - whichever it raises is the answer
        return error


def _difference(wanted: Any, given: Any) -> str:
    (wanted, left), (given, right) = wanted, given
    if isinstance(wanted, Exception) or isinstance(given, Exception):
        same = isinstance(wanted, Exception) and isinstance(given, type(wanted))
        kind = next((c for c in type(wanted).__mro__ if c.__module__ == "builtins"), None)
        same = same or (
            isinstance(wanted, Exception) and kind is not None and isinstance(given, kind)
        )
        return "" if same else f"{wanted!r:.200} and {given!r:.800}"
    if wanted is None or given is None:
        return "" if wanted is given else f"{wanted} and {given}"
    for k, (x, y) in enumerate(zip((*wanted, left), (*given, right), strict=True)):
        if np.asarray(x).dtype != np.asarray(y).dtype:
            return f"result {k}: {np.asarray(x).dtype} and {np.asarray(y).dtype}"
        if not np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True):
            return f"result {k}: {x} and {y}"
    return ""


def reduced(text: str, fails: Callable[[str], bool]) -> str:
    """The text without the statements that the failure does not need."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _without_one(text):
            if fails(candidate):
                text, smaller = candidate, True
                break
    return text


def _without_one(text: str) -> Iterator[str]:
    bodies = _bodies(ast.parse(text))
    for k, body in enumerate(bodies):
        for at in range(len(body)):
            tree = ast.parse(text)
            found = _bodies(tree)[k]
            inner = [x for name in ("body", "orelse") for x in getattr(found[at], name, [])]
            for new in ([], inner) if inner else ([],):
                other = copy.deepcopy(tree)
                _bodies(other)[k][at : at + 1] = copy.deepcopy(new)
                if all(_bodies(other)):
                    try:
                        candidate = ast.unparse(ast.fix_missing_locations(other)) + "\n"
                        compile(candidate, "", "exec")
                    except (SyntaxError, ValueError):
                        continue
                    yield candidate


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found: list[list[ast.stmt]] = []
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and (body or name == "body"):
                found.append(body)  # pyright: ignore[reportUnknownArgumentType]
    return found
