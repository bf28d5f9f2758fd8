"""
Random Python functions with what `Writer` does not write: errors that are caught, `match`, objects,
functions of the function's variables, generators, lists that grow, views of views, results whose
sizes data decide, `mlc.prange`. Further variables:

    m   truth values      G   a list that grows    box   an object    word   a text
"""

from __future__ import annotations

from collections.abc import Callable

from tests.random_python.writer import FLOATS, INTEGERS, RESULTS, Writer

BOX = """
class Box:
    def __init__(self, w, k):
        self.w, self.k = w, k

    @property
    def total(self):
        return self.w.sum() + self.k

    def step(self, z):
        self.k += 1
        self.w[self.k % 4] = z
        return z * 0.5 + self.k
""".strip()

HELPERS = {
    "add(": """
def add(z):
    nonlocal a, i
    a = a + z * 0.5
    i += 1
    return a""",
    "late(": "\nlate = lambda z: z * a + i",
    "steps(": """
def steps(count):
    z = a
    for e in range(count):
        z = z * 0.5
        if z > 1:
            continue
        yield z + e""",
    "deep(": """
def deep(z, count):
    return z if count <= 0 else deep(z * 0.5, count - 1) + 1""",
    "named(": """
def named(z, *rest, k=2, **more):
    if z > k:
        return z - len(rest)
    return z * k + sum(rest) + sum(more.values())""",
    "fails(": """
def fails(z, k):
    if z > 0.5:
        raise ValueError(f'{k} fails')
    return z + x[k]""",
}


class Wider(Writer):
    """Writes one function, and a class that it uses."""

    results = f"{RESULTS}, m, G, box.w, box.k, word"
    helpers: tuple[str, ...] = ()

    def text(self) -> str:
        return f"{BOX}\n\n{super().text()}"

    def begin(self) -> None:
        super().begin()
        self.lines += [
            f"    m, G = v > {self.pick('0', 'a')}, {self.pick('[]', '[]', '[a]')}",
            f"    box = Box({self.pick('np.ones(4)', 'v * 1', 'x')}, {self.pick('0', 'n')})",
            f"    word = {self.pick(repr('up'), 'str(n)')}",
        ]
        self.helpers = tuple(self.random.sample(list(HELPERS), self.pick(0, 1, 2)))
        for name in self.helpers:
            self.lines += [f"    {line}" for line in HELPERS[name].strip("\n").split("\n")]

    # ---- expressions

    def number(self) -> str:
        if self.pick(0, 1):
            return super().number()
        one, two, k = self.pick(*FLOATS), self.pick(*FLOATS), self.pick(*INTEGERS)
        return self.pick(
            f"sum(e for e in {self.pick('x', 'v', 'L')} if e > {one})",
            f"len([e for e in v if e < {one}]) * 0.5",
            f"max([{one}, {two}, *L])",
            f"next((e for e in x if e > {one}), {two})",
            "min((e for e in v if e > 0), default=0.0)",
            f"np.where(v > {one})[0].size * 0.5",
            f"len(v[v > {one}]) * 0.5",
            "np.flatnonzero(m).sum() * 0.5",
            "v[m].sum()",
            "v.sum(where=m)",
            "p.get('q', 0.0)",
            "p['r'][-2] * 1.0",
            f"box.w[{self.index()}]",
            f"box.step({one})",
            "box.total",
            "box.k * 0.5",
            f"(lambda z: z * {two})({one})",
            f"round({one}, 2)",
            f"min({one} ** 2, 9.0)",
            f"(d := {one} * 0.5) + d",
            "M[1:, ::2].sum() * 0.1",
            "w.reshape(2, 2)[1, 0] * 1.0",
            f"M.T[{self.index()}, {self.index(3)}]",
            f"[{one}, {two}][{k} % 2]",
            f"({one}, {two})[int(t)]",
            "G[-1] if G else 0.5",
            f"sum(G) + {one}",
            f"v.mean() - np.dot(x, v) * {one}",
            *self.calls(one, two, k),
        )

    def calls(self, one: str, two: str, k: str) -> list[str]:
        """Of the functions in the function."""
        known = {
            "add(": [f"add({one})"],
            "late(": [f"late({one})"],
            "steps(": ["sum(steps(3))", f"sum(steps({k} % 4))", "max(steps(3), default=0.0)"],
            "deep(": [f"deep({one}, 2)"],
            "named(": [f"named({one}, {two})", f"named({one}, w={two}, k={k} % 3)"],
            "fails(": [f"fails({one}, {k})"] if self.rare else [],
        }
        return [call for name in self.helpers for call in known[name]]

    def integer(self) -> str:
        if self.pick(0, 1):
            return super().integer()
        k = self.pick(*INTEGERS)
        return self.pick(
            f"({k} << 1) % 7",
            f"~{k}",
            f"{k} % 6 ** 2",
            f"{k} % 4 | 1",
            "int(m.sum())",
            "len(v[m])",
            f"len(np.where(v > {self.pick(*FLOATS)})[0])",
            f"int(t) + {k} % 3",
            "box.k % 5",
            f"divmod({k}, 3)[1]",
            f"[3, 1, 2][{k} % 3]",
            "len(G)",
            "len(word)",
            f"({k}, j)[int(t)] % 5",
            f"sum([1 for e in u if e > {k}])",
        )

    def condition(self, depth: int = 1) -> str:
        if depth > 0 or self.pick(0, 1):
            return super().condition(depth)
        one, two, k = self.pick(*FLOATS), self.pick(*FLOATS), self.pick(*INTEGERS)
        return self.pick(
            f"{one} < {two} <= c",
            f"{k} < j <= 4 != i",
            "m.any()",
            f"m[{self.index()}]",
            "'q' in p",
            "word == 'up'",
            f"({one} > 0 if t else {k} > 1)",
            f"(d := {one}) > 0.5",
            f"{k} not in (0, 3)",
            f"not {k}",
            "any(m)",
            f"L[0] < L[-1] < {one}",
            f"{k} in u",
            f"((v > {one}).all() or t)",
            "box.k % 2",
            f"np.isnan({one})",
            "G",
            "len(G) > 2",
        )

    def vector(self) -> str:
        if self.pick(0, 1):
            return super().vector()
        return self.pick(
            "v[np.argsort(x, kind='stable')]",
            "np.where(m, v, x)",
            "v * m",
            "np.array([e * 0.5 if e > 0 else e for e in v])",
            "np.concatenate([v[:2], x[2:]])",
            "np.roll(v, 1)",
            f"np.full(4, {self.pick(*FLOATS)})",
            "box.w * 0.5",
            "np.cumsum(v) * 0.25",
            "M.T @ M[:, 1]",
        )

    # ---- statements

    def scalar(self) -> str:
        if self.pick(0, 1):
            return super().scalar()
        one, k = self.pick(*FLOATS), self.pick(*INTEGERS)
        return self.pick(
            "a, *rest = L",
            "b, c, *_ = v",
            "*_, c = x",
            "(a, b), c = (b, c), a",
            f"a = b = {self.number()}",
            f"word = 'up' if {self.condition(0)} else 'down'",
            "a, p['q'] = p['q'], a",
            "v[0], v[1] = v[1], v[0]",
            f"i = j = {self.integer()}",
            f"{one} %= 1.5",
            f"{k} %= 5",
            f"{k} //= 2",
            f"{k} ^= 1",
            f"t = {self.condition(1)} and {one} > 0",
            f"m = {self.pick('v', 'x')} > {one}",
            f"m {self.pick('&=', '|=', '^=')} {self.pick('x > 0', 'u > i', 'v < b')}",
            f"m[{self.index()}] = {self.pick('True', 'a > b', 't')}",
            "m = ~m",
            *(["b = add(c)", "add(0.5)"] if "add(" in self.helpers else []),
        )

    def store(self) -> str:
        if self.pick(0, 1):
            return super().store()
        one, k, at = self.pick(*FLOATS), self.pick(*INTEGERS), self.index()
        return self.pick(
            f"r = M[1:]\nr2 = r[0, ::2]\nr2 {self.pick('+=', '*=')} {one}",
            "M.T[1][:2] = x[1:3]",
            f"v[::-1][1:][{self.index(3)}] = {one}",
            f"w.reshape(2, 2)[{self.index(2)}] = {self.pick('h', '0.5')}",
            "w.reshape(2, 2).T[0] += 1",
            "w.ravel()[i % 4] = 1",
            "np.swapaxes(M, 0, 1)[1, 2] = b",
            f"row = M[{self.index(3)}]\nrow[1:] = a\nrow = row * 2\nrow[0] = 1",
            "x2 = v[None, :]\nx2[0, 1] = a",
            f"M.flat[{k} % 12] += a",
            "v.sort()",
            "u.sort()",
            f"v.fill({one})",
            "v[:] = v[::-1]",
            "v[1:] += v[:-1]",
            "np.add.at(u, [0, 1, 0], 2)",
            f"np.copyto(v, {self.pick('x', 'M[1]')}, where=m)",
            f"v[[0, 2]] = {one}",
            f"v[[{k} % 4, 1]] += 0.5",
            "M[[0, 2]] *= 0.5",
            f"M[M > {one}] = b",
            "M[:, m] = a",
            "M[m[:3]] += 1",
            f"v[m] {self.pick('=', '*=', '+=')} {one}",
            "v[~m] = x[~m]",
            "v[np.where(m)] = a",
            f"np.add(v, {one}, out=v)",
            "np.multiply(v, 0.5, out=v, where=m)",
            f"np.minimum(v, {one}, out=M[1])",
            "w.clip(0, 1, out=w)",
            f"box.w[{at}] = {one}",
            f"box.w {self.pick('+=', '*=')} {one}",
            f"box.w[{self.part()}] = {one}",
        )

    def container(self) -> str:
        if self.pick(0, 0, 1):
            return super().container()
        one = self.pick(*FLOATS)
        return self.pick(
            f"G.append({self.number()})",
            f"G.append({one})",
            f"G.append({one})",
            "if G: G.pop()",
            "G.clear()",
            f"G += [{one}]",
            f"G.insert(0, {one})",
            "G.reverse()",
            "c = G[-1] if G else 0.5",
            f"p.update(q={one})",
            f"p |= {{'q': {one}}}",
            "p = dict(p, q=c)",
            "p['r'], p['q'] = [p['q'], 1], a",
            "p['r'] = p['r'][:1] + [j]",
            f"L[1:] = [{one}, b]",
            "L.reverse()",
            "L = L[1:] + L[:1]",
            f"L = [{one}, *L[1:]]",
            f"L = [e if e > {one} else b for e in L]",
            "L = sorted(L)",
            "box.w = v * 1",
            "box.k += 1",
            f"box.step({one})",
            "box.w, a = v.copy(), b",
            "z = (a, v)\nz[1][0] = 2.0",
        )

    def changing(self) -> str:
        return self.pick(
            super().changing(),
            self.pick("q = i", "q = q - 1 if q > 2 else q", "q = -q", "q = t", "q += t"),
        )

    def tells(self) -> str:
        return self.pick(
            super().tells(),
            self.pick(
                "print(word)",
                "print(f'{b:8.2e}|{i:>3}|{t}')",
                "print('%d of %s' % (i, t))",
                "print('{:.2f} {}'.format(a, j))",
                "print(len(G), box.k)",
                "print(*L[:2], sep=', ')",
                "print(i if t else word)",
            ),
        )

    def compound(self) -> list[Callable[[str, int], None]]:
        return [
            *super().compound(),
            *(self.catches, self.catches, self.matches, self.further, self.further, self.shared),
        ]

    def catches(self, indent: str, depth: int) -> None:
        """try around what may raise."""
        self.kept += 1
        inner = indent + "    "
        k = self.pick(*INTEGERS, *self.fixed)
        raising = [
            (f"a = x[{k}]", "IndexError"),
            (f"v[{k}] = b", "IndexError"),
            (f"j = i // ({k} - 2)", "ZeroDivisionError"),
            (f"c = L[{k}]", "(IndexError, KeyError)"),
            (f"b = 1 / {k}", "Exception"),
            (f"if {self.condition(0)}:\n{inner}    raise ValueError(f'i is {{i}}')", "ValueError"),
            ("a = p['none']", "KeyError"),
        ]
        if "fails(" in self.helpers:
            raising.append((f"c = fails(a, {k} % 3)", "ValueError"))
        line, kind = self.pick(*raising)
        self.lines.append(f"{indent}try:")
        self.block(inner, self.pick(0, 1), 0)
        self.lines.append(inner + line)
        self.block(inner, self.pick(0, 1), min(depth - 1, 1))
        self.lines.append(f"{indent}except {kind}{self.pick('', ' as error')}:")
        if self.lines[-1].endswith("error:") and kind == "ValueError":
            self.lines.append(f"{inner}print(error)")
        self.block(inner, 1, 0)
        for word in ("else", "finally"):
            if self.random.random() < 0.2:
                self.lines.append(f"{indent}{word}:")
                self.block(inner, 1, 0)
        self.kept -= 1

    def matches(self, indent: str, depth: int) -> None:
        """match on what Python knows, or on values."""
        k = self.pick("i % 3", "j", "n", *(f"{x} % 3" for x in self.fixed))
        subject, cases = self.pick(
            (k, ["0", "1 | 2", f"z if z > {self.pick('3', 'j')}", "_"]),
            (f"({k}, t)", ["(0, _)", "(z, True) if z > 1", "_"]),
            ("word", ["'up'", "_"]),
            ("L", ["[z, *_] if z > 0", "_"]),
            ("p", ["{'q': z} if z > 0", "_"]),
            ("box", ["Box(k=0)", "_"]),
        )
        self.kept += 1
        self.lines.append(f"{indent}match {subject}:")
        for case in cases:
            self.lines.append(f"{indent}    case {case}:")
            self.block(indent + "        ", 1, min(depth - 1, 1))
        self.kept -= 1

    def further(self, indent: str, depth: int) -> None:
        """for … in what is no range."""
        k = self.fresh()
        heads = [
            f"{k} in (0, 2, 1)",
            "c in [a, b, s]",
            f"{k} in np.flatnonzero(m)",
            f"c in v[v > {self.pick(*FLOATS)}]",
            f"{k} in range(len(G))",
            "c in G[:3]",
            f"{k}, (c, e) in enumerate(zip(x, u))",
            "a, b in zip(M[0], M[1])",
            "row in M.T",
            "row in M[1:]",
            "key, c in [('q', a), ('s', b)]",
            "i in range(3)",
            f"{k} in u % 3",
            f"{k} in range(n % 4, 4)",
            *(["c in steps(3)"] if "steps(" in self.helpers else []),
        ]
        head = self.pick(*heads)
        self.lines.append(f"{indent}for {head}:")
        if head.startswith("row"):
            line = self.pick("row[0] = a", "row *= 0.5", "row[1:] += row[:-1]", "a += row[0]")
            self.lines.append(f"{indent}    {line}")
        self.trips(indent, depth, k if k in head and "u %" not in head else None)

    def shared(self, indent: str, depth: int) -> None:
        """A loop whose trips run at once, where none needs another."""
        k, inner = self.fresh(), indent + "    "
        places = self.pick("", "perm")
        count = self.pick("3", "4", "n % 4", "len(x)")
        if places:
            self.lines.append(f"{indent}perm = np.argsort(x, kind='stable')")
        self.lines.append(f"{indent}for {k} in {'range' if places else 'mlc.prange'}({count}):")
        place = f"perm[{k}]" if places else k
        value = self.pick(f"x[{k}] * s", f"v[{place}] * 0.5 + b", f"{k} * s", f"sum(M[:, {k}])")
        lines = [f"v[{place}] = {value}", f"u[{place}] += {k}"]
        if self.pick(0, 1):
            lines = [f"if x[{k}] > {self.pick('b', '0.0')}:", f"    {lines[0]}", *lines[1:]]
        if not places:
            lines.append(self.pick(f"a += x[{k}]", f"c = max(c, x[{k}])", f"i += {k}"))
        self.lines += [inner + line for line in lines]
