"""Every op of arith, and the math ops with an instruction, as a scalar and as a vector kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlc.lowering.emit import known_ops
from tests.emitted import CallContext, kernel

Array = np.ndarray[Any, Any]
NUMPY: dict[str, type[Any]] = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "i8": np.int8,
}
SHAPES = ("scalar", "vector")

INTEGERS = {
    "i32": [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345, -54321, 3, 2, -2, 100, 31, 5, -6],
    "i64": [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 12345, -54321, 3, 2, -2, 100, 31, 5, -6],
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-40, 1e-8]
FLOATS = [*SPECIAL, 1.0, -1.5, 2.5, 3.5, -2.5, 7.0, -7.9, 9.99]


def run(dtypes: list[str], line: str, arrays: list[Array], *, vector: bool) -> Array:
    """
    Applies `line`, MLIR with operands %a, %b, %c and result %r, to 16 elements. dtypes: of each
    operand, then of the result.
    """
    *operands, result = dtypes

    def shape(dtype: str) -> str:
        return f"vector<16x{dtype}>" if vector else dtype

    parameters = ", ".join(f"%{n}p: memref<?x{t}>" for n, t in zip("abc", operands, strict=False))
    loads: list[str] = []
    for name, dtype in zip("abc", operands, strict=False):
        memory = f"memref<?x{dtype}>"
        if vector:
            loads.append(f"%{name} = vector.load %{name}p[%i] : {memory}, {shape(dtype)}")
        else:
            loads.append(f"%{name} = memref.load %{name}p[%i] : {memory}")
    store = (
        f"vector.store %r, %out[%i] : memref<?x{result}>, {shape(result)}"
        if vector
        else f"memref.store %r, %out[%i] : memref<?x{result}>"
    )
    for name, dtype in zip(("A", "B", "C"), operands, strict=False):
        line = line.replace(f"${name}", shape(dtype))
    line = line.replace("$R", shape(result)).replace("$M", shape("i1"))
    text = f"""
    func.func @k({parameters}, %out: memref<?x{result}> {{mlc.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %step = arith.constant {16 if vector else 1} : index
      scf.for %i = %c0 to %c16 step %step {{
        {chr(10).join(loads)}
        {line}
        {store}
      }}
      return
    }}"""
    out = np.zeros(16, NUMPY[result])
    kernel(text)(*arrays, out)
    return out


def same(got: Array, expected: Array) -> None:
    """Equal bit for bit, NaN equal to NaN."""
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected), str(got))


def integers(dtype: str) -> Array:
    return np.array(INTEGERS[dtype], NUMPY[dtype])


def floats(dtype: str) -> Array:
    return np.array(FLOATS).astype(NUMPY[dtype])


def unsigned(a: Array) -> Array:
    return a.view({4: np.uint32, 8: np.uint64}[a.itemsize])


def _signed_like(a: Array, b: Array) -> Array:
    return b.astype(unsigned(a).dtype).view(a.dtype)


BINARY_INTEGER: dict[str, Callable[[Array, Array], Array]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": lambda a, b: _signed_like(a, np.minimum(unsigned(a), unsigned(b))),
    "maxui": lambda a, b: _signed_like(a, np.maximum(unsigned(a), unsigned(b))),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_binary_integer(name: str, dtype: str, shape: str) -> None:
    a, b = integers(dtype), integers(dtype)[::-1].copy()
    got = run([dtype] * 3, f"%r = arith.{name} %a, %b : $A", [a, b], vector=shape == "vector")
    with np.errstate(over="ignore"):
        same(got, BINARY_INTEGER[name](a, b))


DIVISIONS: dict[str, Callable[[Array, Array], Array]] = {
    "divsi": lambda a, b: np.trunc(a / b).astype(a.dtype),
    "remsi": np.fmod,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: _signed_like(a, unsigned(a) // unsigned(b)),
    "remui": lambda a, b: _signed_like(a, unsigned(a) % unsigned(b)),
    "ceildivui": lambda a, b: _signed_like(
        a, unsigned(a) // unsigned(b) + (unsigned(a) % unsigned(b) != 0)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division(name: str, shape: str) -> None:
    a = np.array([0, 1, -1, 7, -7, 8, -8, 12345, -54321, 3, 2, -2, 100, 31, 5, -6], np.int32)
    b = np.array([3, -2, 2, 2, 2, -4, 4, -10, 7, 3, -3, 1, -1, 32, 9, 4], np.int32)
    got = run(["i32"] * 3, f"%r = arith.{name} %a, %b : $A", [a, b], vector=shape == "vector")
    same(got, DIVISIONS[name](a, b))


SHIFTS: dict[str, Callable[[Array, Array], Array]] = {
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
    "shrui": lambda a, b: _signed_like(a, unsigned(a) >> unsigned(b)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SHIFTS)
def test_shift(name: str, shape: str) -> None:
    a = integers("i32")
    b = (np.arange(16) * 2 + 1).astype(np.int32)
    got = run(["i32"] * 3, f"%r = arith.{name} %a, %b : $A", [a, b], vector=shape == "vector")
    same(got, SHIFTS[name](a, b))


def _propagate(pick: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """minimum and maximum in which -0 < +0, whatever NumPy picks."""

    def function(a: Array, b: Array) -> Array:
        value = pick(a, b)
        both_zero = (a == 0) & (b == 0)
        negative = (
            np.signbit(a) | np.signbit(b) if pick is np.minimum else np.signbit(a) & np.signbit(b)
        )
        return np.where(both_zero, np.where(negative, -0.0, 0.0), value).astype(a.dtype)

    return function


BINARY_FLOAT: dict[str, Callable[[Array, Array], Array]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b,
    "maximumf": _propagate(np.maximum),
    "minimumf": _propagate(np.minimum),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_binary_float(name: str, dtype: str, shape: str) -> None:
    a, b = floats(dtype), np.roll(floats(dtype), 1)
    got = run([dtype] * 3, f"%r = arith.{name} %a, %b : $A", [a, b], vector=shape == "vector")
    with np.errstate(all="ignore"):
        expected = BINARY_FLOAT[name](a, b)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["maxnumf", "minnumf"])
def test_extremum_that_ignores_nan(name: str, shape: str) -> None:
    a, b = floats("f32"), np.roll(floats("f32"), 3)
    got = run(["f32"] * 3, f"%r = arith.{name} %a, %b : $A", [a, b], vector=shape == "vector")
    np.testing.assert_array_equal(got, (np.fmax if name == "maxnumf" else np.fmin)(a, b))


PREDICATES: dict[str, Callable[[Array, Array], Array]] = {
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_compare_and_select(predicate: str, shape: str) -> None:
    vector = shape == "vector"
    is_float = predicate[0] in "ou"
    dtype = "f32" if is_float else "i32"
    values = floats("f32") if is_float else integers("i32")
    a, b = values, np.roll(values, 5)
    dialect = "mlc_vec" if vector else "arith"
    line = f"""%m = {dialect}.cmp{"f" if is_float else "i"} {predicate}, %a, %b : $A
        %r = {dialect}.select %m, %a, %b : $A"""
    got = run([dtype] * 3, line, [a, b], vector=vector)
    np.testing.assert_array_equal(got, np.where(PREDICATES[predicate](a, b), a, b))


def _saturated(a: Array, target: type[np.signedinteger[Any]]) -> Array:
    limits = np.iinfo(target)
    exact = [0 if np.isnan(x) else max(limits.min, min(limits.max, int(x))) if np.isfinite(x)
             else (limits.max if x > 0 else limits.min) for x in a.tolist()]  # fmt: skip
    return np.array(exact, target)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", ["i8", "i32", "i64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_int_saturates(source: str, target: str, shape: str) -> None:
    vector = shape == "vector"
    a = floats(source)
    a[:6] = [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 126.9, -129.0]
    cast = "mlc_vec.cast fptosi" if vector else "arith.fptosi"
    got = run([source, target], f"%r = {cast} %a : $A to $R", [a], vector=vector)
    same(got, _saturated(a, NUMPY[target]))


@pytest.mark.parametrize("shape", SHAPES)
def test_float_to_unsigned_saturates(shape: str) -> None:
    vector = shape == "vector"
    a = floats("f32")
    cast = "mlc_vec.cast fptoui" if vector else "arith.fptoui"
    got = run(["f32", "i32"], f"%r = {cast} %a : $A to $R", [a], vector=vector)
    wide = np.where(np.isnan(a), 0, np.clip(a.astype(np.float64), 0, 2.0**32 - 1))
    same(got, wide.astype(np.uint32).view(np.int32))


CASTS = [
    ("extsi", "i32", "i64"),
    ("extui", "i32", "i64"),
    ("trunci", "i64", "i32"),
    ("trunci", "i32", "i8"),
    ("sitofp", "i32", "f32"),
    ("sitofp", "i64", "f64"),
    ("uitofp", "i32", "f32"),
    ("extf", "f32", "f64"),
    ("truncf", "f64", "f32"),
    ("bitcast", "f32", "i32"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "source", "target"), CASTS)
def test_cast(name: str, source: str, target: str, shape: str) -> None:
    vector = shape == "vector"
    values = floats(source) if source[0] == "f" else integers(source)
    own = vector and name not in ("extf", "truncf", "bitcast")
    cast = f"mlc_vec.cast {name}" if own else f"arith.{name}"
    got = run([source, target], f"%r = {cast} %a : $A to $R", [values], vector=vector)
    read = unsigned(values) if name in ("extui", "uitofp") else values
    with np.errstate(all="ignore"):
        expected = read.view(NUMPY[target]) if name == "bitcast" else read.astype(NUMPY[target])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_index_cast_and_extended_multiplication(shape: str) -> None:
    a, b = integers("i32"), integers("i32")[::-1].copy()
    vector = shape == "vector"
    cast = "mlc_vec.cast index_cast" if vector else "arith.index_cast"
    index = "vector<16xindex>" if vector else "index"
    line = f"%j = {cast} %a : $A to {index}\n%r = {cast} %j : {index} to $R"
    same(run(["i32", "i32"], line, [a], vector=vector), a)
    high = (a.astype(np.int64) * b.astype(np.int64)) >> 32
    line = "%l, %r = arith.mulsi_extended %a, %b : $A"
    same(run(["i32"] * 3, line, [a, b], vector=vector), high.astype(np.int32))
    carry = (unsigned(a).astype(np.uint64) + unsigned(b)) >> np.uint64(32)
    one = "mlc_vec.cast extui" if vector else "arith.extui"
    line = f"%s, %o = arith.addui_extended %a, %b : $A, $M\n%r = {one} %o : $M to $R"
    same(run(["i32"] * 3, line, [a, b], vector=vector), carry.astype(np.int32))
    high = (unsigned(a).astype(np.uint64) * unsigned(b)) >> np.uint64(32)
    line = "%l, %r = arith.mului_extended %a, %b : $A"
    same(run(["i32"] * 3, line, [a, b], vector=vector), high.astype(np.uint32).view(np.int32))


UNARY_MATH: dict[str, Callable[[Array], Array]] = {
    "absf": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY_MATH)
def test_unary_math(name: str, dtype: str, shape: str) -> None:
    a = floats(dtype)
    got = run([dtype, dtype], f"%r = math.{name} %a : $A", [a], vector=shape == "vector")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, UNARY_MATH[name](a))


@pytest.mark.parametrize("shape", SHAPES)
def test_other_math(shape: str) -> None:
    vector = shape == "vector"
    a, b = floats("f32"), np.roll(floats("f32"), 2)
    signed = run(["f32"] * 3, "%r = math.copysign %a, %b : $A", [a, b], vector=vector)
    same(signed, np.copysign(a, b))
    got = run(["f32", "f32"], "%r = arith.negf %a : $A", [a], vector=vector)
    np.testing.assert_array_equal(np.signbit(got), ~np.signbit(a))
    c = np.full(16, 1.25, np.float32)
    with np.errstate(all="ignore"):
        fused = (a.astype(np.float64) * b + c).astype(np.float32)
    got = run(["f32"] * 4, "%r = math.fma %a, %b, %c : $A", [a, b, c], vector=vector)
    np.testing.assert_array_equal(got, fused)
    i = integers("i32")
    ones = np.array([bin(int(x)).count("1") for x in unsigned(i)], np.int32)
    same(run(["i32", "i32"], "%r = math.ctpop %a : $A", [i], vector=vector), ones)
    with np.errstate(over="ignore"):
        same(run(["i32", "i32"], "%r = math.absi %a : $A", [i], vector=vector), np.abs(i))


def test_no_signed_max_with_zero_flag_keeps_nan() -> None:
    a, b = floats("f32"), np.roll(floats("f32"), 1)
    line = "%r = arith.maximumf %a, %b fastmath<nsz> : $A"
    np.testing.assert_array_equal(run(["f32"] * 3, line, [a, b], vector=True), np.maximum(a, b))


def test_all_arith_ops_have_a_rule() -> None:
    from xdsl.dialects.arith import Arith

    missing = [op.name for op in Arith.operations if op not in known_ops()]
    assert missing == []


def test_context_is_a_pointer() -> None:
    text = """
    func.func @k(%ctx: !mlc_par.ctx, %out: memref<?xi64>) {
      %c0 = arith.constant 0 : index
      %n = mlc_par.threads %ctx : index
      %v = arith.index_cast %n : index to i64
      memref.store %v, %out[%c0] : memref<?xi64>
      return
    }"""
    out = np.zeros(1, np.int64)
    kernel(text)(CallContext(threads=5), out)
    assert out[0] == 5
