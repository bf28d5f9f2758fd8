"""What ops of a certificate mean, on random numbers modulo a prime and on floats (`mlc.check`)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlc.check_ops import ELEMENTWISE, OPS, PRIME, Array, Shape, UnknownError

if TYPE_CHECKING:
    from mlc.check_text import Block, Op, Program

Value = tuple[Array, int]
"""Numbers, and the degree of the polynomials that they are."""
LISTS = ("low", "high", "offsets", "steps", "dims", "window")  # properties that are sizes
MOST_TRIPS = 200
INTEGERS = {f"{s}{n}": np.dtype(f"{'u' * (s == 'u')}int{n}") for s in "iu" for n in (8, 16, 32, 64)}


class Floats:
    """Floats of 64 bits; integers as they are. `whole`: small ones, of which many are equal."""

    compared: int | None = None  # the fewest elements of which one has asked who is larger

    def __init__(self, seed: int, *, whole: bool = False) -> None:
        self.seed, self.whole = seed, whole

    def random(self, key: str, dtype: str, shape: Sequence[int]) -> Array:
        """Numbers that depend on the key alone."""
        rng = _rng(self.seed, key)
        if dtype == "bool" or dtype in INTEGERS:
            return rng.integers(0, 2 + (dtype != "bool"), shape).astype(INTEGERS.get(dtype, bool))
        x = rng.integers(-2, 3, shape).astype(float) if self.whole else rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x

    def number(self, x: Any, dtype: str) -> Any:
        """A number of a constant."""
        return np.asarray(float(x) if isinstance(x, str) else x, INTEGERS.get(dtype))[()]

    def apply(self, op: Op, xs: Sequence[Array], dtypes: Sequence[str]) -> Array:
        """An elementwise op."""
        if op.name == "convert":
            target = "bool" if dtypes[-1] == "bool" else INTEGERS.get(dtypes[-1], "float64")
            return xs[0] if dtypes[-1][0] == "c" else xs[0].astype(target)
        if op.name not in ELEMENTWISE or (op.name, dtypes[0]) in (("neg", "bool"), ("sub", "bool")):
            raise UnknownError(op.name)
        return ELEMENTWISE[op.name](*xs)

    def product(self, spec: str, a: Array, b: Array) -> Array:
        """A sum of products."""
        return np.einsum(spec, a, b, optimize=True)

    def fold(self, name: str, x: Array) -> Array:
        """Along the last axis."""
        return getattr(np, name)(x, axis=-1)

    def compare(self, x: Array) -> None:
        """Elements are compared."""
        self.compared = min(x.size, self.compared or x.size)

    def key(self, x: Array) -> Array:
        """Who is larger; and positions, sums and bools as such numbers are written."""
        return x

    index = reduced = truth = key


class Residues(Floats):
    """Modulo a prime; functions that are no polynomials are random ones, and the order is, too."""

    def random(self, key: str, dtype: str, shape: Sequence[int]) -> Array:
        return _rng(self.seed, key).integers(0, PRIME, shape) % (2 if dtype == "bool" else PRIME)

    def number(self, x: Any, dtype: str) -> Any:
        if isinstance(x, str):
            return int(self.random(x, dtype, ()))
        exact = Fraction(x)
        return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME

    def hashed(self, name: str, xs: Sequence[Array]) -> Array:
        """A random function, element by element."""
        mixed = np.full(1, _rng(self.seed, name).integers(1 << 62), np.uint64)
        for x in np.broadcast_arrays(*xs):
            mixed = mixed + x.astype(np.uint64)  # SplitMix64: Steele, Lea, Flood, OOPSLA 2014
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
                mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        found = (mixed >> np.uint64(2)).astype(np.int64) % PRIME
        return found.reshape(np.broadcast_shapes(*(x.shape for x in xs)))

    def apply(self, op: Op, xs: Sequence[Array], dtypes: Sequence[str]) -> Array:
        name, x = op.name, xs[0]
        if dtypes[0] == dtypes[-1] == "bool" and name in ("and", "or", "xor", "not"):
            return ELEMENTWISE[name](*(v.astype(bool) for v in xs)).astype(np.int64)
        if dtypes[0] != "bool" and name in ("add", "sub", "mul", "neg"):
            return ELEMENTWISE[name](*xs) % PRIME
        if name == "div" and dtypes[-1] not in INTEGERS:
            return x * _power(xs[1], PRIME - 2) % PRIME
        if name in ("max", "min"):
            wins = self.key(x) >= self.key(xs[1])
            return np.where(wins if name == "max" else ~wins, x, xs[1])
        widens = dtypes[-1][0] in "fbc" or dtypes[0] in ("bool", *INTEGERS)
        if name == "convert" and dtypes[-1] != "bool" and widens:
            return x
        if name not in ELEMENTWISE and name != "convert":
            raise UnknownError(name)
        found = self.hashed(f"{name} {op.props} {dtypes[-1]}", xs)
        if dtypes[-1] != "bool":
            return found
        self.compare(found)
        return found % 2

    def product(self, spec: str, a: Array, b: Array) -> Array:
        halves = [(x >> 16, x & 0xFFFF) for x in (a, b)]  # whose products are exact in floats
        (ah, al), (bh, bl) = ((h.astype(float), low.astype(float)) for h, low in halves)
        parts = [(ah, bh, 1 << 32), (ah, bl, 1 << 16), (al, bh, 1 << 16), (al, bl, 1)]
        found = [
            np.einsum(spec, x, y, optimize=True).astype(np.int64) % PRIME * (f % PRIME) % PRIME
            for x, y, f in parts
        ]
        return np.asarray(sum(found) % PRIME)

    def fold(self, name: str, x: Array) -> Array:
        if name in ("max", "min"):
            keys = self.key(x) * (1 if name == "max" else -1)
            return np.take_along_axis(x, np.argmax(keys, -1)[..., None], -1)[..., 0]
        if name == "sum":
            return x.sum(-1) % PRIME
        found = np.ones(x.shape[:-1], np.int64)
        for k in range(x.shape[-1]):
            found = found * x[..., k] % PRIME
        return found

    def key(self, x: Array) -> Array:
        self.compare(x)
        return self.hashed("order", [x])

    def index(self, x: Array) -> Array:
        return np.where(x > PRIME // 2, x - PRIME, x)

    def reduced(self, x: Array) -> Array:
        return x % PRIME

    def truth(self, x: Array) -> Array:
        return x.astype(np.int64)


class Side(NamedTuple):
    """
    A value of a program, and the ops `inside` that are looked at. Values of others are random, and
    the same where they have the same number.
    """

    program: Program
    value: str
    inside: set[str]
    numbers: dict[str, int]
    sizes: dict[str, int]

    def kinds(self) -> list[str]:
        """Types of values."""
        return [self.program.types[x] for x in (self.value, *self.inside)]

    def of(self, domain: Floats, *, but: tuple[str, ...] = ()) -> Values:
        """With numbers of some kind; `but`: results of an op that is not evaluated."""
        return Values(self, domain, self.inside - set(but))


class Values:
    """The values of one side, by name."""

    def __init__(self, side: Side, domain: Floats, inside: set[str]) -> None:
        self.program, self.numbers = side.program, side.numbers
        self.domain, self.sizes = domain, dict(side.sizes)
        self.known: dict[str, Value] = {}
        self.collisions = 0  # degrees of what random functions are of
        self.tape, self.at = list[Array](), 0  # what `stop_gradient` gave, of one function
        for op in self.program.order:
            if op.results and op.results[0] in inside:
                self.known |= zip(op.results, self.results(op, self.known), strict=True)

    def get(self, name: str, env: dict[str, Value]) -> Value:
        """A value; a random one where it is not inside."""
        if name not in env and name not in self.known:
            dtype, shape = self.kind(name)
            key = f"value {self.numbers[name]}"
            self.known[name] = self.domain.random(key, dtype, shape), 1
        return env[name] if name in env else self.known[name]

    def kind(self, name: str) -> tuple[str, Shape]:
        """Dtype and shape."""
        dtype, _, dims = self.program.types[name][:-1].partition("[")
        return dtype, tuple(self.size(x) for x in dims.split(",") if x)

    def size(self, text: Any) -> int:
        """A size: a number, or a polynomial of symbols, with quotients."""
        if str(text).removeprefix("-").isdigit():
            return int(text)
        if not re.fullmatch(r"[\w+\-*/() ]+", text) or "**" in text:
            raise UnknownError(f"the size {text}")
        try:
            return int(eval(str(text), {"__builtins__": {}}, dict(self.sizes)))
        except (NameError, SyntaxError, TypeError, ArithmeticError) as error:
            raise UnknownError(f"the size {text}") from error

    def results(self, op: Op, env: dict[str, Value]) -> list[Value]:
        """What an op gives; UnknownError where its meaning is not known."""
        if not op.results:
            raise UnknownError(op.name)
        given = [self.get(x, env) for x in op.operands]
        if op.regions or "callee" in op.props:
            return self.control(op, given, env)
        xs, dtypes = [x for x, _ in given], [self.kind(x)[0] for x in (*op.operands, *op.results)]
        _, shape = self.kind(op.results[0])
        degree = max((d for _, d in given), default=0)
        try:
            found = self.tensor(op, xs, dtypes, shape)
            if op.name in ("mul", "contract", "conv", "div"):
                degree = sum(d for _, d in given)
            elif op.props.get("monoid") == "prod":
                degree *= max(xs[0].size // max(found.size, 1), 1)
            elif op.name in ELEMENTWISE and op.name not in ("add", "sub", "neg", "max", "min"):
                self.collisions, degree = self.collisions + degree, 1
        except UnknownError:
            if not isinstance(self.domain, Residues):
                raise
            said = [op.name, str(op.props), *(hashlib.sha256(x.tobytes()).hexdigest() for x in xs)]
            found = self.domain.random(" ".join(said), dtypes[-1], shape)
            self.collisions, degree = self.collisions + degree, 1
        if found.shape != shape:
            raise UnknownError(f"{op.name} gives {found.shape}, and not {shape}")
        return [(found, degree)]

    def run(self, block: Block, args: Sequence[Value], env: dict[str, Value]) -> list[Value]:
        """What a block ends with."""
        env = {**env, **dict(zip(block.args, args, strict=True))}
        for op in block.ops[:-1]:
            env.update(zip(op.results, self.results(op, env), strict=True))
        return [self.get(x, env) for x in block.ops[-1].operands]

    def control(self, op: Op, given: list[Value], env: dict[str, Value]) -> list[Value]:
        """Loops, branches and calls, as they run."""
        if op.name in ("call", "batch"):
            return self.call(op, given) if op.name == "call" else self.batch(op, given)
        if op.name == "rule":
            return self.run(op.regions[0], given, env)
        if op.name == "if":
            self.domain.compared = 1
            return self.run(op.regions[int(not given[0][0])], [], env)
        trips = given[0][0].item() if op.name == "for" else MOST_TRIPS
        known = ("for",) if isinstance(self.domain, Residues) else ("for", "while")
        if trips > MOST_TRIPS or op.name not in known:
            raise UnknownError(f"{op.name}, here")
        state = given[1:] if op.name == "for" else given
        for trip in range(trips):
            if op.name == "while" and not self.run(op.regions[0], state, env)[0][0]:
                return state
            at = [(np.asarray(trip), 0)] if op.name == "for" else []
            state = self.run(op.regions[-1], [*at, *state], env)
        if op.name == "while":
            raise UnknownError("a loop of so many trips")
        return state

    def call(self, op: Op, given: Sequence[Value]) -> list[Value]:
        """What a function gives."""
        block, symbols = self.program.functions[op.props["callee"]]
        sizes = [self.size(x) for x in op.props.get("sizes", [])]
        before, self.sizes = self.sizes, dict(zip(symbols, sizes, strict=True))
        try:
            return self.run(block, given, {})
        finally:
            self.sizes = before

    def moved(
        self, op: Op, given: Sequence[Value], along: dict[int, Array], step: float
    ) -> list[Array]:
        """What a function gives at a place nearby, where `stop_gradient` is as it was here."""
        numbers = [(x + step * along[k] if k in along else x, d) for k, (x, d) in enumerate(given)]
        self.at = 0
        return [x for x, _ in self.call(op, numbers)]

    def batch(self, op: Op, given: Sequence[Value]) -> list[Value]:
        """What a function gives for each of many examples; -1: the value is the same for all."""
        made = list[list[Value]]()
        for k in range(self.size(op.props["size"][0])):
            pairs = zip(given, op.props["in"], strict=True)
            one = [(x if axis < 0 else np.take(x, k, axis), d) for (x, d), axis in pairs]
            made.append(self.call(op, one))
        found = list[Value]()
        for axis, values in zip(op.props["out"], zip(*made, strict=True), strict=True):
            x = values[0][0] if axis < 0 else np.stack([x for x, _ in values], axis)
            found.append((x, max(d for _, d in values)))
        return found

    def tensor(self, op: Op, xs: list[Array], dtypes: list[str], shape: Shape) -> Array:
        """An op without regions."""
        if "rounds" in op.props:
            raise UnknownError("factors that are rounded")
        if op.name == "constant":
            return self.constant(op.props["value"], dtypes[-1], shape)
        if op.name == "stop_gradient":
            self.at += 1
            self.tape += xs[: self.at > len(self.tape)]
            return self.tape[self.at - 1]
        if op.name == "select":
            self.domain.compare(xs[0])
        if op.name in OPS:
            sizes = {k: [self.size(x) for x in op.props[k]] for k in LISTS if k in op.props}
            return np.asarray(OPS[op.name](self.domain, {**op.props, **sizes}, shape, xs))
        return self.domain.apply(op, xs, dtypes)

    def constant(self, value: Any, dtype: str, shape: Shape) -> Array:
        """One number, several, or those with a digest."""
        if isinstance(value, dict):
            return self.domain.random(json.dumps(value), dtype, shape)
        if isinstance(value, str | int | float):
            return np.full(shape, self.domain.number(value, dtype))
        return np.asarray([self.domain.number(x, dtype) for x in value]).reshape(shape)


def _rng(seed: int, key: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {key}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _power(x: Array, exponent: int) -> Array:
    found = np.ones_like(x)
    while exponent:
        found = found * x % PRIME if exponent & 1 else found
        x, exponent = x * x % PRIME, exponent >> 1
    return found
