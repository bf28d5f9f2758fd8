"""The same bits for every number of workers, also where each packs for itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

import mlc
from mlc.dialects import par
from mlc.dialects.analysis.shares import WAKING
from mlc.memory import memory_plan_of
from tests.plans import RUNNABLE, planned, spec
from tests.sweeps import covering

COUNTS = (1, 2, 3, 16)


def random(*shape: int) -> Any:
    """Numbers around zero."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def same_bits(f: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result, which must not depend on the number of threads."""
    results = [mlc.compile(threads=n, **options)(f)(*arguments) for n in COUNTS]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    return results[0]


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize("batches", [2, 5, 17, 48])
def test_batched_products(batches: int) -> None:
    a, b = random(batches, 40, 64), random(batches, 64, 130)
    np.testing.assert_allclose(same_bits(product, a, b), a @ b, atol=1e-4)


def test_batches_by_a_symbol() -> None:
    a, b = random(7, 40, 64), random(7, 64, 130)
    found = same_bits(product, a, b, dynamic={"a": {0: "B"}, "b": {0: "B"}})
    np.testing.assert_allclose(found, a @ b, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(21, 30), (21, 18), (40, 10), (6, 70), (2, 600)])
def test_columns_of_several_letters(rows: int, columns: int) -> None:
    """No row of positions ends in the next one, which is another worker's."""

    def mixed(w: Any, x: Any) -> Any:
        return np.einsum("fc,ncyx->nfyx", w, x[:, :, 1:, 1:])

    w, x = random(32, 48), random(3, 48, rows, columns)
    np.testing.assert_allclose(same_bits(mixed, w, x), mixed(w, x), atol=1e-4)


def test_each_worker_has_memory_for_its_packed_block() -> None:
    def turned(a: Any, b: Any) -> Any:
        return a @ np.swapaxes(b, -1, -2)

    levels = planned(turned, spec(8, 40, 64), spec(8, 600, 64), target="avx2")
    assert "block(g, 1, team, dynamic), pack(b" in levels.text("plan")
    plan = memory_plan_of(levels.at("loops"))
    one = plan.arena_bytes((), threads=1)
    assert one > 0
    found = [plan.arena_bytes((), threads=n) for n in (2, 8, 16)]
    assert found == [2 * one, 8 * one, 16 * one]


# One team for a call


def chain(x: Any, w: Any) -> Any:
    h = np.tanh(x @ w)
    return h, h.sum(), np.exp(h).sum(axis=0), np.sort(h, axis=0)


def diffused(u: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        return u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) - 2 * u)

    return mlc.fori_loop(0, 7, step, u)


def grown(x: Any) -> Any:
    def small(c: Any) -> Any:
        return c.max() < 50.0

    def more(c: Any) -> Any:
        return np.abs(c) * 1.3 + 0.01

    return mlc.while_loop(small, more, x)


def chosen(x: Any) -> Any:
    def bent(x: Any) -> Any:
        return np.tanh(x) * 2

    def centred(x: Any) -> Any:
        return x - x.mean(axis=0)

    return mlc.cond(x.sum() > 0, bent, centred, x)


def placed(x: Any, i: Any) -> Any:
    y = np.tanh(x)
    y[i] = np.exp(y[i]) + 1
    return y, (y[i] * 2).sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "chain": (chain, (random(400, 300), random(300, 500))),
    "diffused": (diffused, (random(600, 900),)),
    "grown": (grown, (random(500, 900),)),
    "chosen": (chosen, (random(500, 901),)),
    "placed": (placed, (random(700, 800), np.arange(0, 700, 3))),
}


@pytest.mark.parametrize(("name", "symbols"), covering([*PROGRAMS], [False, True], strength=1))
def test_a_team_gives_the_bits_of_one_worker(name: str, symbols: bool) -> None:
    function, arguments = PROGRAMS[name]
    results = [mlc.compile(threads=n, dynamic=symbols)(function)(*arguments) for n in (1, 2, 3, 16)]
    for other in results[1:]:
        for a, b in zip(parts(results[0]), parts(other), strict=True):
            np.testing.assert_array_equal(a, b)
    compiled = mlc.compile(threads=2, dynamic=symbols)(function).lower(*arguments).compile()
    assert "mlc.team" in compiled.text("plan")
    assert compiled.text("loops").count("mlc_par.region") == 1


def parts(result: Any) -> tuple[Any, ...]:
    """The arrays of a result."""
    return cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)


def test_an_error_stops_the_team() -> None:
    def picked(x: Any, i: Any) -> Any:
        y = np.tanh(x)
        z = np.exp(y[i])
        return np.sort(z @ z.T, axis=0)

    x, i = random(700, 500), np.arange(700)
    f = mlc.compile(threads=3)(picked)
    np.testing.assert_allclose(f(x, i), picked(x, i), rtol=1e-3, atol=1e-2)
    for wrong in (0, 350, 699):
        bad = i.copy()
        bad[wrong] = 700
        with pytest.raises(IndexError, match="700"):
            f(x, bad)
        np.testing.assert_array_equal(f(x, i), f(x, i))


def test_a_cancelled_call_leaves_an_endless_loop() -> None:
    def endless(x: Any) -> Any:
        def small(c: Any) -> Any:
            return c.max() < 1e9

        def halved(c: Any) -> Any:
            return np.sin(c) * 0.5

        return mlc.while_loop(small, halved, x)

    f = mlc.compile(threads=2)(endless)
    x = random(300, 2000)
    assert "mlc.team" in f.lower(x).compile().text("plan")
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(x)
    timer.join()


def framed(u: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        v = u.copy()
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return v

    return mlc.fori_loop(0, 40, step, u)


def team_of(f: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    """Shares of the work of a call's team, and those that repay waking a worker."""
    levels = mlc.compile(threads=2, target=RUNNABLE)(f).lower(*arguments).levels
    (op,) = (op for op in levels.at("loops").walk() if isinstance(op, par.TeamOp))
    shares, waking = (number_of(x) for x in (op.shares, op.waking))
    return shares, waking


def number_of(value: SSAValue) -> int:
    """The number that a value is."""
    assert isinstance(value.owner, arith.ConstantOp)
    number = value.owner.value
    assert isinstance(number, IntegerAttr)
    return number.value.data


def test_sweeps_that_repay_a_barrier_are_shared_in_loops() -> None:
    x = random(256, 256)
    compiled = mlc.compile(threads=2, target=RUNNABLE)(framed).lower(x).compile()
    assert "mlc.team" in compiled.text("plan")
    same_bits(framed, x)

    def once(u: Any) -> Any:
        return np.sqrt(u) + 1

    def twice(u: Any) -> Any:
        return mlc.fori_loop(0, 2, lambda _, u: once(u), u)

    def often(u: Any) -> Any:
        return mlc.fori_loop(0, 1000, lambda _, u: once(u), u)

    (shares, alone), (_, few), (same, many) = (team_of(f, x) for f in (once, twice, often))
    assert shares == same > 1
    assert (alone, few) == (shares // WAKING, 2 * shares // WAKING)
    assert many >= shares


@pytest.mark.parametrize("shape", [(40, 30), (1, 700), (6, 5, 90)])
def test_each_piece_of_a_concatenation_is_shared(shape: tuple[int, ...]) -> None:
    def joined(x: Any) -> Any:
        return mlc.fori_loop(0, 50, lambda _, x: np.concatenate([x[:1], x[1:] + x[:-1]], 0), x)

    x = np.abs(random(300, *shape))
    same_bits(joined, x / x.max())
