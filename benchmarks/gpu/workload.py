"""What a workload says: its arrays, its function as NumPy writes it, and the words of each peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mlc

Function = Callable[..., Any]

ITEM_BYTES = {"bf16": 2, "f32": 4, "f64": 8, "i64": 8}


@dataclass(frozen=True)
class Array:
    """Normal numbers times `scale`; of i64, classes below it. Memory comes when it is its turn."""

    shape: tuple[int, ...]
    dtype: str = "bf16"
    scale: float = 1.0


@dataclass(frozen=True)
class Workload:
    """
    A function of arrays; `words`: the same by candidate, of its library and the arrays.

    With `steps`, words give a function without arguments that takes one training step and gives the
    loss: they hold what changes.
    """

    name: str
    arrays: Sequence[Array]
    f: Function
    words: Mapping[str, Function]
    flops: float = 0.0
    bytes: float = 0.0
    error: float = 2e-2  # of the norm, relative
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of mlc.compile
    tf32: bool = False  # whether peers may multiply so
    gradient: Literal["", "squares", "given"] = ""  # see `differentiated`
    captured: bool = False  # whether PyTorch's launches are replayed as a CUDA graph, too
    exact: Literal["f64", "f32"] = "f64"  # of what results are compared with
    steps: int = 0  # calls of a sample, by the host's clock


@dataclass(frozen=True)
class Group:
    """Workloads of one question; `small`: the same in sizes for tests."""

    name: str
    workloads: tuple[Workload, ...]
    small: tuple[Workload, ...]


def same(f: Function) -> dict[str, Function]:
    """What every library writes so."""

    def g(library: Any, *arrays: Any) -> Any:
        return f(*arrays)

    return {"torch": g, "jax": g}


def differentiated(workload: Workload) -> Function:
    """
    What mlc compiles: `f`; or with `squares` the gradient of the mean of its results' squares in
    all arrays, with `given` of its results times the last array in the others.
    """
    if not workload.gradient:
        return workload.f
    count = len(workload.arrays) - (workload.gradient == "given")
    return mlc.grad(loss_of(workload, workload.f), argnums=tuple(range(count)))


def loss_of(workload: Workload, f: Function) -> Function:
    """The number that is differentiated, of arrays that have `astype`."""

    def squares(*arrays: Any) -> Any:
        return (f(*arrays).astype("float32") ** 2).mean()

    def given(*arrays: Any) -> Any:
        return (f(*arrays[:-1]).astype("float32") * arrays[-1].astype("float32")).sum()

    return squares if workload.gradient == "squares" else given
