# pyright: basic
"""
Dropout: PyTorch draws the mask, so that its bits are those of eager; what it leaves is computed.

The mask depends on no data, so it is drawn before all else, and cuts no compiled piece in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mlc.frontend.importers.fx.forms import form_of
from mlc.frontend.importers.fx.run import At, row

Array = Any
Node = Any


def draw_mask(sizes: Sequence[int], rate: float) -> Any:
    """True for what stays. SOURCE: PyTorch, native_dropout_cpu in ATen/native/Dropout.cpp"""
    torch = import_module("torch")
    return torch.empty(sizes, dtype=torch.bool).bernoulli_(1 - rate)


def draw_mask_as(
    sizes: Sequence[int], strides: Sequence[int], rate: float, dtype: Any, device: Any
) -> Any:
    """The same on a GPU, or in another order: the bits are those of a dropout of such a tensor."""
    torch = import_module("torch")
    whole = torch.empty_strided(sizes, strides, dtype=dtype, device=device).fill_(1)
    return torch.native_dropout(whole, rate, True)[1]


def dropped(x: Any, mask: Any, rate: float) -> Any:
    """What is left of x where a mask says so."""
    return x * mask * (0.0 if rate == 1 else 1 / (1 - rate))


dropped.mlc_row = "dropped"  # pyright: ignore[reportFunctionMemberAccess]


@row("dropped")
def _dropped(at: At, x: Array, mask: Array, rate: float) -> Array:
    return dropped(x, mask.astype(x.dtype), rate)


def with_masks_first(module: Any) -> None:
    """Takes each dropout of a graph apart, where the mask's size is known."""
    torch = import_module("torch")
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.aten.native_dropout.default or node.args[2] is False:
            continue
        x, rate, *_ = node.args
        found, mask = node.meta["val"]
        dense = form.dense and not form.thin if (form := form_of(mask)) else False
        if dense and all(isinstance(n, int) for n in mask.shape):
            _take_apart(module.graph, node, x, rate, found, mask)


def _take_apart(graph: Any, node: Node, x: Node, rate: float, found: Any, mask: Any) -> None:
    said = {k: v for k, v in node.meta.items() if k != "val"}
    with graph.inserting_before(node):
        if mask.device.type == "cpu" and mask.is_contiguous() and found.is_contiguous():
            drawn = graph.call_function(draw_mask, (tuple(mask.shape), rate))
        else:
            laid = x.meta["val"]
            drawn_as = tuple(mask.shape), laid.stride(), rate, found.dtype, mask.device
            drawn = graph.call_function(draw_mask_as, drawn_as)
        left = graph.call_function(dropped, (x, drawn, rate))
    drawn.meta, left.meta = {**said, "val": mask}, {**said, "val": found}
    for user in list(node.users):
        user.replace_all_uses_with((left, drawn)[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
