"""`mlc.torch`: compiled functions in PyTorch programs. PyTorch is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from mlc.cached_property import cached_property
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.containers import Structure, flatten, leaf_names, unflatten
from mlc.frontend.transforms.derivative_arguments import check_callable
from mlc.frontend.transforms.derivatives import value_of, vjp


def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
    """
    A function of `torch.Tensor`s (on the CPU, and containers of them) that runs `f` compiled, and
    whose gradients are `f`'s, compiled too; so are theirs.

    Results are tensors, in the container that `f` returns. Integer tensors, and arguments that need
    no gradient, get none. The way back computes `f` again. Complex gradients are PyTorch's: the
    conjugates of those of `mlc.grad`. Raises ImportError without PyTorch, and NotSupportedError for
    tensors that are elsewhere or not dense.
    """
    check_callable("torch.wrap", f)
    try:
        torch = import_module("torch")
    except ImportError:
        raise ImportError("mlc.torch.wrap needs PyTorch: pip install torch") from None
    return _Bridge(torch, f)


class _Bridge:
    """A function of tensors, and a `torch.autograd.Function` that says its gradients."""

    def __init__(self, torch: Any, f: Callable[..., Any]) -> None:
        self.torch = torch
        self.f = f
        self.run = value_of(f)
        self.function = _function(self)

    def __call__(self, *args: Any) -> Any:
        """Tensors in, tensors out."""
        leaves, structure = flatten(args)
        for name, leaf in zip(leaf_names(args, "argument "), leaves, strict=True):
            self._check(name.replace("[", "", 1).replace("]", "", 1), leaf)
        call = _Call(self, leaves, structure)
        results = iter(self.function.apply(call, *call.tensors))
        return unflatten(call.outcome, [next(results) if r else x for r, x in call.results])

    def _check(self, name: str, leaf: Any) -> None:
        if not isinstance(leaf, self.torch.Tensor):
            return
        if leaf.layout is not self.torch.strided:
            message = f"torch.wrap: {name} is {leaf.layout}; expected a dense tensor."
            raise located(NotSupportedError, message, remedy="Convert it: .to_dense().")
        if leaf.device.type != "cpu":
            message = f"torch.wrap: {name} is on {leaf.device}; expected a tensor on the CPU."
            raise located(NotSupportedError, message, remedy="Copy it: .cpu().")

    @cached_property
    def back(self) -> _Bridge:
        """(arguments, cotangent) -> cotangents of the arguments."""
        f = self.f

        def pulled(args: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
            return vjp(f, *args)[1](cotangent)

        return _Bridge(self.torch, pulled)


class _Call:
    """One call: which leaves are tensors, and how its result is put together."""

    def __init__(self, bridge: _Bridge, leaves: Sequence[Any], structure: Structure) -> None:
        self.bridge = bridge
        self.leaves = leaves
        self.structure = structure
        self.is_tensor = [isinstance(x, bridge.torch.Tensor) for x in leaves]
        self.outcome: Structure = structure
        self.results: list[tuple[bool, Any]] = []  # for each leaf: a tensor, or what else it is

    @property
    def tensors(self) -> list[Any]:
        """The tensors among the leaves."""
        return [x for x, given in zip(self.leaves, self.is_tensor, strict=True) if given]

    def arguments(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments, with these in place of the tensors."""
        rest = iter(tensors)
        pairs = zip(self.leaves, self.is_tensor, strict=True)
        return unflatten(self.structure, [next(rest) if given else x for x, given in pairs])

    def forward(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The results that are arrays, as tensors."""
        torch = self.bridge.torch
        args = self.arguments([_array(torch, x) for x in tensors])
        results, self.outcome = flatten(self.bridge.run(*args))
        self.results = [(True, None) if _is_array(x) else (False, x) for x in results]
        return tuple(_tensor(torch, x) for x in results if _is_array(x))

    def backward(self, tensors: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the tensors, by the bridged way back: PyTorch records it, too."""
        rest = iter(cotangents)
        given = [_conjugate(next(rest)) if is_array else None for is_array, _ in self.results]
        found = self.bridge.back(self.arguments(tensors), unflatten(self.outcome, given))
        pairs = zip(flatten(found)[0], self.is_tensor, strict=True)
        return [_conjugate(x) for x, is_tensor in pairs if is_tensor]


def _function(bridge: _Bridge) -> Any:
    torch = bridge.torch

    class Compiled(torch.autograd.Function):
        """What PyTorch calls."""

        @staticmethod
        def forward(ctx: Any, call: _Call, *tensors: Any) -> tuple[Any, ...]:
            """The results that are arrays."""
            found = call.forward(tensors)
            ctx.call = call
            ctx.save_for_backward(*tensors)
            ctx.mark_non_differentiable(*(x for x in found if not _has_gradient(x)))
            return found

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            """None for the call, and for tensors that need no gradient."""
            given = [c if _has_gradient(c) else None for c in cotangents]
            found = ctx.call.backward(ctx.saved_tensors, given)
            wanted = zip(found, ctx.needs_input_grad[1:], strict=True)
            return (None, *(x if needed else None for x, needed in wanted))

    return Compiled


def _has_gradient(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _conjugate(tensor: Any) -> Any:
    return tensor.conj() if tensor is not None and tensor.is_complex() else tensor


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic)


def _array(torch: Any, tensor: Any) -> Any:
    """The tensor's memory as an array; NumPy has bf16 from ml_dtypes."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def _tensor(torch: Any, array: Any) -> Any:
    """A new array as a tensor on its memory."""
    found = np.asarray(array)
    if found.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(found)
