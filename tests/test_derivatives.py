"""
`mlc.grad` and its relatives as users call them: worked examples, arguments, containers, closures,
functions that are called later, and one compilation for all inputs and sizes.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlc
from mlc.passes.tensor.expand_transforms import one_function
from tests.sweeps import covering

X = np.array([2.0, 5.0])
A = np.arange(6.0).reshape(2, 3)


def worked(x: Any) -> Any:
    """y = ln x₁ + x₁ x₂ - sin x₂ (Baydin et al., JMLR 18 (153), 2018, tables 2 and 3)."""
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


def twice_used(v: Any) -> Any:
    return (np.exp(v) + 1.0) * np.exp(v)


def cubes(x: Any) -> Any:
    return (x**3).sum()


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14)


def ops(text: str) -> list[str]:
    """The names of the ops in a program's text, in order."""
    words = [word for line in text.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("mlc.") and "=" not in word]


# Worked examples


def test_worked_example_forward() -> None:
    value, tangent = mlc.jvp(worked, (X,), (np.array([1.0, 0.0]),))
    assert value == pytest.approx(11.652071455223084, rel=1e-12)
    assert tangent == pytest.approx(5.5, abs=1e-12)


def test_worked_example_reverse() -> None:
    value, gradient = mlc.value_and_grad(worked)(X)
    assert value == pytest.approx(11.652071455223084, rel=1e-12)
    close(gradient, [5.5, 2.0 - math.cos(5.0)])
    assert gradient[1] == pytest.approx(1.716337814536774, rel=1e-12)


def test_worked_example_third_derivatives() -> None:
    def y(a: Any, b: Any) -> Any:
        return np.log(a) + a * b - np.sin(b)

    close(mlc.grad(mlc.grad(mlc.grad(y)))(2.0, 5.0), 2 / 2.0**3)
    third = mlc.grad(mlc.grad(mlc.grad(y, argnums=1), argnums=1), argnums=1)
    close(third(2.0, 5.0), math.cos(5.0))
    close(mlc.jacfwd(mlc.hessian(worked))(X)[0, 0, 0], 2 / 2.0**3)
    close(mlc.jacfwd(mlc.hessian(worked))(X)[1, 1, 1], math.cos(5.0))


def test_two_consumers_one_accumulation() -> None:
    """(eᵛ + 1) eᵛ: v̄ is the one sum of what its two consumers say: 2 e²ᵛ + eᵛ."""
    lowered = mlc.grad(twice_used).compiled.lower(0.3)
    found = ops(lowered.text("tensor"))
    # one addition of the function itself, one that accumulates
    assert sorted(op for op in found if op in ("mlc.exp", "mlc.add", "mlc.mul")) == [
        "mlc.add", "mlc.add", "mlc.exp", "mlc.mul", "mlc.mul",
    ]  # fmt: skip
    close(mlc.grad(twice_used)(0.3), 2 * math.exp(0.6) + math.exp(0.3))
    close(mlc.grad(mlc.grad(mlc.grad(twice_used)))(0.3), 8 * math.exp(0.6) + math.exp(0.3))


def test_gradient_adds_once_per_further_consumer() -> None:
    def f(v: Any) -> Any:
        w = np.exp(v)
        return w * w + np.sin(w) + w  # five uses of w: four accumulations

    written_out = one_function(mlc.grad(f).compiled.lower(0.3).module)
    added = ops(str(written_out)).count("mlc.add")
    assert added == 2 + 3  # w * w has one cotangent for each factor; + passes its own on
    w = math.exp(0.3)
    close(mlc.grad(f)(0.3), (2 * w + math.cos(w) + 1) * w)


def test_softmax_cross_entropy_needs_no_logarithm() -> None:
    """Its gradient is softmax - target, times the targets' sum, of one exponential."""
    target = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    gradient = mlc.grad(lambda z, t: -(t * mlc.nn.log_softmax(z)).sum())
    exp = np.exp(A)
    close(gradient(A, target), exp / exp.sum(axis=1, keepdims=True) - target)
    program = ops(gradient.compiled.lower(A, target).text("tensor"))
    assert (program.count("mlc.exp"), program.count("mlc.log")) == (1, 0)


def test_one_compilation_for_all_inputs() -> None:
    gradient = mlc.compile(mlc.grad(lambda x: (np.sin(x) * x).sum()))
    for k in range(1000):
        x = np.array([0.001 * k, 1.0 + k])
        close(gradient(x), np.cos(x) * x + np.sin(x))
    assert gradient.stats().compilations == 1


def test_one_compilation_for_all_sizes() -> None:
    gradient = mlc.compile(dynamic={"x": {0: "N"}})(mlc.grad(lambda x: (np.sin(x) * x[0]).sum()))
    for n in range(1, 51):
        x = np.linspace(0.5, 2.0, n)
        expected = np.cos(x) * x[0]
        expected[0] += np.sin(x).sum()
        close(gradient(x), expected)
    assert gradient.stats().compilations == 1


# Arguments


def test_argnums() -> None:
    def f(x: Any, y: Any, z: float = 2.0) -> Any:
        return (x * y**2).sum() * z

    y = X + 1
    close(mlc.grad(f)(X, y), 2 * y**2)
    close(mlc.grad(f, argnums=1)(X, y), 4 * X * y)
    close(mlc.grad(f, argnums=-1)(X, y, 3.0), (X * y**2).sum())
    first, second = mlc.grad(f, argnums=(1, 0))(X, y)
    close(first, 4 * X * y)
    close(second, 2 * y**2)
    (only,) = mlc.grad(f, argnums=(0,))(X, y)
    close(only, 2 * y**2)


def test_keywords_and_defaults() -> None:
    def f(x: Any, scale: float = 2.0, *, power: int = 2) -> Any:
        return scale * (x**power).sum()

    close(mlc.grad(f)(X), 4 * X)
    close(mlc.grad(f)(X, scale=3.0), 6 * X)
    close(mlc.grad(f)(X, 1.0, power=3), 3 * X**2)
    close(mlc.grad(f)(x=X), 4 * X)


def test_python_floats() -> None:
    found = mlc.grad(lambda a, b: a**2 * b, argnums=(0, 1))(3.0, 2.0)
    close(found, (12.0, 9.0))


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        return (x**2).sum(), {"cubes": x**3, "name": "f", "none": None}

    gradient, aux = mlc.grad(f, has_aux=True)(X)
    close(gradient, 2 * X)
    close(aux["cubes"], X**3)
    assert (aux["name"], aux["none"]) == ("f", None)
    (value, _), again = mlc.value_and_grad(f, has_aux=True)(X)
    close(value, 29.0)
    close(again, 2 * X)
    outcome, pull, aux = mlc.vjp(f, X, has_aux=True)
    close(pull(2.0)[0], 4 * X)
    outcome, tangent, aux = mlc.jvp(f, (X,), (X,), has_aux=True)
    close((outcome, tangent), (29.0, 58.0))
    outcome, push, aux = mlc.linearize(f, X, has_aux=True)
    close(push(X), 58.0)
    close(aux["cubes"], X**3)


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: list[Any]
    scale: Any
    kind: Any = "relu"


def test_containers() -> None:
    def loss(model: Any, extra: Any) -> Any:
        first, second = model.layers
        y = (first.w**2).sum() * model.scale + (second["w"] * extra[0][1]).sum()
        return y if first.b is None else y + first.b.sum()

    model = Model([Layer(A, None), {"w": X, "unused": A}], 3.0)
    gradient = mlc.grad(loss)(model, ([None, X],))
    assert (type(gradient), gradient.kind) == (Model, "relu")
    close(gradient.layers[0].w, 6 * A)
    assert gradient.layers[0].b is None
    close(gradient.layers[1]["w"], X)
    close(gradient.layers[1]["unused"], 0 * A)
    close(gradient.scale, (A**2).sum())
    other = mlc.grad(loss, argnums=1)(model, ([None, X],))
    assert other[0][0] is None
    close(other[0][1], X)


class Method:
    def __init__(self) -> None:
        self.w = np.array([1.0, 2.0])

    def loss(self, x: Any) -> Any:
        return (self.w * x**2).sum()

    @classmethod
    def square(cls, x: Any) -> Any:
        return (x**2).sum()

    @staticmethod
    def cube(x: Any) -> Any:
        return (x**3).sum()


def test_methods() -> None:
    close(mlc.grad(Method().loss)(X), 2 * Method().w * X)
    close(mlc.grad(Method.square)(X), 2 * X)
    close(mlc.grad(Method.cube)(X), 3 * X**2)


def test_partial_functions_and_objects() -> None:
    close(mlc.grad(partial(lambda a, x: (a * x).sum(), 3.0))(X), [3.0, 3.0])

    class Squares:
        def __call__(self, x: Any) -> Any:
            return (x**2).sum()

    close(mlc.grad(Squares())(X), 2 * X)
    close(mlc.grad(lambda *xs: (xs[0] * xs[1]).sum(), argnums=(0, 1))(X, A[0, 1:])[1], X)


def test_functions_of_numpy() -> None:
    close(mlc.grad(np.sin)(0.5), math.cos(0.5))
    close(mlc.grad(mlc.grad(np.sin))(0.5), -math.sin(0.5))
    close(mlc.vmap(mlc.grad(mlc.checkpoint(np.sin)))(X), np.cos(X))
    close(mlc.vjp(np.sin, X)[1](X)[0], X * np.cos(X))
    close(mlc.jvp(np.multiply, (X, X), (X, None))[1], X * X)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradients_have_the_arguments_dtype(dtype: type) -> None:
    x = X.astype(dtype)
    found = mlc.grad(lambda x: (x * np.float64(2)).sum() if dtype is np.float64 else cubes(x))(x)
    assert found.dtype == dtype


def test_complex_arguments() -> None:
    """The cotangent is transposed, not conjugated: of f with f(z + dz) - f(z) = Re(g dz)."""
    z = np.array([1.0 + 2.0j, -0.5 + 1.0j])
    direction = np.array([0.3 - 0.2j, 1.0 + 0.5j])

    def f(z: Any) -> Any:
        return (abs(z) ** 2).sum() + (z * z).real.sum()

    gradient = mlc.grad(f)(z)
    _, tangent = mlc.jvp(f, (z,), (direction,))
    close((gradient * direction).sum().real, tangent)
    step = 1e-6
    difference = (f(z + step * direction) - f(z - step * direction)) / (2 * step)
    close(tangent, difference, rtol=1e-8)


# Closures over values of a program around


def test_closure_over_an_outer_value() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        return mlc.grad(lambda y: (x * y).sum())(x), mlc.grad(lambda y: (x * y * y).sum())(2 * x)

    first, second = f(X)
    close(first, X)  # not 2 x: only its own argument counts
    close(second, 4 * X * X)


def test_gradient_of_a_gradient_with_closure() -> None:
    def f(x: Any) -> Any:
        return (x * mlc.grad(lambda y: (x * y * y).sum())(x)).sum()  # 2 x³

    close(mlc.grad(f)(X), 6 * X**2)
    close(mlc.jvp(f, (X,), (X,))[1], (6 * X**3).sum())


def test_confusion_of_perturbations() -> None:
    """d/dx (x · d/dy (x + y)) = 1, not 2 (Siskind and Pearlmutter, 2005)."""

    def derivative(f: Any) -> Any:
        return lambda x: mlc.jvp(f, (x,), (1.0,))[1]

    def f(x: Any) -> Any:
        return x * derivative(lambda y: x + y)(1.0)

    close(derivative(f)(1.0), 1.0)
    close(mlc.grad(lambda x: x * mlc.grad(lambda y: x + y)(1.0))(1.0), 1.0)


def test_hidden_arrays_are_constants() -> None:
    w = np.array([3.0, 4.0])
    gradient = mlc.grad(lambda x: (w * x).sum())
    close(gradient(X), w)
    w[0] = 5.0
    close(gradient(X), w)


def test_writing_into_a_local_copy() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = y[1] * 2.0
        y[1:] *= y[0]
        y += x
        return (y**2).sum()

    def pure(x: Any) -> Any:
        a, b = x[0], x[1]
        return (2 * b + a) ** 2 + (2 * b * b + b) ** 2

    x = np.array([0.7, 1.3])
    a, b = x
    expected = [2 * (2 * b + a), 4 * (2 * b + a) + 2 * (2 * b * b + b) * (4 * b + 1)]
    close(mlc.grad(f)(x), expected)
    close(mlc.grad(pure)(x), expected)


def test_an_accumulator_written_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            y[i] = y[i - 1] * x[i]
            return y

        return mlc.fori_loop(1, 4, body, x.copy()).sum()

    x = np.array([1.1, 0.7, 1.3, 0.9])
    p = np.cumprod(x)
    expected = [sum(p[j] / x[k] for j in range(k, 4)) for k in range(4)]
    close(mlc.grad(f)(x), expected)
    assert x[1] == 0.7


# Functions that are called later


def test_pull_and_push_called_several_times() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        y, pull = mlc.vjp(lambda x: np.sin(x) * x, x)
        z, push = mlc.linearize(lambda x: np.sin(x) * x, x)
        return y, z, pull(x)[0], pull(2 * x)[0], push(x), push(2 * x), mlc.vmap(push)(np.eye(2))

    y, z, once, twice, pushed, pushed_twice, rows = f(X)
    d = np.cos(X) * X + np.sin(X)
    close(y, np.sin(X) * X)
    close(z, y)
    close(once, d * X)
    close(twice, 2 * d * X)
    close(pushed, d * X)
    close(pushed_twice, 2 * d * X)
    close(rows, np.diag(d))


def test_linearize_computes_once() -> None:
    def pushed(x: Any) -> Any:
        push = mlc.linearize(np.exp, x)[1]
        return push(x), push(2 * x), push(3 * x)

    text = mlc.compile(pushed).lower(X).text("trace")
    assert ops(text).count("mlc.exp") == 1


def test_pull_in_a_loop() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        pull = mlc.vjp(np.sin, x)[1]
        return mlc.fori_loop(0, 3, lambda i, c: pull(c)[0], x), pull(x)[0]

    inside, after = f(X)
    close(inside, X * np.cos(X) ** 3)
    close(after, X * np.cos(X))


def test_pull_of_a_loop_in_a_loop() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            y, pull = mlc.vjp(lambda z: mlc.fori_loop(0, 3, lambda j, w: np.sin(w), z), c)
            return y + pull(c)[0]

        return mlc.fori_loop(0, 2, outer, x)

    c = X
    for _ in range(2):
        a, b, d = c, np.sin(c), np.sin(np.sin(c))
        c = np.sin(d) + c * np.cos(a) * np.cos(b) * np.cos(d)
    close(f(X), c)


def test_outside_of_a_program() -> None:
    y, pull = mlc.vjp(lambda x, n: x**n, X, 3)
    close(y, X**3)
    close(pull(X)[0], 3 * X**3)
    close(pull(None)[0], 0 * X)
    assert np.asarray(pull(X)[1]).dtype.kind == "i"  # an integer has no cotangent: zero
    y, push = mlc.linearize(cubes, X)
    close(push(X), (3 * X**3).sum())


def test_integer_results_have_no_tangent() -> None:
    (_, k), (dy, dk) = mlc.jvp(lambda x: (x**2, np.argmax(x)), (X,), (X,))
    close(dy, 2 * X * X)
    assert (k, dk) == (1, 0)
    _, pull = mlc.vjp(lambda x: (x**2, np.argmax(x)), X)
    close(pull((X, None))[0], 2 * X * X)


# Compositions


def smooth(x: Any) -> Any:
    return np.sin(x) * np.exp(x * 0.1)


def first(x: Any) -> Any:
    return np.cos(x) * np.exp(x * 0.1) + 0.1 * smooth(x)


def second(x: Any) -> Any:
    return -np.sin(x) * np.exp(x * 0.1) + 0.2 * np.cos(x) * np.exp(x * 0.1) + 0.01 * smooth(x)


@mlc.custom_vjp
def ruled(x: Any) -> Any:
    return smooth(x)


ruled.defvjp(lambda x: (ruled(x), x), lambda x, c: (c * first(x),))


@mlc.custom_jvp
def pushed_rule(x: Any) -> Any:
    return smooth(x)


@pushed_rule.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return pushed_rule(primals[0]), tangents[0] * first(primals[0])


FORMS = {
    "plain": smooth,
    "compiled": mlc.compile(smooth),
    "checkpoint": mlc.checkpoint(smooth),
    "custom_vjp": ruled,
    "custom_jvp": pushed_rule,
    "vmap": lambda x: mlc.vmap(smooth)(x[None])[0],
}
DERIVATIVES = {
    "grad": lambda f: mlc.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: mlc.jvp(f, (x,), (np.ones(2),))[1],
    "vjp": lambda f: lambda x: mlc.vjp(f, x)[1](np.ones(2))[0],
    "linearize": lambda f: lambda x: mlc.linearize(f, x)[1](np.ones(2)),
    "jacfwd": lambda f: lambda x: np.diagonal(mlc.jacfwd(f)(x)),
    "jacrev": lambda f: lambda x: np.diagonal(mlc.jacrev(f)(x)),
    "vmap of grad": lambda f: mlc.vmap(mlc.grad(lambda s: f(s * np.ones(2))[0])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", DERIVATIVES)
def test_first_derivatives_of_each_form(form: str, way: str) -> None:
    close(mlc.compile(DERIVATIVES[way](FORMS[form]))(X), first(X))


@pytest.mark.parametrize(
    ("form", "inner", "outer"),
    covering([*FORMS], ["grad", "jvp", "vjp", "linearize"], ["grad", "jvp", "jacrev"]),
)
def test_second_derivatives_in_any_order(form: str, inner: str, outer: str) -> None:
    twice = DERIVATIVES[outer](DERIVATIVES[inner](FORMS[form]))
    close(mlc.compile(twice)(X), second(X), rtol=1e-11)
