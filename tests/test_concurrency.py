"""
Threads, signals, forks and memory of calls. What would end or hang the test process runs in a
process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import mlc

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
HANG_S = 120.0  # a process that takes longer has hung; none of them works for more than seconds

PREFACE = """
import os, sys, warnings
import numpy as np
import mlc
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork in a process with threads
"""


def start(folder: Path, script: str) -> subprocess.Popen[str]:
    """A Python process that runs the script; functions are compiled from its file."""
    path = folder / "script.py"
    path.write_text(PREFACE + dedent(script))
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finished(process: subprocess.Popen[str]) -> list[str]:
    """The lines it prints; it must end by itself, with status 0."""
    try:
        output, errors = process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"the process hangs after printing {output!r} {errors!r}") from None
    assert process.returncode == 0, f"status {process.returncode}: {output}\n{errors}"
    return output.splitlines()


# Threads


@mlc.compile
def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def test_two_threads_call_one_function() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((40 + k, 300)).astype(np.float32) for k in range(8)]
    expected = [softmax.reference(x) for x in inputs]
    gate = threading.Barrier(2)

    def work(first: int) -> None:
        gate.wait()  # the first calls, which compile, meet
        for turn in range(200):
            k = (first + turn) % len(inputs)
            np.testing.assert_allclose(softmax(inputs[k]), expected[k], rtol=1e-5, atol=1e-7)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, first) for first in (0, 3)]:
            future.result(timeout=HANG_S)


def test_two_threads_share_no_arena() -> None:
    """Intermediate values of one call do not reach the other."""

    @mlc.compile(threads=1)
    def f(x: np.ndarray) -> np.ndarray:
        y = x @ x
        return (y - np.max(y)) @ y + np.sum(y)

    rng = np.random.default_rng(1)
    inputs = [rng.integers(-2, 3, (90, 90)).astype(np.float64) for _ in range(2)]
    expected = [f(x) for x in inputs]

    def work(k: int) -> None:
        for _ in range(300):
            np.testing.assert_array_equal(f(inputs[k]), expected[k])

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, k) for k in (0, 1)]:
            future.result(timeout=HANG_S)


def test_one_thread_starts_none(tmp_path: Path) -> None:
    script = """
        before = len(os.listdir("/proc/self/task"))  # NumPy's BLAS has started its own
        @mlc.compile(threads=1)
        def f(x, y):
            return np.tanh(x @ y) + np.sum(x)
        f(np.ones((300, 300)), np.ones((300, 300)))
        f(np.ones((400, 400)), np.ones((400, 400)))
        print(len(os.listdir("/proc/self/task")) - before)
    """
    assert finished(start(tmp_path, script)) == ["0"]


def test_import_starts_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    count = 'len(os.listdir("/proc/self/task"))'
    path.write_text(
        f"import os, numpy\nbefore = {count}\n"
        f"import mlc\nmlc.compile, mlc.numpy\nprint({count} - before)\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True, text=True, check=True, timeout=HANG_S,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert done.stdout.split() == ["0"]


# Ctrl-C

INTERRUPTED = {
    "loop": (
        "lambda x, n: mlc.fori_loop(0, n, lambda i, c: np.tanh(c) * 1.0001, x)",
        "np.ones(200_000), 10**9",
        "np.ones(5), 3",
    ),
    "one kernel": (
        "lambda x, n: np.sum(np.tanh(x[:, None, None] * x[None, :, None] + x[None, None, :]), 2)",
        "np.ones(40_000), 1",  # 64 * 10**12 elements, none of them stored
        "np.ones(5), 3",
    ),
}


@pytest.mark.parametrize("kind", INTERRUPTED)
def test_ctrl_c_ends_the_call_and_not_the_process(tmp_path: Path, kind: str) -> None:
    function, long, short = INTERRUPTED[kind]
    script = f"""
        f = mlc.compile({function})
        first = f({short})
        print("ready", flush=True)
        try:
            f({long})
            print("the call ended by itself")
        except KeyboardInterrupt:
            print("interrupted")
        again = f({short})
        print(np.array_equal(first, again))
    """
    process = start(tmp_path, script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    # it may be compiling still: Python raises the same exception there
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert finished(process) == ["interrupted", "True"]


# Fork


def test_a_child_of_fork_computes_after_a_parallel_region(tmp_path: Path) -> None:
    script = """
        mlc.set_threads(2)
        @mlc.compile
        def f(x):
            return np.sum(np.tanh(x), axis=1) + 1

        x = np.linspace(-1, 1, 4_000_000).reshape(2000, 2000)
        expected = f(x)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(f(x), expected) else 3)
        _, status = os.waitpid(child, 0)
        print("child", os.waitstatus_to_exitcode(status))
        print("parent", np.array_equal(f(x), expected))
    """
    assert finished(start(tmp_path, script)) == ["child 0", "parent True"]


def test_a_child_may_compile_what_its_parent_did_not(tmp_path: Path) -> None:
    script = """
        f = mlc.compile(lambda x: x @ x)
        f(np.ones((300, 300)))
        g = mlc.compile(lambda x: np.exp(x).sum(0))
        x = np.ones((2000, 1000))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            ok = np.allclose(g(x), np.exp(x).sum(0)) and f(np.ones((300, 300)))[0, 0] == 300
            os._exit(0 if ok else 3)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
    """
    assert finished(start(tmp_path, script)) == ["0"]


# Memory


def test_peak_memory_is_results_and_arena(tmp_path: Path) -> None:
    """E = D + (A + B) * C: no array of its size beside the result, while the call runs."""
    script = """
        def of_process(name):
            with open("/proc/self/status") as lines:
                return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

        @mlc.compile
        def f(a, b, c, d):
            return d + (a + b) * c

        rng = np.random.default_rng(0)
        arrays = [rng.random(10_000_000, dtype=np.float32) for _ in range(4)]
        first = f(*arrays)  # compiles; stays alive, so that its memory is not used again
        arena = f.lower(*arrays).compile().memory().arena_bytes
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")  # VmHWM becomes VmRSS
        before = of_process("VmRSS")
        second = f(*arrays)
        grown = of_process("VmHWM") - before
        a, b, c, d = arrays
        assert np.allclose(second, d + (a + b) * c)
        print(grown, second.nbytes, arena)
    """
    grown, result, arena = map(int, finished(start(tmp_path, script))[0].split())
    page_tables_and_pool = 2 * 2**20  # a huge page at either end of the result
    assert result * 0.95 <= grown <= result + arena + page_tables_and_pool
    assert arena == 0
