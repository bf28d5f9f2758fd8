"""Sizes as searches see them: of a symbol, one that is assumed."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Attribute

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.tensor.op import bytes_of

ASSUMED = 4096
"""Of a size that only the call knows."""


@lru_cache(maxsize=4096)
def elements_of(shape: Shape) -> int:
    """How many elements, by the assumed sizes."""
    return estimate(product(shape))


@lru_cache(maxsize=4096)
def stored_bytes(kind: Attribute) -> int:
    """Bytes of a tensor, by the assumed sizes."""
    return estimate(bytes_of(kind))


def estimate(dim: Dim) -> int:
    """The dim's value, with every symbol at the assumed size."""
    value = dim.constant
    return dim.evaluate(dict.fromkeys(dim.symbols(), ASSUMED)) if value is None else value
