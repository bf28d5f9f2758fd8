# pyright: basic
"""`stablehlo.rng`: numbers of their interval, others each time, the same ones from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.programs import open_program
from tests.c_programs import CProgram, called, compiler, here

F = np.float32
LOW, HIGH = F(1), F(3)
DRAW = """%{0} = stablehlo.rng %a, %b, %shape, distribution = {1} :
  (tensor<{2}>, tensor<{2}>, tensor<{4}xi64>) -> tensor<{3}{2}>"""


def drawn(kind: str, distribution: str = "UNIFORM", count: int = 4000) -> Any:
    """A function of both ends, or of mean and deviation."""
    draw = DRAW.format(0, distribution, kind, f"{count}x", 1)
    return mlc.stablehlo.load(
        f"func.func public @main(%a: tensor<{kind}>, %b: tensor<{kind}>)"
        f" -> tensor<{count}x{kind}> {{"
        f"%shape = stablehlo.constant dense<{count}> : tensor<1xi64>\n{draw}\n"
        f"return %0 : tensor<{count}x{kind}>}}"
    )


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": F, "f64": np.float64}


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_of_an_interval(kind: str) -> None:
    dtype = FLOATS[kind]
    for low, high in ((1, 2), (-3, 0.5)):
        found = drawn(kind)(dtype(low), dtype(high))
        assert found.dtype == dtype
        assert (found >= dtype(low)).all()
        assert (found < dtype(high)).all()
        unit = np.sort((found.astype(np.float64) - low) / (high - low))
        # Kolmogorov and Smirnov: 1.95 / sqrt(n) is passed once in a thousand; bf16 has wide steps
        even = (np.arange(len(unit)) + 0.5) / len(unit)
        assert np.abs(unit - even).max() < 1.95 / len(unit) ** 0.5 + 2 ** -(
            7 if kind == "bf16" else 10
        )
    least = np.finfo(F).max if kind == "f32" else None
    if least is not None:  # a span that f32 does not hold
        found = drawn(kind)(-least, least)
        assert np.isfinite(found).all()
        assert found.min() < -least / 2 < least / 2 < found.max()


@pytest.mark.parametrize("kind", FLOATS)
def test_normal_numbers(kind: str) -> None:
    found = drawn(kind, "NORMAL")(FLOATS[kind](3), FLOATS[kind](0.5)).astype(np.float64)
    assert abs(found.mean() - 3) < 0.03
    assert abs(found.std() - 0.5) < 0.03
    assert abs((found > 3.5).mean() - 0.1587) < 0.03  # of the normal distribution


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("i8", np.int8(-3), np.int8(4)), ("ui8", np.uint8(250), np.uint8(255)),
        ("i32", np.int32(-2), np.int32(5)), ("i64", np.int64(-(2**63)), np.int64(-(2**63) + 4)),
        ("ui64", np.uint64(2**64 - 5), np.uint64(2**64 - 1)), ("i32", np.int32(5), np.int32(6)),
        ("i1", np.bool_(False), np.bool_(True)),
    ],
)  # fmt: skip
def test_integers_of_an_interval(kind: str, low: Any, high: Any) -> None:
    found = drawn(kind)(low, high)
    assert found.dtype == low.dtype
    places, counts = np.unique(found, return_counts=True)
    assert places.tolist() == list(range(int(low), int(high)))  # all, and so without the end
    assert counts.min() > 0.8 * len(found) / len(places)


def test_integers_of_the_whole_range() -> None:
    ends = np.iinfo(np.int32)
    found = drawn("i32")(np.int32(ends.min), np.int32(ends.max)).astype(np.float64)
    assert found.min() < 0.99 * ends.min
    assert found.max() > 0.99 * ends.max


TWO = """module @two {
func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
%shape = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
""" + DRAW.format(0, "UNIFORM", "f32", "3x4x", 2) + """
%1 = "stablehlo.rng"(%a, %b, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} :
  (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<3x4xf32>
return %0, %1 : tensor<3x4xf32>, tensor<3x4xf32>
}}"""  # fmt: skip


def same(x: Any, y: Any) -> bool:
    return all((a == b).all() for a, b in zip(x, y, strict=True))


def test_other_numbers_for_each_op_and_call_and_the_same_from_a_seed() -> None:
    f = mlc.stablehlo.load(TWO)
    calls = [f(LOW, HIGH) for _ in range(3)]
    assert len(np.unique(np.array(calls))) == 3 * 2 * 12
    f.seed(0)
    assert all(same(f(LOW, HIGH), call) for call in calls)
    assert same(mlc.stablehlo.load(TWO, seed=0)(LOW, HIGH), calls[0])
    other = mlc.stablehlo.load(TWO, seed=1)(LOW, HIGH)
    assert not same(other, calls[0])
    f.seed(1)
    assert same(f(LOW, HIGH), other)


def test_in_traced_functions_as_called_one_by_one() -> None:
    f = mlc.stablehlo.load(TWO)
    calls = [f(LOW, HIGH)[0] for _ in range(45)]

    @mlc.compile
    def both(low: Any, high: Any) -> Any:
        return f(low, high)[0], f(low, high)[0]

    @mlc.compile
    def forty(low: Any, high: Any) -> Any:
        found = np.zeros((40, 3, 4), F)
        for k in range(40):
            found[k] = f(low, high)[0]
        return found

    @mlc.compile
    def perhaps(low: Any, high: Any, which: Any) -> Any:
        return f(low, high)[0] if which else np.zeros((3, 4), F)

    for _ in range(2):
        f.seed(0)
        assert same(both(LOW, HIGH), calls[:2])
        assert not perhaps(LOW, HIGH, np.bool_(False)).any()
        assert same(perhaps(LOW, HIGH, np.bool_(True)), calls[2])
        assert same(forty(LOW, HIGH), calls[3:43])
        assert same(f(LOW, HIGH)[0], calls[43])


def test_derivatives_go_through_both_ends() -> None:
    f = mlc.stablehlo.load(TWO)
    unit = (f(LOW, HIGH)[0] - LOW) / (HIGH - LOW)
    slopes = mlc.grad(lambda low, high: f(low, high)[0].sum(), argnums=(0, 1))
    for _ in range(2):
        f.seed(0)
        np.testing.assert_allclose(slopes(LOW, HIGH), [(1 - unit).sum(), unit.sum()], rtol=1e-5)
    assert not np.allclose(slopes(LOW, HIGH)[1], unit.sum())  # of the next numbers
    g, key = drawn("f32", "NORMAL", 5), mlc.random.key(1)
    given = g(F(0), F(1), key=key)
    found = mlc.grad(lambda x: g(F(0), x, key=key).sum())(F(2))
    np.testing.assert_allclose(found, given.sum(), rtol=1e-5)


def test_keys_make_functions_of_it() -> None:
    f = mlc.stablehlo.load(TWO)
    keys = mlc.random.split(mlc.random.key(7), 5)
    first = f(LOW, HIGH, key=keys[0])
    assert same(f(LOW, HIGH, key=keys[0]), first)
    assert not same(f(LOW, HIGH, key=keys[1]), first)
    assert same(f.compiled()(LOW, HIGH, keys[0]), first)
    batch = mlc.vmap(lambda key: f(LOW, HIGH, key=key)[0])(keys)
    assert same(batch, [f(LOW, HIGH, key=key)[0] for key in keys])
    with pytest.raises(mlc.DTypeError, match=r"main: key is 3; expected one of mlc.random"):
        f(LOW, HIGH, key=3)
    plain = mlc.stablehlo.load(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {return %a : tensor<f32>}"
    )
    with pytest.raises(TypeError, match="main draws no numbers"):
        plain(LOW, key=keys[0])


def test_where_all_would_have_the_same_numbers_is_an_error() -> None:
    f = mlc.stablehlo.load(TWO)
    with pytest.raises(mlc.NotSupportedError, match=r"vmap of main(.|\n)*Give each a key"):
        mlc.vmap(lambda low: f(low, HIGH)[0])(np.zeros(3, F))
    with pytest.raises(mlc.NotSupportedError, match="a number drawn, in a function"):
        mlc.compile(
            lambda: mlc.fori_loop(0, 3, lambda _, x: x + f(LOW, HIGH)[0], np.zeros((3, 4), F))
        )()
    draw = DRAW.format(0, "UNIFORM", "f32", "", 0)
    mapped = mlc.stablehlo.load(
        f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
        %m = "stablehlo.map"(%a) ({{ ^bb0(%a_: tensor<f32>):
        %shape = stablehlo.constant dense<> : tensor<0xi64>
        {draw.replace("%a,", "%a_,").replace("%b", "%a_")}
        stablehlo.return %0 : tensor<f32> }}) {{dimensions = array<i64: 0>}}
        : (tensor<4xf32>) -> tensor<4xf32>
        return %m : tensor<4xf32>}}"""
    )
    with pytest.raises(mlc.NotSupportedError, match="rng in a function of single elements"):
        mapped(np.zeros(4, F))


@pytest.mark.parametrize(
    ("kind", "distribution"), [("i32", "NORMAL"), ("f8E5M2", "UNIFORM"), ("f32", "POISSON")]
)
def test_what_the_specification_has_not_is_refused(kind: str, distribution: str) -> None:
    with pytest.raises(mlc.MlcError, match=rf"line 2: rng .*{kind}, {distribution}|POISSON; expec"):
        drawn(kind, distribution).lower()


TRIPS = """module @trips {
func.func public @main(%n: tensor<i32>) -> tensor<8x2xf32> {
%zero = stablehlo.constant dense<0> : tensor<i32>
%one = stablehlo.constant dense<1> : tensor<i32>
%a = stablehlo.constant dense<0.0> : tensor<f32>
%b = stablehlo.constant dense<1.0> : tensor<f32>
%none = stablehlo.constant dense<-1.0> : tensor<8x2xf32>
%r:2 = stablehlo.while(%i = %zero, %x = %none) : tensor<i32>, tensor<8x2xf32>
cond {
  %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
} do {
  %even = stablehlo.and %i, %one : tensor<i32>
  %row = "stablehlo.case"(%even) ({
    %d = func.call @draw(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<1x2xf32>
    stablehlo.return %d : tensor<1x2xf32>
  }, {
    %d = func.call @draw(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<1x2xf32>
    stablehlo.return %d : tensor<1x2xf32>
  }) : (tensor<i32>) -> tensor<1x2xf32>
  %y = stablehlo.dynamic_update_slice %x, %row, %i, %zero
    : (tensor<8x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
  %j = stablehlo.add %i, %one : tensor<i32>
  stablehlo.return %j, %y : tensor<i32>, tensor<8x2xf32>
}
return %r#1 : tensor<8x2xf32>
}
func.func private @draw(%a: tensor<f32>, %b: tensor<f32>) -> tensor<1x2xf32> {
%shape = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
""" + DRAW.format(0, "UNIFORM", "f32", "1x2x", 2) + """
return %0 : tensor<1x2xf32>
}}"""  # fmt: skip


def test_trips_of_a_loop_draw_others() -> None:
    f = mlc.stablehlo.load(TRIPS)
    first, second = f(np.int32(8)), f(np.int32(5))
    assert len(np.unique(first)) == 16
    assert (second[5:] == -1).all()
    assert len(np.unique([first[:5], second[:5]])) == 20


OPEN = """func.func public @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
%a = stablehlo.constant dense<0.0> : tensor<f32>
%b = stablehlo.constant dense<1.0> : tensor<f32>
%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
%n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
%three = stablehlo.constant dense<3> : tensor<1xi32>
%shape = stablehlo.concatenate %n1, %three, dim = 0
  : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
%0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM
  : (tensor<f32>, tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
return %0 : tensor<?x3xf32>
}"""


def test_shapes_that_operands_say() -> None:
    f, key = mlc.stablehlo.load(OPEN), mlc.random.key(3)
    shapes = [f(np.zeros((n, 3), F), key=key).shape for n in (2, 0, 50)]
    assert shapes == [(2, 3), (0, 3), (50, 3)]
    assert len(f.stats().artifacts) == 1


def test_in_files_the_key_is_the_last_argument(tmp_path: Path) -> None:
    f, x, key = mlc.stablehlo.load(OPEN), np.zeros((4, 3), F), np.asarray(mlc.random.key(3))
    f.lower().compile().save(tmp_path / "open.mlc")
    assert same(mlc.load(tmp_path / "open.mlc")(x, key), f(x, key=key))


@here
@compiler
def test_in_c_the_key_is_the_last_argument(tmp_path: Path) -> None:
    (tmp_path / "trips.mlir").write_text(TRIPS)
    opened = open_program(str(tmp_path / "trips.mlir"), None, {"target": "avx2"})
    count, keys = np.int32(8), [np.asarray(mlc.random.key(k)) for k in (1, 1, 2)]
    made = CProgram(opened.levels, captured=opened.captured, weights="freeze")
    assert "key: uint64_t, read" in made.written("header", "trips.h").decode()
    found = [called(made, [np.asarray(count), key], tmp_path)[0] for key in keys]
    assert same(found[0], found[1])
    assert not same(found[1], found[2])
    assert same(found[0], mlc.stablehlo.load(TRIPS)(count, key=keys[0]))
