"""Who takes part: functions of arrays on the device, from each library that is installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlc
from benchmarks.gpu.workload import Function, Workload, differentiated, loss_of

WARM = 3  # calls before a graph is recorded: libraries choose and allocate in the first


@dataclass(frozen=True)
class Candidate:
    """
    One way to compute a workload. `wait` takes a result, and returns when it is there: the host's
    clock goes then, since the work is on a stream that this process does not see.
    """

    call: Callable[..., Any]
    wait: Callable[[Any], object] | None = None


def torch_with(workload: Workload) -> Any:
    """PyTorch, which multiplies as the workload allows."""
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = workload.tf32
    torch.backends.cudnn.allow_tf32 = workload.tf32
    torch.backends.cudnn.benchmark = True
    return torch


def in_torch(
    torch: Any, workload: Workload, name: str = "torch", *, compiled: bool = False
) -> Function:
    """The workload in PyTorch's words; compiled is what is differentiated, not how."""
    word = workload.words[name]

    def forward(*arrays: Any) -> Any:
        out = word(torch, *arrays)
        return out.float().square().mean() if workload.gradient == "squares" else out

    computed = forward
    if compiled:
        torch._dynamo.reset()
        computed = torch.compile(forward, mode="max-autotune-no-cudagraphs")
    if not workload.gradient:
        return computed

    def gradient(*arrays: Any) -> Any:
        given = arrays[-1] if workload.gradient == "given" else None
        inputs = arrays if given is None else arrays[:-1]
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(computed(*leaves), leaves, given)

    return gradient


def captured(torch: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """What replays the launches of a call; its results are overwritten each time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay() -> Any:
        graph.replay()
        return out

    return replay


def _torch(workload: Workload, name: str, arrays: Sequence[Any]) -> Candidate:
    torch = torch_with(workload)
    word = name if name in workload.words else "torch"
    call = in_torch(torch, workload, word, compiled=name == "compile")
    if name == "torch" or not workload.captured:
        return Candidate(call)
    replay = captured(torch, lambda: call(*arrays))

    def replayed(*_: Any) -> Any:
        return replay()

    return Candidate(replayed)


def _jax(workload: Workload, name: str, arrays: Sequence[Any]) -> Candidate:
    jax, f = jax_with(workload), in_jax(workload)
    compiled = jax.jit(f)
    there = [jax.dlpack.from_dlpack(x) for x in arrays]

    def call(*_: Any) -> Any:
        return compiled(*there)

    return Candidate(call, jax.block_until_ready)


def jax_with(workload: Workload) -> Any:
    """JAX, which multiplies as the workload allows, and leaves memory to the others."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.3")
    jax = importlib.import_module("jax")
    kinds = {array.dtype for array in workload.arrays}
    precision = ("tensorfloat32" if workload.tf32 else "highest") if "f32" in kinds else None
    jax.config.update("jax_enable_x64", "f64" in kinds)
    jax.config.update("jax_default_matmul_precision", precision)
    return jax


def in_jax(workload: Workload) -> Function:
    """The workload in JAX's words."""
    jax = importlib.import_module("jax")

    def forward(*arrays: Any) -> Any:
        return workload.words["jax"](jax, *arrays)

    if not workload.gradient:
        return forward
    count = len(workload.arrays) - (workload.gradient == "given")
    return jax.grad(loss_of(workload, forward), argnums=tuple(range(count)))


def _triton(workload: Workload, name: str, arrays: Sequence[Any]) -> Candidate:
    kernels = importlib.import_module("benchmarks.gpu.triton_kernels")

    def call(*given: Any) -> Any:
        return workload.words["triton"](kernels, *given)

    return Candidate(call)


def _mlc(workload: Workload, name: str, arrays: Sequence[Any]) -> Candidate:
    options: dict[str, Any] = {**workload.options, **({"tune": 20.0} if name == "tuned" else {})}
    return Candidate(mlc.compile(differentiated(workload), target="cuda", **options))


@dataclass(frozen=True)
class Peer:
    """A candidate's library and how it is made, of a workload, a name and the arrays."""

    library: str
    make: Callable[[Workload, str, Sequence[Any]], Candidate]


CANDIDATES = {
    **dict.fromkeys(("torch", "graph", "compile", "cudnn", "flash"), Peer("torch", _torch)),
    "jax": Peer("jax", _jax),
    "triton": Peer("triton", _triton),
    **dict.fromkeys(("tuned", "mlc"), Peer("mlc", _mlc)),
}
"""By the name that `--peers` says; mlc comes last, always."""


def installed(name: str) -> bool:
    """Whether the library of a candidate is there."""
    return importlib.util.find_spec(CANDIDATES[name].library) is not None


def takes_part(workload: Workload, name: str) -> bool:
    """Whether a workload has the words of a candidate."""
    if workload.steps:
        return name in workload.words
    if name in ("compile", "tuned", "mlc"):
        return True
    return workload.captured if name == "graph" else name in workload.words


def candidate(workload: Workload, name: str, arrays: Sequence[Any]) -> Candidate:
    """Made for these arrays."""
    peer = CANDIDATES[name]
    if not workload.steps:
        return peer.make(workload, name, arrays)
    library = importlib.import_module(peer.library)
    if peer.library == "torch":
        torch_with(workload)
    if peer.library == "jax":
        jax_with(workload)
    step = workload.words[name](library, *arrays)
    wait = library.block_until_ready if peer.library == "jax" else None
    return Candidate(lambda *_: step(), wait)
