"""`mlc.autocast`: products of float32 whose factors are rounded to 16 bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.dialects.errors import DTypeError
from mlc.dialects.plan import KernelOp
from tests.plans import planned

Array = NDArray[Any]
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def rounded(x: Array, dtype: str = "bf16") -> Array:
    return x.astype(DTYPES[dtype]).astype(np.float32)


def multiply(x: Any, w: Any) -> Any:
    return x @ w


@pytest.fixture
def arrays() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    shapes = ((20, 30), (30, 40), (20, 40))
    x, w, g = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return x, w, g


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_factors_are_rounded_and_sums_are_not(
    arrays: tuple[Array, Array, Array], dtype: str
) -> None:
    x, w, _ = arrays

    def f(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    compiled: Any = mlc.compile(mlc.autocast(dtype)(f))
    expected = np.tanh(rounded(x, dtype) @ rounded(w, dtype))
    found = compiled(x, w)
    assert found.dtype == np.float32
    close(found, expected)
    close(compiled.reference(x, w), expected)
    assert np.abs(found - np.tanh(x @ w)).max() > 1e-4


def test_a_part_of_a_function(arrays: tuple[Array, Array, Array]) -> None:
    x, w, g = arrays

    @mlc.compile
    def f(x: Any, w: Any, g: Any) -> Any:
        with mlc.autocast("bf16"):
            y = x @ w
            with mlc.autocast(None):
                z = x @ w
        return y, z, np.einsum("mn,kn->mk", g, w)

    y, z, t = f(x, w, g)
    close(y, rounded(x) @ rounded(w))
    close(z, x @ w)
    close(t, g @ w.T)


@pytest.mark.parametrize("outside", [False, True])
def test_products_of_gradients_round_their_factors(
    arrays: tuple[Array, Array, Array], outside: bool
) -> None:
    x, w, g = arrays

    def loss(x: Any, w: Any, g: Any) -> Any:
        return ((x @ w) * g).sum()

    cast = mlc.autocast("bf16")
    f = cast(mlc.grad(loss, argnums=(0, 1))) if outside else mlc.grad(cast(loss), argnums=(0, 1))
    dx, dw = mlc.compile(f)(x, w, g)
    close(dx, rounded(g) @ rounded(w).T)
    close(dw, rounded(x).T @ rounded(g))


def test_tangents_and_batches(arrays: tuple[Array, Array, Array]) -> None:
    x, w, _ = arrays
    product = mlc.autocast("bf16")(multiply)

    def pushed(x: Any, w: Any, t: Any) -> Any:
        def of_x(x: Any) -> Any:
            return product(x, w)

        return mlc.jvp(of_x, (x,), (t,))

    t = np.ones_like(x) / 3
    value, tangent = mlc.compile(pushed)(x, w, t)
    close(value, rounded(x) @ rounded(w))
    close(tangent, rounded(t) @ rounded(w))
    close(mlc.compile(mlc.vmap(product, in_axes=(0, None)))(x, w), rounded(x) @ rounded(w))


def test_convolutions() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    plain: Any = mlc.compile(mlc.nn.conv)
    cast = mlc.autocast("bf16")(mlc.nn.conv)
    close(mlc.compile(cast)(x, w), plain(rounded(x), rounded(w)))

    def squared(x: Any, w: Any, *, conv: Any = cast) -> Any:
        return (conv(x, w) ** 2).sum() / 2

    def of_plain(x: Any, w: Any, g: Any) -> Any:
        return (mlc.nn.conv(x, w) * g).sum()

    found = mlc.compile(mlc.grad(squared, argnums=(0, 1)))(x, w)
    g = rounded(plain(rounded(x), rounded(w)))
    expected = mlc.compile(mlc.grad(of_plain, argnums=(0, 1)))(rounded(x), rounded(w), g)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


def test_other_dtypes_are_left_as_they_are(arrays: tuple[Array, Array, Array]) -> None:
    x, w = (a.astype(np.float64) for a in arrays[:2])
    compiled: Any = mlc.compile(mlc.autocast("bf16")(multiply))
    np.testing.assert_allclose(compiled(x, w), x @ w, rtol=1e-12)
    narrow = [a.astype(ml_dtypes.bfloat16) for a in arrays[:2]]
    assert compiled(*narrow).dtype == ml_dtypes.bfloat16


def test_numpy_rounds_nothing(arrays: tuple[Array, Array, Array]) -> None:
    x, w, _ = arrays
    with mlc.autocast("bf16"):
        close(mlc.compile(multiply)(x, w), x @ w)
    np.testing.assert_array_equal(mlc.autocast("bf16")(multiply)(x, w), x @ w)


def test_an_error_leaves_nothing_behind(arrays: tuple[Array, Array, Array]) -> None:
    x, w, _ = arrays

    @mlc.compile
    def f(x: Any, w: Any) -> Any:
        try:
            with mlc.autocast("bf16"):
                raise KeyError
        except KeyError:
            return x @ w

    close(f(x, w), x @ w)


def test_a_dtype_that_is_none_of_16_bits() -> None:
    with pytest.raises(DTypeError, match=r"mlc\.autocast: 'f32'; expected 'bf16' or 'f16'"):
        mlc.autocast("f32")


def test_training_in_f16_with_a_scaled_loss() -> None:
    """Gradients of 1e-9 are nothing in f16; those of a scaled loss train."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((64, 8)).astype(np.float32)
    target = x @ rng.standard_normal((8, 1)).astype(np.float32)

    @mlc.autocast("f16")
    def loss(w: Any, x: Any, target: Any) -> Any:
        return 1e-8 * (((x @ w) - target) ** 2).mean()

    @mlc.compile
    def step(w: Any, scale: Any, x: Any, target: Any) -> Any:
        def scaled_loss(w: Any) -> Any:
            return mlc.optim.scaled(loss(w, x, target), scale)

        found, finite, scale = mlc.optim.unscaled(mlc.grad(scaled_loss)(w), scale)
        return mlc.optim.where(finite, w - 2e7 * found, w), scale, found

    w: Any = np.zeros((8, 1), np.float32)
    unscaled = mlc.compile(mlc.grad(loss))(w, x, target)
    scale = mlc.optim.scale_init(2.0**24)
    first = float(loss(w, x, target))
    for _ in range(60):
        w, scale, _ = step(w, scale, x, target)
    assert np.abs(unscaled).max() < 1e-10
    assert float(loss(w, x, target)) < 1e-3 * first


def test_tensor_cores_multiply_on_a_gpu() -> None:
    """The factors of a product of f32 are stored in 16 bits, and its sums in 32."""
    specs = [mlc.TensorSpec(1024, 1024, dtype="f32")] * 2
    levels = planned(mlc.autocast("bf16")(multiply), *specs, target="cuda:h200")
    assert "roles(producer 1" in levels.text("plan")
    assert any("wgmma" in unit.text for unit in levels.units())


def test_tensor_cores_multiply_in_gradients() -> None:
    """Each factor is stored in 16 bits alone, however many products read it."""

    def loss(w1: Any, w2: Any, x: Any, y: Any) -> Any:
        return ((np.maximum(x @ w1, 0) @ w2 - y) ** 2).mean()

    shapes = ((1024, 2048), (2048, 512), (1024, 1024), (1024, 512))
    specs = [mlc.TensorSpec(*shape, dtype="f32") for shape in shapes]
    gradient = mlc.grad(mlc.autocast("bf16")(loss), argnums=(0, 1))
    kernels = planned(gradient, *specs, target="cuda:h200").at("plan").walk()
    products = [k for k in kernels if isinstance(k, KernelOp) and k.template.data == "contraction"]
    assert len(products) == 5
    assert all("roles(" in str(k.schedule) for k in products)
