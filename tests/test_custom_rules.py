"""`mlc.custom_vjp`, `custom_jvp`, `checkpoint`, `stop_gradient`: what users say of derivatives."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.markers import BarrierOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.passes.tensor.expand_transforms import one_function
from tests.sweeps import covering
from tests.test_derivatives import close, ops

X = np.array([2.0, 5.0])
Y = np.array([0.5, -1.5])


@mlc.custom_vjp
def tenfold(x: Any, y: Any) -> Any:
    """x · y, with derivatives ten times too large: they show that the rule is used."""
    return x * y


tenfold.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, c: (10 * c * kept[1], 10 * c * kept[0]))


@mlc.custom_jvp
def threefold(x: Any, y: Any) -> Any:
    return x * y


@threefold.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return x * y, 3 * (dx * y + x * dy)


RULES = {"custom_vjp": (tenfold, 10.0), "custom_jvp": (threefold, 3.0)}


@pytest.fixture(params=RULES)
def rule(request: pytest.FixtureRequest) -> Any:
    return RULES[request.param]


# First derivatives, in either mode


def test_outside_a_program_the_function_runs(rule: Any) -> None:
    close(rule[0](X, Y), X * Y)


def test_reverse_mode(rule: Any) -> None:
    f, factor = rule
    value, (dx, dy) = mlc.value_and_grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(X, Y)
    close(value, (X * Y).sum())
    close(dx, factor * Y)
    close(dy, factor * X)


def test_forward_mode(rule: Any) -> None:
    f, factor = rule
    value, tangent = mlc.jvp(f, (X, Y), (Y, X))
    close(value, X * Y)
    close(tangent, factor * (Y * Y + X * X))
    close(mlc.jvp(lambda x: f(x, Y), (X,), (Y,))[1], factor * Y * Y)  # one argument varies


def test_batched(rule: Any) -> None:
    f, factor = rule
    close(mlc.vmap(mlc.grad(f))(X, Y), factor * Y)
    close(mlc.grad(lambda x: mlc.vmap(f)(x, Y).sum())(X), factor * Y)


def test_in_a_loop_and_a_branch(rule: Any) -> None:
    f, factor = rule

    def looped(x: Any) -> Any:
        return mlc.fori_loop(0, 2, lambda i, c: f(c, Y), x).sum()

    def branched(x: Any) -> Any:
        return mlc.cond(x[0] > 0, lambda: f(x, Y), lambda: x).sum()

    close(mlc.grad(looped)(X), factor**2 * Y**2)
    close(mlc.jvp(looped, (X,), (X,))[1], (factor**2 * Y**2 * X).sum())
    close(mlc.grad(branched)(X), factor * Y)
    close(mlc.grad(branched)(-X), np.ones(2))


def test_in_a_while_loop(rule: Any) -> None:
    f, factor = rule

    def g(x: Any) -> Any:
        return mlc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], Y)), (0, x))[1].sum()

    close(mlc.grad(g)(X), factor**3 * Y**3)


# Second derivatives


@mlc.custom_vjp
def sine(x: Any) -> Any:
    return np.sin(x)


sine.defvjp(lambda x: (sine(x), np.cos(x)), lambda kept, c: (2 * c * kept,))  # 2, to be seen


def test_second_derivatives_of_a_rule_that_calls_its_function() -> None:
    """The rule says 2 cos x; the derivative of that is -2 sin x."""

    def f(x: Any) -> Any:
        return sine(x).sum()

    close(mlc.grad(f)(X), 2 * np.cos(X))
    close(mlc.grad(lambda x: mlc.grad(f)(x).sum())(X), -2 * np.sin(X))
    close(np.diag(mlc.hessian(f)(X)), -2 * np.sin(X))
    close(np.diag(mlc.jacrev(mlc.jacfwd(f))(X)), -2 * np.sin(X))
    close(np.diag(mlc.jacfwd(mlc.jacfwd(f))(X)), -2 * np.sin(X))
    close(mlc.grad(lambda x: mlc.grad(lambda x: mlc.grad(f)(x).sum())(x).sum())(X), -2 * np.cos(X))


def test_the_value_beside_a_derivative_has_the_rule_too() -> None:
    """Of x · f'(x) + f(x): the f that forward calls has its rule for the next derivative."""

    def f(x: Any) -> Any:
        value, gradient = mlc.value_and_grad(lambda x: sine(x).sum())(x)
        return value + (x * gradient).sum()

    close(mlc.grad(f)(X), 2 * np.cos(X) + 2 * np.cos(X) - 2 * X * np.sin(X))


def test_a_residual_as_cotangent() -> None:
    @mlc.custom_vjp
    def f(x: Any) -> Any:
        return x.sum()

    f.defvjp(lambda x: (x.sum(), 7 * x), lambda kept, c: (kept,))
    close(mlc.grad(f)(X), 7 * X)
    close(mlc.jacrev(mlc.grad(f))(X), 7 * np.eye(2))


# Arguments


def test_nondifferentiable_arguments() -> None:
    @partial(mlc.custom_vjp, nondiff_argnums=(0, -1))
    def power(f: Any, x: Any, n: int) -> Any:
        return f(x) ** n

    power.defvjp(
        lambda f, x, n: (power(f, x, n), x), lambda f, n, x, c: (100 * n * c * f(x) ** (n - 1),)
    )
    close(mlc.grad(lambda x: power(np.sin, x, 3).sum())(X), 300 * np.sin(X) ** 2)

    @partial(mlc.custom_jvp, nondiff_argnums=(1,))
    def scaled(x: Any, n: int) -> Any:
        return n * x

    scaled.defjvp(lambda n, primals, tangents: (n * primals[0], 5 * n * tangents[0]))
    close(mlc.grad(lambda x: scaled(x, 3).sum())(X), [15.0, 15.0])


def test_integer_arguments_and_none() -> None:
    @mlc.custom_vjp
    def at(x: Any, i: Any) -> Any:
        return x[i]

    def backward(kept: Any, c: Any) -> Any:
        found = np.zeros(2)
        found[kept] = 9 * c
        return found, None

    at.defvjp(lambda x, i: (x[i], i), backward)
    close(mlc.grad(at)(X, 1), [0.0, 9.0])
    close(mlc.grad(at)(X, np.array(0)), [9.0, 0.0])

    @mlc.custom_vjp
    def first(x: Any, y: Any) -> Any:
        return x + y

    first.defvjp(lambda x, y: (x + y, None), lambda kept, c: (c, None))
    dx, dy = mlc.grad(lambda x, y: first(x, y).sum(), argnums=(0, 1))(X, Y)
    close(dx, [1.0, 1.0])
    close(dy, [0.0, 0.0])


def test_containers_keywords_and_methods() -> None:
    @mlc.custom_vjp
    def f(p: Any, scale: Any = 2.0) -> Any:
        return {"y": p["a"] * scale, "z": p["b"][0]}

    def backward(kept: Any, c: Any) -> Any:
        return {"a": 4 * c["y"], "b": [5 * c["z"], None]}, (c["y"] * kept).sum()

    f.defvjp(lambda p, scale: (f(p, scale), p["a"]), backward)

    def loss(p: Any) -> Any:
        found = f(p, scale=3.0)
        return (found["y"] + found["z"]).sum()

    found = mlc.grad(loss)({"a": X, "b": [Y, X]})
    close(found["a"], [4.0, 4.0])
    close(found["b"][0], [5.0, 5.0])
    close(found["b"][1], [0.0, 0.0])

    class Scaled:
        factor = 3.0

        @mlc.custom_jvp
        def run(self, x: Any) -> Any:
            return self.factor * x

    Scaled.run.defjvp(lambda p, t: (p[0].factor * p[1], 8 * t[1]))
    close(mlc.grad(lambda x: Scaled().run(x).sum())(X), [8.0, 8.0])


def test_a_rule_for_a_function_of_numpy() -> None:
    f = mlc.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), x), lambda kept, c: (5 * c * np.cos(kept),))
    close(mlc.grad(f)(0.5), 5 * np.cos(0.5))
    close(mlc.vmap(mlc.grad(f))(X), 5 * np.cos(X))


def test_clipped_gradients() -> None:
    """`backward` need not be linear, until forward mode transposes it."""

    @mlc.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda kept, c: (np.clip(c, -1.0, 1.0),))
    close(mlc.grad(lambda x: (3 * clipped(x) * Y).sum())(X), [1.0, -1.0])
    with pytest.raises(DTypeError, match="in forward mode: backward is not linear"):
        mlc.jvp(clipped, (X,), (X,))


# Closures


def closing(kind: str, value: Any) -> Any:
    if kind == "custom_vjp":
        made = mlc.custom_vjp(lambda y: (y * value).sum())
        made.defvjp(lambda y: ((y * value).sum(), None), lambda kept, c: (c * value,))
        return made
    pushed = mlc.custom_jvp(lambda y: (y * value).sum())
    pushed.defjvp(lambda p, t: ((p[0] * value).sum(), (t[0] * value).sum()))
    return pushed


@pytest.mark.parametrize("kind", RULES)
def test_closure_over_a_constant(kind: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return mlc.grad(closing(kind, w * 2))(x)

    close(mlc.compile(f)(X, Y), 2 * Y)
    close(mlc.grad(closing(kind, Y))(X), Y)
    close(mlc.grad(lambda x: closing(kind, mlc.stop_gradient(x))(x))(X), X)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_closure_over_what_varies(kind: str, mode: str) -> None:
    def f(x: Any) -> Any:
        return closing(kind, x * 2)(x)

    with pytest.raises(DTypeError, match="varies with what is differentiated by"):
        mlc.grad(f)(X) if mode == "grad" else mlc.jvp(f, (X,), (X,))


def test_closure_over_what_varies_only_further_out() -> None:
    """The inner derivative is taken; the outer one would miss the closure's part of the value."""

    def f(x: Any) -> Any:
        value, gradient = mlc.value_and_grad(closing("custom_vjp", x * 2))(x)
        return gradient.sum(), value

    close(mlc.compile(f)(X)[0], 2 * X.sum())
    close(mlc.grad(lambda x: f(x)[0])(X), [2.0, 2.0])
    with pytest.raises(DTypeError, match="varies with what is differentiated by"):
        mlc.grad(lambda x: f(x)[1])(X)


# Checkpoints


def deep(x: Any, w: Any) -> Any:
    return np.exp(np.sin(w @ np.tanh(w @ x)))


W = np.array([[0.3, -0.7], [0.2, 0.9]])


@pytest.mark.parametrize("policy", ["nothing", "contractions"])
def test_checkpoints_change_no_gradient(policy: str) -> None:
    def loss(f: Any) -> Any:
        return lambda x, w: f(x, w).sum()

    kept = mlc.checkpoint(deep, policy=policy)
    for found, expected in zip(
        mlc.grad(loss(kept), argnums=(0, 1))(X, W),
        mlc.grad(loss(deep), argnums=(0, 1))(X, W),
        strict=True,
    ):
        close(found, expected)
    close(mlc.hessian(loss(kept))(X, W), mlc.hessian(loss(deep))(X, W))
    close(
        mlc.jvp(lambda x: kept(x, W), (X,), (X,))[1], mlc.jvp(lambda x: deep(x, W), (X,), (X,))[1]
    )
    close(mlc.vmap(mlc.grad(loss(kept)), in_axes=(0, None))(np.stack([X, Y]), W)[0],
          mlc.grad(loss(deep))(X, W))  # fmt: skip


@pytest.mark.parametrize(("policy", "products"), [("nothing", 6), ("contractions", 4)])
def test_what_checkpoints_keep(policy: str, products: int) -> None:
    """The body's two products, two transposed, and again the two (or none) of the body."""
    kept = mlc.checkpoint(deep, policy=policy)
    lowered = mlc.compile(mlc.value_and_grad(lambda x, w: kept(x, w).sum())).lower(X, W)
    module = one_function(lowered.module)
    (op,) = [op for op in module.walk() if isinstance(op, RuleOp)]
    barriers = {op.result for op in module.walk() if isinstance(op, BarrierOp)}
    kept_count = len(op.results) - op.count
    assert kept_count == (0 if policy == "nothing" else 2)
    assert len(barriers) == 2 + kept_count  # x and w, and what is kept, read again
    made_inside = set(op.results[: op.count])
    after = {use.operation for result in made_inside for use in result.uses}
    assert not [x for x in after if x.name != "mlc.reduce"]  # only the function's own result
    program = ops(lowered.text("tensor"))
    assert program.count("mlc.contract") == products
    assert program.count("mlc.tanh") == 2
    plain = ops(mlc.compile(mlc.value_and_grad(lambda x: deep(x, W).sum())).lower(X).text("tensor"))
    assert (plain.count("mlc.contract"), plain.count("mlc.tanh")) == (4, 1)


def test_a_checkpoint_closes_over_what_varies() -> None:
    def f(x: Any) -> Any:
        return mlc.checkpoint(lambda y: np.sin(y * x))(x).sum()

    close(mlc.grad(f)(X), 2 * X * np.cos(X * X))


def test_checkpoint_as_decorator_and_unknown_policy() -> None:
    @mlc.checkpoint(policy="contractions")
    def f(x: Any) -> Any:
        return np.sin(W @ x)

    close(f(X), np.sin(W @ X))
    close(mlc.grad(lambda x: f(x).sum())(X), W.T @ np.cos(W @ X))
    with pytest.raises(ValueError, match="expected one of 'nothing', 'contractions'"):
        mlc.checkpoint(f, policy="everything")


# stop_gradient


def test_stop_gradient() -> None:
    close(mlc.grad(lambda x: (x * mlc.stop_gradient(x)).sum())(X), X)
    close(mlc.jvp(lambda x: x * mlc.stop_gradient(x), (X,), (X,))[1], X * X)
    close(mlc.grad(lambda p: (p["a"] * mlc.stop_gradient(p)["a"]).sum())({"a": X})["a"], X)
    assert mlc.stop_gradient(X) is X
    kept = mlc.compile(mlc.stop_gradient)({"a": X, "n": np.arange(2), "none": None})
    assert kept["none"] is None
    close(kept["n"], [0, 1])


def test_straight_through() -> None:
    def rounded(x: Any) -> Any:
        return x + mlc.stop_gradient(np.round(x) - x)

    x = np.array([0.4, 1.7])
    close(mlc.compile(rounded)(x), [0.0, 2.0])
    close(mlc.grad(lambda x: (rounded(x) ** 2).sum())(x), [0.0, 4.0])


# Second derivatives through loops, branches and checkpoints


@mlc.custom_vjp
def true_sine(x: Any) -> Any:
    return np.sin(x)


true_sine.defvjp(lambda x: (true_sine(x), np.cos(x)), lambda kept, c: (c * kept,))


@mlc.custom_jvp
def pushed_sine(x: Any) -> Any:
    return np.sin(x)


pushed_sine.defjvp(lambda p, t: (pushed_sine(p[0]), t[0] * np.cos(p[0])))

SINES = {"custom_vjp": true_sine, "custom_jvp": pushed_sine, "checkpoint": mlc.checkpoint(np.sin)}
AROUND = {
    "fori_loop": lambda f: lambda x: mlc.fori_loop(0, 3, lambda i, c: f(c) * x, x).sum(),
    "scan": lambda f: lambda x: mlc.scan(lambda c, y: (f(c * y), c.sum()), x, x)[1].sum(),
    "while_loop": lambda f: (
        lambda x: mlc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[1].sum()
    ),
    "cond": lambda f: lambda x: mlc.cond(x[0] > 0, lambda: f(x) * x, lambda: x).sum(),
    "checkpoint": lambda f: lambda x: mlc.checkpoint(lambda y: f(y) * y)(x).sum(),
    "vmap": lambda f: lambda x: mlc.vmap(lambda s: f(s) * s)(x).sum(),
}
SECOND = {
    "forward of reverse": mlc.hessian,
    "reverse of reverse": lambda f: mlc.jacrev(mlc.jacrev(f)),
    "forward of forward": lambda f: mlc.jacfwd(mlc.jacfwd(f)),
    "reverse of forward": lambda f: mlc.jacrev(mlc.jacfwd(f)),
}


@pytest.mark.parametrize(("sine", "around", "modes"), covering([*SINES], [*AROUND], [*SECOND]))
def test_second_derivatives_through_regions(sine: str, around: str, modes: str) -> None:
    close(SECOND[modes](AROUND[around](SINES[sine]))(X), hessian_of_plain(around), rtol=1e-11)


@cache
def hessian_of_plain(around: str) -> Any:
    """Of the program with np.sin itself, forward over reverse."""
    return mlc.hessian(AROUND[around](np.sin))(X)


@pytest.mark.parametrize("kind", RULES)
def test_the_second_derivative_is_that_of_the_rules_own_result(kind: str) -> None:
    """After one derivative the result is what the rule computes, here with another derivative."""
    made: Any
    if kind == "custom_jvp":
        made = mlc.custom_jvp(np.sin)
        made.defjvp(lambda p, t: (np.sin(p[0]), 2 * np.cos(p[0]) * t[0]))
    else:
        made = mlc.custom_vjp(np.sin)
        made.defvjp(lambda x: (np.sin(x), x), lambda x, c: (2 * np.cos(x) * c,))

    def f(x: Any) -> Any:
        return made(x) ** 2

    def forward(g: Any) -> Any:
        return lambda x: mlc.jvp(g, (x,), (1.0,))[1]

    x = 0.3
    want = 4 * np.cos(x) ** 2 - 4 * np.sin(x) ** 2  # of 2 sin(x) (2 cos(x))
    for found in (
        mlc.grad(mlc.grad(f)),
        forward(mlc.grad(f)),
        mlc.grad(forward(f)),
        forward(forward(f)),
    ):
        close(found(x), want)
