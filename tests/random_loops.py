"""
Random loops over elements, as text: 1 to 3 deep, at places a i + b j + c of vectors and matrices.

Python running them with arrays that note who touches what says which trips of the outermost loop
meet; that is what the compiler must find, or refuse.
"""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc
from mlc.lazy_dataclass import dataclass

LONG, HIGH, WIDE = 160, 48, 40
_numbers = count()


class Writer:
    """Writes one function of vectors x and y, matrices A and B, and a number s."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.folds: dict[str, str] = {}

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return self.random.choice(options)

    def text(self, outermost: str) -> str:
        """The function, whose outermost loop goes over `range` or `mlc.prange`."""
        self.lines = ["def f(x, y, A, B, s):", "    t, u = 1.0, -np.inf"]
        self.loop("    ", [], outermost)
        self.lines.append("    return s, t, u")
        return "\n".join(self.lines) + "\n"

    def loop(self, indent: str, around: list[str], kind: str) -> None:
        """A loop, with others in it or not."""
        name = "ijk"[len(around)]
        bounds = ["8", "1, 8", "7, -1, -1", "0, 8, 2", "3", "2, 7", "9, 0, -3", "1"]
        bounds += [f"{o}" for o in around] + [f"{o}, 6" for o in around]
        self.lines.append(f"{indent}for {name} in {kind}({self.pick(*bounds)}):")
        inner, names = indent + "    ", [*around, name]
        for _ in range(self.random.randint(1, 3)):
            if len(names) < 3 and self.random.random() < 0.45:
                self.loop(inner, names, "range")
            else:
                self.statement(inner, names)

    def place(self, names: list[str]) -> str:
        """Inside of every array, whatever the trips are."""
        terms = [f"{self.pick(1, 1, 1, 2, 3, -1, -2, 0)} * {names[0]}"]
        terms += [f"{self.pick(0, 0, 1, -1, 8)} * {x}" for x in names[1:2]]
        terms += [f"{self.pick(0, 0, 1)} * {x}" for x in names[2:3]]
        self.random.shuffle(terms)
        text = " + ".join(x for x in terms if not x.startswith("0 "))
        return f"{text} + {self.pick(24, 24, 24, 25, 26, 23)}" if text else str(self.pick(20, 31))

    def short(self, names: list[str]) -> str:
        """Likewise, of an axis of 40."""
        i = self.pick(*names)
        return self.pick(i, i, f"{i} + 1", f"2 * {i} + 3", f"19 - {i}", "5", f"{i} + {names[0]}")

    def read(self, names: list[str]) -> str:
        """An element."""
        return self.pick(
            f"x[{self.pick(*names)}]",
            f"y[{self.place(names)} % 160]" if self.pick(0, 0, 0, 1) else f"y[{self.place(names)}]",
            f"A[{self.short(names)}, {self.short(names)}]",
            f"B[{self.short(names)}, {self.pick(*names)}]",
            "0.5",
        )

    def value(self, names: list[str]) -> str:
        """A number made of elements."""
        one, two = self.read(names), self.read(names)
        return self.pick(one, f"{one} * 0.5 + {two}", f"{one} - {self.pick(*names)} * 0.25")

    def statement(self, indent: str, names: list[str]) -> None:
        """One that writes elements, or adds up a number."""
        target = self.pick(
            f"y[{self.place(names)}]",
            f"y[{self.place(names)}]",
            f"A[{self.short(names)}, {self.short(names)}]",
            f"A[{names[0]}, {self.short(names)}]",
        )
        value = self.value(names)
        kinds = {"s": "s += {}", "t": "t *= 0.5 + 0.01 * {}", "u": "u = max(u, {})"}
        name = self.pick(*kinds)
        options = [
            [f"{target} = {value}"],
            [f"{target} = {value}"],
            [f"{target} {self.pick('+=', '-=')} {value}"],
            [f"{target} = 0.5 * {target} + {value}"],
            [f"if {self.read(names)} > 0.25:", f"    {target} = {value}"],
            [f"if {names[-1]} > 2:", f"    {target} = {value}"],
            [f"if {names[0]} != 3:", f"    {target} += {value}"],
            [kinds[name].format(value)],
            [f"r = {value}", f"{target} = r * r"],
            [f"A[{self.short(names)}] = {self.pick('B[1]', 'A[2]', '0.5')}"],
            [f"y[{names[0]} + 2:{names[0]} + {self.pick(3, 4, 5)}] = {value}"],
        ]
        self.lines += [indent + line for line in self.pick(*options)]


def arguments(seed: int) -> tuple[Any, ...]:
    """What the functions take."""
    rng = np.random.default_rng(seed)
    sizes = (LONG,), (LONG,), (HIGH, WIDE), (HIGH, WIDE)
    return (*(rng.random(size) for size in sizes), rng.random())


def function_of(text: str, name: str = "") -> Callable[..., Any]:
    """The function of a text."""
    file = f"<loops {next(_numbers)}{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "mlc": mlc}
    exec(compile(text, file, "exec"), space)
    return space["f"]


# ---- which trips meet


@dataclass
class Touched:
    """By trip of the outermost loop, the elements that it reads and writes of each array."""

    trip: int = -1
    read: list[set[Any]] = field(default_factory=list[set[Any]])
    written: list[set[Any]] = field(default_factory=list[set[Any]])

    def trips(self, *bounds: int) -> Iterator[int]:
        """range(…) that says when a trip begins."""
        for value in range(*bounds):
            self.trip += 1
            self.read.append(set())
            self.written.append(set())
            yield value

    def meet(self, one: int, other: int) -> bool:
        """Whether one trip writes what the other reads or writes."""
        a, b = (self.written[k] for k in (one, other))
        return bool(a & (b | self.read[other]) or b & self.read[one])

    @property
    def conflict(self) -> bool:
        """Whether any two trips meet."""
        return any(itertools.starmap(self.meet, itertools.combinations(range(self.trip + 1), 2)))


class _Noting(np.ndarray):
    """An array that notes which of its elements are touched."""

    touched: Touched
    places: NDArray[Any]

    def _noted(self, key: Any) -> set[int]:
        return {int(x) for x in np.ravel(self.places[key])}

    def __getitem__(self, key: Any) -> Any:
        if self.touched.trip >= 0:
            self.touched.read[-1] |= {(id(self), x) for x in self._noted(key)}
        return np.asarray(self)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.touched.written[-1] |= {(id(self), x) for x in self._noted(key)}
        np.asarray(self)[key] = value


def touched_by(text: str, given: tuple[Any, ...]) -> Touched:
    """What the trips of a function of a text touch."""
    touched = Touched()
    arrays: list[Any] = []
    vectors: tuple[NDArray[Any], ...] = given[:4]
    for x in vectors:
        array = x.copy().view(_Noting)
        array.touched, array.places = touched, np.reshape(np.arange(int(x.size)), x.shape)
        arrays.append(array)
    function = function_of(text)
    function.__globals__["mlc"] = type("mlc", (), {"prange": touched.trips})
    function(*arrays, given[4])
    return touched
