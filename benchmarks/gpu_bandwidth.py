"""
Compiled NumPy functions on a GPU against its own copy: achieved over copied bytes a second.

    python benchmarks/gpu_bandwidth.py

Arrays of 512 MiB stay on the device, ten times the level-2 cache of an H200. Times are the
device's, medians of 7 times 10 calls in a row, which hide the host's part of a call; that is
measured apart, on arrays of 8 floats. The bytes counted are those that the kernels of the plan must
move, each buffer once: a chain of kernels writes and reads what stands between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import mlc
from mlc.runtime.cuda import device

ELEMENTS = 128 << 20
FLOOR = 0.6  # what elementwise kernels and row reductions must reach


def seconds(call: Callable[[], object], repeat: int = 7, calls: int = 10) -> float:
    """Median time on the device of one call."""
    gpu = device()
    times: list[float] = []
    for _ in range(2 + repeat):
        with gpu.active():
            start, end = gpu.native.event(timed=True), gpu.native.event(timed=True)
            gpu.native.record(start, 0)
            for _ in range(calls):
                call()
            gpu.native.record(end, 0)
            time = gpu.native.seconds_between(start, end) / calls
            times.append(time)
    return median(times[2:])


def copy_bytes_per_s() -> float:
    """The device's copy, bytes read and written."""
    gpu = device()
    size = 4 * ELEMENTS
    with gpu.active():
        source, target = gpu.pool.take(size), gpu.pool.take(size)
    return 2 * size / seconds(lambda: gpu.native.copy(target.pointer, source.pointer, size, 0))


def fused(x: Any, y: Any) -> Any:
    return x + y * y


def add(x: Any, y: Any) -> Any:
    return x + y


def exp(x: Any) -> Any:
    return np.exp(x)


def tanh(x: Any) -> Any:
    return np.tanh(x)


def row_sum(x: Any) -> Any:
    return x.sum(axis=1)


def row_max(x: Any) -> Any:
    return x.max(axis=1)


def row_argmax(x: Any) -> Any:
    return x.argmax(axis=1)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def column_sum(x: Any) -> Any:
    return x.sum(axis=0)


def full_sum(x: Any) -> Any:
    return x.sum()


def transpose(x: Any) -> Any:
    return x.T + 1.0


def product(x: Any, y: Any) -> Any:
    return x @ y


def double(x: Any) -> Any:
    return x + x


def of_rows(length: int) -> tuple[int, int]:
    """A shape of about ELEMENTS elements."""
    return ELEMENTS // length, length


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "x + y*y": (fused, [(ELEMENTS,), (ELEMENTS,)]),
    "exp(x)": (exp, [(ELEMENTS,)]),
    "tanh(x)": (tanh, [(ELEMENTS,)]),
    "x + row": (add, [of_rows(4096), (4096,)]),
    "x + row of 10": (add, [of_rows(10), (10,)]),
    "sum of rows": (row_sum, [of_rows(4096)]),
    "sum of rows of 1000": (row_sum, [of_rows(1000)]),
    "sum of rows of 64": (row_sum, [of_rows(64)]),
    "sum of rows of 10": (row_sum, [of_rows(10)]),
    "max of rows": (row_max, [of_rows(4096)]),
    "argmax of rows": (row_argmax, [of_rows(4096)]),
    "softmax of rows": (softmax, [of_rows(4096)]),
    "softmax of rows of 256": (softmax, [of_rows(256)]),
    "sum of columns": (column_sum, [of_rows(4096)]),
    "sum": (full_sum, [of_rows(4096)]),
    "transpose": (transpose, [(16384, 8192)]),
}
"""Functions and the shapes of their arguments."""


def main() -> None:
    """Prints the table."""
    rng = np.random.default_rng(0)
    ceiling = copy_bytes_per_s()
    print(f"{device().name}: a copy moves {ceiling / 1e9:.0f} GB/s (read + written)")
    for name, (function, shapes) in CASES.items():
        compiled: Any = mlc.compile(target="cuda")(function)
        arguments = [
            mlc.device_put(np.resize(rng.random(1 << 20, np.float32), shape)) for shape in shapes
        ]
        compiled(*arguments)
        exe = compiled.lower(*[np.zeros(s, np.float32) for s in shapes]).compile()
        rate = exe.cost().bytes_moved / seconds(lambda f=compiled, a=arguments: f(*a))
        print(f"{name:>24}: {rate / 1e9:6.0f} GB/s, {rate / ceiling:5.1%} of a copy")
    products(rng)
    host_part()


def products(rng: np.random.Generator) -> None:
    """Matrix products on CUDA cores in full precision."""
    for dtype in (np.float32, np.float64):
        for n in (1024, 4096):
            x = mlc.device_put(rng.random((n, n)).astype(dtype))
            compiled: Any = mlc.compile(target="cuda")(product)
            compiled(x, x)
            rate = 2 * n**3 / seconds(lambda f=compiled, x=x: f(x, x), calls=3)
            print(f"{f'{n} x {n} {np.dtype(dtype)}':>24}: {rate / 1e12:6.2f} TFLOP/s")


def host_part() -> None:
    """What a call costs on the host."""
    compiled: Any = mlc.compile(target="cuda")(double)
    for where, x in (
        ("on the device", mlc.device_put(np.ones(8, np.float32))),
        ("NumPy", np.ones(8)),
    ):
        compiled(x)
        start = time.perf_counter()
        for _ in range(500):
            compiled(x)
        print(
            f"{'call on 8 floats':>24}: {(time.perf_counter() - start) / 500 * 1e6:.0f} us {where}"
        )


if __name__ == "__main__":
    main()
