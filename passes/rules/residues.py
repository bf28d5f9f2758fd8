"""
Programs in exact arithmetic modulo a prime: what each op says of one element, for all at once.

An `ElementBuilder` whose values are arrays of residues; ops are not defined again here. What is no
polynomial has a stated treatment (design/discovery, section 2):

- a quotient is a product with the inverse; a divisor of 0 makes the whole test be drawn again;
- exp: pairs of residues modulo P and modulo Q, where Q divides P - 1, and exp(x) = w^(x mod Q), so
  that exp(x + y) = exp(x) exp(y). SOURCE: Wu et al., Mirage, OSDI 2025, section 5;
- other functions are random functions: what is equal for each of these is equal for any;
- comparisons, max, min and abs know which of two numbers is larger: by a random odd function of
  their difference, or by a random order of all residues. What is equal under each is equal for
  real numbers, whose order is one of either kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NoReturn, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import BOOL, I64, DType, dtype_of
from mlc.dialects.functions import IntegerPowerOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.elementwise import ExpOp
from mlc.dialects.tensor.op import Array, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp

PRIME = 2**31 - 1
PAIR = (2147483579, 1073741789)
"""A safe prime P and Q = (P - 1) / 2: products of two residues have 62 bits."""
ROOT = 4
"""Of order Q modulo P: a square, and not 1."""
Order = Literal["difference", "random"]
MOST_EXPONENT = 64
LARGE = 2**16
"""Of numerators and denominators of constants."""


class ZeroDivisorError(ArithmeticError):
    """A divisor is 0 at these inputs."""


class UnknownError(Exception):
    """An op has no meaning modulo a prime here."""


class LargeNumberError(UnknownError):
    """A constant is not finite, or may vanish modulo the prime in a product of few."""


class Residues:
    """One run: `moduli` is (p,) or (P, Q), `seed` decides the random functions."""

    def __init__(self, moduli: tuple[int, ...], seed: int, order: Order) -> None:
        self.moduli = np.array(moduli, np.int64)
        self.seed, self.order = seed, order
        self.values: dict[SSAValue, Array] = {}
        self.dims: Shape = ()
        self.is_polynomial = True
        self.choices = 0
        """How many ops have asked which of two numbers is larger."""

    # Programs -----------------------------------------------------------------------------------

    def run(self, ops: Sequence[Operation], exact: Mapping[SSAValue, Fraction]) -> None:
        """Evaluates ops whose inputs are in `values`. Raises ZeroDivisorError, UnknownError."""
        for op in ops:
            assert isinstance(op, TensorOp)
            self.values[op.results[0]] = self.of_op(op, exact)

    def of_op(self, op: TensorOp, exact: Mapping[SSAValue, Fraction]) -> Array:
        """The result of an op: residues, with one more axis in front, or what is plain."""
        if isinstance(op, ConstantOp):
            return self.of_constant(op, exact.get(op.result))
        sizes = tuple(n.evaluate({}) for n in op.shape)
        given = [self.values[x] for x in op.operands]
        if isinstance(op, ReshapeOp):
            return self.each(op.result, lambda x: op.reference_at(x, sizes), given)
        if isinstance(op, ConcatOp):
            return self.each(op.result, op.reference, given)
        space = tuple(n.evaluate({}) for n in op.iteration())
        point = tuple(np.ogrid[tuple(slice(n) for n in space)])
        value = cast("Array", op.element(self, cast("Point", point)))  # pyright: ignore[reportArgumentType]
        summand = op.summand() if isinstance(op, Reduction) else op.dtype
        lead = () if summand in (BOOL, I64) else (len(self.moduli),)
        value = np.broadcast_to(value, (*lead, *space))
        return self.reduced(op, value, len(lead)) if isinstance(op, Reduction) else value

    def each(
        self, value: SSAValue, function: Callable[..., Array], given: Sequence[Array]
    ) -> Array:
        """A function that moves elements, for each modulus."""
        if is_plain(value):
            return function(*given)
        return np.stack([function(*parts) for parts in zip(*given, strict=True)])

    def of_constant(self, op: ConstantOp, exact: Fraction | None) -> Array:
        array = op.array()
        if array.dtype == bool:
            return array
        if exact is not None:
            number = self.number(exact).reshape(-1, *[1] * array.ndim)
            return np.broadcast_to(number, (len(self.moduli), *array.shape))
        if not np.isfinite(array).all():
            raise LargeNumberError("a number that is not finite")
        found = [self.number(Fraction(x)) for x in array.ravel().tolist()]
        return np.stack(found, 1).reshape(-1, *array.shape)

    def reduced(self, op: Reduction, value: Array, lead: int) -> Array:
        """Summands combined along the last axes, by the op's monoid."""
        monoid, dtype = op.combiner(), op.summand()
        kept = value.shape[: lead + len(op.shape)]
        count = math.prod(value.shape[len(kept) :])
        flat = value.reshape(*kept, count)
        if count == 0:
            numbers = [self.constant(n, dtype) for n in monoid.identity(dtype)]
            state: tuple[Any, ...] = tuple(numbers)
        else:
            state = ()
        for k in range(count):
            following = monoid.lift(self, cast("Any", flat[..., k]), lambda k=k: _i64(k))  # pyright: ignore[reportArgumentType]
            state = monoid.combine(self, dtype, state, following) if state else following  # pyright: ignore[reportArgumentType]
        found = cast("Array", monoid.finalise(self, state))  # pyright: ignore[reportArgumentType]
        return np.broadcast_to(found, kept[lead:] if is_plain(op.results[0]) else kept)

    def number(self, value: Fraction) -> Array:
        """A rational number modulo each prime."""
        if max(abs(value.numerator), value.denominator) >= LARGE:
            raise LargeNumberError(f"the number {value}")
        return np.array(
            [value.numerator * pow(value.denominator, -1, int(m)) % int(m) for m in self.moduli]
        )

    # Arithmetic ---------------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> Any:
        if dtype.kind == "bool":
            return np.asarray(bool(value))
        if dtype is I64:
            return _i64(int(value.real))
        if isinstance(value, complex) or not math.isfinite(value):
            raise LargeNumberError(f"the number {value}")
        return self.number(Fraction(value))

    def apply(self, op: type[Operation], *operands: Any) -> Any:
        if operands[0].dtype == bool:
            return _OF_BOOLS[op](*operands)
        if op in _ARITHMETIC:
            return self.modulo(_ARITHMETIC[op](*operands))
        if op is arith.DivfOp:
            return self.quotient(*operands)
        if op in _LARGER:
            x, y = np.broadcast_arrays(*operands)
            wins = self.is_less(y, x) if _LARGER[op] else self.is_less(x, y)
            return np.where(wins, x, y)
        if op in (functions.AbsFOp, functions.AbsIOp):
            (x,) = operands
            return np.where(self.is_less(x, np.zeros_like(x)), self.modulo(-x), x)
        if op in (functions.PowFOp, IntegerPowerOp):
            return self.power(*operands)
        if op is functions.ExpOp and len(self.moduli) == 2:
            self.is_polynomial = False
            (x,) = operands
            return np.stack([_powers(ROOT, x[1], PAIR[0]), self.hashed(op.name, x)[1]])
        return self.hashed(op.name, *operands)

    def modulo(self, x: Array) -> Array:
        return x % self.moduli.reshape(-1, *[1] * (x.ndim - 1))

    def quotient(self, x: Array, y: Array) -> Array:
        if (y == 0).any():
            raise ZeroDivisorError
        inverses = [_inverses(row, int(m)) for row, m in zip(y, self.moduli, strict=True)]
        return self.modulo(x * np.stack(inverses))

    def power(self, x: Array, y: Array) -> Array:
        """Of a small whole exponent by products; else an unknown function."""
        exponents = np.unique(y)
        if len(exponents) != 1 or exponents[0] > MOST_EXPONENT:
            return self.hashed("pow", x, y)
        found = np.ones_like(x)
        for _ in range(int(exponents[0])):
            found = self.modulo(found * x)
        return found

    def hashed(self, name: str, *operands: Array) -> Array:
        """A random function of residues."""
        self.is_polynomial = False
        mixed = np.asarray(self.seed ^ hash_of(name), np.uint64)
        for x in operands:
            mixed = _mix(mixed + x[:1].astype(np.uint64))
        return self.modulo((mixed >> np.uint64(2)).astype(np.int64) + np.zeros_like(operands[0]))

    def is_less(self, x: Array, y: Array) -> Array:
        """Whether x < y, as far as residues have an order; bools without the moduli's axis."""
        self.is_polynomial = False
        self.choices += 1
        if self.order == "random":
            one, other = (self.hashed("order", v)[0] for v in (x, y))
            return one < other
        difference = self.modulo(x - y)[0]
        prime = int(self.moduli[0])
        mirrored = difference > prime // 2
        smaller = np.where(mirrored, prime - difference, difference)
        mixed = _mix(smaller.astype(np.uint64) + np.uint64(self.seed))
        return ((mixed >> np.uint64(40) & np.uint64(1) == 1) ^ mirrored) & (difference != 0)

    def compare(self, predicate: str, lhs: Any, rhs: Any, dtype: DType) -> Any:
        if dtype is I64 or dtype.kind == "bool":
            return _COMPARE[predicate](lhs, rhs)
        x, y = np.broadcast_arrays(lhs, rhs)
        if predicate in ("eq", "ne"):
            self.is_polynomial = False
            return (x == y).all(0) if predicate == "eq" else (x != y).any(0)
        found = self.is_less(x, y) if predicate in ("lt", "ge") else self.is_less(y, x)
        return ~found if predicate in ("ge", "le") else found

    def select(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return np.where(condition, if_true, if_false)

    def convert(self, value: Any, source: DType, target: DType) -> Any:
        if source.kind == target.kind or (source.is_integer and target.kind in ("float", "int")):
            return value
        if source.kind == "bool" and target.kind in ("float", "int", "uint"):
            return np.broadcast_to(value, (len(self.moduli), *value.shape)).astype(np.int64)
        raise UnknownError(f"a conversion from {source.name} to {target.name}")

    def _unknown(self, what: str) -> NoReturn:
        raise UnknownError(what)

    def real(self, value: Any) -> Any:
        self._unknown("a part of a complex number")

    def imag(self, value: Any) -> Any:
        self._unknown("a part of a complex number")

    def pair(self, real: Any, imag: Any) -> Any:
        self._unknown("a complex number of two parts")

    def bitcast(self, value: Any, element: Attribute) -> Any:
        self._unknown("the bits of a number")

    def check(self, ok: Any, site: Operation, value: Any, extent: Any) -> None:
        self._unknown(f"a run-time error of {site.name}")

    # Positions ----------------------------------------------------------------------------------

    def size(self, dim: Dim) -> Any:
        return _i64(dim.evaluate({}))

    def position(self, at: Ix) -> Any:
        return cast("Array", at)

    def at_element(self, value: Any) -> Ix:
        return cast("Ix", value)

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        return cast("Ix", scale * cast("Array", at) + offset.evaluate({}))

    def shift(self, at: Ix, by: Any) -> Ix:
        return cast("Ix", cast("Array", at) + by)

    def plus(self, a: Ix, b: Ix) -> Ix:
        return cast("Ix", cast("Array", a) + cast("Array", b))

    def fetch(self, tensor: SSAValue, at: Point, where: Any = None) -> Any:
        found = self.values[tensor]
        lead = () if is_plain(tensor) else (slice(None),)
        places = [np.asarray(p) for p in at]
        if where is not None:
            sizes = found.shape[len(lead) :]
            if 0 in sizes:
                shape = np.broadcast_shapes(*(p.shape for p in places))
                return np.zeros((len(self.moduli), *shape) if lead else shape, found.dtype)
            places = [np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
        return found[(*lead, *places)]


def is_plain(value: SSAValue) -> bool:
    """Whether its elements are themselves: bools and positions; others are residues."""
    return dtype_of(tensor_of(value).element_type) in (BOOL, I64)


def residues_of(ops: Sequence[Operation], seed: int, order: Order) -> Residues:
    """A run for a program: modulo pairs, where it has exponentials."""
    has_exp = any(isinstance(op, ExpOp) for op in ops)
    return Residues(PAIR if has_exp else (PRIME,), seed, order)


def drawn(run: Residues, values: Sequence[SSAValue], rng: np.random.Generator) -> None:
    """Gives values random residues, each modulus its own; bools are drawn as such."""
    for value in values:
        kind = tensor_of(value)
        dtype = dtype_of(kind.element_type)
        sizes = kind.get_shape()
        if dtype.kind == "bool":
            run.values[value] = rng.integers(0, 2, sizes).astype(bool)
        else:
            run.values[value] = np.stack([rng.integers(0, m, sizes) for m in run.moduli.tolist()])


def hash_of(name: str) -> int:
    """A number for a name, the same in every process."""
    return int.from_bytes(name.encode()[-7:], "big")


def _i64(value: int) -> Array:
    return np.asarray(value, np.int64)


def _mix(x: Array) -> Array:
    """SplitMix64. SOURCE: Steele, Lea, Flood, OOPSLA 2014, figure 16."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _powers(base: int, exponent: Array, prime: int) -> Array:
    found, square = np.ones_like(exponent), np.full_like(exponent, base)
    for bit in range(31):
        found = np.where(exponent >> bit & 1, found * square % prime, found)
        square = square * square % prime
    return found


def _inverses(x: Array, prime: int) -> Array:
    """By Fermat's little theorem."""
    found, square = np.ones_like(x), x
    for bit in range(31):
        if prime - 2 >> bit & 1:
            found = found * square % prime
        square = square * square % prime
    return found


_ARITHMETIC: dict[type[Operation], Callable[..., Array]] = {
    arith.AddfOp: np.add, arith.AddiOp: np.add,
    arith.SubfOp: np.subtract, arith.SubiOp: np.subtract,
    arith.MulfOp: np.multiply, arith.MuliOp: np.multiply,
    arith.NegfOp: np.negative,
}  # fmt: skip
_LARGER: dict[type[Operation], bool] = {
    arith.MaximumfOp: True, arith.MaxSIOp: True, arith.MaxUIOp: True,
    arith.MinimumfOp: False, arith.MinSIOp: False, arith.MinUIOp: False,
}  # fmt: skip
_OF_BOOLS: dict[type[Operation], Callable[..., Array]] = {
    arith.AndIOp: np.logical_and, arith.OrIOp: np.logical_or, arith.XOrIOp: np.logical_xor,
}  # fmt: skip
_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
