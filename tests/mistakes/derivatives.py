"""
Mistakes with derivatives: each function makes one. `python derivatives.py` makes them all and
prints what the user reads.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc
from tests.mistakes.functions import make

X = np.array([2.0, 5.0])
NUMBERS = np.arange(3)


# What is differentiated


def gradient_of_an_array() -> object:
    return mlc.grad(lambda x: np.sin(x))(X)  # noqa: PLW0108


def gradient_by_an_integer() -> object:
    return mlc.grad(lambda x: x.sum())(NUMBERS)


def gradient_by_an_integer_in_a_container() -> object:
    return mlc.grad(lambda p: (p["w"] * p["n"]).sum())({"w": NUMBERS + 0.5, "n": NUMBERS})


def gradient_of_an_integer() -> object:
    return mlc.grad(lambda x: np.argmax(x))(X)  # noqa: PLW0108


def gradient_of_a_complex_number() -> object:
    return mlc.grad(lambda x: (x * 1j).sum())(X)


def gradient_of_a_container() -> object:
    return mlc.grad(lambda x: {"loss": x.sum()})(X)


def gradient_of_nothing() -> object:
    def loss(x: Any) -> Any:
        x.sum()

    return mlc.grad(loss)(X)


def aux_that_is_not_returned() -> object:
    return mlc.value_and_grad(lambda x: x.sum(), has_aux=True)(X)


def jacobian_of_integers() -> object:
    return mlc.jacrev(lambda x: x > 3)(X)


def no_derivative_of_an_op() -> object:
    """The full factor of a singular value decomposition is not determined by its argument."""
    return mlc.grad(lambda a: np.linalg.svd(a)[0].sum())(np.ones((3, 2)))


def a_function_that_writes_to_its_argument() -> object:
    def loss(x: Any) -> Any:
        x[0] = 1.0
        return x.sum()

    return mlc.grad(loss)(X)


def no_function() -> object:
    return mlc.grad(X)  # pyright: ignore[reportArgumentType]


# Which arguments


def argnums_out_of_range() -> object:
    return mlc.grad(lambda x, y: (x * y).sum(), argnums=(0, 2))(X, X)


def argnums_twice() -> object:
    return mlc.jacfwd(lambda x, y: x * y, argnums=(1, -1))(X, X)


def argnums_by_name() -> object:
    return mlc.grad(lambda x: x.sum(), argnums="x")  # pyright: ignore[reportArgumentType]


# Tangents and cotangents


def tangent_of_another_shape() -> object:
    return mlc.jvp(lambda p: p["x"] * 2, ({"x": X},), ({"x": np.ones(3)},))


def tangent_of_another_dtype() -> object:
    return mlc.jvp(np.sin, (X,), (np.ones(2, np.float32),))


def tangents_too_many() -> object:
    return mlc.jvp(np.sin, (X,), (X, X))


def primals_that_are_no_tuple() -> object:
    return mlc.jvp(np.sin, X, X)  # pyright: ignore[reportArgumentType]


def cotangent_of_another_shape() -> object:
    return mlc.vjp(np.sin, X)[1](np.ones(3))


def cotangent_of_another_dtype() -> object:
    return mlc.vjp(np.sin, X)[1](np.ones(2, np.float32))


def cotangent_of_another_structure() -> object:
    return mlc.vjp(lambda x: {"y": x, "z": [x]}, X)[1]({"y": X, "z": X})


def cotangent_that_is_a_word() -> object:
    return mlc.vjp(np.sin, X)[1]("one")


def pull_outside_of_its_loop() -> object:
    def f(x: Any) -> Any:
        kept: list[Any] = []

        def body(i: Any, y: Any) -> Any:
            y, pull = mlc.vjp(np.sin, y)
            kept.append(pull)
            return y

        y = mlc.fori_loop(0, 3, body, x)
        return kept[-1](y)

    return mlc.compile(f)(X)


# Rules of the user's


def ruled(forward: Any, backward: Any) -> object:
    """The gradient of a function with such a rule."""

    @mlc.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defvjp(forward, backward)
    return mlc.grad(lambda x: f(x, x).sum())(X)


def pushed(rule: Any) -> object:
    """The gradient of a function with such a rule."""

    @mlc.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    f.defjvp(rule)
    return mlc.grad(lambda x: f(x).sum())(X)


def rule_that_is_missing() -> object:
    @mlc.custom_vjp
    def f(x: Any) -> Any:
        return x

    return mlc.grad(lambda x: f(x).sum())(X)


def forward_without_residuals() -> object:
    return ruled(lambda x, y: x * y, lambda kept, c: (c, c))


def forward_of_another_structure() -> object:
    return ruled(lambda x, y: ([x * y], None), lambda kept, c: (c, c))


def forward_of_another_shape() -> object:
    return ruled(lambda x, y: ((x * y).sum(), None), lambda kept, c: (c, c))


def backward_without_a_tuple() -> object:
    return ruled(lambda x, y: (x * y, None), lambda kept, c: c)


def backward_with_too_few() -> object:
    return ruled(lambda x, y: (x * y, (x, y)), lambda kept, c: (c * kept[1],))


def backward_of_another_shape() -> object:
    return ruled(lambda x, y: (x * y, (x, y)), lambda kept, c: (c, c.sum()))


def backward_of_another_structure() -> object:
    return ruled(lambda x, y: (x * y, (x, y)), lambda kept, c: (c, {"y": c}))


def backward_that_is_complex() -> object:
    return ruled(lambda x, y: (x * y, None), lambda kept, c: (c * 1j, None))


def backward_that_is_not_linear() -> object:
    @mlc.custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, None), lambda kept, c: (np.clip(c, -1.0, 1.0),))
    return mlc.jvp(f, (X,), (X,))


def push_of_another_shape() -> object:
    return pushed(lambda primals, tangents: (primals[0] * 2, tangents[0].sum()))


def push_that_is_not_linear() -> object:
    return pushed(lambda primals, tangents: (primals[0] * 2, tangents[0] ** 2))


def rule_that_closes_over_what_varies() -> object:
    def loss(x: Any) -> Any:
        scale = x.sum()

        @mlc.custom_vjp
        def f(y: Any) -> Any:
            return y * scale

        f.defvjp(lambda y: (y * scale, None), lambda kept, c: (c * scale,))
        return f(x).sum()

    return mlc.grad(loss)(X)


def constants_out_of_range() -> object:
    f = mlc.custom_vjp(lambda x: x, nondiff_argnums=(1,))
    f.defvjp(lambda x: (x, None), lambda kept, c: (c,))
    return mlc.compile(lambda x: f(x))(X)  # noqa: PLW0108


def unknown_policy() -> object:
    return mlc.checkpoint(np.sin, policy="everything")


MISTAKES: tuple[Callable[[], object], ...] = (
    gradient_of_an_array,
    gradient_by_an_integer,
    gradient_by_an_integer_in_a_container,
    gradient_of_an_integer,
    gradient_of_a_complex_number,
    gradient_of_a_container,
    gradient_of_nothing,
    aux_that_is_not_returned,
    jacobian_of_integers,
    no_derivative_of_an_op,
    a_function_that_writes_to_its_argument,
    no_function,
    argnums_out_of_range,
    argnums_twice,
    argnums_by_name,
    tangent_of_another_shape,
    tangent_of_another_dtype,
    tangents_too_many,
    primals_that_are_no_tuple,
    cotangent_of_another_shape,
    cotangent_of_another_dtype,
    cotangent_of_another_structure,
    cotangent_that_is_a_word,
    pull_outside_of_its_loop,
    rule_that_is_missing,
    forward_without_residuals,
    forward_of_another_structure,
    forward_of_another_shape,
    backward_without_a_tuple,
    backward_with_too_few,
    backward_of_another_shape,
    backward_of_another_structure,
    backward_that_is_complex,
    backward_that_is_not_linear,
    push_of_another_shape,
    push_that_is_not_linear,
    rule_that_closes_over_what_varies,
    constants_out_of_range,
    unknown_policy,
)

if __name__ == "__main__":
    make(MISTAKES)
