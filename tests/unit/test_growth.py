"""The work of compiling grows with the program: Python's calls are counted, not seconds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i64

import mlc
from mlc.dialects.dims import Dim, DimsAttr, tensor_type
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.op import TensorOp
from mlc.options import Options
from mlc.passes.plan.fusion.search import Search, parts_of
from mlc.passes.tensor.derivative.emit import trips_of
from mlc.pipeline import run_pipeline
from mlc.text import parse_text
from tests.plans import planned, spec
from tests.unit.test_plan_search import layers, starts_of, table_of

AVX2 = Options(target=named_target("avx2"))
minimum: Any = np.minimum  # of traced values, whose types NumPy's stubs do not know
argsort: Any = np.argsort
select: Any = np.where
VECTOR, SQUARE = np.linspace(0.1, 1.0, 16), np.linspace(0.1, 1.0, 64).reshape(8, 8)

MOST = 10**8

State = tuple[Any, ...]
Step = Callable[[State, int], State]
"""From three values and the number of the step to the next ones."""


def steps_of(function: Callable[..., Any], *args: Any) -> int:
    """The calls of Python functions from tracing to loops."""
    return calls_of(
        lambda: run_pipeline(mlc.compile(function).lower(*args).module, AVX2, until="loops")
    )


def calls_of(work: Callable[[], object]) -> int:
    """The calls of Python functions; more than any test here may take are an error."""
    count = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"
        assert count < MOST

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def unrolled(step: Step, count: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        state = x, x * 0.5, x
        for k in range(count):
            state = step(state, k)
        return state[0]

    return function


def min_plus(s: State, k: int) -> State:
    d = s[0]
    return minimum(d, d[:, k % 8, None] + d[None, k % 8, :]), s[1], s[2]


def clenshaw(s: State, k: int) -> State:
    return 2 * s[2] * s[0] - s[1] + 0.1 * k, s[0], s[2]


def fibonacci(s: State, k: int) -> State:
    return s[1], s[0] * s[1] + s[0], s[2]


def reversed_too(s: State, k: int) -> State:
    return (s[0] + s[0][::-1]) * 0.5, s[1], s[2]


def argmax(s: State, k: int) -> State:
    at, best, x = s
    larger = x[k % 16] > best
    return select(larger, k, at), select(larger, x[k % 16], best), x


def nested_maximum(s: State, k: int) -> State:
    return np.maximum(s[0], np.maximum(s[0][::-1], s[0] * 0.9) + 0.01), s[1], s[2]


def selected(s: State, k: int) -> State:
    least = s[0][k % 8]
    return select(s[0] > least, s[0], least), s[1], s[2]


def stencil(s: State, k: int) -> State:
    x = s[0]
    return x + 0.1 * (np.roll(x, 1) + np.roll(x, -1) - 2 * x), s[1], s[2]


def crossed(s: State, k: int) -> State:
    d = s[0]
    return d * 0.5 + d.T * 0.1 + d[:1] * 0.1 + d[:, :1] * 0.1, s[1], s[2]


def gathered(s: State, k: int) -> State:
    return (s[0] + s[0][argsort(s[0])]) * 0.5, s[1], s[2]


def padded(s: State, k: int) -> State:
    return np.pad(s[0][1:], (0, 1)), s[1], s[2]


def tiled(s: State, k: int) -> State:
    return np.tile(s[0], 2)[3:19], s[1], s[2]


def repeated(s: State, k: int) -> State:
    return np.broadcast_to(s[0], (3, 16))[1], s[1], s[2]


def of_other_shape(s: State, k: int) -> State:
    return s[0].T.reshape((4, 16) if k % 2 else (16, 4)), s[1], s[2]


def doubled_in_place(s: State, k: int) -> State:
    x, k = s[0], k % 16
    return np.concatenate([x[:k], x[k : k + 1] * 2, x[k + 1 :]]), s[1], s[2]


VIEWS: list[tuple[Step, Any]] = [
    (padded, VECTOR),
    (tiled, VECTOR),
    (repeated, VECTOR),
    (of_other_shape, SQUARE),
    (doubled_in_place, VECTOR),
]
KINDS: list[tuple[Step, Any]] = [
    (min_plus, SQUARE),
    (clenshaw, VECTOR),
    (fibonacci, VECTOR),
    (reversed_too, VECTOR),
    (argmax, VECTOR),
]
MORE: list[tuple[Step, Any]] = [
    (nested_maximum, VECTOR),
    (selected, VECTOR),
    (stencil, VECTOR),
    (crossed, SQUARE),
    (gathered, VECTOR),
]
CASES = [
    *(pytest.param(*kind, id=kind[0].__name__) for kind in KINDS),
    *(pytest.param(*kind, id=kind[0].__name__, marks=pytest.mark.slow) for kind in MORE),
]


def growth(program: Callable[[int], Callable[..., Any]], short: int, *args: Any) -> float:
    """The exponent with which the steps grow where the program becomes four times as long."""
    steps_of(program(2), *args)  # what is done once, whatever the program
    few, many = (steps_of(program(count), *args) for count in (short, 4 * short))
    return math.log(many / few, 4)


@pytest.mark.parametrize(("step", "start"), CASES)
def test_values_read_through_several_views_take_linear_work(step: Step, start: Any) -> None:
    assert growth(lambda count: unrolled(step, count), 8, start) < 1.25


@pytest.mark.parametrize(("step", "start"), VIEWS)
def test_chains_of_views_take_linear_work(step: Step, start: Any) -> None:
    assert growth(lambda count: unrolled(step, count), 40, start) < 1.15


@pytest.mark.parametrize("step", [padded, doubled_in_place], ids=lambda step: step.__name__)
def test_gradients_of_chains_of_views_take_linear_work(step: Step) -> None:
    def gradient(count: int) -> Any:
        function = unrolled(step, count)

        def total(x: Any) -> Any:
            return (function(x) ** 2).sum()

        return mlc.grad(total)

    assert growth(gradient, 12, VECTOR) < 1.25


def test_what_is_seen_through_many_views_is_stored() -> None:
    def function(x: Any) -> Any:
        y = x
        for _ in range(40):
            y = np.pad(y[1:], (1, 0)) * 2 + np.pad(y[:-1], (0, 1))
            y = np.pad(y[:, 1:], ((0, 0), (1, 0)))
        for _ in range(250):
            y = np.pad(y[1:], (1, 0))
        return y

    x = np.linspace(0.1, 1.0, 300 * 5).reshape(300, 5)
    np.testing.assert_array_equal(mlc.compile(function)(x), function(x))


def joined(count: int, *, in_loop: bool) -> str:
    """Each value is two parts of the one before, joined: 2 ** count ways from the last to %x."""
    vector, lines, y = "tensor<4xf32>", list[str](), "%x"
    for k in range(count):
        lines += [
            f"%a{k} = mlc.slice {y}[<0>, <1>] : {vector} -> tensor<2xf32>",
            f"%b{k} = mlc.slice {y}[<2>, <1>] : {vector} -> tensor<2xf32>",
            f"%y{k} = mlc.join 0 %b{k}, %a{k} : tensor<2xf32>, tensor<2xf32> -> {vector}",
        ]
        y = f"%y{k}"
    if in_loop:
        lines += [
            "%n = mlc.constant dense<3> : tensor<i64>",
            f"%r = mlc.for %i to %n iter(%c = %x) -> ({vector}) {{",
            f"%s = mlc.add %c, {y} : {vector}",
            f"mlc.yield %s : {vector}",
            "}",
        ]
    else:
        lines.append(f"%r = mlc.exp {y} : {vector}")
    body = "\n  ".join(lines)
    return f"""func.func @main(%x: {vector}) -> ({vector}) {{
  {body}
  func.return %r : {vector}
}}"""


@pytest.mark.parametrize("in_loop", [False, True])
def test_values_seen_in_many_ways_take_linear_work(in_loop: bool) -> None:
    def calls(count: int) -> int:
        module = parse_text(joined(count, in_loop=in_loop), "joined")
        return calls_of(lambda: run_pipeline(module, AVX2, until="loops"))

    calls(2)
    assert math.log(calls(80) / calls(20), 4) < 1.25


def test_a_sum_of_a_size_with_itself_again_and_again_is_read_once() -> None:
    size: TensorOp = SizeOp.create(
        result_types=[tensor_type(i64, ())], properties={"dims": DimsAttr((Dim.symbol("n"),))}
    )
    for _ in range(60):
        size = AddOp.create(operands=[size.results[0]] * 2, result_types=[tensor_type(i64, ())])
    found: list[Dim | None] = []
    assert calls_of(lambda: found.append(trips_of(size.results[0]))) < 5_000
    assert found == [Dim.symbol("n") * 2**60]


def test_what_a_known_number_is_computed_from_does_not_call_itself() -> None:
    start = np.linspace(0.1, 1.0, 4)

    def function(x: Any) -> Any:
        y = np.asarray(start) * np.ones(x.shape)
        for _ in range(90):
            y = y + y * 0.1
        return x * 2 if y.sum() > 0 else x

    with frames(120):
        found = mlc.compile(function)(start)
    np.testing.assert_array_equal(found, start * 2)


def test_sixty_steps_of_shortest_paths() -> None:
    x = np.random.default_rng(0).random((60, 60))

    def function(d: Any) -> Any:
        for k in range(60):
            d = minimum(d, d[:, k, None] + d[None, k, :])
        return d

    np.testing.assert_array_equal(mlc.compile(function)(x), function(x))


@pytest.mark.parametrize("step", [min_plus, reversed_too], ids=lambda step: step.__name__)
def test_code_grows_with_the_program(step: Step) -> None:
    """What is read at several points of a kernel is computed at each; how often, is bounded."""

    def size(count: int) -> int:
        start = SQUARE if step is min_plus else VECTOR
        module = mlc.compile(unrolled(step, count)).lower(start).module
        return sum(1 for _ in run_pipeline(module, AVX2, until="loops").walk())

    assert size(40) < 8 * size(10)


# Depth ------------------------------------------------------------------------------------------


@contextmanager
def frames(count: int) -> Generator[None]:
    """At most so many calls inside one another from here on."""
    depth, frame = 0, sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def cells(w: Any, u: Any, x: Any) -> Any:
    """A long short-term memory, unrolled."""

    def gate(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    h = c = x[0] * 0
    for t in range(x.shape[0]):
        z = x[t] @ w + h @ u
        i, f, o, g = z[:, :4], z[:, 4:8], z[:, 8:12], z[:, 12:]
        c = gate(f) * c + gate(i) * np.tanh(g)
        h = gate(o) * np.tanh(c)
    return (h**2).sum()


def test_the_search_of_plans_does_not_call_itself() -> None:
    table = table_of(layers(300, 64))
    part = max(parts_of(table), key=len)
    starts = starts_of(table, part)
    with frames(100):
        search = Search(table, part, steps=400)
        search.run(starts)
    assert search.counts.visited > 200


def test_masks_of_cotangents_do_not_call_one_another() -> None:
    def gradient(count: int) -> Any:
        function = unrolled(argmax, count)

        def total(x: Any) -> Any:
            return function(x).sum()

        return mlc.compile(mlc.grad(total))

    run_pipeline(gradient(2).lower(VECTOR).module, AVX2, until="tensor")  # loads modules
    with frames(300):
        run_pipeline(gradient(150).lower(VECTOR).module, AVX2, until="tensor")


LENGTHS = (1500, pytest.param(20_000, marks=pytest.mark.slow))


@pytest.mark.parametrize("length", LENGTHS)
def test_long_chains(length: int) -> None:
    def chain(x: Any) -> Any:
        for k in range(length):
            x = np.sqrt(x) if k % 2 else x + 1.0
        return x

    np.testing.assert_array_equal(mlc.compile(chain)(VECTOR), chain(VECTOR))


@pytest.mark.parametrize("count", [12, pytest.param(256, marks=pytest.mark.slow)])
def test_unrolled_cells_and_their_gradient(count: int) -> None:
    rng = np.random.default_rng(0)
    w, u = rng.standard_normal((2, 4, 16)) * 0.3
    x = rng.standard_normal((count, 2, 4))
    np.testing.assert_allclose(mlc.compile(cells)(w, u, x), cells(w, u, x), rtol=1e-12)
    found = mlc.compile(mlc.grad(cells))(w, u, x)
    d = np.zeros_like(w)
    d[1, 2] = 1e-6
    difference = (cells(w + d, u, x) - cells(w - d, u, x)) / 2e-6
    np.testing.assert_allclose(found[1, 2], difference, rtol=1e-5)


@pytest.mark.slow
def test_unrolled_cells_take_linear_work() -> None:
    few, many = (
        steps_of(cells, *np.random.default_rng(0).random((2, 4, 16)), np.ones((count, 2, 4)))
        for count in (12, 48)
    )
    assert math.log(many / few, 4) < 1.3


def test_loops_of_a_product_hold_each_step_once() -> None:
    def product(x: Any, w: Any) -> Any:
        return x @ w.T

    text = planned(product, spec("B", 512), spec(512, 512), target="avx512").text("loops")
    cases = 4  # few rows, up to 13, some, many: each packs as it reads
    assert text.count("vector.shuffle") == cases * 64  # a square of 16 rows is turned, in a loop
    assert "vector.create_mask" not in text  # whole panels, and nothing behind them
    tiles = 3 * 4 + 5 * 4 + 6 * 4 + 6 * 4
    assert text.count("vector.store") == cases * 16 + tiles  # squares, results
