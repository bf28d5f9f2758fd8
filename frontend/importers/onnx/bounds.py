# pyright: basic
"""What numbers in a node can mean: sizes of windows, axes, arrays made while tracing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.graph import Node

MOST = 1 << 28
"""Elements of an array that is made while tracing: 1 GiB of f32."""

LEAST: dict[str, int] = {
    "strides": 1, "dilations": 1, "kernel_shape": 1, "output_padding": 0, "output_shape": 0,
    "group": 1, "offset_group": 1, "num_groups": 1, "blocksize": 1, "block_size": 0, "size": 1,
    "hidden_size": 1, "output_height": 1, "output_width": 1, "pooled_shape": 1,
    "sampling_ratio": 0, "pads": 1 - FAR, "paddings": 1 - FAR, "repeats": 0, "split": 0,
    "num_outputs": 1, "q_num_heads": 1, "kv_num_heads": 1, "num_heads": 0,
    "rotary_embedding_dim": 0, "batch_dims": 0, "max_skip_count": 0, "min_gram_length": 1,
    "max_gram_length": 1, "ngram_indexes": 0, "ngram_counts": 0, "perm": 0, "p": 1,
}  # fmt: skip
"""Attribute -> the least number it can be; all are below `FAR`."""
_AXES = ("axis", "axes", "time_axis", "batch_axis")


def check_numbers(node: Node, inputs: Sequence[Any]) -> None:
    """ValueError where an attribute is a number that its op cannot mean."""
    if node.domain:
        return
    for name, value in node.attributes.items():
        if name in LEAST:
            check_between(name, value, LEAST[name], FAR - 1)
        elif name in _AXES and inputs and not _is_idle(node, inputs):
            rank = getattr(inputs[0], "ndim", None)
            if rank is not None:
                check_axes(name, value, rank + _more(node, value), end=node.op == "Flatten")


def _more(node: Node, value: Any) -> int:
    """Axes that the op adds to its first input's."""
    if node.op == "Unsqueeze":
        return len(value)
    return 1 if node.op == "OneHot" else 0


def _is_idle(node: Node, inputs: Sequence[Any]) -> bool:
    """Whether the op looks at no axis: one scale for all elements."""
    scaled = node.op in ("QuantizeLinear", "DequantizeLinear")
    return scaled and len(inputs) > 1 and getattr(inputs[1], "size", 0) == 1


def check_axes(name: str, value: Any, rank: int, *, end: bool = False) -> None:
    """ValueError where axes are not those of an array; one without axes counts as one of one."""
    rank = max(rank, 1)
    check_between(name, value, -rank, rank if end else rank - 1)
    places = [int(a) % rank for a in value] if isinstance(value, Sequence) else []
    if len({*places}) < len(places):
        raise ValueError(f"{name} = {list(value)}; expected each axis once")


def check_split(parts: Sequence[Any], size: Any) -> None:
    """ValueError where parts of known sizes are not those of an axis."""
    check_between("split", list(parts), 0, FAR - 1)
    if all(isinstance(n, int) for n in (*parts, size)) and sum(parts) != size:
        raise ValueError(f"split = {list(parts)}; expected numbers whose sum is {size}")


def is_vast(shape: Iterable[Any]) -> bool:
    """Whether an array is too large to be made while tracing. ValueError for a size below 0."""
    sizes = [n for n in shape if isinstance(n, int)]
    if any(n < 0 for n in sizes):
        raise ValueError(f"the shape {tuple(sizes)} has a size below 0")
    return prod(sizes) > MOST


def check_room(count: int, what: str) -> None:
    """ValueError where a table of so many elements would be made while tracing."""
    if count > MOST:
        raise ValueError(f"{what}: {count} elements; expected {MOST} at most")
