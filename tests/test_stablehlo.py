# pyright: basic
"""StableHLO text as functions: both forms of it, every family of ops, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.importers.stablehlo.reader import read

rng = np.random.default_rng(0)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def one(body: str, inputs: str, output: str) -> Any:
    """A module of one function, whose last line gives its result."""
    arguments = ", ".join(
        f"%{k}: {kind}" for k, kind in zip("abcd", inputs.split("; "), strict=False)
    )
    return mlc.stablehlo.load(
        f"module @m {{\n  func.func public @main({arguments}) -> {output} {{\n{body}\n  }}\n}}"
    )


X, V = "tensor<4x6xf32>", "tensor<6xf32>"


def padded(x: Any) -> Any:
    whole = np.full((10, 1), -np.inf, np.float32)
    whole[1::2, 0] = x[:, 1]
    return whole


def added(x: Any, u: Any) -> Any:
    found = x.copy()
    found[2] += u[0]
    found[2] += u[2]
    return found


def pooled(x: Any) -> Any:
    wide = np.pad(x, ((0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (2, 3))[:, ::2]
    return np.maximum(windows.max((2, 3)), 0)


def convolved(x: Any, w: Any) -> Any:
    wide = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))[:, :, ::2]
    return np.einsum("byxcij,ijcf->byxf", windows, w)


def folded(x: Any) -> Any:
    best = x.max(1)
    return best, np.where(x == best[:, None], np.arange(6), 6).min(1).astype(np.int32)


CASES: dict[str, tuple[str, str, str, Any, list[Any]]] = {
    "pretty": (
        "%0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>\n"
        "%1 = stablehlo.add %a, %0 : tensor<4x6xf32> loc(#loc1)\n"
        "%2 = stablehlo.tanh %1 : tensor<4x6xf32>\nreturn %2 : tensor<4x6xf32>",
        f"{X}; {V}", X, lambda x, v: np.tanh(x + v), [f32(4, 6), f32(6)],
    ),
    "generic": (
        '%0 = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}>'
        " : (tensor<6xf32>) -> tensor<4x6xf32>\n"
        '%1 = "stablehlo.compare"(%a, %0) <{comparison_direction = #stablehlo<comparison_direction'
        " LT>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>\n"
        '%2 = "stablehlo.select"(%1, %a, %0) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>)'
        ' -> tensor<4x6xf32>\n"func.return"(%2) : (tensor<4x6xf32>) -> ()',
        f"{X}; {V}", X, np.minimum, [f32(4, 6), f32(6)],
    ),
    "slices": (
        "%0 = stablehlo.slice %a [1:4:2, 0:5] : (tensor<4x6xf32>) -> tensor<2x5xf32>\n"
        "%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x5xf32>) -> tensor<5x2xf32>\n"
        "%2 = stablehlo.reverse %1, dims = [0] : tensor<5x2xf32>\n"
        "%c = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "%3 = stablehlo.pad %2, %c, low = [1, -1], high = [0, 0], interior = [1, 0]"
        " : (tensor<5x2xf32>, tensor<f32>) -> tensor<10x1xf32>\n"
        "%4 = stablehlo.concatenate %3, %3, dim = 1 : (tensor<10x1xf32>, tensor<10x1xf32>)"
        " -> tensor<10x2xf32>\nreturn %4 : tensor<10x2xf32>",
        X, "tensor<10x2xf32>",
        lambda x: np.concatenate([padded(x[1:4:2, :5].T[::-1])] * 2, 1), [f32(4, 6)],
    ),
    "applies": (
        "%c = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "%0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]"
        " : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>\nreturn %0 : tensor<6xf32>",
        X, V, lambda x: x.sum(0) + np.float32(1), [f32(4, 6)],
    ),
    "reducer": (
        "%n = stablehlo.iota dim = 1 : tensor<4x6xi32>\n"
        "%c = stablehlo.constant dense<-1.0> : tensor<f32>\n"
        "%d = stablehlo.constant dense<0> : tensor<i32>\n"
        "%0:2 = stablehlo.reduce(%a init: %c), (%n init: %d) across dimensions = [1]"
        " : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>)"
        " -> (tensor<4xf32>, tensor<4xi32>)\n"
        " reducer(%p: tensor<f32>, %q: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "%1 = stablehlo.compare GT, %q, %p, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "%2 = stablehlo.select %1, %q, %p : tensor<i1>, tensor<f32>\n"
        "%3 = stablehlo.select %1, %j, %i : tensor<i1>, tensor<i32>\n"
        "stablehlo.return %2, %3 : tensor<f32>, tensor<i32>\n}\n"
        "return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>",
        X, "(tensor<4xf32>, tensor<4xi32>)", folded, [np.abs(f32(4, 6))],
    ),
    "while": (
        "%c = stablehlo.constant dense<0> : tensor<i32>\n"
        "%n = stablehlo.constant dense<3> : tensor<i32>\n"
        "%o = stablehlo.constant dense<1> : tensor<i32>\n"
        "%0:2 = stablehlo.while(%i = %c, %x = %a) : tensor<i32>, tensor<4x6xf32>\n cond {\n"
        "%1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "stablehlo.return %1 : tensor<i1>\n} do {\n%1 = stablehlo.add %i, %o : tensor<i32>\n"
        "%2 = stablehlo.multiply %x, %a : tensor<4x6xf32>\n"
        "stablehlo.return %1, %2 : tensor<i32>, tensor<4x6xf32>\n}\nreturn %0#1 : tensor<4x6xf32>",
        X, X, lambda x: x**4, [f32(4, 6)],
    ),
    "case": (
        '%0 = "stablehlo.case"(%b) ({\n%1 = stablehlo.negate %a : tensor<4x6xf32>\n'
        "stablehlo.return %1 : tensor<4x6xf32>\n}, {\nstablehlo.return %a : tensor<4x6xf32>\n})"
        " : (tensor<i32>) -> tensor<4x6xf32>\nreturn %0 : tensor<4x6xf32>",
        f"{X}; tensor<i32>", X, lambda x, k: x, [f32(4, 6), np.int32(7)],
    ),
    "gather": (
        '%0 = "stablehlo.gather"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,"
        " slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x1xi32>)"
        " -> tensor<3x6xf32>\n"
        "return %0 : tensor<3x6xf32>",
        f"{X}; tensor<3x1xi32>", "tensor<3x6xf32>", lambda x, i: x[np.clip(i[:, 0], 0, 3)],
        [f32(4, 6), np.array([[2], [9], [-4]], np.int32)],
    ),
    "scatter": (
        '%0 = "stablehlo.scatter"(%a, %b, %c) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1>}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
        "%1 = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %1 : tensor<f32>\n})"
        " : (tensor<4x6xf32>, tensor<3x1xi32>, tensor<3x6xf32>) -> tensor<4x6xf32>\n"
        "return %0 : tensor<4x6xf32>",
        f"{X}; tensor<3x1xi32>; tensor<3x6xf32>", X, lambda x, i, u: added(x, u),
        [f32(4, 6), np.array([[2], [9], [2]], np.int32), f32(3, 6)],
    ),
    "window": (
        "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2, 3>,'
        " window_strides = array<i64: 1, 2>,"
        " padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({\n"
        "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%1 = stablehlo.maximum %p, %q : tensor<f32>\n"
        "stablehlo.return %1 : tensor<f32>\n"
        "}) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x3xf32>\n"
        "return %0 : tensor<3x3xf32>",
        X, "tensor<3x3xf32>", pooled, [f32(4, 6)],
    ),
    "convolution": (
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {stride = [1, 2], pad = [[1, 1], [0, 0]]} {batch_group_count = 1 : i64,"
        " feature_group_count = 1 : i64} : (tensor<1x5x7x2xf32>, tensor<3x3x2x4xf32>)"
        " -> tensor<1x5x3x4xf32>\nreturn %0 : tensor<1x5x3x4xf32>",
        "tensor<1x5x7x2xf32>; tensor<3x3x2x4xf32>", "tensor<1x5x3x4xf32>",
        convolved, [f32(1, 5, 7, 2), f32(3, 3, 2, 4)],
    ),
    "sort": (
        '%0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({\n'
        "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
        "%1 = stablehlo.compare GT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %1 : tensor<i1>\n}) : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "return %0 : tensor<4x6xf32>",
        X, X, lambda x: -np.sort(-x), [f32(4, 6)],
    ),
    "lu": (
        "%0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%a) {mhlo.backend_config = {}}"
        " : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>)\n"
        "%1 = stablehlo.custom_call @lapack_strsm_ffi(%0#0, %0#0) {mhlo.backend_config = {diag = 78"
        " : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 85 : ui8}}"
        " : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n"
        "%2 = stablehlo.dot_general %0#0, %1, contracting_dims = [1] x [0]"
        " : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\nreturn %0#1 : tensor<4xi32>",
        "tensor<4x4xf32>", "tensor<4xi32>", lambda a: np.array([4, 2, 4, 4], np.int32),
        [np.array([[0, 2, 1, 1], [1, 3, 0, 1], [1, 1, 1, 2], [2, 1, 1, 1]], np.float32)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ops(name: str) -> None:
    body, inputs, output, wanted, arguments = CASES[name]
    found = one(body, inputs, output)(*arguments)
    expected = wanted(*arguments)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_integers_divide_towards_zero_and_shift_out() -> None:
    body = (
        "%0 = stablehlo.divide %a, %b : tensor<6xi32>\n"
        "%1 = stablehlo.remainder %a, %b : tensor<6xi32>\n"
        "%2 = stablehlo.shift_left %a, %b : tensor<6xi32>\n"
        "%3 = stablehlo.shift_right_logical %a, %b : tensor<6xi32>\n"
        "return %0, %1, %2, %3 : tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>"
    )
    four = ", ".join(["tensor<6xi32>"] * 4)
    x = np.array([-7, 7, 7, -7, 4, 3], np.int32)
    y = np.array([3, 3, 0, 1, 40, 1], np.int32)
    quotient, rest, left, right = one(body, "tensor<6xi32>; tensor<6xi32>", f"({four})")(x, y)
    assert quotient.tolist() == [-2, 2, -1, -7, 0, 3]
    assert rest.tolist() == [-1, 1, 7, 0, 4, 0]
    assert left.tolist() == [-56, 56, 7, -14, 0, 6]
    assert right.tolist() == [536870911, 0, 7, 2147483644, 0, 1]


def test_literals() -> None:
    body = (
        '%0 = stablehlo.constant dense<"0x0000803F0000C07F"> : tensor<2xf32>\n'
        "%1 = stablehlo.constant dense<[0x3F80, 2.5]> : tensor<2xbf16>\n"
        '%2 = stablehlo.constant dense<"0x05"> : tensor<3xi1>\n'
        "%3 = stablehlo.constant dense<-1> : tensor<2xui32>\n"
        "%4 = stablehlo.constant dense<[(1.0,-2.0), (0.5,3.0)]> : tensor<2xcomplex<f32>>\n"
        "%5 = stablehlo.constant dense<[]> : tensor<0x3xf64>\n"
        "return %0, %1, %2, %3, %4, %5 : tensor<2xf32>, tensor<2xbf16>, tensor<3xi1>,"
        " tensor<2xui32>,"
        " tensor<2xcomplex<f32>>, tensor<0x3xf64>"
    )
    kinds = (
        "(tensor<2xf32>, tensor<2xbf16>, tensor<3xi1>, tensor<2xui32>, tensor<2xcomplex<f32>>,"
        " tensor<0x3xf64>)"
    )
    a, b, c, d, e, f = one(body, "tensor<f32>", kinds)(np.float32(0))
    assert a[0] == 1
    assert np.isnan(a[1])
    assert b.astype(float).tolist() == [1.0, 2.5]
    assert c.tolist() == [True, False, True]
    assert d.tolist() == [2**32 - 1] * 2
    assert e.tolist() == [1 - 2j, 0.5 + 3j]
    assert f.shape == (0, 3)


def test_derivatives_batches_and_calls_in_traced_functions() -> None:
    body, inputs, output, wanted, (x, v) = CASES["pretty"]
    f = one(body, inputs, output)

    def loss(v: Any) -> Any:
        return (f(x, v) ** 2).sum()

    mlc.check_grads(lambda v: f(x.astype(np.float32), v).sum(), (v,), order=1, rtol=1e-2, atol=1e-2)
    assert mlc.grad(loss)(v).shape == (6,)
    batched = mlc.vmap(f, in_axes=(None, 0))(x, np.stack([v, 2 * v]))
    np.testing.assert_allclose(batched[1], wanted(x, 2 * v), rtol=1e-4, atol=1e-6)

    @mlc.compile
    def outer(x: Any, v: Any) -> Any:
        return f(x * 2, v) + 1

    np.testing.assert_allclose(outer(x, v), wanted(2 * x, v) + 1, rtol=1e-4, atol=1e-6)


def test_calls_of_other_functions_and_checks() -> None:
    module = mlc.stablehlo.load(
        "module @jit_main {\n  func.func public @main() -> tensor<2xf32> {\n"
        "    %0 = call @inputs() : () -> tensor<2xf32>\n    %1 = call @twice(%0) : (tensor<2xf32>)"
        " -> tensor<2xf32>\n    stablehlo.custom_call @check.expect_eq(%1, %0) {has_side_effect ="
        " true} : (tensor<2xf32>, tensor<2xf32>) -> ()\n    return %1 : tensor<2xf32>\n  }\n"
        "  func.func private @inputs() -> tensor<2xf32> {\n    %cst = stablehlo.constant"
        " dense<[1.0, 2.0]> : tensor<2xf32>\n    return %cst : tensor<2xf32>\n  }\n"
        '  func.func private @twice(%arg0: tensor<2xf32> {mhlo.layout_mode = "default"})'
        " -> tensor<2xf32> {\n    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>\n"
        "    return %0 : tensor<2xf32>\n  }\n}"
    )
    assert module().tolist() == [2.0, 4.0]
    ((name, (found, expected)),) = module.checks()
    assert (name, found.tolist(), expected.tolist()) == ("check.expect_eq", [2, 4], [1, 2])


FUNCTION = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found no function; expected func.func"),
        (FUNCTION + "%0 = stablehlo.add %a, %b : tensor<2xf3>\n}", "m:2: .*'f3'; expected one of"),
        (FUNCTION + "%0 = stablehlo.negate %a\n return %0 ; }", "the character ';'"),
        (FUNCTION + "%c = stablehlo.constant dense<[1.0]> : tensor<?xf32>\n}", "without a shape"),
        (
            FUNCTION + "%c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<2xf32>\n}",
            "3 elements; expected 2",
        ),
        (FUNCTION + "%0:2 = stablehlo.negate %a : tensor<2xf32>\n}", "2 names for 1 results"),
        (FUNCTION + "return %a : tensor<2xf32>\n", "the end"),
    ],
)
def test_what_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(mlc.stablehlo.StableHloError, match=said):
        read(text, "m")


def test_ops_that_are_not_there_are_listed() -> None:
    text = FUNCTION + (
        "%0 = stablehlo.collective_permute %a : tensor<2xf32>\n"
        "%1 = stablehlo.negate %0 : tensor<2xf32>\n"
        "%2 = stablehlo.async_start %1 : tensor<2xf32>\nreturn %1 : tensor<2xf32>\n}"
    )
    with pytest.raises(
        mlc.NotSupportedError, match=r"line 2: collective_permute\n  line 4: async_start"
    ):
        mlc.stablehlo.load(text)
    with pytest.raises(mlc.NotSupportedError, match="is bytecode"):
        mlc.stablehlo.load(b"ML\xefR\x0d")
    with pytest.raises(KeyError, match="no function 'g'; expected one of main"):
        mlc.stablehlo.load(FUNCTION + "return %a : tensor<2xf32>\n}", function="g")
    with pytest.raises(TypeError, match="main takes 1 arrays, found 2"):
        mlc.stablehlo.load(FUNCTION + "return %a : tensor<2xf32>\n}")(1.0, 2.0)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_functions_of_jax() -> None:
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    f = mlc.jax(lambda p, x: {"y": jnp.tanh(x @ p["w"]), "n": x.sum()})
    w, x = f32(3, 2), f32(4, 3)
    found = f({"w": w}, x)
    np.testing.assert_allclose(np.asarray(found["y"]), np.tanh(x @ w), rtol=1e-5)
    slope = mlc.grad(lambda w: f({"w": w}, x)["y"].sum())(w)
    np.testing.assert_allclose(slope, x.T @ (1 - np.tanh(x @ w) ** 2), rtol=1e-4)


def test_one_program_for_sizes_that_are_open() -> None:
    """As `jax.export` writes them: symbols from sizes, assertions, and shapes that are computed."""
    twice = mlc.stablehlo.load(
        "func.func public @main(%a: tensor<?x3xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
        "%n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n"
        "%m = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n"
        "%r = stablehlo.remainder %m, %two : tensor<i32>\n"
        "%e = stablehlo.compare EQ, %r, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        'stablehlo.custom_call @shape_assertion(%e, %m) {error_message = "{0} is odd"}'
        " : (tensor<i1>, tensor<i32>) -> ()\n"
        "%h = stablehlo.divide %m, %two : tensor<i32>\n"
        "%s = stablehlo.compare EQ, %h, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        'stablehlo.custom_call @shape_assertion(%s, %m, %n) {error_message = "{0} for {1}"}'
        " : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()\n"
        "%1 = call @inner(%n, %a, %b) : (tensor<i32>, tensor<?x3xf32>, tensor<?xf32>)"
        " -> tensor<?xf32>\nreturn %1 : tensor<?xf32>\n}\n"
        'func.func private @inner(%n: tensor<i32> {jax.global_constant = "n"},'
        " %a: tensor<?x3xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {\n"
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%two = stablehlo.constant dense<2> : tensor<1xi32>\n"
        "%0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "%1 = stablehlo.concatenate %0, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>)"
        " -> tensor<2xi32>\n"
        "%2 = stablehlo.dynamic_reshape %b, %1 : (tensor<?xf32>, tensor<2xi32>)"
        " -> tensor<?x2xf32>\n"
        "%3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [1]"
        " : (tensor<?x2xf32>, tensor<f32>) -> tensor<?xf32>\n"
        "%4 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1]"
        " : (tensor<?x3xf32>, tensor<f32>) -> tensor<?xf32>\n"
        "%5 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n"
        "%6 = stablehlo.add %3, %4 : tensor<?xf32>\n%7 = stablehlo.add %6, %5 : tensor<?xf32>\n"
        "return %7 : tensor<?xf32>\n}"
    )
    for size in (1, 2, 5):
        a, b = f32(size, 3), f32(2 * size)
        wanted = b.reshape(-1, 2).sum(1) + np.maximum(a.max(1), 0) + np.arange(size)
        np.testing.assert_allclose(twice(a, b), wanted.astype(np.float32), rtol=1e-5, atol=1e-6)
    assert len(twice.stats().artifacts) == 1
    with pytest.raises(mlc.ShapeError, match=r"3|do not fit"):
        twice(f32(2, 3), f32(3))


def test_resources_at_the_end_of_the_file() -> None:
    text = (
        "module @m {\n  func.func @main() -> tensor<2xf32> {\n"
        "    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>\n"
        "    return %0 : tensor<2xf32>\n  }\n}\n"
    )
    blob = '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x040000000000803F000000C0"\n'
    assert mlc.stablehlo.load(f"{text}{blob}    }}\n  }}\n#-}}\n")().tolist() == [1.0, -2.0]
    with pytest.raises(mlc.stablehlo.StableHloError, match=r":3: found the resource w"):
        mlc.stablehlo.load(text)
    with pytest.raises(mlc.stablehlo.StableHloError, match="found 'more'; expected the end"):
        mlc.stablehlo.load(f"{text.replace('_resource<w>', '<1.0>')} more")
