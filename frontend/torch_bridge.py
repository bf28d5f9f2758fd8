"""`mlc.torch`: compiled functions in PyTorch programs. PyTorch is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlc.frontend.containers import Structure, flatten, unflatten
from mlc.frontend.derivative_arguments import check_callable
from mlc.frontend.derivatives import vjp
from mlc.frontend.subprogram import Transformed, traced


def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
    """
    A function of `torch.Tensor`s (CPU, and containers of them) that runs `f` compiled, and whose
    gradients are `f`'s, compiled too.

    Results are tensors, in the container that `f` returns. Integer tensors, and arguments that need
    no gradient, get none. The way back computes `f` again. Raises ImportError without PyTorch.
    """
    check_callable("torch.wrap", f)
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("mlc.torch.wrap needs PyTorch: pip install torch") from None
    forward = Transformed(f, lambda *args: traced(f, *args))

    def back(args: tuple[Any, ...], cotangent: Any) -> Any:
        return vjp(f, *args)[1](cotangent)

    backward = Transformed(back, back)
    return _bridged(torch, forward, backward)


def _bridged(torch: Any, forward: Transformed, backward: Transformed) -> Callable[..., Any]:
    class Bridge(torch.autograd.Function):
        """One call of the function."""

        @staticmethod
        def forward(ctx: Any, box: list[Structure], *leaves: Any) -> Any:
            """The leaves of the result; the result's structure goes into `box`."""
            args = unflatten(box[0], [_array(torch, x) for x in leaves])
            results, structure = flatten(forward(*args))
            box.append(structure)
            ctx.box = box
            ctx.leaves = leaves
            ctx.dtypes = [x.dtype for x in results]
            tensors = tuple(torch.from_numpy(x) if x.shape else torch.tensor(x) for x in results)
            ctx.mark_non_differentiable(*(x for x in tensors if not x.is_floating_point()))
            return tensors

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """The cotangents of the leaves."""
            structure, outcome = ctx.box
            args = unflatten(structure, [_array(torch, x) for x in ctx.leaves])
            given = [
                c.detach().contiguous().numpy().astype(d, copy=False)
                for c, d in zip(cotangents, ctx.dtypes, strict=True)
            ]
            found = flatten(backward(args, unflatten(outcome, given)))[0]
            wanted = ctx.needs_input_grad[1:]
            pairs = zip(found, ctx.leaves, wanted, strict=True)
            return (None, *(torch.as_tensor(g).to(x.dtype) if w else None for g, x, w in pairs))

    def bridged(*args: Any) -> Any:
        leaves, structure = flatten(args)
        box = [structure]
        results = Bridge.apply(box, *leaves)
        return unflatten(box[1], list(results))

    return bridged


def _array(torch: Any, leaf: Any) -> Any:
    return leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else leaf
