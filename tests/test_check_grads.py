"""`mlc.check_grads`: it passes what is right, catches what is wrong, and its step is a good one."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc

X = np.array([0.7, 1.3])


def smooth(p: Any, scale: Any) -> Any:
    return {"y": np.sin(p["w"]) * scale, "z": (np.exp(p["w"] * 0.1) ** 2).sum()}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_right_derivatives_pass(dtype: Any) -> None:
    mlc.check_grads(smooth, ({"w": X.astype(dtype)}, np.ones(2, dtype)), order=2)


def test_complex_numbers_and_integers_pass() -> None:
    mlc.check_grads(lambda z, n: (z * z * n, (z * z.conj()).real), (X + 1j * X[::-1], 3))


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_three_orders_pass(mode: str) -> None:
    mlc.check_grads(lambda x: np.sin(x) * x, (0.7,), order=3, modes=(mode,))


def wrong(factor: float, order: int) -> Any:
    """A sine whose derivative of this order is too large by a factor."""

    @mlc.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x)

    if order == 1:
        f.defvjp(lambda x: (np.sin(x), x), lambda x, c: (factor * c * np.cos(x),))
        return f

    @mlc.custom_vjp
    def cosine(x: Any) -> Any:
        return np.cos(x)

    cosine.defvjp(lambda x: (np.cos(x), x), lambda x, c: (-factor * c * np.sin(x),))
    f.defvjp(lambda x: (f(x), x), lambda x, c: (c * cosine(x),))
    return f


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
@pytest.mark.parametrize("factor", [1.01, -1.0, 0.0])
def test_a_wrong_rule_is_caught(factor: float, modes: tuple[str, ...]) -> None:
    mlc.check_grads(wrong(1.0, 1), (X,), order=1, modes=modes)
    found = "⟨Jᵀ u, v⟩ and ⟨u, difference⟩" if modes == ("rev",) else "J v and its difference"
    with pytest.raises(AssertionError, match=found):
        mlc.check_grads(wrong(factor, 1), (X,), order=1, modes=modes)


def test_a_wrong_second_derivative_is_caught() -> None:
    mlc.check_grads(wrong(1.0, 2), (X,), order=2)
    mlc.check_grads(wrong(1.01, 2), (X,), order=1)
    with pytest.raises(AssertionError, match="fwd of fwd: J v and its difference"):
        mlc.check_grads(wrong(1.01, 2), (X,), order=2)


@pytest.mark.parametrize("kind", ["fwd", "rev"])
def test_a_wrong_second_derivative_is_caught_by_one_mode(kind: str) -> None:
    mlc.check_grads(wrong(1.0, 2), (X,), order=2, modes=(kind,))
    with pytest.raises(AssertionError, match=f"{kind} of {kind}"):
        mlc.check_grads(wrong(1.01, 2), (X,), order=2, modes=(kind,))


def test_reverse_mode_alone_needs_no_forward_mode() -> None:
    """A way back that is not linear in the cotangent has no forward mode."""
    clipped = mlc.custom_vjp(np.sin)
    clipped.defvjp(lambda x: (np.sin(x), x), lambda x, c: (np.clip(c, -1e3, 1e3) * np.cos(x),))
    mlc.check_grads(clipped, (X,), order=1, modes=("rev",))


def test_a_gradient_that_is_cut_off_is_caught() -> None:
    with pytest.raises(AssertionError, match="fwd"):
        mlc.check_grads(lambda x: x * mlc.stop_gradient(x), (X,), order=1)


def test_the_difference_is_of_second_order() -> None:
    """
    The error of a central difference falls with the square of its step, until rounding: measured
    by the smallest tolerance that passes.
    """

    def error(step: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            try:
                mlc.check_grads(
                    np.exp, (X,), order=1, modes=("fwd",), atol=middle, rtol=0, eps=step
                )
                high = middle
            except AssertionError:
                low = middle
        return high

    steps = 2.0 ** -np.arange(3, 9)
    slope = np.polyfit(np.log(steps), np.log([error(float(step)) for step in steps]), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.01)


def test_what_is_asked_must_make_sense() -> None:
    with pytest.raises(ValueError, match="modes"):
        mlc.check_grads(np.sin, (X,), modes=("forward",))
    with pytest.raises(ValueError, match="order=0"):
        mlc.check_grads(np.sin, (X,), order=0)
