"""Who takes part: functions of arrays on the device, from each library that is installed."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlc
from benchmarks.gpu.workloads import Workload

Call = Callable[..., Any]
FLUSHED_BYTES = 256 << 20  # five times the level-2 cache of an H200


@dataclass(frozen=True)
class Candidate:
    """One way to compute a workload; `waits`: whether a call returns when the device is done."""

    call: Call
    waits: bool = False


def _torch(workload: Workload) -> Candidate:
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = workload.tf32
    torch.backends.cudnn.allow_tf32 = workload.tf32
    torch.backends.cudnn.benchmark = True
    return Candidate(partial(workload.peers["torch"], torch))


def _compile(workload: Workload) -> Candidate:
    torch = importlib.import_module("torch")
    torch._dynamo.reset()
    mode = "max-autotune-no-cudagraphs"
    return Candidate(torch.compile(_torch(workload).call, mode=mode))


def _jax(workload: Workload) -> Candidate:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", workload.dtype == "f64")
    jax.config.update(
        "jax_default_matmul_precision", "tensorfloat32" if workload.tf32 else "highest"
    )
    f = jax.jit(partial(workload.peers["jax"], jax))
    known: dict[tuple[int, ...], Sequence[Any]] = {}

    def call(*arrays: Any) -> Any:
        key = tuple(x.data_ptr() for x in arrays)
        if key not in known:
            known[key] = [jax.dlpack.from_dlpack(x) for x in arrays]
        return jax.block_until_ready(f(*known[key]))

    return Candidate(call, waits=True)


def _mlc(workload: Workload) -> Candidate:
    return Candidate(mlc.compile(workload.f, target="cuda", **workload.options))


def _tuned(workload: Workload) -> Candidate:
    return Candidate(mlc.compile(workload.f, target="cuda", tune=20.0, **workload.options))


CANDIDATES: dict[str, Callable[[Workload], Candidate]] = {
    "torch": _torch, "compile": _compile, "jax": _jax, "mlc": _mlc,
    "tuned": _tuned,
}  # fmt: skip
"""By the name that `--peers` says."""


class Stopwatch:
    """Seconds of one call after something else has filled level 2."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.dirt = self.torch.empty(FLUSHED_BYTES, dtype=self.torch.uint8, device="cuda")

    def seconds(self, candidate: Candidate, arrays: Sequence[Any]) -> float:
        """Of the device, or of the host where the call waits."""
        self.dirt.zero_()
        if candidate.waits:
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            candidate.call(*arrays)
            return time.perf_counter() - start
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        candidate.call(*arrays)
        events[1].record()
        events[1].synchronize()
        return 1e-3 * events[0].elapsed_time(events[1])
