"""
Compiled scans, sorts and scatters on a GPU: seconds on the device, and PyTorch's where it is there.

    python benchmarks/gpu_ordering.py

Arrays stay on the device. For scans the share of the device's copy bandwidth is printed too; what
is counted is one array read and one written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc
from benchmarks.gpu_bandwidth import ELEMENTS, copy_bytes_per_s, seconds

MILLION = 1_000_000
Array = np.ndarray[Any, Any]


def _rows(width: int) -> Array:
    rng = np.random.default_rng(0)
    return np.resize(rng.random(1 << 20, np.float32), (ELEMENTS // width, width))


def _numbers(count: int, dtype: Any) -> Array:
    drawn = np.random.default_rng(1).standard_normal(count) * 1e6
    return drawn.astype(dtype)


def scans(torch: Any) -> None:
    """Running sums along rows and columns of 512 MiB."""
    ceiling = copy_bytes_per_s()
    for width, axis in ((ELEMENTS, 1), (4096, 1), (1000, 1), (4096, 0), (8, 0)):
        x = _rows(width)

        def body(x: Any, axis: int = axis) -> Any:
            return np.cumsum(x, axis=axis)

        call: Any = mlc.compile(target="cuda")(body)

        def theirs(x: Any, axis: int = axis) -> Any:
            return torch.cumsum(x, axis)

        ours_s, theirs_s = _times(torch, call, theirs, [x])
        share = 8 * ELEMENTS / ours_s / ceiling
        spelled = _spelled(ours_s, theirs_s)
        print(f"{f'cumsum {x.shape} {axis}':>30}: {spelled}, {share:4.0%} of a copy")


def sorts(torch: Any) -> None:
    """Single rows and many."""
    for dtype in (np.float32, np.int64):
        for shape in ((10 * MILLION,), (10 * MILLION // 100, 100)):
            x = _numbers(10 * MILLION, dtype).reshape(shape)
            for name, body in (("sort", np.sort), ("argsort", np.argsort)):

                def run(x: Any, body: Any = body) -> Any:
                    return body(x)

                call: Any = mlc.compile(target="cuda")(run)

                def theirs(x: Any, name: str = name) -> Any:
                    return getattr(torch, name)(x, stable=True)

                spelled = _spelled(*_times(torch, call, theirs, [x]))
                print(f"{f'{name} {x.dtype} {shape}':>30}: {spelled}")


def scatters(torch: Any) -> None:
    """Sums at ten million positions, which meet more and more often."""
    for places in (10 * MILLION, 10_000, 10):
        rng = np.random.default_rng(2)
        index = rng.integers(0, places, 10 * MILLION)
        values = rng.random(10 * MILLION, np.float32)

        def body(index: Any, values: Any, x: Any) -> Any:
            y = x.copy()
            np.add.at(y, index, values)
            return y

        call: Any = mlc.compile(target="cuda")(body)

        def theirs(index: Any, values: Any, x: Any) -> Any:
            return x.index_add(0, index, values)

        x = np.zeros(places, np.float32)
        spelled = _spelled(*_times(torch, call, theirs, [index, values, x]))
        print(f"{f'add.at, {places} places':>30}: {spelled}")


def _times(
    torch: Any, ours: Any, theirs: Callable[..., Any], arrays: list[Array]
) -> tuple[float, float | None]:
    inputs = [mlc.device_put(x) for x in arrays]
    ours_s = seconds(lambda: ours(*inputs), repeat=3, calls=3)
    if torch is None:
        return ours_s, None
    tensors = [torch.from_numpy(x).cuda() for x in arrays]
    return ours_s, seconds(lambda: theirs(*tensors), repeat=3, calls=3)


def _spelled(ours_s: float, theirs_s: float | None) -> str:
    other = "" if theirs_s is None else f", PyTorch {1e3 * theirs_s:8.2f} ms"
    return f"{1e3 * ours_s:8.2f} ms{other}"


def main() -> None:
    """Prints every time."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        torch = None
    for part in (scans, sorts, scatters):
        part(torch)


if __name__ == "__main__":
    main()
