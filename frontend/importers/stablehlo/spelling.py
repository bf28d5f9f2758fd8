"""What pretty forms call attributes -> what they are called: one way to say each thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Attributes = dict[str, Any]

_RENAMED: Mapping[str, Mapping[str, str]] = {
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "broadcast": {"sizes": "broadcast_sizes"},
    "transpose": {"dims": "permutation"},
    "reverse": {"dims": "dimensions"},
    "iota": {"dim": "iota_dimension"},
    "dynamic_iota": {"dim": "iota_dimension"},
    "concatenate": {"dim": "dimension"},
    "get_dimension_size": {"dim": "dimension"},
    "set_dimension_size": {"dim": "dimension"},
    "dynamic_slice": {"sizes": "slice_sizes"},
    "pad": {
        "low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding",
    },
    "fft": {"type": "fft_type", "length": "fft_length"},
    "rng": {"distribution": "rng_distribution"},
    "rng_bit_generator": {"algorithm": "rng_algorithm"},
    "einsum": {"config": "einsum_config"},
    "unary_einsum": {"config": "einsum_config"},
}  # fmt: skip


def spelled(name: str, found: Attributes, words: Sequence[str], ranges: Any) -> Attributes:
    """The attributes of an op as its generic form names them. `ranges`: those of `slice`."""
    renamed = _RENAMED.get(name, {})
    found = {renamed.get(key, key): value for key, value in found.items()}
    if ranges is not None:
        names = ("start_indices", "limit_indices", "strides")
        found |= {key: [each[k] for each in ranges] for k, key in enumerate(names)}
    other = _OTHERS.get(name)
    return found if other is None else other(found, words)


def _compare(found: Attributes, words: Sequence[str]) -> Attributes:
    names = ("comparison_direction", "compare_type")
    return {**found, **dict(zip(names, words, strict=False))}


def _dot_general(found: Attributes, _: Sequence[str]) -> Attributes:
    """`batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = […]`."""
    numbers: Attributes = {}
    for pretty, kind in (("batching_dims", "batching"), ("contracting_dims", "contracting")):
        left, right = found.pop(pretty, ((), ()))
        numbers |= {f"lhs_{kind}_dimensions": left, f"rhs_{kind}_dimensions": right}
    if "dot_dimension_numbers" not in found:
        found["dot_dimension_numbers"] = {k: list(v) for k, v in numbers.items() if len(v)}
    return _dot(found, ())


def _dot(found: Attributes, _: Sequence[str]) -> Attributes:
    if "precision" in found:
        found["precision_config"] = found.pop("precision")
    return found


def _reduce_precision(found: Attributes, _: Sequence[str]) -> Attributes:
    """`format = e8m7`."""
    form = str(found.pop("format", ""))
    if form:
        exponent, mantissa = (int(n) for n in form[1:].split("m"))
        found |= {"exponent_bits": exponent, "mantissa_bits": mantissa}
    return found


def _composite(found: Attributes, words: Sequence[str]) -> Attributes:
    return {**found, "name": words[0].strip('"')} if words else found


_OTHERS: Mapping[str, Callable[[Attributes, Sequence[str]], Attributes]] = {
    "compare": _compare, "dot_general": _dot_general, "dot": _dot,
    "reduce_precision": _reduce_precision, "composite": _composite,
}  # fmt: skip
