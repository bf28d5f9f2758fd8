"""
Checks the certificate of a compilation (docs/certificates.md). It shares no code with the compiler:
what ops mean, and what follows from claims, it knows by itself.

A certificate is lines of JSON: a header; the rules; the program as traced; steps, with lines that
define values and claims that say which are equal; the program at the end; and a digest. A line that
defines is `[results, op, properties, operands, types, bodies]`, and a body `[variables, ends]` is a
function: a loop's, a branch's, or what is differentiated. Variables are ops, too, called `arg`;
their level is the number of bodies around theirs. A type is a dtype and a shape. What an op does is
its property `is`: one of `OPS` or NumPy's functions of elements, and what that is told.

A claim is accepted where it has the grade that is stated: both values are one formula; or equal
modulo a prime at random numbers, wrong with a probability of at most `bound`; or equal in floats up
to `bound`. A certificate is, where both programs return the same, as far as claims say so.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import hashlib
import itertools
import json
import math
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Json = dict[str, Any]
PRIME = 2**31 - 1
WORST = 1e-6  # probability of a wrong claim that is still called probabilistic
ERRORS = {"f64": 1e-9, "c128": 1e-9, "bf16": 1e-2, "f16": 1e-2}  # of the largest element
ERROR = 1e-5  # that of other dtypes, and of derivatives
DERIVATIVES = ("pull_back", "push_forward")
STEP = 1e-5  # of differences, along a direction of length 1
MOST_TRIPS = 200
SIZE = 8  # of a symbol: what is claimed of none or one element may be wrong of more
CLASSES = ("exact", "reassociating", "approximate")
NUMERICS = {"strict": CLASSES[:1], "standard": CLASSES[:2], "fast": CLASSES}
DTYPES = {"bool": "?"} | {f"{s}{n}": f"{s}{n // 8}" for s in "iu" for n in (8, 16, 32, 64)}
INVERSE = np.vectorize(lambda x: pow(int(x), -1, PRIME) if x else 0, otypes=[np.int64])
FUNCTIONS: dict[str, Any] = {k: f for k, f in vars(np).items() if isinstance(f, np.ufunc)}
FUNCTIONS.update(rsqrt=lambda x: 1 / np.sqrt(x), sigmoid=lambda x: 1 / (1 + np.exp(-x)))
FUNCTIONS["erf"] = np.vectorize(math.erf, otypes=[float])


class CertificateError(Exception):
    """What is wrong with a certificate, and in which of its lines."""


class Term(NamedTuple):
    """One of the `results` of an op, which are numbers that follow each other."""

    name: str
    props: Json
    operands: list[int]
    bodies: list[Any]
    type: Any
    results: range


class Terms:
    """
    Results of ops by number, and numbers by name. A class of equal ones has the number of the first
    of them, and `earlier` leads there; what is the same op of equal ones is equal. Operands have
    smaller numbers.
    """

    def __init__(self) -> None:
        self.terms, self.lines, self.names = list[Term](), list[Any](), dict[str, int]()
        self.earlier, self.known = dict[int, int](), dict[Any, range]()

    def find(self, number: int) -> int:
        """The class of a result."""
        return self.find(self.earlier[number]) if number in self.earlier else number

    def of(self, names: list[str]) -> tuple[int, ...]:
        """The classes of values."""
        return tuple([self.find(self.names[name]) for name in names])

    def key(self, head: str, operands: Any, inner: Any) -> Any:
        """What says which term an op is."""
        if head.startswith(('["pull_back"', '["push_forward"')):
            return head, self.of(operands), str(inner)  # `stop_gradient` of a value is no other one
        return head, self.of(operands), *[(self.of(args), self.of(ends)) for args, ends in inner]

    def define(self, line: Any) -> None:
        """Names the results of an op; twice, where both times they are the same."""
        names, name, props, operands, types, inner = line
        op = json.dumps([name, props, types], sort_keys=True), operands, inner
        results = range(len(self.terms), len(self.terms) + len(types))
        known = self.known.setdefault(self.key(*op), results)
        if known is results:
            parts = [[[self.names[x] for x in xs] for xs in part] for part in ([operands], *inner)]
            if any(self.terms[x].name != "arg" for args, _ in parts[1:] for x in args):
                raise CertificateError(f"arguments of a body of {name} are no variables")
            self.terms += [Term(name, props, parts[0][0], parts[1:], x, results) for x in types]
        for result, number in zip(names, known, strict=True):
            if self.find(self.names.setdefault(result, number)) != self.find(number):
                raise CertificateError(f"{result} is defined twice, and not as the same")
        self.lines.append((known, *op))

    def equal(self, *pairs: tuple[int, ...]) -> None:
        """Makes results one, and then those of the same ops of them, and so on."""
        found = [sorted(map(self.find, pair)) for pair in pairs]
        self.earlier |= {last: first for first, last in found if first != last}
        if any(first != last for first, last in found):
            lines = [(x, self.known.setdefault(self.key(*op), x)) for x, *op in self.lines]
            self.equal(*(pair for x, y in lines if x != y for pair in zip(x, y, strict=True)))


class Values:
    """
    What terms are on random numbers: `residues` modulo a prime; `floats` of 64 bits; or small
    `whole` ones, of which many are equal. Terms of `over` are variables.

    `degree`: of the polynomials that residues are, at most; `collisions`: the sum of the degrees of
    what random functions are of; `compared`: how many elements decide something, at least.
    """

    def __init__(self, terms: Terms, seed: str, kind: str, over: tuple[int, ...] = ()) -> None:
        self.terms, self.seed, self.kind = terms, f"{seed} {kind}", kind
        self.modular, self.over = "residues" in kind, over
        self.known, self.last = dict[int, Array](), dict[int, Array]()
        self.degree, self.collisions, self.compared = 1, 0, 64

    def get(self, number: int) -> Array:
        """A value."""
        which, term = self.terms.find(number), self.terms.terms[number]
        if which not in self.known:
            if term.name == "arg" or which in self.over:
                self.known[which] = self.random(f"value {which}", *term.type[:2])
            else:
                xs = [self.get(x) for x in term.operands]
                found = self.control(term, xs) if term.bodies else [self.result(term, xs)]
                self.known |= zip(map(self.terms.find, term.results), found, strict=True)
        return self.known[which]

    def run(self, body: Any, given: list[Array]) -> list[Array]:
        """What a body ends with, at values of its arguments and of those around it."""
        kept, over, self.over = self.known, self.over, ()
        self.known = {n: x for n, x in kept.items() if self.terms.terms[n].name == "arg"}
        self.known |= zip(map(self.terms.find, body[0]), given, strict=True)
        found = [self.get(x) for x in body[1]]
        self.last, self.known, self.over = self.known, kept, over
        return found

    def control(self, term: Term, given: list[Array]) -> list[Array]:
        """Loops and batches, as they run."""
        if term.name == "batch":
            ins, outs, (size,) = (term.props[k] for k in ("in", "out", "size"))
            axes = list(zip(given, ins, strict=True))
            rows = [[x if a < 0 else np.take(x, k, a) for x, a in axes] for k in range(size)]
            found = zip(*(self.run(term.bodies[0], row) for row in rows), strict=True)
            return [x[0] if a < 0 else np.stack(x, a) for x, a in zip(found, outs, strict=True)]
        count, *state = given
        if term.name != "for" or count > MOST_TRIPS:
            raise LookupError(term.name)
        for trip in range(int(count)):
            state = self.run(term.bodies[0], [np.asarray(trip), *state])
        return state

    def result(self, term: Term, xs: list[Array]) -> Array:
        """What an op without bodies gives."""
        (name, p), (dtype, s, *_) = term.props.get("is", (term.name, {})), term.type
        found = OPS[name](self, p, dtype, s, *xs) if name in OPS else self.apply(name, dtype, *xs)
        if np.shape(found) != tuple(s):
            raise ValueError(f"{name} gives {np.shape(found)}, and not {s}")
        return np.asarray(found)

    def random(self, key: str, dtype: str, shape: list[int]) -> Array:
        """Numbers that depend on the key alone."""
        rng = np.random.default_rng([*f"{self.seed} {key}".encode()])
        if dtype == "bool":
            return self.asked(rng.integers(0, 2, shape) == 1)
        if self.modular or dtype in DTYPES:
            return rng.integers(0, PRIME if self.modular else 3, shape).astype(self.dtype(dtype))
        numbers = rng.standard_normal(shape)
        return np.rint(2 * numbers) if self.kind == "whole" else numbers

    def dtype(self, name: str) -> str:
        """NumPy's."""
        return "i8" if self.modular and name != "bool" else DTYPES.get(name, "f8")

    def number(self, x: Any) -> Any:
        """Of a constant; words say those that are not finite."""
        if isinstance(x, str):
            return self.random(x, "", []) if self.modular else float(x)
        over, under = x.as_integer_ratio()
        return over * pow(under, -1, PRIME) % PRIME if self.modular else x

    def hashed(self, name: str, *xs: Array) -> Array:
        """A random function, element by element: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
        self.collisions += self.degree
        mixed = self.random(f"function {name}", "", [1] * xs[0].ndim).astype(np.uint64)
        for x in xs:
            mixed = mixed + x.astype(np.uint64)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
                mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return (mixed >> np.uint64(2)).astype(np.int64) % PRIME

    def asked(self, x: Array) -> Array:
        """What decides."""
        self.compared = min(self.compared, x.size)
        return x

    def key(self, x: Array) -> Array:
        """Who is larger."""
        return self.hashed("order", self.asked(x)) if self.modular else x

    def apply(self, name: str, dtype: str, *xs: Array) -> Array:
        """A function of elements."""
        function = FUNCTIONS[name]
        if name.startswith(("less", "greater")):
            xs = tuple(map(self.key, xs))
        is_logic = dtype == "bool" and (xs[0].dtype == bool or name.endswith("equal"))
        if not self.modular or is_logic or name in ("less", "greater"):
            return function(*xs)
        if name in ("maximum", "minimum"):
            return np.where((self.key(xs[0]) >= self.key(xs[1])) == (name == "maximum"), *xs)
        self.degree *= 1 + (name in ("multiply", "divide"))
        if name in ("add", "subtract", "multiply", "negative"):
            return function(*xs) % PRIME
        if name == "divide":
            return xs[0] * INVERSE(xs[1]) % PRIME
        found = self.hashed(name, *xs)
        return self.asked(found) % 2 == 1 if dtype == "bool" else found

    def fold(self, name: str, x: Array) -> Array:
        """Along the last axis."""
        if name in ("argmax", "argmin"):
            return getattr(np, name)(self.key(x), -1)
        while half := x.shape[-1] // 2:
            pairs = self.apply(name, str(x.dtype), x[..., :half], x[..., half : 2 * half])
            x = np.concatenate([pairs, x[..., 2 * half :]], -1)
        return x[..., 0]

    def product(self, spec: str, a: Array, b: Array) -> Array:
        """A sum of products; up to 2**21 of residues, and of a third of their bits, fit in i64."""
        if not self.modular:
            return np.einsum(spec, a, b, optimize=True)
        self.degree *= 2
        parts = [np.einsum(spec, a >> k & 0x7FF, b, optimize=True) % PRIME for k in (0, 11, 22)]
        return (parts[0] + parts[1] * 2**11 + parts[2] * 2**22) % PRIME


# What other ops do: functions of properties, the result's shape and operands


def _at(p: Json, s: Any, *by: Array) -> Any:
    """
    Positions in an operand whose axes are one: sums of multiples of indices, and of positions `by`,
    which are in turn at sums of multiples of indices. Positions wrap around, or are `clipped`.
    """
    grid = np.ix_(*map(np.arange, s))
    found = p["offset"] + sum(k * x for k, x in zip(p["strides"], grid, strict=True))
    for (factor, size, strides), x in zip(p.get("by", ()), by, strict=True):
        at = x.ravel()[sum(k * y for k, y in zip(strides, grid, strict=True))]
        at = (at + PRIME // 2) % PRIME - PRIME // 2  # residues may be negative
        found = found + factor * (np.clip(at, 0, size - 1) if "clipped" in p else at % size)
    return found


def _put(v: Values, p: Json, dtype: str, s: list[int], *xs: Array) -> Array:
    x, part = (xs[k] for k in p["of"])
    at = _at(p, part.shape, *(y for k, y in enumerate(xs) if k not in p["of"]))
    found = np.broadcast_to(x, s).flatten()
    (np.add.at if p["adds"] else np.put)(found, at, part)
    return v.apply("add", dtype, found, np.zeros_like(found)).reshape(s)


def _scan(v: Values, p: Json, dtype: str, _: list[int], x: Array) -> Array:
    parts = np.moveaxis(x, p["axis"], 0)[:: p["step"]]
    along = itertools.accumulate(parts, lambda a, b: v.apply(p["monoid"], dtype, a, b))
    return np.stack([*along][:: p["step"]], p["axis"])


OPS: dict[str, Any] = {
    "look": lambda v, p, d, s, x, *by: x.ravel()[_at(p, s, *by)],
    "put": _put,
    "fold": lambda v, p, d, s, x: v.fold(p["monoid"], np.transpose(x, p["order"]).reshape(*s, -1)),
    "scan": _scan,
    "product": lambda v, p, d, s, a, b: v.product(p["letters"], a, b),
    "concat": lambda v, p, d, s, *xs: np.concatenate(xs, p["axis"]),
    "iota": lambda v, p, d, s: np.indices(s)[p["axis"]],
    "constant": lambda v, p, d, s: np.resize([*map(v.number, p["value"])], s).astype(v.dtype(d)),
    "convert": lambda v, p, d, s, x: x.astype(v.dtype(d)),
    "select": lambda v, p, d, s, c, x, y: np.where(v.asked(c), x, y),
    "argsort": lambda v, p, d, s, x: np.argsort(v.key(x), axis=-1, kind="stable"),
}


@np.errstate(all="ignore")
def graded(terms: Terms, claim: Json, seed: str) -> tuple[str, float | None]:
    """The grade of a claim and its bound. CertificateError where it does not hold."""
    was, now, over = terms.names[claim["was"]], terms.names[claim["is"]], terms.of(claim["over"])
    bound, error = 1.0, ERROR
    if terms.terms[was].type != terms.terms[now].type:
        raise CertificateError(f"{claim['was']} and {claim['is']} have different types")
    if terms.find(was) == terms.find(now):
        return "identical", 0.0
    if terms.terms[was].name in DERIVATIVES:
        _differentiate(Values(terms, seed, "floats"), was, now)
        return "tested", ERROR
    for kind in ("residues", "other residues", "floats", "whole"):
        values = Values(terms, seed, kind, over)
        try:
            x, y = values.get(was), values.get(now)
        except Exception as what:  # whatever it is, there is no meaning
            if not values.modular:
                raise CertificateError(f"{claim['was']}: no meaning is known: {what!r}") from what
            x, y = np.zeros(1), np.ones(1)
        if values.modular:
            missed = (values.degree + values.collisions) / PRIME + 0.5**values.compared
            bound *= missed if np.array_equal(x, y) else math.inf
            continue
        error = max(ERRORS.get(terms.terms[n].type[0], ERROR) for n in values.known)
        if not _close(x, y, error, ends=math.isinf(bound)):
            raise CertificateError(f"{claim['was']} before and {claim['is']} after are not equal")
    return ("tested", error) if bound > WORST else ("probabilistic", float(f"{bound:.1e}"))


def _close(x: Any, y: Any, error: float, *, ends: bool = True) -> bool:
    """
    Whether arrays differ by no more than `error` of the largest element, or of 1. `ends`: NaN and
    infinities must stand at the same places, too; else they are left out.
    """
    scale = max(1.0, float(np.max(np.abs(y), where=np.isfinite(y), initial=0.0)))
    same = np.isclose(x, y, rtol=0, atol=error * scale, equal_nan=True)
    return bool(np.all(same if ends else same | ~np.isfinite(x) | ~np.isfinite(y)))


def _differentiate(v: Values, was: int, now: int) -> None:
    """
    Compares a result of `pull_back` or `push_forward` with quotients of differences along a random
    direction, or along the tangents, where what `stop_gradient` gives stays as it is.
    """
    term, found, scale = v.terms.terms[was], v.get(now), 1.0
    (args, ends), given = term.bodies[0], [v.get(x) for x in term.operands]
    xs, more, which = given[: len(args)], given[len(args) :], was - term.results.start
    along = dict(zip(term.props["wrt"], more, strict=False))
    if term.name == "pull_back":
        direction = v.random("direction", "f64", list(found.shape))
        along = {term.props["wrt"][which]: direction / np.linalg.norm(direction)}
    runs = [v.run((args, ends), xs)]
    stops = {n: x for n, x in v.last.items() if v.terms.terms[n].name == "stop_gradient"}
    for step in (STEP, -STEP):
        moved = [x + step * along[k] if k in along else x for k, x in enumerate(xs)]
        runs.append(v.run(([*args, *stops], ends), [*moved, *stops.values()]))
    slopes = [(runs[1][k] - runs[2][k]) / (2 * STEP) for k in term.props["of"]]
    wanted = slopes[which % len(slopes)]
    if term.name == "pull_back":
        wanted = sum(np.sum(x * y) for x, y in zip(slopes, more, strict=True))
        scale = np.linalg.norm(found) / max(found.size, 1) ** 0.5 + abs(wanted)
        found = np.sum(found * along[term.props["wrt"][which]])
    if not _close(found / scale, wanted / scale, ERROR):
        raise CertificateError(f"this is no such derivative as {term.name} says")


def _matches(terms: Terms, side: Any, value: int, known: dict[str, int]) -> list[dict[str, int]]:
    """What variables are where a value is as a side of a rule says, in each way that it is."""
    if isinstance(side, str):
        return [known | {side: value}] * (not side or known.get(side, value) == value)
    (names, *inner), found = side, list[dict[str, int]]()
    for number, term in enumerate(terms.terms):
        if terms.find(number) == value and term.name in names.split("|"):
            ways = [known] * (len(inner) in (0, len(term.operands)))
            for part, x in zip(inner, map(terms.find, term.operands), strict=False):
                ways = [more for one in ways for more in _matches(terms, part, x, one)]
            found += ways
    return found


def _accept(terms: Terms, claim: Json, rules: Json, allowed: tuple[str, ...], seed: str) -> None:
    """Makes what is claimed so, where there is the evidence that is stated."""
    sides, said = terms.of([claim["was"], claim["is"]]), (claim["grade"], claim["bound"])
    if "rule" in claim:
        rule = rules[claim["rule"]]
        ways = _matches(terms, rule["left"], sides[0], {}) if rule["class"] in allowed else []
        if not any(_matches(terms, rule["right"], sides[1], way) for way in ways):
            raise CertificateError(f"{claim['was']}: rule {rule['rule']} is not for this")
    found = ("none", None) if said[0] == "none" else graded(terms, claim, seed)
    if said != found:
        raise CertificateError(f"{claim['was']}: found {said}; expected {found}")
    terms.equal(sides)


def check(text: str, program: Any = None, seed: str = "") -> Json:
    """
    The header, the steps and the claims of a certificate. `program`: the lines that it must be of.
    `seed`: of random numbers, besides the certificate itself. CertificateError, with the line,
    where anything is wrong. What is claimed without evidence has the grade "none".
    """
    at, terms = 1, Terms()
    rules, heads, steps, claims = Json(), list[Json](), list[Json](), list[Json]()
    try:
        *lines, end = text.splitlines()
        digest = hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()
        if json.loads(end) != {"digest": digest}:
            raise CertificateError("the digest is broken: a line was changed, moved or left out")
        header = json.loads(lines[0])
        if header["numerics"] not in NUMERICS or set(header["sizes"].values()) - {SIZE}:
            raise CertificateError(f"expected {', '.join(NUMERICS)}, and {SIZE} of each symbol")
        for at, line in enumerate(lines[1:], 2):  # noqa: B007 - it is said what is wrong where
            record = json.loads(line)
            if isinstance(record, list):
                terms.define(record)
            elif "left" in record:
                rules[record["rule"]] = record
            elif "results" in record:
                heads.append(record)
            elif "was" in record and heads:
                _accept(terms, record, rules, NUMERICS[header["numerics"]], digest + seed)
                claims.append(record)
            else:
                steps.append(record)
        if program is not None and lines[1 + len(rules) :][: len(program)] != program:
            raise CertificateError("this is the certificate of another program")
        ends = [[x["function"], terms.of(x["args"]), terms.of(x["results"])] for x in heads]
        if len(ends) != 2 or ends[0] != ends[1]:
            raise CertificateError("the results change, and no claim says why they may")
        return {**header, "steps": len(steps), "claims": claims}
    except Exception as error:  # whatever it is, the line is not as it must be
        why = error if isinstance(error, CertificateError) else f"malformed: {error!r}"
        raise CertificateError(f"line {at}: {why}") from error
