"""
Random loops over slices whose ends are the loops' numbers, as text: NumPy runs them, and what they
compile to. Ends lie before, behind and beyond the arrays; parts overlap what is written.
"""

from __future__ import annotations

import copy
import linecache
import random
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc

SIZE = 9
_numbers = count()


class Writer:
    """Writes one function of vectors x and y, a matrix A and a number s."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.temporary = 0

    def text(self) -> str:
        """The function's definition."""
        self.lines = ["def f(x, y, A, s):", "    n = x.shape[0]"]
        for _ in range(self.random.randint(1, 2)):
            self.loop("    ", [])
        self.lines.append("    return s")
        return "\n".join(self.lines) + "\n"

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return self.random.choice(options)

    def loop(self, indent: str, around: list[str]) -> None:
        """A loop, with another one in it or not."""
        name = "ijk"[len(around)]
        ranges = ["range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(0, n, 2)", "range(7)"]
        ranges += [f"range({o})" for o in around] + [f"range({o} + 1, n)" for o in around]
        self.lines.append(f"{indent}for {name} in {self.pick(*ranges)}:")
        inner, names = indent + "    ", [*around, name]
        for _ in range(self.random.randint(1, 3)):
            if len(names) < 2 and self.random.random() < 0.4:
                self.loop(inner, names)
            else:
                self.statement(inner, names)

    def end(self, names: list[str]) -> str:
        """Where a slice begins or ends."""
        i = self.pick(*names)
        ends = [i, i, i, f"{i} + 1", f"{i} - 1", f"n - {i}", f"-{i}", f"{i} + 2", f"{i} // 2"]
        ends += ["2", "-1", "-2", f"{i} + 20", f"-{i} - 20", f"min({i} + 3, n)", f"max({i} - 2, 0)"]
        return self.pick(*ends)

    def slice(self, names: list[str]) -> str:
        """A slice of an axis."""
        low, high = self.end(names), self.end(names)
        kinds = [f"{low}:", f":{high}", f":{high}", f"{low}:{high}", f":{high}:-1", f"{low}::-1"]
        return self.pick(*kinds, f"{low}:{high}:2")

    def pair(self, names: list[str]) -> tuple[str, str]:
        """Two slices that may have one length."""
        i, one = self.pick(*names), self.slice(names)
        moved = self.pick(1, 2, 3)
        return self.pick(
            (one, one),
            (one, one),
            (f"{i}:", f":n - {i}"),
            (f"{i}:{i} + {moved}", f"{i}:{i} + {moved}"),
            (f":{i}", f"{moved}:{i} + {moved}"),
        )

    def part(self, names: list[str], where: str) -> str:
        """A slice of an array."""
        i = self.pick(*names)
        return self.pick(f"x[{where}]", f"y[{where}]", f"A[{i}, {where}]", f"A[{where}, {i}]")

    def values(self, names: list[str], one: str, other: str) -> str:
        """An expression of slices."""
        x, y = self.part(names, one), self.part(names, other)
        i = self.pick(*names)
        return self.pick(
            x,
            f"{x} * 0.5",
            f"{x} + {y}",
            f"{x} * {y} - s",
            f"s * np.flip({x})",
            f"{x}[::-1]",
            f"np.sin({x})",
            f"np.where({x} > {y}, {x}, 0.25)",
            f"A[{one}, {i}] * x[{i}]",
            "0.5",
        )

    def number(self, names: list[str]) -> str:
        """A number made of slices."""
        one, other = self.pair(names)
        x, y = self.part(names, one), self.part(names, other)
        return self.pick(
            f"{x} @ {y}",
            f"np.dot({x}, {y})",
            f"{x}.sum()",
            f"np.sum({x} * {y})",
            f"(A[{one}, :] @ x).sum()",
            f"(A[:, {one}] @ {x}).max()",
            f"({x} @ A[{one}]).min()",
            f"np.abs({x}).sum()",
        )

    def statement(self, indent: str, names: list[str]) -> None:
        """One that reads or writes slices."""
        one, other = self.pair(names)
        target, values = self.part(names, one), self.values(names, one, other)
        i = self.pick(*names)
        self.temporary += 1
        t = f"t{self.temporary}"
        options = [
            [f"s = s * 0.5 + 0.1 * {self.number(names)}"],
            [f"x[{i}] = 0.1 * {self.number(names)}"],
            [f"{target} = {values}"],
            [f"{target} = {values}"],
            [f"{target} {self.pick('+=', '-=', '*=')} {values}"],
            [f"{target} {self.pick('+=', '-=')} {values}"],
            [f"{t} = {values}", f"{target} = 0.5", f"s += np.sum({t})"],
            [f"if x[{i}] > 0.5:", f"    {target} = {values}"],
            [f"{t} = {target}", f"x[{i}] = s", f"y[{i}] = {t}.sum()"],
        ]
        self.lines += [indent + line for line in self.pick(*options)]


def program(seed: int) -> tuple[str, Callable[..., Any]]:
    """A text and its function."""
    text = Writer(seed).text()
    file = f"<slices {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), space)
    return text, space["f"]


def arguments(seed: int) -> tuple[Any, ...]:
    """What the functions take."""
    rng = np.random.default_rng(seed)
    return rng.random(SIZE), rng.random(SIZE), rng.random((SIZE, SIZE)), rng.random()


def outcome(function: Callable[..., Any], given: tuple[Any, ...]) -> list[NDArray[Any]] | Exception:
    """The result and the changed arguments, or the error's class."""
    own = copy.deepcopy(given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(*own)
    except (ValueError, IndexError, TypeError) as error:
        return error
    return [np.asarray(x) for x in (found, *own[:3])]


def differs(seed: int, **options: Any) -> str:
    """What is wrong with a program; empty if nothing is."""
    text, function = program(seed)
    given = arguments(seed)
    expected = outcome(function, given)
    if not isinstance(expected, list) or not all(np.isfinite(x).all() for x in expected):
        return ""  # a program that NumPy refuses
    found = outcome(mlc.compile(function, **options), given)
    if isinstance(found, list):
        pairs = zip(found, expected, strict=True)
        if all(x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-11) for x, y in pairs):
            return ""
    return f"{text}\nexpected {expected}\nfound {found!r}"
