# pyright: basic
"""Where a piece of a graph runs: on the CPU, or on the GPU that its tensors are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from struct import Struct
from typing import Any

from mlc.dialects.abi import POINTER_ALIGNMENT
from mlc.frontend.importers.fx.run import Refused

Node = Any
Tensor = Any


def one_device(nodes: Sequence[Node]) -> Any:
    """
    That of all tensors of these nodes; Refused for the first node with one elsewhere, or on a GPU
    that we cannot run on.
    """
    found: Any = None
    for node in nodes:
        for tensor in (x for n in (*node.all_input_nodes, node) for x in _tensors(n)):
            found = tensor.device if found is None else found
            if tensor.device != found:
                raise Refused(node, f"tensors on {tensor.device} beside those on {found}")
    if found is not None and found.type == "cuda" and (why := _why_not(found)):
        raise Refused(nodes[0], why)
    return import_module("torch").device("cpu") if found is None else found


def _tensors(node: Node) -> Iterator[Any]:
    value = node.meta.get("val")
    torch = import_module("torch")
    for x in value if isinstance(value, tuple | list) else (value,):
        if isinstance(x, torch.Tensor):
            yield x


def _why_not(device: Any) -> str:
    """Why we cannot run there; empty where we can."""
    if device.index:
        return f"tensors on {device}: mlc runs on the first GPU of a process"
    try:
        from mlc.runtime.cuda import device as gpu

        gpu()
    except (ImportError, RuntimeError) as error:
        return str(error).partition("\n")[0]
    return ""


class DeviceEntry:
    """As `PointerEntry`, of a GPU's program: on PyTorch's current stream."""

    def __init__(self, program: Any, symbols: int, device: Any) -> None:
        self._program, self._sizes = program, Struct(f"{symbols}q").unpack
        torch = import_module("torch")
        self._stream: Callable[[], int] = lambda: torch.cuda.current_stream(device).cuda_stream

    def __call__(self, arguments: Iterable[int], sizes: bytes, results: Iterable[int]) -> None:
        """Starts the program; what kernels of an earlier call have met is raised."""
        self._program.call_at(list(arguments), self._sizes(sizes), list(results), self._stream())


def aligned(tensors: list[Tensor]) -> list[tuple[int, Tensor]]:
    """Puts copies where kernels of a GPU cannot begin; the places, and what was there."""
    found = [(k, x) for k, x in enumerate(tensors) if x.data_ptr() % POINTER_ALIGNMENT]
    for k, x in found:
        tensors[k] = x.clone()
    return found
