"""
Gradients of loops: a training step of an LSTM, and how compile time grows with a model's depth.

`loop` is the gradient of a `mlc.scan`, `written out` that of as many copies of its body. JAX and
PyTorch take part where they are installed.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import mlc
from benchmarks.harness import Call, Settings, Table, compare, report, settings
from tests.deep_models import lstm_inputs, lstm_loss

ROOT = Path(__file__).parent.parent
STEPS, BATCH, WIDTH = 256, 32, 128


def module(name: str) -> Any:
    """A peer, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def gradient(loss: Any, scan: Any, threads: int | None = None) -> Any:
    """The value and gradient with respect to the parameters, compiled."""

    def run(p: Any, x: Any, y: Any) -> Any:
        return loss(p, x, y, scan)

    return mlc.compile(threads=threads)(mlc.value_and_grad(run))


def training_step(options: Settings) -> Table:
    """Forward and backward of an LSTM in f32."""
    p, x, y = lstm_inputs(STEPS, BATCH, WIDTH, np.float32)
    ours = gradient(lstm_loss, mlc.scan, options.threads)
    forward = mlc.compile(threads=options.threads)(lstm_loss)
    both: dict[str, Call] = {"mlc": lambda: ours(p, x, y)}
    once: dict[str, Call] = {"mlc": lambda: forward(p, x, y)}
    if (jax := module("jax")) is not None:
        for name, cases in (("jit", once), ("value_and_grad", both)):
            cases["JAX"] = jax_call(jax, name, p, x, y)
    if (torch := module("torch")) is not None:
        torch.set_num_threads(options.threads)
        once["PyTorch"], both["PyTorch"] = torch_calls(torch, x, y)
    title = f"LSTM, {STEPS} steps, batch {BATCH}, {WIDTH} wide, f32"
    return compare(title, {"forward": once, "forward and backward": both}, options)


def jax_call(jax: Any, kind: str, p: Any, x: Any, y: Any) -> Call:
    """The same loss in JAX."""
    np_, sigmoid = jax.numpy, jax.nn.sigmoid

    def loss(p: Any, x: Any, y: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            h, c = carry
            z = row @ p["wx"] + h @ p["wh"] + p["b"]
            i, f, g, o = np_.split(z, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np_.tanh(g)
            h = sigmoid(o) * np_.tanh(c)
            return (h, c), h

        zero = np_.zeros((x.shape[1], WIDTH), x.dtype)
        return ((jax.lax.scan(step, (zero, zero), x)[1] - y) ** 2).mean()

    run = jax.jit(loss if kind == "jit" else jax.value_and_grad(loss))
    args = jax.device_put((p, x, y))
    return lambda: jax.block_until_ready(run(*args))


def torch_calls(torch: Any, x: Any, y: Any) -> tuple[Call, Call]:
    """`torch.nn.LSTM`, which has a second bias, forward, and forward and backward."""
    model, given, wanted = torch.nn.LSTM(WIDTH, WIDTH), torch.tensor(x), torch.tensor(y)

    def forward() -> Any:
        with torch.no_grad():
            return ((model(given)[0] - wanted) ** 2).mean()

    def both() -> None:
        model.zero_grad()
        ((model(given)[0] - wanted) ** 2).mean().backward()

    return forward, both


COMPILE = """
import sys, time
import mlc, numpy as np
from benchmarks.deep_loops import gradient
from tests.deep_models import transformer_inputs, transformer_loss, written_out
scan = mlc.scan if sys.argv[1] == "loop" else written_out
gradient(transformer_loss, scan).lower(*transformer_inputs(1, 1, 3, 5, np.float32)).compile()
compiled, args = gradient(transformer_loss, scan), transformer_inputs(int(sys.argv[2]), 2, 16, 32)
start = time.perf_counter()
compiled.lower(*args).compile()
print(time.perf_counter() - start)
"""


def compile_s(kind: str, blocks: int) -> float:
    """Seconds of tracing and compiling the gradient of a transformer, in a process of its own."""
    command = [sys.executable, "-c", COMPILE, kind, str(blocks)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "MLC_CACHE_DIR": cache}
        return float(subprocess.check_output(command, env=environment, text=True, cwd=ROOT))


def depth(options: Settings) -> Table:
    """Seconds of compiling 4 and 16 blocks, in turns; the median of the ratios."""
    table = Table("Compile time of a transformer's gradient", ["blocks", "4", "16", "16 / 4"])
    rounds = {"loop": 5} if options.quick else {"loop": 9, "written out": 1}
    for kind, count in rounds.items():
        pairs = [(compile_s(kind, 4), compile_s(kind, 16)) for _ in range(count)]
        few, many = (statistics.median(found) for found in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        table.add(kind, few, many, f"{ratio:.2f}")
    return table


def main() -> None:
    """Both tables."""
    options = settings(__doc__ or "")
    report(options, training_step(options), depth(options))


if __name__ == "__main__":
    main()
