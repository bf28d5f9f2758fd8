"""What ops without effects compute for a warp: arrays whose first axis is the lane."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation

from mlc.dialects.dtypes import dtype_of
from mlc.dialects.lanes import element_of, lanes_of
from mlc.dialects.target.fused import fused

Array = NDArray[Any]
WARP = 32
FAR = 1e-250
INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOATS = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
)  # fmt: skip
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def numpy_of(kind: Attribute) -> np.dtype[Any]:
    """Of an element in a register."""
    if isinstance(kind, IndexType):
        return np.dtype(np.int64)
    if isinstance(kind, IntegerType):
        width = kind.bitwidth
        return np.dtype(np.bool_) if width == 1 else np.dtype(f"i{width // 8}")
    return dtype_of(kind).numpy


def shape_of(kind: Attribute) -> tuple[int, ...]:
    """Of a value of all lanes."""
    lanes = lanes_of(kind)
    return (WARP,) if lanes is None else (WARP, lanes)


def unsigned(x: Array) -> Array:
    """The same bits."""
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def compare_integers(name: str, x: Array, y: Array) -> Array:
    """One of `INTEGERS`."""
    if name in ("eq", "ne"):
        return COMPARED[name](x, y)
    if name[0] == "u":
        x, y = unsigned(x), unsigned(y)
    return COMPARED[name[1:]](x, y)


def compare_floats(name: str, x: Array, y: Array) -> Array:
    """One of `FLOATS`."""
    nan = np.isnan(x) | np.isnan(y)
    if name in ("false", "true"):
        return np.full(nan.shape, name == "true")
    if name in ("ord", "uno"):
        return nan if name == "uno" else ~nan
    found = COMPARED[name[1:]](x, y)
    return found | nan if name[0] == "u" else found & ~nan


def _predicate(op: Operation, names: tuple[str, ...]) -> str:
    given = op.properties["predicate"]
    if isinstance(given, IntegerAttr):
        return names[cast("IntegerAttr[Any]", given).value.data]
    return str(cast("Any", given).data)


def constant(op: Operation) -> Array:
    """arith.constant"""
    kind, value = op.results[0].type, op.properties["value"]
    wanted, lanes = numpy_of(element_of(kind)), lanes_of(kind)
    if isinstance(value, DenseIntOrFPElementsAttr):
        given = cast("DenseIntOrFPElementsAttr[Any]", value).get_values()
        elements = np.broadcast_to(np.array(given).astype(wanted), (lanes or 1,))
        return np.array(np.broadcast_to(elements, (WARP, lanes or 1)))
    number = cast("IntegerAttr[Any] | FloatAttr[Any]", value).value.data
    return np.full(shape_of(kind), number).astype(wanted)


def _shift(by: Callable[[Any, Any], Any], *, signed: bool) -> Callable[..., Any]:
    def run(_: Operation, x: Array, y: Array) -> Any:
        found = by(x if signed else unsigned(x), y if signed else unsigned(y))
        return found.view(x.dtype)

    return run


def _divide(_: Operation, x: Array, y: Array) -> Array:
    return (unsigned(x) // np.maximum(unsigned(y), 1)).view(x.dtype)


def _remainder(_: Operation, x: Array, y: Array) -> Array:
    return (unsigned(x) % np.maximum(unsigned(y), 1)).view(x.dtype)


def _maximum(_: Operation, x: Array, y: Array) -> Array:
    return np.maximum(x, y)


def _cast(op: Operation, x: Array) -> Array:
    """Any conversion of numbers; from unsigned ones where the op says so."""
    kind = str(cast("Any", op.properties["kind"]).data) if "kind" in op.properties else op.name
    wanted = numpy_of(element_of(op.results[0].type))
    if "extui" in kind or "uitofp" in kind:
        x = unsigned(x)
    if x.dtype == np.bool_ and ("extsi" in kind or "sitofp" in kind):
        return -x.astype(np.int8).astype(wanted)
    if ("fptosi" in kind or "fptoui" in kind) and x.dtype.kind not in "iub":
        limits = np.iinfo(wanted if "fptosi" in kind else f"u{wanted.itemsize}")
        wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.clip(wide, float(limits.min), np.nextafter(float(limits.max), 0))
        found = np.where(wide >= limits.max, limits.max, inside.astype(limits.dtype))
        return found.astype(limits.dtype).view(wanted)
    return x.astype(wanted)


def _bitcast(op: Operation, x: Array) -> Array:
    kind = op.results[0].type
    wanted = numpy_of(element_of(kind))
    return np.ascontiguousarray(x).view(wanted).reshape(shape_of(kind))


def _fma(_: Operation, x: Array, y: Array, z: Array) -> Array:
    """Rounded once."""
    if x.dtype.itemsize < 4:
        wide = np.float64
        return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(x.dtype)
    found = fused(x, y, z)
    if x.dtype == np.float64:  # whose product's parts may leave its range
        size = np.abs(x * y)
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
        for at in zip(*np.nonzero(finite & ~((size > FAR) & (size < 1 / FAR))), strict=True):
            exact = Fraction(float(x[at])) * Fraction(float(y[at])) + Fraction(float(z[at]))
            found[at] = _nearest(exact, float(found[at]))
    return found


def _nearest(exact: Fraction, otherwise: float) -> float:
    """As a float; too large for one, `otherwise`."""
    try:
        return float(exact) if exact else otherwise
    except OverflowError:
        return otherwise


def _select(_: Operation, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition if condition.ndim == x.ndim else condition[:, None], x, y)


def _vector_select(_: Operation, x: Array, y: Array, mask: Array) -> Array:
    return np.where(mask, x, y)


def _splat(op: Operation, x: Array) -> Array:
    return np.array(np.broadcast_to(x[:, None], shape_of(op.results[0].type)))


def _position(op: Operation) -> int:
    (place,) = cast("DenseArrayBase[Any]", op.properties["static_position"]).get_values()
    return int(place)


def _insert(op: Operation, x: Array, whole: Array) -> Array:
    found = whole.copy()
    found[:, _position(op)] = x
    return found


def _shuffle(op: Operation, x: Array, y: Array) -> Array:
    mask = cast("DenseArrayBase[Any]", op.properties["mask"]).get_values()
    return np.concatenate((x, y), axis=1)[:, [int(k) for k in mask]]


def _mask(op: Operation, count: Array) -> Array:
    lanes = lanes_of(op.results[0].type) or 1
    return np.arange(lanes) < count[:, None]


def _step(op: Operation) -> Array:
    kind = op.results[0].type
    return np.broadcast_to(
        np.arange(lanes_of(kind) or 1, dtype=numpy_of(element_of(kind))), shape_of(kind)
    )


def _exp2(_: Operation, x: Array) -> Array:
    found = np.exp2(x)
    return np.where(found < np.finfo(np.float32).tiny, np.float32(0), found)


def _saturate(_: Operation, x: Array) -> Array:
    return np.clip(np.where(np.isnan(x), x.dtype.type(0), x), 0, 1).astype(x.dtype)


def _reciprocal(_: Operation, x: Array) -> Array:
    return (1 / x).astype(x.dtype)


def _narrowed(op: Operation, x: Array) -> Array:
    """To 16 bits once: NumPy's way from f64 to bf16 goes through f32."""
    kind = element_of(op.results[0].type)
    wide = x.astype(np.float32) if isinstance(kind, BFloat16Type) else x
    return wide.astype(numpy_of(kind))


def _part(op: Operation, x: Array) -> Array:
    which = str(cast("Any", op.properties["which"]).data)
    return np.ascontiguousarray(np.real(x) if which == "real" else np.imag(x))


def _paired(op: Operation, x: Array, y: Array) -> Array:
    kind = numpy_of(element_of(op.results[0].type))
    return np.stack((x, y), axis=-1).view(kind)[..., 0]


_ACROSS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "or": np.bitwise_or, "and": np.bitwise_and,
    "xor": np.bitwise_xor, "minsi": np.minimum, "maxsi": np.maximum, "minimumf": np.minimum,
    "maximumf": np.maximum,
}  # fmt: skip


def _across(op: Operation, x: Array, *begin: Array) -> Array:
    """All lanes of a vector as one, in turn."""
    function = _ACROSS[str(cast("Any", op.properties["kind"]).data)]
    found = function.reduce(x, axis=1)
    return function(found, begin[0]) if begin else found


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    def run(_: Operation, *x: Array) -> Array:
        return function(*x)

    return run


def _bits(function: Callable[..., Any]) -> Callable[..., Array]:
    def run(_: Operation, x: Array, y: Array) -> Array:
        return function(unsigned(x), unsigned(y)).view(x.dtype)

    return run


def _divide_signed(x: Array, y: Array) -> Array:
    """Towards 0."""
    safe = np.where(y == 0, np.ones_like(y), y)
    found, rest = np.divmod(x, safe)
    return found + ((rest != 0) & ((x < 0) != (safe < 0)))


def _rest_signed(x: Array, y: Array) -> Array:
    """With the dividend's sign."""
    return np.fmod(x, np.where(y == 0, np.ones_like(y), y))


def _compare_integers(op: Operation, x: Array, y: Array) -> Array:
    return compare_integers(_predicate(op, INTEGERS), x, y)


def _compare_floats(op: Operation, x: Array, y: Array) -> Array:
    return compare_floats(_predicate(op, FLOATS), x, y)


def _extract(op: Operation, x: Array) -> Array:
    return x[:, _position(op)]


RULES: dict[str, Callable[..., Any]] = {
    **{f"arith.{name}": _plain(f) for names, f in (
        (("addf", "addi"), np.add), (("subf", "subi"), np.subtract),
        (("mulf", "muli"), np.multiply),
        (("divf",), np.divide), (("andi",), np.bitwise_and), (("ori",), np.bitwise_or),
        (("xori",), np.bitwise_xor), (("maxsi",), np.maximum), (("minsi",), np.minimum),
        (("minimumf",), np.minimum), (("negf",), np.negative), (("remf",), np.fmod),
        (("maxnumf",), np.fmax), (("minnumf",), np.fmin),
    ) for name in names},
    **{f"math.{name}": _plain(f) for name, f in (
        ("absf", np.abs), ("copysign", np.copysign), ("sqrt", np.sqrt), ("floor", np.floor),
        ("ceil", np.ceil), ("trunc", np.trunc), ("roundeven", np.rint), ("absi", np.abs),
    )},
    "arith.maxui": _bits(np.maximum),
    "arith.minui": _bits(np.minimum),
    "arith.maximumf": _maximum,
    "arith.constant": constant,
    "arith.divui": _divide, "arith.divsi": _plain(_divide_signed),
    "arith.remsi": _plain(_rest_signed),
    "arith.remui": _remainder,
    "arith.shli": _shift(np.left_shift, signed=False),
    "arith.shrui": _shift(np.right_shift, signed=False),
    "arith.shrsi": _shift(np.right_shift, signed=True),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "mlc_vec.cmpi": _compare_integers,
    "mlc_vec.cmpf": _compare_floats,
    "arith.select": _select, "mlc_vec.select": _vector_select,
    **dict.fromkeys(
        [*(f"arith.{x}" for x in (
            "index_cast", "index_castui", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi",
            "fptoui", "extf")), "mlc_vec.cast"], _cast,
    ),
    "arith.truncf": _narrowed, "arith.bitcast": _bitcast, "vector.bitcast": _bitcast,
    "math.fma": _fma,
    "vector.broadcast": _splat,
    "mlc_vec.part": _part, "mlc_vec.pair": _paired, "vector.reduction": _across,
    "vector.extract": _extract,
    "vector.insert": _insert, "vector.shuffle": _shuffle, "vector.create_mask": _mask,
    "mlc_vec.step": _step,
    "mlc_math.exp2_estimate": _exp2, "mlc_math.saturate": _saturate,
    "mlc_math.reciprocal_estimate": _reciprocal,
}  # fmt: skip
"""By an op's name; of (op, the operands of all lanes)."""
