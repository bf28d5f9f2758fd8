"""`exe.memory()`: what lies where while each kernel runs, known before anything runs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.dialects import abi
from mlc.levels import Levels
from mlc.memory import memory_plan_of
from mlc.registry import load

ROOT = Path(__file__).parent.parent
RNG = np.random.default_rng(3)


def random(*shape: int) -> Any:
    return RNG.standard_normal(shape, dtype=np.float32)


def softmax(x: Any) -> Any:
    e: Any = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def mlp(x: Any, w: Any, v: Any) -> Any:
    h = np.tanh(x @ w)
    return (h - h.mean(axis=0)) @ v


def ordered(x: Any) -> Any:
    return np.sort(np.exp(x), axis=1), np.argsort(x, axis=1)


def solved(a: Any, b: Any) -> Any:
    solve: Any = np.linalg.solve
    return solve(a @ a.T + 1.0, b)


def looped(x: Any, w: Any) -> Any:
    def body(i: Any, carried: Any) -> Any:
        a, b = carried
        return b + a.sum(), np.tanh(a @ w)

    return mlc.fori_loop(0, 5, body, (x, x * 2))


def doubled_until(x: Any) -> Any:
    def unfinished(c: Any) -> Any:
        return c.sum() < 100.0

    def doubled(c: Any) -> Any:
        return np.abs(c) * 2.0 + c.mean()

    return mlc.while_loop(unfinished, doubled, x)


def centred(x: Any) -> Any:
    return (x - x.mean(axis=0)) * 2.0


def chosen(x: Any) -> Any:
    return mlc.cond(x.sum() > 0, softmax, centred, x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (random(70, 33),)),
    "mlp": (mlp, (random(50, 40), random(40, 130), random(130, 9))),
    "ordered": (ordered, (random(40, 30),)),
    "solved": (solved, (random(20, 20), random(20, 3))),
    "looped": (looped, (random(24, 24), random(24, 24))),
    "doubled_until": (doubled_until, (np.ones((6, 7), np.float32),)),
    "chosen": (chosen, (random(30, 20),)),
}


def reserved_bytes(executable: Any) -> int:
    """The arena of the one context that the calls so far have left behind."""
    state = executable.entry._alive()
    context = ctypes.c_size_t.from_address(state.address + abi.STATE_FREE_CONTEXTS).value
    return ctypes.c_size_t.from_address(context + abi.CTX_ARENA_BYTES).value if context else 0


@pytest.mark.parametrize("name", CASES)
def test_arena_is_what_the_call_reserves(name: str) -> None:
    """By one thread: a call of several reserves for those that it finds worth their start."""
    function, arguments = CASES[name]
    executable = mlc.compile(threads=1)(function).lower(*arguments).compile()
    executable(*arguments)
    assert reserved_bytes(executable) == executable.memory().arena_bytes


@pytest.mark.parametrize("name", CASES)
def test_arena_is_what_the_entry_computes(name: str) -> None:
    """The bytes that the entry's own arithmetic asks for."""
    function, arguments = CASES[name]
    levels = mlc.compile(function).lower(*arguments).compile().levels
    reserved = memory_plan_of(levels.at("loops")).arena_bytes((), threads=mlc.get_threads())
    assert reserved == levels.memory({}).arena_bytes


def tiled(function: Callable[..., Any], *arguments: Any) -> Levels:
    """A program with tile loops, at the plan level."""
    levels = mlc.compile(function).lower(*arguments).compile().levels
    module = levels.at("tensor")
    passes = ("form-tiles", "form-kernels", "donate-arguments", "schedule", "plan-buffers")
    for name in passes:
        load(f"mlc-{name}")().apply(Context(), module)
    levels.planned = module
    return levels


def test_tile_loops_have_an_area_for_each_thread() -> None:
    levels = tiled(softmax, mlc.TensorSpec("B", 1000))
    plan, memory = levels.report({"B": 300}), levels.memory({"B": 300})
    (kernel,) = plan.kernels
    assert len(kernel.phases) > 1
    (loop,) = [step for step in memory.steps if step.what == "tiles"]
    phases = [step for step in memory.steps if step.inside == loop.number]
    assert len(phases) > 1
    assert loop.trips is not None
    assert {phase.runs for phase in kernel.phases} == {loop.trips}
    assert [step.place for step in phases] == [f"0.{k}" for k in range(len(phases))]
    assert plan.tiles
    assert not plan.intermediates
    threads = mlc.get_threads()
    areas = {held.place: held.bytes for step in phases for held in step.held}
    private = {place: size for place, size in areas.items() if place.startswith("private")}
    assert private
    assert all(size % threads == 0 for size in private.values())
    assert memory.arena_bytes >= max(private.values())
    assert memory.arena_bytes < 300 * 1000 * 4, "no value of the result's size beside it"


@pytest.mark.parametrize("name", ["softmax", "mlp", "ordered", "chosen"])
def test_arena_of_open_sizes(name: str) -> None:
    function, arguments = CASES[name]
    dynamic: Any = mlc.compile(dynamic={"x": {0: "B"}}, threads=1)
    executable = dynamic(function).lower(*arguments).compile()
    executable(*arguments)
    rows = arguments[0].shape[0]
    assert reserved_bytes(executable) == executable.memory(B=rows).arena_bytes
    more = executable.memory(B=1000 * rows)
    assert more.arena_bytes >= executable.memory(B=rows).arena_bytes, "tiles do not grow"
    assert more.peak_bytes > executable.memory(B=rows).peak_bytes
    assert more.peak_step.live_bytes > executable.memory(B=rows).peak_step.live_bytes


@pytest.mark.parametrize("name", CASES)
def test_what_is_live_fits(name: str) -> None:
    """Every value has its place for itself, inside its slot, and all of them fit the peak."""
    function, arguments = CASES[name]
    memory = mlc.compile(function).lower(*arguments).compile().memory()
    assert memory.arguments_bytes == sum(x.nbytes for x in arguments)
    assert memory.arena_bytes >= sum(memory.slots_bytes)
    kernels = [step for step in memory.steps if step.kernel is not None]
    assert kernels
    for step in kernels:
        places = [held.place for held in step.held]
        assert len(set(places)) == len(places)
        assert step.live_bytes == sum(held.bytes for held in step.held) + step.scratch_bytes
        assert step.live_bytes <= memory.peak_bytes
        for held in step.held:
            kind, number = held.place.split()
            assert kind != "arena" or held.bytes <= memory.slots_bytes[int(number)]
    assert memory.peak_step.live_bytes == max(step.live_bytes for step in kernels)


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of a line of a function of this file."""
    lines = Path(__file__).read_text().splitlines()
    first = function.__code__.co_firstlineno
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if n > first and text in line)}"


def test_values_have_their_lines() -> None:
    memory = mlc.compile(mlp).lower(*CASES["mlp"][1]).compile().memory()
    stored = {(h.made_by, h.source) for step in memory.steps for h in step.held}
    assert ("tanh", line_of(mlp, "np.tanh")) in stored
    assert [a.made_by for a in memory.arguments] == ["x", "w", "v"]


def test_steps_of_a_loop_lie_inside_it() -> None:
    memory = mlc.compile(looped).lower(*CASES["looped"][1]).compile().memory()
    (loop,) = [step for step in memory.steps if step.what == "for"]
    inside = [step for step in memory.steps if step.inside == loop.number]
    assert loop.trips == 5
    assert {"reduce", "contract tanh"} <= {step.what for step in inside}
    assert loop.live_bytes == max(step.live_bytes for step in inside)
    assert [step.number for step in memory.steps] == list(range(len(memory.steps)))


def test_a_donated_argument_costs_nothing() -> None:
    def descend(w: Any, g: Any) -> Any:
        return w - 0.5 * g

    donating: Any = mlc.compile(donate="w")
    memory = donating(descend).lower(random(30, 30), random(30, 30)).compile().memory()
    (step,) = memory.steps
    assert [held.place for held in step.held] == ["argument 0"]
    assert (step.live_bytes, memory.peak_bytes) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_is_what_the_process_grows_by(tmp_path: Path) -> None:
    """Rows scaled by their sums, one value of 64 MiB stored on the way."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import numpy as np
            import mlc

            def of_process(name):
                with open("/proc/self/status") as lines:
                    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith(name))

            def f(x):
                y = np.tanh(x) + np.exp(x)
                return y / y.sum(axis=0) + y.max(axis=1, keepdims=True)

            x = np.random.default_rng(0).random((4096, 4096), dtype=np.float32)
            exe = mlc.compile(f).lower(x).compile()
            small = mlc.compile(f)(x[:8])  # starts the threads
            memory = exe.memory()
            with open("/proc/self/clear_refs", "w") as clear:
                clear.write("5")  # VmHWM becomes VmRSS
            before = of_process("VmRSS")
            result = exe(x)
            print(of_process("VmHWM") - before, memory.results_bytes, memory.arena_bytes)
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    grown, results, arena = map(int, done.stdout.split())
    assert results == 4096 * 4096 * 4
    assert arena > results
    pages = 2 * 2**20  # a huge page at an end, and page tables
    assert abs(grown - results - arena) <= pages
