"""Donated arguments: the same arrays come back, and hold what the function returns."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.importers.mlir import signature_of
from mlc.frontend.trace.containers import flatten
from mlc.options import Options
from mlc.pipeline import run_pipeline
from mlc.runtime.interpret import entry_function
from mlc.runtime.probe import host_target
from mlc.text import parse_text

RNG = np.random.default_rng(0)


def leaves(value: object) -> list[Any]:
    return [x for x in flatten(value)[0] if isinstance(x, np.ndarray)]


def donated(function: Callable[..., Any], names: Any, *args: Any, calls: int = 3) -> Any:
    """Calls plain and donating versions; results agree, and `compiled` is handed back."""
    compiled, plain = mlc.compile(donate=names)(function), mlc.compile(function)
    for _ in range(calls):
        mine = copy.deepcopy(args)
        expected = plain(*copy.deepcopy(args))
        found = compiled(*mine)
        assert flatten(found)[1] == flatten(expected)[1]
        for x, y in zip(flatten(found)[0], flatten(expected)[0], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    found = compiled.reference(*copy.deepcopy(args))
    for x, y in zip(flatten(found)[0], flatten(plain(*args))[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
    return compiled


def copies(compiled: Any, *args: Any) -> int:
    """Bytes that the program's copy kernels write."""
    return compiled.lower(*args).compile().plan().copied_bytes


def momentum(params: Any, state: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent with momentum on a network of two layers."""
    h = np.maximum(x @ params["layers"][0] + params["b"], 0)
    e = (h @ params["layers"][1] - y) / x.shape[0]
    back = (e @ params["layers"][1].T) * (h > 0)
    g = {"layers": [x.T @ back, h.T @ e], "b": back.sum(axis=0)}
    v0, v1 = (0.9 * v + d for v, d in zip(state["layers"], g["layers"], strict=True))
    vb = 0.9 * state["b"] + g["b"]
    new = [w - 0.1 * v for w, v in zip(params["layers"], (v0, v1), strict=True)]
    params = {"layers": new, "b": params["b"] - 0.1 * vb}
    return params, {"layers": [v0, v1], "b": vb}, (e * e).sum()


def network(inner: int) -> Any:
    return {
        "layers": [RNG.standard_normal((20, inner)), RNG.standard_normal((inner, 5))],
        "b": RNG.standard_normal(inner),
    }


@pytest.mark.parametrize("inner", [30, 700])
def test_a_training_step_updates_parameters_and_state_in_place(inner: int) -> None:
    params, state = network(inner), network(inner)
    x, y = RNG.standard_normal((640, 20)), RNG.standard_normal((640, 5))
    compiled = donated(momentum, ("params", "state"), params, state, x, y)
    before = leaves((params, state))
    for _ in range(3):
        params, state, _ = compiled(params, state, x, y)
        assert all(a is b for a, b in zip(leaves((params, state)), before, strict=True))
    program = compiled.lower(params, state, x, y).compile()
    assert program.plan().copied_bytes == 0
    assert program.memory().results_bytes == 8  # the loss
    assert compiled.stats().compilations + compiled.stats().cache_hits == 1
    assert compiled.stats().remarks == ()


def test_memory_does_not_grow() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    step = mlc.compile(donate="w")(lambda w, g: w - 0.5 * g)
    w, g = np.ones((512, 512)), np.ones((512, 512))
    out = step(w, g)
    begin = resident()
    for _ in range(1000):
        out = step(out, g)
        assert out is w
    assert resident() - begin < w.nbytes
    assert w[0, 0] == 1 - 0.5 * 1001


UNSAFE: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...], int]] = {
    "factor": (lambda w: w.T @ w, "w", (RNG.standard_normal((9, 9)),), 1),
    "large factor": (lambda w: w @ w, "w", (RNG.standard_normal((130, 130)),), 1),
    "long sums": (
        lambda w, x: w - 0.1 * (x.T @ (x * 2)),
        "w",
        (RNG.standard_normal((40, 40)), RNG.standard_normal((2000, 40))),
        0,
    ),
    "reversed": (lambda w: w + w[::-1], "w", (np.arange(9.0),), 1),
    "transposed": (lambda w: w.T + 1, "w", (RNG.standard_normal((6, 6)),), 1),
    "row sums": (
        lambda w: w - w.sum(axis=1, keepdims=True),
        "w",
        (RNG.standard_normal((6, 7)),),
        0,
    ),
    "read later": (lambda w: (w * 2, np.sort(w)), "w", (RNG.standard_normal(50),), 0),
    "used by what is read later": (
        lambda w: ((v := np.exp(w)), np.cumsum(v[::-1]) + w),
        "w",
        (RNG.standard_normal(50),),
        1,
    ),
    "gathered": (lambda w, i: w[i] * 2, "w", (np.arange(9.0), np.arange(9)[::-1].copy()), 1),
    "shifted part": (lambda w: np.roll(w, 1), "w", (np.arange(9.0),), 1),
    "crossed": (lambda a, b: (b + 1, a + 1), ("a", "b"), (np.arange(9.0), np.ones(9)), 1),
    "reshaped": (lambda w: (w.reshape(-1) * 2).reshape(w.shape), "w", (np.ones((3, 4)),), 0),
    "no axes": (lambda s, x: s + x.sum(), "s", (np.array(1.0), np.ones(99)), 0),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_old_elements_are_there_as_long_as_they_are_read(name: str) -> None:
    function, names, args, copied = UNSAFE[name]
    compiled = donated(function, names, *args)
    first = args[0].copy()
    found = compiled(first, *copy.deepcopy(args[1:]))
    assert any(x is first for x in flatten(found)[0])
    assert (copies(compiled, *args) > 0) == bool(copied)


def test_an_argument_returned_as_it_came_is_not_moved() -> None:
    step = mlc.compile(donate=("old", "now"))(lambda old, now: (now, 2 * now - old))
    u, v = np.zeros(9), np.ones(9)
    a, b = step(u, v)
    assert a is v
    assert b is u
    assert b.tolist() == [2.0] * 9
    assert copies(step, u, v) == 0


def test_loops_carry_in_the_donated_memory() -> None:
    def descend(w: Any, x: Any, n: Any) -> Any:
        return mlc.fori_loop(0, n, lambda _, w: w - 0.1 * (x.T @ (x @ w)), w)

    w, x = RNG.standard_normal(9), RNG.standard_normal((5, 9))
    for n in (0, 1, 5):
        compiled = donated(descend, "w", w, x, n)
    assert copies(compiled, w, x, 5) == 0

    def rows(w: Any, x: Any) -> Any:
        def body(i: Any, w: Any) -> Any:
            return mlc.numpy.dynamic_update(w, 2 * x[i][None], (i, 0))

        return mlc.fori_loop(0, 4, body, w)

    compiled = donated(rows, "w", np.ones((5, 3)), RNG.standard_normal((5, 3)))
    assert copies(compiled, np.ones((5, 3)), np.ones((5, 3))) == 0

    def stays(w: Any) -> Any:
        return mlc.fori_loop(0, 3, lambda _, c: c + w[::-1], w)

    donated(stays, "w", np.arange(5.0))

    def swapping(a: Any, b: Any) -> Any:
        return mlc.fori_loop(0, 3, lambda _, c: (c[1], c[0] + 1), (a, b))

    donated(swapping, ("a", "b"), np.arange(5.0), np.ones(5))

    def halves(w: Any) -> Any:
        return mlc.while_loop(lambda w: w.max() > 1, lambda w: w * 0.5, w)

    donated(halves, "w", np.arange(9.0))

    def chosen(w: Any, c: Any) -> Any:
        return mlc.cond(c > 0, lambda: w * 2, lambda: w[::-1])

    donated(chosen, "w", np.arange(5.0), np.array(1))
    donated(chosen, "w", np.arange(5.0), np.array(0))


@dataclasses.dataclass
class Model:
    w: Any
    b: Any
    steps: Any
    name: str


def test_dataclasses_numbers_and_what_no_result_replaces() -> None:
    def step(model: Model, extra: Any) -> Any:
        return Model(model.w * 2, model.b + 1, model.steps + 1, model.name), extra.sum()

    compiled = mlc.compile(donate=("model", "extra"))(step)
    model, extra = Model(np.ones(3), np.zeros(2, np.float32), np.array(0), "m"), np.ones((2, 2))
    for k in range(1, 4):
        new, total = compiled(model, extra)
        assert (new.w is model.w, new.b is model.b, new.steps is model.steps) == (True,) * 3
        assert int(new.steps) == k
        assert (new.name, total) == ("m", 4.0)
    (remark,) = compiled.stats().remarks
    assert remark.startswith("donated argument extra: no result")
    numbers = mlc.compile(donate="s")(lambda s: {"lr": s["lr"] * 2, "w": s["w"] * s["lr"]})
    w = np.ones(3)
    assert numbers({"lr": 0.5, "w": w})["w"] is w
    assert numbers({"lr": np.float64(0.5), "w": w})["lr"] == 1.0


def test_sizes_may_vary() -> None:
    step = mlc.compile(donate="w", dynamic={"w": {0: "B"}, "g": {0: "B"}})(lambda w, g: w - g)
    for n in (3, 1, 100_000):
        w = np.ones(n)
        assert step(w, np.ones(n)) is w
        assert not w.any()
    assert step.stats().compilations + step.stats().cache_hits == 1


def test_overlap_is_refused_at_every_call() -> None:
    step = mlc.compile(donate="w")(lambda w, g: w - g)
    memory = np.zeros(20)
    for _ in range(3):
        assert step(memory[:10], memory[10:]).base is memory
        with pytest.raises(mlc.NotSupportedError, match="writes to w, which shares memory with g"):
            step(memory[:10], memory[9:19])
    memory.flags.writeable = False
    with pytest.raises(ValueError, match="donated argument w is read-only"):
        step(memory[:10], np.ones(10))


def test_written_arguments_are_written_in_place() -> None:
    def step(x: Any, y: Any) -> Any:
        x += y
        return x.sum()

    compiled = mlc.compile(step)
    x, y = np.ones((64, 64)), np.ones((64, 64))
    assert compiled(x, y) == 8192
    assert (x == 2).all()
    assert copies(compiled, x, y) == 0
    assert compiled.lower(x, y).compile().memory().results_bytes == 8
    view = np.ones((64, 128))
    assert compiled(view[:, ::2], y) == 8192  # strided: computed apart, and written back
    assert view[0, :4].tolist() == [2, 1, 2, 1]


def test_the_attribute_is_printed_and_parsed(tmp_path: Path) -> None:
    compiled = mlc.compile(donate="w")(lambda x, w: (x.sum(), w - x))
    text = compiled.lower(np.ones(4), np.ones(4)).text("tensor")
    assert "mlc.donated = 1" in text
    path = tmp_path / "step.mlir"
    path.write_text(text)
    module = parse_text(text, str(path))
    signature = signature_of(entry_function(module))
    assert [spec.donated for spec in signature.args] == [False, True]
    assert [spec.alias_of for spec in signature.results] == [None, 1]
    plan = str(run_pipeline(module, Options(target=host_target()), until="plan"))
    assert "over = [" in plan
    assert "#mlc.buffer<out 1>" in plan
