"""
Programs in exact arithmetic modulo a prime: what each op says of one element, for all at once.

An `ElementBuilder` whose values are arrays of residues; ops are not defined again here. What is no
polynomial has a stated treatment (docs/rules.md):

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
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64, DType, dtype_of
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
REDRAWS = 20
LARGE = 2**16
"""Of numerators and denominators of constants."""


class ZeroDivisorError(ArithmeticError):
    """A divisor is 0 at these inputs."""


class UnknownError(Exception):
    """An op has no meaning modulo a prime here."""


class LargeNumberError(UnknownError):
    """A constant is not finite, or may vanish modulo the prime in a product of few."""


class Residues:
    """
    One run: `moduli` is (p,) or (P, Q), `seed` decides the random functions. Arrays of residues are
    unsigned, and their last axis is that of the moduli; bools and positions are plain.
    """

    def __init__(self, moduli: tuple[int, ...], seed: int, order: Order) -> None:
        self.moduli = np.array(moduli, np.uint64)
        self.seed, self.order = seed, order
        self.values: dict[SSAValue, Array] = {}
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
        """The result of an op."""
        if isinstance(op, ConstantOp):
            return self.of_constant(op, exact.get(op.result))
        sizes = tuple(n.evaluate({}) for n in op.shape)
        given = [self.values[x] for x in op.operands]
        if isinstance(op, ReshapeOp):
            return self.each(partial(_reshaped, op, sizes), given)
        if isinstance(op, ConcatOp):
            return self.each(op.reference, given)
        space = tuple(n.evaluate({}) for n in op.iteration())
        point = tuple(np.ogrid[tuple(slice(n) for n in space)])
        value = cast("Array", op.element(self, cast("Point", point)))
        value = np.broadcast_to(value, (*space, *self.last(value)))
        return self.reduced(op, value, len(op.shape)) if isinstance(op, Reduction) else value

    def last(self, x: Array) -> tuple[int, ...]:
        """The axis of the moduli, if the array is one of residues."""
        return (len(self.moduli),) if x.dtype == np.uint64 else ()

    def each(self, function: Callable[..., Array], given: Sequence[Array]) -> Array:
        """A function that moves elements, for each modulus."""
        if not self.last(given[0]):
            return function(*given)
        rows = [function(*(x[..., k] for x in given)) for k in range(len(self.moduli))]
        return np.stack(rows, -1)

    def of_constant(self, op: ConstantOp, exact: Fraction | None) -> Array:
        """A constant's elements; of one that was rounded the number that it stands for."""
        array: Any = op.array()
        if array.dtype == bool:
            return array
        if exact is not None:
            return np.broadcast_to(self.number(exact), (*array.shape, len(self.moduli)))
        if not np.isfinite(array).all():
            raise LargeNumberError("a number that is not finite")
        if array.dtype.kind == "c":
            if array.imag.any():
                raise UnknownError("a complex number of two parts")
            array = array.real
        found = [self.number(Fraction(x)) for x in array.ravel().tolist()]
        return np.array(found, np.uint64).reshape(*array.shape, len(self.moduli))

    def reduced(self, op: Reduction, value: Array, axis: int) -> Array:
        """Summands combined along the axes from this one on, by the op's monoid."""
        monoid, dtype, last = op.combiner(), op.summand(), self.last(value)
        kept, summed = value.shape[:axis], value.shape[axis : value.ndim - len(last)]
        count = math.prod(summed)
        flat = value.reshape(*kept, count, *last)
        state: tuple[Any, ...] = ()
        if count == 0:
            state = tuple(self.constant(n, dtype) for n in monoid.identity(dtype))
        for k in range(count):
            summand: Any = np.take(flat, k, axis)
            place: Any = _i64(k)
            following = monoid.lift(self, summand, lambda place=place: place)
            state = monoid.combine(self, dtype, state, following) if state else following
        found = cast("Array", monoid.finalise(self, state))
        return np.broadcast_to(found, (*kept, *self.last(found)))

    def number(self, value: Fraction) -> Array:
        """A rational number modulo each prime."""
        if max(abs(value.numerator), value.denominator) >= LARGE:
            raise LargeNumberError(f"the number {value}")
        top, bottom = value.numerator, value.denominator
        return np.array([top * pow(bottom, -1, m) % m for m in self.moduli.tolist()], np.uint64)

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
        if not self.last(operands[0]):
            raise UnknownError("arithmetic of positions")
        return self.applied(op, *operands)

    def applied(self, op: type[Operation], *operands: Array) -> Array:
        """An op on residues."""
        x = operands[0]
        if op in SUMS:
            return (x + operands[1]) % self.moduli
        if op in DIFFERENCES:
            return (x + (self.moduli - operands[1])) % self.moduli
        if op in PRODUCTS:
            return x * operands[1] % self.moduli
        if op is arith.NegfOp:
            return (self.moduli - x) % self.moduli
        if op is arith.DivfOp:
            return self.quotient(x, operands[1])
        if op in _LARGER:
            y = operands[1]
            wins = self.is_less(y, x) if _LARGER[op] else self.is_less(x, y)
            return np.where(wins[..., None], x, y)
        if op in (functions.AbsFOp, functions.AbsIOp):
            negative = self.is_less(x, np.zeros_like(x))
            return np.where(negative[..., None], (self.moduli - x) % self.moduli, x)
        if op in (functions.PowFOp, IntegerPowerOp):
            return self.power(x, operands[1])
        if op is functions.ExpOp and len(self.moduli) == 2:
            self.is_polynomial = False
            first, second = _powers(ROOT, x[..., 1], PAIR[0]), self.hashed(op.name, x)[..., 1]
            return np.stack([first, second], -1)
        return self.hashed(op.name, *operands)

    def quotient(self, x: Array, y: Array) -> Array:
        """A product with the inverse. Raises ZeroDivisorError."""
        if (y == 0).any():
            raise ZeroDivisorError
        return x * _inverses(y, self.moduli) % self.moduli

    def power(self, x: Array, y: Array) -> Array:
        """Of a small whole exponent by products; else an unknown function."""
        exponents = np.unique(y)
        if len(exponents) != 1 or exponents[0] > MOST_EXPONENT:
            return self.hashed("pow", x, y)
        found = np.ones_like(x)
        for _ in range(int(exponents[0])):
            found = found * x % self.moduli
        return found

    def hashed(self, name: str, *operands: Array) -> Array:
        """A random function of the first residues."""
        self.is_polynomial = False
        found = np.asarray(self.seed ^ hash_of(name), np.uint64)
        for x in operands:
            found = mixed(found + x[..., :1])
        return (found >> np.uint64(2)) % self.moduli

    def is_less(self, x: Array, y: Array) -> Array:
        """Whether x < y, as far as residues have an order."""
        self.is_polynomial = False
        self.choices += 1
        if self.order == "random":
            return self.hashed("order", x)[..., 0] < self.hashed("order", y)[..., 0]
        prime = self.moduli[0]
        difference = (x[..., 0] + (prime - y[..., 0])) % prime
        mirrored = difference > prime // np.uint64(2)
        smaller = cast("Array", np.where(mirrored, prime - difference, difference))
        odd = mixed(smaller + np.uint64(self.seed)) >> np.uint64(40) & np.uint64(1) == 1
        return (odd ^ mirrored) & (difference != 0)

    def compare(self, predicate: str, lhs: Any, rhs: Any, dtype: DType) -> Any:
        if not self.last(lhs):
            return _COMPARE[predicate](lhs, rhs)
        if predicate in ("eq", "ne"):
            self.is_polynomial = False
            equal = (lhs == rhs).all(-1)
            return equal if predicate == "eq" else ~equal
        found = self.is_less(lhs, rhs) if predicate in ("lt", "ge") else self.is_less(rhs, lhs)
        return ~found if predicate in ("ge", "le") else found

    def select(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        if self.last(if_true):
            condition = condition[..., None]
        return cast("Array", np.where(condition, if_true, if_false))

    def convert(self, value: Any, source: DType, target: DType) -> Any:
        if source.kind == target.kind or (source.is_integer and target.kind in ("float", "int")):
            return value
        if source.kind == "bool" and target.kind in ("float", "int", "uint"):
            one, zero = self.number(Fraction(1)), self.number(Fraction(0))
            return np.where(value[..., None], one, zero)
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
        places = [np.asarray(p) for p in at]
        if where is not None:
            sizes = found.shape[: len(places)]
            if 0 in sizes:
                shape = np.broadcast_shapes(*(p.shape for p in places))
                return np.zeros((*shape, *self.last(found)), found.dtype)
            places = [np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
        return found[tuple(places)]


_Run = TypeVar("_Run", bound=Residues)
_Found = TypeVar("_Found")


def moduli_of(ops: Sequence[Operation]) -> tuple[int, ...]:
    """Those of runs of a program: pairs, where it has exponentials."""
    return PAIR if any(isinstance(op, ExpOp) for op in ops) else (PRIME,)


def redrawn(
    run_of: Callable[[int], _Run],
    seed: int,
    values: Sequence[SSAValue],
    rng: np.random.Generator,
    ask: Callable[[_Run], _Found],
) -> _Found:
    """
    What is asked at random residues of `values`, drawn again as long as a divisor is 0. `run_of`: a
    run by the seed of its random functions. Raises UnknownError.
    """
    for attempt in range(REDRAWS):
        run = run_of(seed * REDRAWS + attempt)
        drawn(run, values, rng)
        try:
            return ask(run)
        except ZeroDivisorError:
            continue
    raise UnknownError("a divisor that is always 0")


def drawn(run: Residues, values: Sequence[SSAValue], rng: np.random.Generator) -> None:
    """Gives values random residues, each modulus its own; bools are drawn as such."""
    for value in values:
        kind = tensor_of(value)
        sizes = kind.get_shape()
        if dtype_of(kind.element_type).kind == "bool":
            run.values[value] = rng.integers(0, 2, sizes).astype(bool)
        else:
            rows = [rng.integers(0, m, sizes, np.uint64) for m in run.moduli.tolist()]
            run.values[value] = np.stack(rows, -1)


def _reshaped(op: ReshapeOp, sizes: tuple[int, ...], x: Array) -> Array:
    return op.reference_at(x, sizes)


def hash_of(name: str) -> int:
    """A number for a name, the same in every process."""
    return int.from_bytes(name.encode()[-7:], "big")


def _i64(value: int) -> Array:
    return np.asarray(value, np.int64)


def mixed(x: Array) -> Array:
    """SplitMix64. SOURCE: Steele, Lea, Flood, OOPSLA 2014, figure 16."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _powers(base: int, exponent: Array, prime: int) -> Array:
    modulus = np.uint64(prime)
    found, square = np.ones_like(exponent), np.full_like(exponent, base)
    for bit in range(31):
        found = np.where(exponent >> np.uint64(bit) & np.uint64(1) == 1, found * square, found)
        found, square = found % modulus, square * square % modulus
    return found


def _inverses(x: Array, moduli: Array) -> Array:
    """By Fermat's little theorem."""
    found, square = np.ones_like(x), x
    for bit in range(31):
        takes = (moduli - np.uint64(2)) >> np.uint64(bit) & np.uint64(1) == 1
        found = np.where(takes, found * square % moduli, found)
        square = square * square % moduli
    return found


SUMS: tuple[type[Operation], ...] = (arith.AddfOp, arith.AddiOp)
DIFFERENCES: tuple[type[Operation], ...] = (arith.SubfOp, arith.SubiOp)
PRODUCTS: tuple[type[Operation], ...] = (arith.MulfOp, arith.MuliOp)
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
