"""
Functions of a module that others use: derivatives and batches of them are written out when they are
compiled, into what tracing would have made of them at once; a cached start writes out nothing.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

import mlc
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.calls import uses_of_functions
from mlc.frontend.call.lowered import Lowered
from mlc.frontend.importers.mlir import read_module
from mlc.frontend.transforms import derivatives
from mlc.passes.tensor import made_of
from mlc.passes.tensor.expand_transforms import one_function
from mlc.runtime.interpret import interpret
from mlc.text import parse_text

R = np.random.default_rng(0)
W, B = R.standard_normal((4, 3)), R.standard_normal(3)
X, Y = R.standard_normal((5, 4)), R.standard_normal((5, 3))
V = R.standard_normal(4)
TABLE, MANY = R.standard_normal((6, 3)), R.standard_normal((5, 6, 3))


def loss(w: Any, b: Any, x: Any, y: Any) -> Any:
    return ((np.tanh(x @ w + b) - y) ** 2).mean()


def with_counts(params: Any, x: Any, y: Any) -> Any:
    h = np.maximum(x @ params["w"] + params["b"], 0)
    return ((h - y) ** 2).sum(), {"h": h, "count": 3, "rows": x.shape[0], "x": x}


def picked(w: Any, y: Any) -> Any:
    scores = w - np.log(np.exp(w).sum(axis=1, keepdims=True))
    return -scores[np.arange(y.size), y].mean()


def recurrent(h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(TABLE[:4, 0] * h + x)
        return h, h.sum()

    h, sums = mlc.scan(step, h, xs)
    return (h * h).sum() + sums.sum()


def kept_less(w: Any) -> Any:
    return mlc.checkpoint(lambda w: np.sin(np.exp(w)))(w).sum()


def around(w: Any, x: Any) -> Any:
    scale = np.exp(x).sum()
    return mlc.grad(lambda w: (w * scale + TABLE[0, 0]).prod())(w)


def pushed(w: Any, n: Any) -> Any:
    value, tangent, aux = mlc.jvp(
        lambda w, n: ((w * n).sum(), n + 1), (w, n), (w, None), has_aux=True
    )
    return value, tangent, aux


def square(x: Any) -> Any:
    return (x * x).sum()


@mlc.custom_vjp
def clipped(x: Any) -> Any:
    return np.minimum(x, 1.0)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g * (x < 1),))


def descended(x: Any) -> Any:
    for _ in range(3):
        x = x - 0.1 * mlc.grad(square)(x)
    return x


def branched(x: Any) -> Any:
    return mlc.grad(square)(x) if x.sum() > 0 else x


def scanned(x: Any) -> Any:
    return mlc.fori_loop(0, 3, lambda _, x: x - 0.1 * mlc.grad(square)(x), x)


def halved(x: Any) -> Any:
    return mlc.jvp(lambda x: mlc.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x), (x,), (x,))


def wayback(v: Any) -> Any:
    value, pull = mlc.vjp(lambda v: np.sin(v) * v.sum(), v)
    for _ in range(2):
        (v,) = pull(v * value)
    return value, v


def wayforward(v: Any) -> Any:
    value, push, more = mlc.linearize(lambda v: (np.sin(v) * v.sum(), v[0]), v, has_aux=True)
    return value, more, mlc.fori_loop(0, 3, lambda _, t: push(t), v)


def loopback(v: Any, xs: Any) -> Any:
    value, pull = mlc.vjp(lambda v: recurrent(v, xs), v)
    return value, pull(1.0), pull(value)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "grad": (mlc.grad(loss), (W, B, X, Y), 1),
    "several arguments": (mlc.grad(loss, argnums=(1, 0, 2)), (W, B, X, Y), 1),
    "value and grad": (mlc.value_and_grad(loss), (W, B, X, Y), 1),
    "anything beside": (
        mlc.value_and_grad(with_counts, has_aux=True), ({"w": W, "b": B}, X, Y), 1,
    ),
    "an index that may fail": (mlc.grad(picked), (Y, np.array([0, 1, 2, 0, 1])), 1),
    "a loop": (mlc.grad(recurrent, argnums=(0, 1)), (V, X), 1),
    "a checkpoint": (mlc.grad(kept_less), (W,), 1),
    "values from around": (around, (V, W), 1),
    "forward": (lambda w: mlc.jvp(kept_less, (w,), (w,)), (W,), 1),
    "forward, with an integer": (pushed, (V, 3), 1),
    "batch": (mlc.vmap(loss, in_axes=(None, 0, None, 1), out_axes=0), (W, TABLE, X, MANY), 1),
    "batch, axes": (
        mlc.vmap(lambda x, s: (x.T * s, 1.0), in_axes=(-1, None), out_axes=(1, 0)), (X, 2.0), 1,
    ),
    "batch of nothing": (mlc.vmap(lambda x: x + 1, in_axes=None, axis_size=3), (V,), 1),
    "gradients of examples": (
        mlc.vmap(mlc.grad(loss), in_axes=(None, None, 0, 0)), (W, B, X, Y), 2,
    ),
    "gradient of a batch": (
        mlc.grad(lambda w: mlc.vmap(lambda x: np.sin(x @ w).sum())(X).sum()), (W,), 2,
    ),
    "second": (mlc.grad(lambda v: (mlc.grad(lambda v: (v**3).sum())(v) ** 2).sum()), (V,), 2),
    "forward over reverse": (
        lambda v: mlc.jvp(mlc.grad(lambda v: np.sin(v).prod()), (v,), (v,)), (V,), 2,
    ),
    "hessian": (mlc.hessian(lambda v: np.sin(v).prod()), (V,), 5),
    "jacrev": (mlc.jacrev(lambda v: np.sin(v) * v.sum()), (V,), 3),
    "jacfwd": (mlc.jacfwd(lambda v: (np.sin(v) * v.sum(), v[0])), (V,), 3),
    "way back, later": (wayback, (V,), 3),
    "way forward, later": (wayforward, (V,), 2),
    "way back of a loop": (loopback, (V, X), 3),
    "in trips": (descended, (V,), 3),
    "in a branch": (branched, (V,), 1),
    "in a loop": (scanned, (V,), 1),
    "in while": (halved, (V,), 1),
    "a rule": (mlc.grad(lambda x: clipped(x).sum()), (V,), 1),
}  # fmt: skip
"""By name: a function, arguments, and how many ops of its traced program name functions."""


def lowered(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Lowered:
    return mlc.compile(function).lower(*arguments)


def said(text: str) -> object:
    """What a program computes, op by op, whatever its values are called and in whatever order."""
    known: dict[SSAValue, object] = {}

    def block(inside: Block, depth: int) -> object:
        known.update({x: ("argument", depth, k) for k, x in enumerate(inside.args)})
        end: object = None
        for op in inside.ops:
            properties = sorted((name, str(x)) for name, x in op.properties.items())
            regions = [block(region.block, depth + 1) for region in op.regions]
            operands = tuple(known[x] for x in op.operands)
            kinds = tuple(str(x.type) for x in op.results)
            end = hash((op.name, operands, kinds, tuple(properties), tuple(regions)))
            known.update({x: (end, k) for k, x in enumerate(op.results)})
        return end

    return block(entry_function(parse_text(text, "program")).body.block, 0)


def uses(module: ModuleOp) -> list[str]:
    return [op.name for op in uses_of_functions(module)]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has transformations written out while they are traced."""
    from importlib import import_module

    def never(*_: object, **__: object) -> None:
        return None

    def use() -> None:
        monkeypatch.setattr(derivatives, "private_function", never)
        batches = import_module("mlc.frontend.transforms.vmap")
        monkeypatch.setattr(batches, "private_function", never)

    return use


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_out_later_is_the_same(name: str, at_once: Callable[[], None]) -> None:
    function, arguments, count = PROGRAMS[name]
    later = lowered(function, arguments)
    assert len(uses(later.module)) == count
    later.module.verify()
    assert not uses(one_function(later.module))
    found = later.text("tensor")
    at_once()
    now = lowered(function, arguments)
    assert not uses(now.module)
    assert said(found) == said(now.text("tensor"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_out_computes_it(name: str, at_once: Callable[[], None]) -> None:
    function, arguments, _ = PROGRAMS[name]
    found = mlc.compile(function).reference(*arguments)
    at_once()
    np.testing.assert_equal(found, mlc.compile(function).reference(*arguments))


def test_sizes_stay_open() -> None:
    step = mlc.compile(dynamic={"x": {0: "N"}, "y": {0: "N"}})(
        mlc.vmap(mlc.grad(lambda x, y: ((x * x).sum() - y.sum()) ** 2))
    )
    text = step.lower(X, Y).text("trace")
    assert 'size ["N"]' in text
    for n in (5, 2):
        x, y = X[:n], Y[:n]
        expected = 4 * ((x * x).sum(1) - y.sum(1))[:, None] * x
        np.testing.assert_allclose(step(x, y), expected)
    assert step.stats().compilations == 1


def test_what_is_returned_may_have_sizes_of_its_own() -> None:
    @mlc.compile(dynamic={"x": {0: "N"}, "y": {0: "M"}})
    def f(x: Any, y: Any) -> Any:
        return mlc.grad(lambda x: ((x * x).sum(), y), has_aux=True)(x)

    gradient, other = f(X, Y)
    np.testing.assert_allclose(gradient, 2 * X)
    np.testing.assert_array_equal(other, Y)
    assert uses(f.lower(X, Y).module) == ["mlc.pull_back"]


# In loops, branches, and with rules


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (descended, 3),
        (branched, 1),
        (halved, 1),
        (scanned, 1),
        (mlc.grad(lambda x: clipped(x).sum()), 1),
    ],
    ids=["trips", "a branch", "while", "a loop", "a rule"],
)
def test_in_loops_branches_and_of_rules(function: Callable[..., Any], expected: int) -> None:
    traced = lowered(function, (V,)).module
    assert len(uses(traced)) == expected
    functions = {use.callee_name for use in uses_of_functions(traced)}
    assert len(functions) == 1  # trips share one


def test_values_that_something_else_holds() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        kept: list[Any] = []

        def noted(x: Any) -> Any:
            kept.append(np.exp(x))
            return kept[0].sum()

        return mlc.grad(noted)(x), kept[0]

    gradient, kept = f(V)
    np.testing.assert_allclose(gradient, np.exp(V))
    np.testing.assert_array_equal(kept, gradient)


def test_what_fails_fails() -> None:
    with pytest.raises(IndexError):
        mlc.compile(mlc.grad(picked))(Y, np.array([0, 1, 2, 0, 3]))

    def unread(x: Any, n: Any) -> Any:
        _ = TABLE[n]
        return (x * x).sum()

    with pytest.raises(IndexError):
        mlc.grad(unread)(X, 9)


def test_a_derivative_that_is_not_there_names_the_line() -> None:
    def whole(x: Any) -> Any:
        return np.linalg.qr(x, mode="complete")[0].sum()

    with pytest.raises(mlc.MlcError, match=r"(?s)qr.*return np\.linalg\.qr"):
        mlc.grad(whole)(W)


# A cached start


def test_a_cached_start_differentiates_and_batches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        work = getattr(made_of, name)

        def counted(*args: Any) -> Any:
            done.append(name)
            return work(*args)

        return counted

    names = ("pull_back", "push_forward", "batch_block")
    for name in names:
        monkeypatch.setattr(made_of, name, counting(name))

    def step(w: Any, x: Any) -> Any:
        value, gradient = mlc.value_and_grad(lambda w: np.cos(w * 1.25).sum())(w)
        return value, gradient, mlc.vmap(np.exp)(x), mlc.jvp(np.sin, (w,), (gradient,))

    first = mlc.compile(step)
    expected = first(W, X)
    assert sorted(done) == sorted(names)
    again = mlc.compile(step)
    found = again(W, X)
    assert sorted(done) == sorted(names)
    assert (again.stats().compilations, again.stats().cache_hits) == (0, 1)
    np.testing.assert_equal(found, expected)


# Modules of other makers

TEXT = """
func.func private @square(%x: tensor<?xf64, #mlc.dims<"N">>)
    -> (tensor<?xf64, #mlc.dims<"N">>, tensor<i64>) {
  %y = mlc.mul %x, %x : tensor<?xf64, #mlc.dims<"N">>
  %n = mlc.size <"N"> : tensor<i64>
  func.return %y, %n : tensor<?xf64, #mlc.dims<"N">>, tensor<i64>
}
func.func @energy(%w: tensor<f64>, %x: tensor<?xf64, #mlc.dims<"2*M">>)
    -> (tensor<f64>, tensor<i64>) attributes {mlc.assume = #mlc.dims<"M - 1">} {
  %y, %n = mlc.call @square(%x) sizes ["2*M"]
    : (tensor<?xf64, #mlc.dims<"2*M">>) -> (tensor<?xf64, #mlc.dims<"2*M">>, tensor<i64>)
  %s = mlc.reduce "sum" "a->" %y : tensor<?xf64, #mlc.dims<"2*M">> -> tensor<f64>
  %e = mlc.mul %w, %s : tensor<f64>
  func.return %e, %n : tensor<f64>, tensor<i64>
}
"""


@pytest.fixture
def energy_file(tmp_path: Path) -> Path:
    path = tmp_path / "energy.mlir"
    path.write_text(TEXT)
    return path


def test_the_interpreter_calls_functions(energy_file: Path) -> None:
    module, _ = read_module(energy_file)
    for made in (module, one_function(module)):
        energy, count = interpret(made, [np.array(2.0), V], {"M": 2})
        np.testing.assert_allclose([energy, count], [2 * (V * V).sum(), 4])


def test_a_module_is_a_function(energy_file: Path) -> None:
    energy = mlc.mlir.load(energy_file)
    value, count = energy(2.0, V)
    np.testing.assert_allclose([value, count], [2 * (V * V).sum(), 4])
    text = energy.lower().text("trace")
    assert text.count("mlc.call @energy") == text.count("mlc.call @square") == 1

    def first(w: Any, x: Any) -> Any:
        return energy(w, x)[0]

    gradient = mlc.compile(mlc.grad(first, argnums=(0, 1)))
    assert uses(gradient.lower(2.0, V).module) == ["mlc.pull_back", "mlc.call", "mlc.call"]
    found = gradient(2.0, V)
    np.testing.assert_allclose(found[0], (V * V).sum())
    np.testing.assert_allclose(found[1], 4 * V)
    np.testing.assert_allclose(mlc.vmap(first, in_axes=(None, 0))(1.0, X), (X * X).sum(1))
    mlc.check_grads(lambda x: first(2.0, x), (V,), order=2)


def test_derivatives_and_batches_of_other_systems_programs() -> None:
    tangent = mlc.stablehlo.load(
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "  %0 = stablehlo.tanh %x : tensor<4xf64>\n  return %0 : tensor<4xf64>\n}\n"
    )
    gradient = mlc.grad(lambda x: tangent(x).sum())
    assert uses(lowered(gradient, (V,)).module) == ["mlc.pull_back", "mlc.call"]
    assert uses(lowered(mlc.vmap(tangent), (X,)).module) == ["mlc.batch", "mlc.call"]
    np.testing.assert_allclose(gradient(V), 1 - np.tanh(V) ** 2)
    np.testing.assert_allclose(mlc.vmap(tangent)(X), np.tanh(X))


def test_functions_of_other_systems_modules_are_functions_of_the_program() -> None:
    twice = mlc.stablehlo.load(
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "  %0 = call @half(%x) : (tensor<4xf64>) -> tensor<4xf64>\n"
        "  %1 = call @half(%0) : (tensor<4xf64>) -> tensor<4xf64>\n"
        "  return %1 : tensor<4xf64>\n}\n"
        "func.func private @half(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "  %0 = stablehlo.constant dense<0.5> : tensor<4xf64>\n"
        "  %1 = stablehlo.multiply %0, %x : tensor<4xf64>\n  return %1 : tensor<4xf64>\n}\n"
    )
    assert uses(twice.lower().module) == ["mlc.call", "mlc.call"]
    both = lowered(lambda x: twice(x) + twice(2 * x), (V,))
    assert both.text("trace").count("func.func private") == 2  # each stands there once
    np.testing.assert_array_equal(both.compile()(V), V / 4 + V / 2)


def test_one_program_may_use_several_modules(energy_file: Path) -> None:
    one, other = mlc.mlir.load(energy_file), mlc.mlir.load(energy_file)

    @mlc.compile
    def f(x: Any) -> Any:
        return one(1.0, x)[0] + one(2.0, x[:2])[0] + other(3.0, x)[0]

    text = f.lower(V).text("trace")
    assert text.count("func.func private") == 4  # those of `one` stand there once
    square = (V * V).sum()
    np.testing.assert_allclose(f(V), 4 * square + 2 * (V[:2] ** 2).sum())


def test_arguments_that_a_module_does_not_take(energy_file: Path) -> None:
    energy = mlc.mlir.load(energy_file)
    with pytest.raises(mlc.ShapeError, match=r"shape \(3,\); expected \(2\*M,\)"):
        energy(2.0, V[:3])
    with pytest.raises(mlc.ShapeError, match=r"axis 0 of argument 1 is 3; expected 2\*M"):
        mlc.compile(lambda x: energy(2.0, x))(V[:3])
    with pytest.raises(mlc.ShapeError, match="M - 1 is 0 or more; here it is -1"):
        energy(2.0, V[:0])
    with pytest.raises(mlc.DTypeError, match=r"argument 1 is f32 \(.*\); expected f64 \(2\*M,\)"):
        energy(2.0, V.astype(np.float32))
    with pytest.raises(
        TypeError, match=r"takes \(f64\[\], f64\[2\*M\]\) where M - 1 >= 0; found 1"
    ):
        energy(V)


def test_a_function_that_uses_itself_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "again.mlir"
    path.write_text(
        "func.func private @f(%x: tensor<f64>) -> tensor<f64> {\n"
        "  %y = mlc.call @f(%x) : (tensor<f64>) -> (tensor<f64>)\n"
        "  func.return %y : tensor<f64>\n}\n"
        "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n"
        "  %y = mlc.call @f(%x) : (tensor<f64>) -> (tensor<f64>)\n"
        "  func.return %y : tensor<f64>\n}\n"
    )
    with pytest.raises(mlc.MlcError, match="uses itself: @f -> @f"):
        mlc.mlir.load(path)


def test_what_a_function_returns_may_be_known() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        gradient, rows = mlc.grad(lambda x: ((x * x).sum(), x.shape[0]), has_aux=True)(x)
        return gradient, np.zeros(rows + 1)

    gradient, zeros = f(V)
    np.testing.assert_allclose(gradient, 2 * V)
    assert zeros.shape == (5,)


def test_sizes_that_a_function_is_not_for(tmp_path: Path) -> None:
    path = tmp_path / "least.mlir"
    path.write_text(
        'func.func private @f(%x: tensor<?xf64, #mlc.dims<"N">>) -> tensor<?xf64, #mlc.dims<"N">>'
        ' attributes {mlc.assume = #mlc.dims<"N - 9">} {\n'
        '  func.return %x : tensor<?xf64, #mlc.dims<"N">>\n}\n'
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "  %y = mlc.call @f(%x) sizes [4] : (tensor<4xf64>) -> (tensor<4xf64>)\n"
        "  func.return %y : tensor<4xf64>\n}\n"
    )
    with pytest.raises(
        mlc.ShapeError, match="@f takes N - 9 to be 0 or more; where @main uses it, that is -5"
    ):
        mlc.mlir.load(path)(V)
