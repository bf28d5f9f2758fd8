"""What an op says of one element, said of all of them at once: `ElementBuilder` on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import BOOL, I64, DType, dtype_of
from mlc.dialects.tensor.complex_parts import COMPLEX_OF
from mlc.dialects.tensor.element import Ix, Point
from mlc.lowering.stablehlo.text import Unsaid, Value, Writer, integers

_APPLIED: Mapping[str, str] = {
    "arith.addf": "add", "arith.addi": "add", "arith.subf": "subtract", "arith.subi": "subtract",
    "arith.mulf": "multiply", "arith.muli": "multiply", "arith.divf": "divide",
    "arith.divsi": "divide", "arith.divui": "divide", "arith.remsi": "remainder",
    "arith.remui": "remainder", "arith.remf": "remainder", "arith.maximumf": "maximum",
    "arith.maxsi": "maximum", "arith.maxui": "maximum", "arith.minimumf": "minimum",
    "arith.minsi": "minimum", "arith.minui": "minimum", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.shli": "shift_left", "arith.shrui": "shift_right_logical",
    "arith.shrsi": "shift_right_arithmetic", "arith.negf": "negate", "math.absf": "abs",
    "math.absi": "abs", "math.exp": "exponential", "math.expm1": "exponential_minus_one",
    "math.log": "log", "math.log1p": "log_plus_one", "math.sin": "sine", "math.cos": "cosine",
    "math.tan": "tan", "math.tanh": "tanh", "math.sqrt": "sqrt", "math.rsqrt": "rsqrt",
    "math.cbrt": "cbrt", "math.atan2": "atan2", "math.powf": "power", "math.floor": "floor",
    "math.ceil": "ceil", "math.roundeven": "round_nearest_even", "math.erf": "chlo.erf",
    "math.ctpop": "popcnt",
    "math.atan": "chlo.atan", "math.asin": "chlo.asin", "math.acos": "chlo.acos",
    "math.sinh": "chlo.sinh", "math.cosh": "chlo.cosh", "math.asinh": "chlo.asinh",
    "math.acosh": "chlo.acosh", "math.atanh": "chlo.atanh", "mlc_math.erfc": "chlo.erfc",
    "mlc_math.lgamma": "chlo.lgamma", "mlc_math.sigmoid": "logistic",
    "mlc_math.fmod": "remainder", "mlc_math.ipow": "power",
    "mlc_math.nextafter": "chlo.next_after",
}  # fmt: skip
"""Ops of one element -> of StableHLO."""


class Position(Ix):
    """A position as a whole number of each point; `axis`: where it is the point's own."""

    __slots__ = ("axis", "value")

    def __init__(self, value: Value, axis: int | None = None) -> None:
        self.value, self.axis = value, axis


class Elements:
    """An `ElementBuilder` for the points of a shape."""

    def __init__(self, writer: Writer, shape: Shape) -> None:
        self.w, self.shape = writer, shape
        self.made: dict[SSAValue, Value] = {}

    def point(self) -> Point:
        """Each point itself."""
        return tuple(Position(self.w.iota(a, self.shape), a) for a in range(len(self.shape)))

    def stands(self, value: Value) -> SSAValue:
        """A token for a value, as ops handle them."""
        token = Block(arg_types=[value.dtype.ir]).args[0]
        self.made[token] = value
        return token

    def of(self, token: SSAValue) -> Value:
        """The value of a token."""
        return self.made[token]

    # the protocol ---------------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        """The same value for every element."""
        return self.stands(self.w.full(value, dtype, self.shape))

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        """An arith or math op whose result type is that of its first operand."""
        values = [self.of(x) for x in operands]
        if (composed := _COMPOSED.get(op.name)) is not None:
            return self.stands(composed(self, *values))
        if (name := _APPLIED.get(op.name)) is None:
            raise Unsaid(f"{op.name} has no counterpart")
        dtype = values[0].dtype
        unsigned = op.name.startswith("arith.") and op.name.endswith("ui")
        if unsigned and dtype.kind == "int":  # registers have no sign, types here do
            values = [self._bits(x, dtype.unsigned) for x in values]
            return self.stands(self._bits(self.w.same(name, *values), dtype))
        return self.stands(self.w.emit(name, values, dtype, values[0].shape))

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        """eq ne lt le gt ge."""
        x, y = (self._bits(self.of(v), dtype) for v in (lhs, rhs))
        return self.stands(self.w.compare(predicate.upper(), x, y))

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        """`if_true` where the bool element holds."""
        return self.stands(self.w.same("select", *map(self.of, (condition, if_true, if_false))))

    def real(self, value: SSAValue) -> SSAValue:
        """The real part."""
        x = self.of(value)
        return self.stands(self.w.emit("real", [x], x.dtype.part, x.shape))

    def imag(self, value: SSAValue) -> SSAValue:
        """The imaginary part."""
        x = self.of(value)
        return self.stands(self.w.emit("imag", [x], x.dtype.part, x.shape))

    def pair(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        """The complex element with these parts."""
        x, y = self.of(real), self.of(imag)
        return self.stands(self.w.emit("complex", [x, y], COMPLEX_OF[x.dtype], x.shape))

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        """The element in another dtype."""
        return self.stands(self.w.convert(self._bits(self.of(value), source), target))

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits as another register type."""
        return self.stands(self._bits(self.of(value), dtype_of(element)))

    def size(self, dim: Dim) -> SSAValue:
        """A dim."""
        return self.stands(self.w.broadcast(self.w.size(dim), (), self.shape))

    def position(self, at: Ix) -> SSAValue:
        """A position as a number."""
        assert isinstance(at, Position)
        return self.stands(at.value)

    def at_element(self, value: SSAValue) -> Ix:
        """A number as a position."""
        return Position(self.of(value))

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        """scale * at + offset."""
        assert isinstance(at, Position)
        scaled = self.w.same("multiply", at.value, self.w.full(scale, I64, self.shape))
        more = self.w.broadcast(self.w.size(offset), (), self.shape)
        return Position(self.w.same("add", scaled, more))

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        """at + by."""
        assert isinstance(at, Position)
        return Position(self.w.same("add", at.value, self.of(by)))

    def plus(self, a: Ix, b: Ix) -> Ix:
        """a + b."""
        assert isinstance(a, Position)
        assert isinstance(b, Position)
        return Position(self.w.same("add", a.value, b.value))

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
        """StableHLO has no run-time errors: what follows one is not said."""

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        """The element of another tensor."""
        x = self.w.of(tensor)
        places = [p for p in at if isinstance(p, Position)]
        if x.shape == self.shape and [p.axis for p in places] == list(range(len(at))):
            return self.stands(x)
        if not at:
            return self.stands(self.w.broadcast(x, (), self.shape))
        one, rank = Dim.const(1), len(self.shape)
        parts = [self.w.reshape(p.value, (*self.shape, one)) for p in places]
        indices = self.w.emit(
            "concatenate",
            parts,
            I64,
            (*self.shape, Dim.const(len(at))),
            f"dimension = {rank} : i64",
        )
        axes = list(range(len(at)))
        said = (
            f"dimension_numbers = #stablehlo.gather<collapsed_slice_dims = {axes},"
            f" start_index_map = {axes}, index_vector_dim = {rank}>,"
            f" slice_sizes = {integers([1] * len(at))}"
        )
        return self.stands(self.w.emit("gather", [x, indices], x.dtype, self.shape, said))

    # what is made of several ----------------------------------------------------------------------

    def _bits(self, x: Value, dtype: DType) -> Value:
        if x.dtype is dtype:
            return x
        if x.dtype is BOOL or dtype is BOOL:
            return self.w.convert(x, dtype)
        return self.w.emit("bitcast_convert", [x], dtype, x.shape)

    def _number(self, value: float, like: Value) -> Value:
        return self.w.full(value, like.dtype, like.shape)

    def trunc(self, x: Value) -> Value:
        """Towards zero."""
        below = self.w.compare("LT", x, self._number(0.0, x))
        return self.w.same("select", below, self.w.same("ceil", x), self.w.same("floor", x))

    def copysign(self, x: Value, y: Value) -> Value:
        """x with the sign of y."""
        whole = x.dtype.unsigned
        top = 1 << 8 * whole.bytes - 1
        size, sign = self._bits(x, whole), self._bits(y, whole)
        size = self.w.same("and", size, self._number(top - 1, size))
        sign = self.w.same("and", sign, self._number(top, sign))
        return self._bits(self.w.same("or", size, sign), x.dtype)

    def exp2(self, x: Value) -> Value:
        """2 to the power of x."""
        return self.w.same("power", self._number(2.0, x), x)

    def log2(self, x: Value) -> Value:
        """The logarithm to the base 2."""
        return self._log_to(x, 2.0)

    def log10(self, x: Value) -> Value:
        """The logarithm to the base 10."""
        return self._log_to(x, 10.0)

    def _log_to(self, x: Value, base: float) -> Value:
        return self.w.same("divide", self.w.same("log", x), self._number(float(np.log(base)), x))

    def hypot(self, x: Value, y: Value) -> Value:
        """By the larger one, so that no square overflows."""
        a, b = self.w.same("abs", x), self.w.same("abs", y)
        large, small = self.w.same("maximum", a, b), self.w.same("minimum", a, b)
        rest = self.w.same("divide", small, large)
        one = self._number(1.0, x)
        root = self.w.same("sqrt", self.w.same("add", one, self.w.same("multiply", rest, rest)))
        whole = self.w.same("multiply", large, root)
        none = self.w.compare("EQ", large, self._number(0.0, x))
        whole = self.w.same("select", none, large, whole)
        infinity = self._number(float("inf"), x)
        either = self.w.same(
            "or", self.w.compare("EQ", a, infinity), self.w.compare("EQ", b, infinity)
        )
        return self.w.same("select", either, infinity, whole)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, rounded twice."""
        return self.w.same("add", self.w.same("multiply", x, y), z)


_COMPOSED: Mapping[str, Callable[..., Value]] = {
    "math.trunc": Elements.trunc, "math.copysign": Elements.copysign, "math.exp2": Elements.exp2,
    "math.log2": Elements.log2, "math.log10": Elements.log10, "math.fma": Elements.fma,
    "mlc_math.hypot": Elements.hypot,
}  # fmt: skip
"""Ops of one element -> what is made of several of StableHLO."""
