"""
What a call of a GPU program costs the host.

    python -m benchmarks.gpu_calls

Arrays are small; each figure is the median over bursts of calls, between which the host waits for
the device.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import mlc
from mlc.runtime.cuda import device

BURST, BURSTS, WARM = 20, 25, 12
SIZE = 1024


def microseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Host time of a call, and time until the device is done, per call of a burst."""
    gpu = device()
    host: list[float] = []
    whole: list[float] = []
    for _ in range(WARM):
        call()
    for _ in range(BURSTS):
        with gpu.active():
            gpu.synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        end = time.perf_counter()
        with gpu.active():
            gpu.synchronize()
        host.append((end - start) / BURST)
        whole.append((time.perf_counter() - start) / BURST)
    return 1e6 * median(host), 1e6 * median(whole)


def chain_of(arguments: int, kernels: int, results: int) -> Callable[..., Any]:
    """A function of so many kernels, without fusion."""
    names = [f"x{k}" for k in range(arguments)]
    values = [*names, *(f"v{k}" for k in range(kernels))]
    lines = [f"    v{k} = {values[arguments + k - 1]} + x{k % arguments}\n" for k in range(kernels)]
    text = f"def f({', '.join(names)}):\n{''.join(lines)}    return {', '.join(values[-results:])}"
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope["f"]


def scale(x: Any, a: Any) -> Any:
    """With a number."""
    return x * a


def step(params: Any, x: Any) -> Any:
    """An update of parameters in a dictionary."""
    return {name: w - 0.1 * x for name, w in params.items()}


def row(name: str, call: Callable[[], object]) -> None:
    """Prints a line of the table."""
    try:
        host, whole = microseconds(call)
    except Exception as error:  # noqa: BLE001 - the other rows are wanted
        print(f"{name:46}  {type(error).__name__}: {error}", flush=True)
        return
    print(f"{name:46} {host:8.2f} {whole:8.2f}", flush=True)


def unfused(function: Callable[..., Any]) -> Any:
    """A compiled function with a kernel for each op."""
    return mlc.compile(target="cuda", fusion="none")(function)


def main() -> None:
    """Prints the tables."""
    warnings.simplefilter("ignore")
    host = [np.full(SIZE, 1.0 + k, np.float32) for k in range(13)]
    ours = [mlc.device_put(x) for x in host]
    libraries = {"DeviceArray": ours, "NumPy": host}
    try:
        torch: Any = importlib.import_module("torch")
        theirs: list[Any] = [torch.from_numpy(x).cuda() for x in host]
        libraries = {"PyTorch": theirs, **libraries}
        row("x + 1 of PyTorch itself", lambda: theirs[0] + 1)
    except ModuleNotFoundError:
        pass
    print(f"{'microseconds a call':46} {'host':>8} {'whole':>8}")
    for name, arrays in libraries.items():
        for arguments in (1, 2, 4, 8, 13):
            compiled: Any = mlc.compile(target="cuda")(chain_of(arguments, arguments, 1))
            row(
                f"{name}, {arguments} arguments, 1 kernel",
                lambda c=compiled, a=arrays[:arguments]: c(*a),
            )
    first = next(iter(libraries.values()))
    for results in (2, 4, 6):
        compiled = mlc.compile(target="cuda")(chain_of(2, 6, results))
        row(f"2 arguments, {results} results", lambda c=compiled: c(*first[:2]))
    scaled: Any = mlc.compile(target="cuda")(scale)
    row("1 argument and a number, always the same", lambda: scaled(first[0], 2.5))
    numbers = iter(range(10**9))
    row("1 argument and a number", lambda: scaled(first[0], 0.5 * next(numbers)))
    params = {f"w{k}": x for k, x in enumerate(first[1:])}
    trained: Any = mlc.compile(target="cuda", donate="params")(step)
    row("a step with 12 parameters in place", lambda: trained(params, first[0]))
    for kernels in (1, 2, 4, 8, 16, 49):
        compiled = unfused(chain_of(2, kernels, 1))
        row(f"2 arguments, {kernels} kernels", lambda c=compiled: c(*first[:2]))
    compiled = unfused(chain_of(13, 49, 6))
    row("13 arguments, 49 kernels, 6 results", lambda: compiled(*first))
    kept: list[Any] = []

    def new_addresses() -> None:
        kept.append(compiled(*first))
        del kept[:-7]

    row("the same, of 8 sets of addresses", new_addresses)


if __name__ == "__main__":
    main()
