"""What the process grows by while programs over pairs run: results and arena, never the pairs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).parent.parent
SLACK = 768 * 1024
"""Bytes: pages of the stack, of code that runs for the first time, and of tables of pages."""

HEAD = """
import resource
import numpy as np
import mlc

def of_process(name):
    with open("/proc/self/status") as lines:
        return next(int(l.split()[1]) * 1024 for l in lines if l.startswith(name))

def measure(f, *x, more=None):
    exe = mlc.compile(f).lower(*x).compile()
    memory = exe.memory()
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # VmHWM becomes VmRSS
    before = of_process("VmRSS")
    if more is not None:  # what may be mapped from here on
        limit = of_process("VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    result = exe(*x)
    print(of_process("VmHWM") - before, memory.results_bytes, memory.arena_bytes)
    return result

rng = np.random.default_rng(0)
mlc.compile(lambda x: (x @ x).sum(axis=0))(rng.random((600, 600), dtype=np.float32))  # threads
"""


def run(script: str) -> list[int]:
    """What the script printed: growth, bytes of results and of the arena, and what else it says."""
    text = HEAD + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


PROGRAMS = {
    "attention": """
        n, d = 16384, 64
        q, k, v = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(3))
        y = measure(lambda q, k, v: mlc.nn.attention(q, k, v), q, k, v, more=64 * 2**20)
        p = np.exp((q[5] @ k.T) / 8)
        np.testing.assert_allclose(y[5], (p / p.sum()) @ v, rtol=1e-3, atol=1e-5)
        print(n * n * 4)
    """,
    "causal attention": """
        n, d = 16384, 32
        q, k, v = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(3))
        f = lambda q, k, v: mlc.nn.attention(q, k, v, causal=True)
        y = measure(f, q, k, v, more=64 * 2**20)
        np.testing.assert_allclose(y[0], v[0], rtol=1e-6)
        print(n * n * 4)
    """,
    "nearest": """
        n = 30000
        x, y = (rng.standard_normal((n, 3), dtype=np.float32) for _ in range(2))
        def f(x, y):
            d = x[:, None, :] - y[None, :, :]
            return (d * d).sum(axis=-1).argmin(axis=1)
        found = measure(f, x, y, more=64 * 2**20)
        assert found[17] == ((x[17] - y) ** 2).sum(axis=1).argmin()
        print(n * n * 4)
    """,
    "factorised loss": """
        n = 8192
        x = rng.random((n, n), dtype=np.float32)
        u, v = (rng.random((n, 16), dtype=np.float32) for _ in range(2))
        loss = lambda x, u, v: (x * np.log(u @ v.T + np.float32(1e-3))).sum()
        measure(lambda *a: mlc.grad(loss, argnums=(1, 2))(*a), x, u, v, more=64 * 2**20)
        print(n * n * 4)
    """,
}

SLOW = {
    "radial basis functions": """
        n = 60000
        x = rng.standard_normal((n, 3), dtype=np.float32)
        b = rng.standard_normal(n, dtype=np.float32)
        def f(x, b):
            d = x[:, None, :] - x[None, :, :]
            return np.exp(-(d * d).sum(axis=-1)) @ b
        y = measure(f, x, b, more=64 * 2**20)
        for k in (0, 59999):
            want = np.exp(-((x[k] - x).astype(float) ** 2).sum(axis=1)) @ b
            np.testing.assert_allclose(y[k], want, rtol=1e-3, atol=1e-3)
        print(n * n * 4)
    """,
    "gradient of radial basis functions": """
        n = 60000
        x = rng.standard_normal((n, 3), dtype=np.float32)
        b = rng.standard_normal(n, dtype=np.float32)
        def energy(x, b):
            d = x[:, None, :] - x[None, :, :]
            return b @ (np.exp(-(d * d).sum(axis=-1)) @ b)
        gx, gb = measure(lambda *a: mlc.grad(energy, argnums=(0, 1))(*a), x, b, more=64 * 2**20)
        d = x[3].astype(float) - x
        e = np.exp(-(d * d).sum(axis=1))
        np.testing.assert_allclose(gb[3], 2 * e @ b, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(gx[3], -4 * b[3] * ((b * e) @ d), rtol=1e-3, atol=1e-3)
        print(n * n * 4)
    """,
}


def check(script: str) -> None:
    grown, results, arena, pairs = run(script)
    assert grown <= results + arena + SLACK
    assert results + arena < pairs // 16


@pytest.mark.parametrize("name", PROGRAMS)
def test_pairs_take_no_memory(name: str) -> None:
    check(PROGRAMS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_sixty_thousand_points(name: str) -> None:
    """The matrix would have 14.4 GB; 64 MiB are left to the process."""
    check(SLOW[name])


def test_the_limit_holds() -> None:
    """The same process cannot make the pairs."""
    n = 16384
    script = f"""
        x = rng.standard_normal(({n}, 4), dtype=np.float32)
        compiled = mlc.compile(fusion="none")(lambda x: np.exp(x @ x.T).sum(axis=1))
        exe = compiled.lower(x).compile()
        limit = of_process("VmSize") + 64 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            exe(x)
        except MemoryError:
            print(1)
    """
    assert run(script) == [1]
