"""
Random Python functions with control flow, as text.

Every function gets arrays and numbers that are known only when it runs. Variables have one kind
each, but for `q`, a number whose type may change, and `o`, which may be None:

    a b c   floats        i j   integers      h       a float32      t   a truth value
    v       float64       w     float32       u       integers       M   a matrix
    p       a dict        L     a list        (a, b) is swapped and packed
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

FLOATS = ("a", "b", "c")
INTEGERS = ("i", "j")
RESULTS = "a, b, c, i, j, h, t, q, o, v, w, u, M, p, L"


class Writer:
    """Writes one function."""

    results = RESULTS

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.loops = 0  # around the statement
        self.kept = 0  # statements around it that must not be left
        self.fixed: list[str] = []  # numbers of loops around it
        self.rare = self.random.random() < 0.5  # whether it may raise, and write out of range

    def text(self) -> str:
        """The function's definition."""
        self.lines = [
            "def f(x, y, A, s, n):",
            f"    a, b, c = {self.pick('x[0]', '0.0', '1.5')}, s, {self.pick('x[1]', 's * 2')}",
            f"    i, j = n, {self.pick('n % 3', '0', '2')}",
            "    h, t = np.float32(0.5), s > 0",
            f"    q, o = {self.pick('0', '1', '0.0', 'n', 's')}, {self.pick('None', 's')}",
            f"    v, w = {self.pick('x * 1.0', 'x', 'np.zeros(4)')}, np.ones(4, np.float32)",
            f"    u, M = {self.pick('y', 'y.copy()', 'np.arange(4)')}, {self.pick('A', 'A * 1')}",
            "    p = {'q': x[2], 'r': [x[3], 0]}",
            f"    L = [s, {self.pick('0.0', 'x[1]')}, x[2]]",
        ]
        self.begin()
        self.block("    ", self.random.randint(2, 5), self.pick(1, 2, 2, 2, 3))
        self.lines.append(f"    return {self.results}")
        return "\n".join(self.lines) + "\n"

    def begin(self) -> None:
        """What else there is before the statements."""
        if self.random.random() < 0.3:
            self.helper()

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return self.random.choice(options)

    # ---- expressions

    def number(self) -> str:
        """A float expression."""
        one, two = self.pick(*FLOATS), self.pick(*FLOATS)
        return self.pick(
            one,
            two,
            f"{one} * 0.5",
            f"{one} + {two} * 0.25",
            f"np.sin({one})",
            f"{self.pick('v', 'v', 'x')}[{self.index()}]",
            f"M[{self.index(3)}, {self.index()}]",
            f"{self.pick('v', 'x', 'M[1]', 'v[::2]', 'M[:, 1]')}.sum() * 0.25",
            f"v[{self.part()}].sum()",
            f"v[v > {one}].sum()",
            "p['q']",
            "p['r'][0] - 1.0",
            f"L[{self.pick('0', '1', '-1')}] * 0.5",
            f"({one} if {self.condition(0)} else {two} - 1.0)",
            f"min({one}, 1.5)",
            f"max({one}, {two}, -2.0)",
            f"abs({one})",
            f"float({self.integer()})",
            f"float({one} > {two})",
            f"sum(e * 0.5 for e in {self.pick('L', 'x', 'v')})",
            f"{one} / ({two} * {two} + 1)",
            f"float(h) + {one}",
            f"(h * 2).item() - {one}",
            *(f"x[{k} % 4] * {k}" for k in self.fixed),
            *((f"{one} / ({self.pick(*INTEGERS)} - 2)", f"(j - 1) / {two}") if self.rare else ()),
        )

    def index(self, size: int = 4) -> str:
        """A place in an array."""
        inside = [f"{self.pick(*INTEGERS)} % {size}", "0", f"{size - 1}", "-1", "-2"]
        inside += [f"{k} % {size}" for k in self.fixed[-1:]]
        beyond = [*INTEGERS, f"{size}", f"-{size}", *self.fixed, "i - j"]
        return self.pick(*inside) if not self.rare or self.pick(0, 0, 1) else self.pick(*beyond)

    def part(self) -> str:
        """A slice, ends anywhere."""
        k = self.pick("1", "2", *self.fixed, *self.fixed, *INTEGERS[: self.pick(0, 0, 1)])
        return self.pick(f"{k}:", f":{k}", f"{k}:3", "1:3", "::-1", f":{k}", "::2", f"-{k}:")

    def integer(self) -> str:
        """An integer expression."""
        name = self.pick(*INTEGERS)
        return self.pick(
            f"{name} + 1",
            f"{name} - 1",
            f"{name} // 2",
            f"{name} * 2 % 7",
            f"-{name} % 5",
            "n",
            "2",
            f"int({self.pick(*FLOATS)} > 0)",
            f"len({self.pick('x', 'L', 'M')})",
            f"int(np.argmax({self.pick('v', 'x')}))",
            f"({name} & 3) ^ 1",
            f"abs({name})",
            f"sum(1 for e in v if e > {self.pick(*FLOATS)})",
            *self.fixed,
            *(f"{k} + {name} % 2" for k in self.fixed),
            *((f"{name} // (j - 2)", f"{name} % (i - n)", f"divmod(i, {name})[1]") * self.rare),
        )

    def vector(self) -> str:
        """A float64 expression of four elements."""
        x = self.pick("v", "v", "x", "M[0]", "(M[1] * 0.5)")
        return self.pick(
            f"{x} * 0.5",
            f"{x} + {self.pick(*FLOATS)}",
            f"np.where({x} > 0, {x}, 0.1)",
            f"{x}[::-1].copy()",
            f"np.clip({x}, -1, {self.pick(*FLOATS)} * 0 + 1)",
            f"np.array([e + 1 for e in {x}])",
            "np.array([a, b, c, i])",
            f"{x} * u",
            f"np.sort({x})",
            "M.sum(0) * 0.2",
        )

    def condition(self, depth: int = 1) -> str:
        """A test."""
        one, two, k = self.pick(*FLOATS), self.pick(*FLOATS), self.pick(*INTEGERS)
        simple = [
            f"{one} > {two}",
            f"{k} % 2 == 0",
            f"v[{self.index()}] < 0.3",
            f"{self.pick('v', 'w', 'M')}.max() > 1",
            f"0 <= {k} < 4",
            f"{k} in (1, 2, 5)",
            f"{one} in v",
            k,
            "t",
            "not t",
            "h < 1",
            f"any(e > {one} for e in x)",
            f"all(e < 2 for e in {self.pick('v', 'L')})",
            "o is None",
            "o is not None and o > 0",
            f"{k} != j",
            f"(u > {k}).any()",
            *(f"{k} == {self.pick('1', 'j', 'n')}" for k in self.fixed),
        ]
        if depth <= 0 or self.random.random() < 0.6:
            return self.pick(*simple)
        one, two = self.condition(depth - 1), self.condition(depth - 1)
        return self.pick(
            f"{one} and {two}", f"{one} or {two}", f"not ({one})", f"({one} or {two}) and a < 3"
        )

    # ---- statements

    def block(self, indent: str, length: int, depth: int) -> None:
        """Statements one after another."""
        for _ in range(length):
            self.statement(indent, depth)

    def statement(self, indent: str, depth: int) -> None:
        """One statement."""
        if depth and self.random.random() < 0.45:
            self.pick(*self.compound())(indent, depth)
            return
        for line in self.pick(*self.simple())().split("\n"):
            self.lines.append(indent + line)

    def compound(self) -> list[Callable[[str, int], None]]:
        """What writes statements with others in them."""
        return [
            *(self.branch, self.branch, self.branch, self.whiles, self.endless),
            *(self.ranges, self.ranges, self.items, self.guarded),
        ]

    def simple(self) -> list[Callable[[], str]]:
        """What writes the others."""
        return [
            *(self.scalar, self.scalar, self.scalar, self.store, self.store, self.store),
            *(self.container, self.changing, self.tells),
        ]

    def scalar(self) -> str:
        """Numbers are set."""
        one, k = self.pick(*FLOATS), self.pick(*INTEGERS)
        return self.pick(
            f"{one} = {self.number()}",
            f"{one} = {self.number()}",
            f"{one} += {self.number()}",
            f"{one} *= 0.5",
            f"{k} = {self.integer()}",
            f"{k} = {self.integer()}",
            f"{k} += 1",
            f"{k} -= {self.pick('1', 'j % 2')}",
            "a, b = b, a",
            "i, j = j, i",
            "a, (b, c) = c, (a, b)",
            f"t = {self.condition(0)}",
            "t = not t",
            f"h = {self.pick('h * 0.5', 'w[1] + h', 'w[i % 4]', 'h + 1', '-h')}",
            f"d = {self.number()}\na = d * 0.5",
            "pair = a, i\nb, j = pair",
            *(["a = g(a, i)", "b += g(c, j)"] if any("def g" in x for x in self.lines) else []),
        )

    def store(self) -> str:
        """Arrays are written in place, or made anew."""
        at, x = self.index(), self.pick("v", "v", "x", "M[1]")
        op = self.pick("+=", "-=", "*=")
        return self.pick(
            f"{x}[{at}] = {self.number()}",
            f"{x}[{at}] {op} {self.number()}",
            f"v = {self.vector()}",
            f"{x}[:] = {self.vector()}",
            f"{x} {op} {self.number()}" if x == "v" else f"x {op} 0.5",
            f"{x}[{self.part()}] = {self.number()}",
            f"{x}[{self.part()}] {op} {self.number()}",
            f"{x}[{self.pick('1:3', ':2')}] = {x}[{self.pick('2:4', '0:2', ':2')}]",
            f"{x}[{x} > {self.pick(*FLOATS)}] = {self.pick(*FLOATS)}",
            f"{x}[{x} < {self.pick(*FLOATS)}] {op} 0.25",
            f"w[{at}] = {self.pick(*FLOATS)}",
            f"w {op} {self.pick('h', '0.5', '2')}",
            f"u[{at}] {self.pick('=', '+=')} {self.integer()}",
            f"u {self.pick('+=', '*=')} {self.pick('1', '2')}",
            f"u = u {self.pick('+', '*', '//')} 2",
            f"M[{self.index(3)}, {at}] {self.pick('=', '+=')} {self.number()}",
            f"M[{self.index(3)}] {self.pick('=', op)} {self.pick('v', 'x', '0.5', 'v * a')}",
            f"M[:, {at}] *= {self.pick('0.5', 'b')}",
            f"r = v[{self.pick('1:3', '::2', '::-1')}]\nr += {self.pick(*FLOATS)}",
            "v, x2 = x * 1, v\nx2[0] = a",
        )

    def container(self) -> str:
        """Dicts and lists."""
        return self.pick(
            f"p['q'] = {self.number()}",
            f"p['r'][0] += {self.number()}",
            "p['r'][1] += 1",
            f"L[{self.pick('0', '1', '2')}] = {self.number()}",
            f"L[0] += {self.number()}",
            "L[0], L[2] = L[2], L[0]",
            "L = [e * 0.5 for e in L]",
            f"L = [{self.number()}, a, b]",
            "p = {**p, 'q': a}",
            f"p['r'] = [{self.number()}, i]",
        )

    def changing(self) -> str:
        """What changes its type, or is None."""
        return self.pick(
            f"q = {self.number()}",
            f"q += {self.number()}",
            "q += 1",
            "q = q * 2",
            "q = q / 2",
            f"o = {self.pick('a', 'b * 2', 'None', 'a')}",
            "o = a if o is None else o + 1",
        )

    def tells(self) -> str:
        """What is printed, and what is raised."""
        shown = self.pick(
            "print(i, j)",
            "print(f'a is {a:.3f}')",
            "print('here', t)",
            "print(v[0], end=' ')",
            "print(len(L), p['r'][1])",
        )
        if not self.rare or self.pick(0, 1):
            return shown
        return self.pick(
            f"assert {self.condition(0)}, 'not so'",
            f"assert {self.pick('j < 9', 'a < 50')}, f'{{i}} and {{j}}'",
            f"if {self.condition(0)}:\n    raise ValueError(f'i is {{i}}')",
            f"if {self.condition(1)}:\n    raise {self.pick('KeyError', 'RuntimeError')}('raised')",
        ).replace("\n    ", "\n" + " " * 4)

    def leave(self, indent: str) -> None:
        """A way out of a loop, or of the function."""
        ways = [f"return {self.results}"]
        if self.loops:
            ways += ["break", "break", "continue", "continue"]
        self.lines.append(indent + ("a = a + 1" if self.kept else self.pick(*ways)))

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

    def guarded(self, indent: str, depth: int) -> None:
        """with, and try: what is in them is not left."""
        self.kept += 1
        head = self.pick("with np.errstate(all='ignore'):", "try:")
        self.lines.append(indent + head)
        rare, self.rare = self.rare, False
        self.block(indent + "    ", self.random.randint(1, 2), min(depth - 1, 1))
        if head == "try:":
            end = self.pick("finally:", "except ZeroDivisionError:")
            self.lines += [indent + end, f"{indent}    {self.scalar().splitlines()[0]}"]
        self.rare = rare
        self.kept -= 1

    def trips(self, indent: str, depth: int, name: str | None) -> None:
        """A loop's body, and perhaps an else."""
        fixed, kept = self.fixed, self.kept
        self.fixed = [*fixed, name] if name else fixed
        self.loops += 1
        self.block(indent + "    ", self.random.randint(1, 3), depth - 1)
        self.loops -= 1
        self.fixed, self.kept = fixed, kept
        if self.random.random() < 0.15:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", 1, 0)

    def fresh(self) -> str:
        """A name."""
        self.counters += 1
        return f"k{self.counters}"

    def whiles(self, indent: str, depth: int) -> None:
        """A while that ends after some trips at the latest."""
        k = self.fresh()
        self.lines.append(f"{indent}{k} = {self.pick('0', 'n * 0')}")
        test = self.pick(f"({self.condition()}) and {k} < 5", f"{k} < n", f"{k} < 3 and a < 5")
        self.lines += [f"{indent}while {test}:", f"{indent}    {k} += 1"]
        self.trips(indent, depth, self.pick(None, k))

    def endless(self, indent: str, depth: int) -> None:
        """while True, left after some trips at the latest."""
        k = self.fresh()
        self.lines += [f"{indent}{k} = {self.pick('0', 'n * 0')}", f"{indent}while True:"]
        way = "break" if self.kept else self.pick("break", "break", f"return {self.results}")
        test = f"{k} > {self.pick('3', 'n')}{self.pick('', f' or {self.condition(0)}')}"
        self.lines += [
            f"{indent}    {k} += 1",
            f"{indent}    if {test}:",
            f"{indent}        {way}",
        ]
        self.trips(indent, depth, None)

    def ranges(self, indent: str, depth: int) -> None:
        """for … in range(…)"""
        k = self.fresh()
        bounds = [
            "n",
            "3",
            "1, 4",
            "n - 1",
            "3, -1, -1",
            "0",
            "7",
            "0, 4, 2",
            "i",
            "n, 0, -1",
            "j, 6",
        ]
        bounds += [f"{x}" for x in self.fixed] + [f"{x}, 4" for x in self.fixed]
        text = f"range({self.pick(*bounds)})"
        if self.pick(0, 0, 0, 1):
            text = f"reversed({text})"
        self.lines.append(f"{indent}for {k} in {text}:")
        self.trips(indent, depth, k)

    def items(self, indent: str, depth: int) -> None:
        """for … in an array, with a place or beside another."""
        k = self.fresh()
        head = self.pick(
            *("c in x", f"{k}, c in enumerate(x)", "c, b in zip(x, v * 1)", "c in reversed(x)"),
            *("c in L", f"{k}, c in enumerate(v, 1)", "row in M", "c in v[1:]", "e in u"),
            f"({k}, a), c in zip(enumerate(x), L)",
        )
        self.lines.append(f"{indent}for {head}:")
        if head == "row in M":
            self.lines.append(
                f"{indent}    {self.pick('row[1] = a', 'c = row.sum()', 'row *= 0.5')}"
            )
        if head == "e in u":
            self.lines.append(f"{indent}    j = int(e) % 5")
        self.trips(indent, depth, k if k in head else None)

    def helper(self) -> None:
        """A function in the function, with returns of its own."""
        self.lines += [
            "    def g(z, m):",
            f"        if {self.pick('z > 0', 'm % 2', 'z > m')}:",
            f"            return {self.pick('z * 0.5', 'z - m', 'z + v[0]')}",
            f"        for e in range({self.pick('m', '3')}):",
            f"            z = z + {self.pick('e', '0.5', 'm')}",
            f"            {self.pick('v[0] = z', 'if z > 2: return z', 'L[0] = z')}",
            f"        return {self.pick('z', '1.0', '-z')}",
        ]
