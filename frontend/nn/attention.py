"""Attention: weighted means of values, the weights being a softmax of products."""

from __future__ import annotations

import math
from typing import Any

from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.nn.normalisation import softmax
from mlc.frontend.numpy.contraction import matmul
from mlc.frontend.numpy.creation import arange
from mlc.frontend.numpy.elementwise import add, less_equal, multiply, where
from mlc.frontend.numpy.elementwise_math import rsqrt
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import expand_dims, matrix_transpose, reshape
from mlc.frontend.numpy.values import lift
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@public()
def attention(
    q: Operand,
    k: Operand,
    v: Operand,
    *,
    causal: bool = False,
    bias: Operand = None,
    mask: Operand = None,
    scale: Any = None,
) -> Tracer:
    """
    softmax(q kᵀ * scale + bias) v.

    q: (…, H, M, D); k: (…, G, N, D); v: (…, G, N, E); out: (…, H, M, E). H is a multiple of G:
    query heads share keys and values in groups. bias is added to the (…, H, M, N) products, mask
    (bool, the same shape) says which of them count; `causal` lets query i see keys up to
    i + N - M. `scale` is 1/sqrt(D) unless it is given. Two axes alone are one head.

    SOURCE: Vaswani et al., arXiv 1706.03762; Ainslie et al., arXiv 2305.13245 (groups)
    """
    queries, keys, values = (lift(x, "attention") for x in (q, k, v))
    _check(queries, keys, values)
    heads = queries.ndim > 2
    several = heads and queries.dims[-3] != keys.dims[-3]
    shape = queries.shape
    groups = keys.shape[-3] if several else 1
    if several:
        queries = reshape(queries, (*shape[:-3], groups, shape[-3] // groups, *shape[-2:]))
        keys, values = expand_dims(keys, -3), expand_dims(values, -3)
    depth = queries.dims[-1]
    if scale is None:
        size = depth.constant
        scale = 1 / math.sqrt(size) if size else rsqrt(lift(as_size(depth)).astype(queries.dtype))
    scores = matmul(multiply(queries, scale), matrix_transpose(keys))
    if bias is not None:
        scores = add(scores, _by_group(bias, shape, groups) if several else bias)
    if mask is not None:
        scores = where(_by_group(mask, shape, groups) if several else mask, scores, -math.inf)
    if causal:
        rows, columns = queries.dims[-2], keys.dims[-2]
        row = expand_dims(arange(as_size(rows)), -1)
        seen = less_equal(arange(as_size(columns)), add(row, as_size(columns - rows)))
        scores = where(seen, scores, -math.inf)
    found = matmul(softmax(scores), values)
    return reshape(found, (*shape[:-1], values.shape[-1])) if several else found


def _by_group(x: Operand, queries: tuple[Any, ...], groups: Any) -> Tracer:
    """What goes with (…, H, M, N) products, for products (…, G, H / G, M, N)."""
    found = lift(x, "attention")
    if found.ndim < 3:
        return found
    if found.dims[-3].constant == 1:
        return expand_dims(found, -3)
    shape = found.shape
    return reshape(found, (*shape[:-3], groups, queries[-3] // groups, *shape[-2:]))


def _check(q: Tracer, k: Tracer, v: Tracer) -> None:
    found = f"q {spell(q.dims)}, k {spell(k.dims)}, v {spell(v.dims)}"
    if q.ndim < 2 or k.ndim != q.ndim or v.ndim != q.ndim:
        raise located(ShapeError, f"attention: {found}; expected two axes or more, and as many.")
    if q.dims[-1] != k.dims[-1] or k.dims[-2] != v.dims[-2]:
        raise located(
            ShapeError,
            f"attention: {found}; expected q and k of one depth, k and v of one length.",
        )
    if q.ndim > 2 and (k.dims[-3] != v.dims[-3] or q.dims[-3].exact_quotient(k.dims[-3]) is None):
        raise located(
            ShapeError,
            f"attention: {found}; expected as many heads of k as of v, and a multiple of q.",
        )
