"""Arrays, comparison with the exact result, and medians of one workload at a time."""

from __future__ import annotations

import gc
import importlib
import math
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlc
from benchmarks.gpu.candidates import (
    WARM,
    Candidate,
    candidate,
    in_torch,
    takes_part,
    torch_with,
)
from benchmarks.gpu.workload import Array, Workload

FLUSHED_BYTES = 256 << 20  # five times the level-2 cache of an H200
SEEN = 3  # training steps until losses are compared: the third has two updates behind it


@dataclass(frozen=True)
class Row:
    """What one workload gave: medians by candidate, and relative errors."""

    group: str
    workload: Workload
    seconds: Mapping[str, float]
    errors: Mapping[str, float]

    def right(self, name: str) -> bool:
        """Whether a candidate's result is as near as the workload asks."""
        return self.errors[name] <= self.workload.error

    @property
    def ratio(self) -> float:
        """The best right peer's time to mlc's; nan where one of both is missing."""
        peers = [
            x
            for name, x in self.seconds.items()
            if name not in ("mlc", "tuned") and self.right(name)
        ]
        if "mlc" not in self.seconds or not self.right("mlc"):
            return math.nan
        return min(peers, default=math.nan) / self.seconds["mlc"]


class Stopwatch:
    """Seconds of one call after something else has filled level 2."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.dirt = self.torch.empty(FLUSHED_BYTES, dtype=self.torch.uint8, device="cuda")

    def seconds(self, found: Candidate, arrays: Sequence[Any], steps: int = 0) -> float:
        """Of the device; of the host where the call's results are waited for, or over `steps`."""
        if steps or found.wait:
            return self._on_the_host(found, arrays, steps)
        self.dirt.zero_()
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        found.call(*arrays)
        events[1].record()
        events[1].synchronize()
        return 1e-3 * events[0].elapsed_time(events[1])

    def _on_the_host(self, found: Candidate, arrays: Sequence[Any], steps: int) -> float:
        if not steps:
            self.dirt.zero_()
        calls = max(steps, 1)
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls - 1):
            found.call(*arrays)
        last = found.call(*arrays)
        if found.wait:
            found.wait(last)
        else:
            self.torch.cuda.synchronize()
        return (time.perf_counter() - start) / calls


def _made(torch: Any, arrays: Sequence[Array]) -> list[Any]:
    kinds = {"bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
    generator = torch.Generator(device="cuda").manual_seed(7)

    def made(array: Array) -> Any:
        if array.dtype == "i64":
            high = int(array.scale)
            return torch.randint(high, array.shape, generator=generator, device="cuda")
        kind = torch.float64 if array.dtype == "f64" else torch.float32
        numbers = torch.randn(*array.shape, generator=generator, device="cuda", dtype=kind)
        return numbers.mul_(array.scale).to(kinds[array.dtype])

    return [made(array) for array in arrays]


def _exact(workload: Workload, arrays: Sequence[Any]) -> Any:
    """PyTorch's result of more digits, eager."""
    torch = torch_with(workload)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    kind = torch.float64 if workload.exact == "f64" else torch.float32
    given = [x.to(kind) if x.is_floating_point() else x for x in arrays]
    if workload.steps:
        return _seen(workload, Candidate(workload.words["torch"](torch, *given)), ())
    return in_torch(torch, workload)(*given)


def _seen(workload: Workload, found: Candidate, arrays: Sequence[Any]) -> Any:
    for _ in range(SEEN - 1 if workload.steps else 0):
        found.call(*arrays)
    out = found.call(*arrays)
    if found.wait:
        found.wait(out)
    return out


def _several(out: Any) -> Sequence[Any]:
    return out if isinstance(out, list | tuple) else [out]  # pyright: ignore[reportUnknownVariableType]


def _error(torch: Any, found: Any, expected: Any) -> float:
    """Relative, of the norm; the greatest of several results."""

    def error(mine: Any, exact: Any) -> float:
        if not hasattr(mine, "__dlpack__"):  # a number of the host's
            mine = torch.tensor(float(mine))
        mine = mine if isinstance(mine, torch.Tensor) else torch.from_dlpack(mine)
        if mine.shape != exact.shape:
            return math.inf
        mine = mine.to(exact.device, exact.dtype)
        return float((mine - exact).norm() / (exact.norm() + 1e-30))

    pairs = zip(_several(found), _several(expected), strict=True)
    errors = [error(mine, exact) for mine, exact in pairs]
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def _ready(
    torch: Any, workload: Workload, names: Sequence[str], arrays: Sequence[Any]
) -> Iterator[tuple[str, Candidate, float]]:
    """Those that compute the workload, with their errors; a line for each that does not."""
    expected = _exact(workload, arrays)
    free(torch)  # what it took: others have pools of their own
    for name in names:
        if not takes_part(workload, name):
            continue
        try:
            found = candidate(workload, name, arrays)
            error = _error(torch, _seen(workload, found, arrays), expected)
            for _ in range(WARM):
                found.call(*arrays)
            torch.cuda.synchronize()
        except Exception as failure:  # noqa: BLE001 - whatever a peer raises, the others go on
            print(f"  {workload.name}: {name} failed: {type(failure).__name__}: {failure}"[:300])
            continue
        if not error <= workload.error:
            print(f"  {workload.name}: {name} is wrong: relative error {error:.1e}")
        yield name, found, error


def measured(
    group: str, workload: Workload, names: Sequence[str], watch: Stopwatch, rounds: int
) -> Row:
    """One workload: its arrays are made here, and all memory is given back."""
    torch = watch.torch
    try:
        arrays = _made(torch, workload.arrays)
        ready = list(_ready(torch, workload, names, arrays))
        found = {name: one for name, one, _ in ready}
        samples: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(rounds):
            for name in random.sample([*found], len(found)):
                samples[name].append(watch.seconds(found[name], arrays, workload.steps))
        medians = {name: statistics.median(x) for name, x in samples.items()}
        return Row(group, workload, medians, {name: error for name, _, error in ready})
    finally:
        arrays = ready = found = None
        free(torch)


def free(torch: Any) -> None:
    """Gives back what caches of PyTorch and mlc hold; JAX's stay below its share."""
    gc.collect()
    mlc.clear_pool()
    torch.cuda.empty_cache()
