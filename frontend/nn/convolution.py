"""
Convolutions and pooling over any number of axes.

Layouts: "channels_first" is x (N, C, …) with weights (F, C, …); "channels_last" is x (N, …, C)
with weights (…, C, F). Windows, strides, dilations and paddings are one number for all axes, or one
per axis; a padding may also be a pair (before, after) per axis, "valid" or "same".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mlc.dialects.dims import Dim, DimsAttr, Shape, tensor_type
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.window import ConvOp, WindowOp
from mlc.dialects.tensor.window_cotangent import flip, interior
from mlc.dialects.tensor.window_letters import window_count
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.elementwise import add, divide
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import moveaxis, reshape, reshaped
from mlc.frontend.numpy.values import common_dtype, convert, lift, number, result
from mlc.frontend.trace.autocast import rounding
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

Operand = Any
Layout = Literal["channels_first", "channels_last"]
ZERO, ONE = Dim.const(0), Dim.const(1)
OUTSIDE, WINDOW = "uvwxyz", "ijklmo"  # letters of up to six spatial axes


@dataclass(frozen=True)
class Spatial:
    """What happens along each spatial axis."""

    function: str
    first: int  # the first spatial axis of x
    window: Shape
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.window)

    def word(self, k: int) -> str:
        """How x is read along a spatial axis."""
        return f"({self.strides[k]}{OUTSIDE[k]}+{self.dilation[k]}{WINDOW[k]})"

    def sizes(self, x: Tracer) -> Shape:
        """How many windows fit along each axis."""
        found: list[Dim] = []
        for k in range(self.rank):
            size = x.dims[self.first + k]
            count = window_count(size, self.window[k], self.strides[k], self.dilation[k])
            if count.constant is not None and count.constant < 0:
                count = ZERO
            if count.constant == 0 and size.constant != 0:
                raise located(
                    ShapeError,
                    f"{self.function}: a window of {(self.window[k] - 1) * self.dilation[k] + 1}"
                    f" elements does not fit into spatial axis {k} with {size}, padding included.",
                )
            found.append(count)
        return tuple(found)


def _each(value: Any, rank: int, function: str, name: str) -> tuple[int, ...]:
    """One positive integer per axis."""
    found = tuple(value) if is_series(value) else (value,) * rank
    if len(found) != rank or any(not isinstance(v, int | np.integer) or v < 1 for v in found):
        raise located(
            ShapeError,
            f"{function}: {name} is {value!r}; expected a positive integer, or {rank} of them.",
        )
    return tuple(int(v) for v in found)


def _layout(layout: str, x: Tracer, function: str) -> int:
    """The first spatial axis."""
    if layout not in ("channels_first", "channels_last"):
        raise located(
            ShapeError,
            f"{function}: layout {layout!r}; expected 'channels_first' or 'channels_last'.",
        )
    if not 3 <= x.ndim <= 2 + len(OUTSIDE):
        raise located(
            ShapeError,
            f"{function}: x has {x.ndim} axes {spell(x.dims)}; expected a batch axis, a channel"
            " axis and one to six spatial axes.",
        )
    return 2 if layout == "channels_first" else 1


def _widths(padding: Any, s: Spatial, sizes: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Elements before and after each spatial axis."""
    if isinstance(padding, str):
        if padding.lower() == "valid":
            return [(ZERO, ZERO)] * s.rank
        if padding.lower() not in ("same", "same_lower"):
            raise located(
                ShapeError, f"{s.function}: padding {padding!r}; expected 'valid' or 'same'."
            )
        lower = padding.lower() == "same_lower"
        return [_same(s, k, sizes[k], lower=lower) for k in range(s.rank)]
    several = list(padding) if is_series(padding) else [padding] * s.rank
    if len(several) != s.rank:
        raise located(
            ShapeError,
            f"{s.function}: {len(several)} paddings for {s.rank} spatial axes; expected as many.",
        )
    pairs = [tuple(p) if is_series(p) else (p, p) for p in several]
    return [(Dim.const(int(low)), Dim.const(int(high))) for low, high in pairs]


def _same(s: Spatial, k: int, size: Dim, *, lower: bool) -> tuple[Dim, Dim]:
    """So much that there are ceil(size / stride) windows."""
    reach, stride = (s.window[k] - 1) * s.dilation[k], s.strides[k]
    needed = reach if stride == 1 else ((size - 1) // stride) * stride + reach + 1 - size
    if needed.constant is None:
        raise located(
            NotSupportedError,
            f"{s.function}: padding='same' with stride {stride} needs a known size, not {size}.",
            remedy="Give the padding as numbers, or make the size static.",
        )
    total = max(needed.constant, 0)
    few, many = Dim.const(total // 2), Dim.const(total - total // 2)
    return (many, few) if lower else (few, many)


def _padded(x: Tracer, first: int, widths: Sequence[tuple[Dim, Dim]], value: Any) -> Tracer:
    if all(low == high == ZERO for low, high in widths):
        return x
    before, after = [ZERO] * first, [ZERO] * (x.ndim - first - len(widths))
    low = (*before, *(w for w, _ in widths), *after)
    high = (*before, *(w for _, w in widths), *after)
    return result(here().emit(PadOp, x.value, number(value, x.row), low=low, high=high))


def _with_bias(y: Tracer, bias: Operand, layout: str) -> Tracer:
    if bias is None:
        return y
    vector = lift(bias)
    if layout == "channels_first":
        vector = reshape(vector, (vector.shape[0], *[1] * (y.ndim - 2)))
    return add(y, vector)


@public()
def conv(
    x: Operand,
    w: Operand,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    lhs_dilation: Any = 1,
    groups: int = 1,
    bias: Operand = None,
    layout: Layout = "channels_first",
) -> Tracer:
    """
    out[n, f, y, …] = sum over c, i, … of x[n, c, stride * y + dilation * i - padding, …] *
    w[f, c, i, …] (+ bias[f]).

    x: (N, C, H, …); w: (F, C / groups, I, …); bias: (F,); out: (N, F, (H + both paddings -
    dilation * (I - 1) - 1) // stride + 1, …). With `groups`, filter f sees the channels of its own
    group only. `lhs_dilation` puts that many - 1 zeros between the elements of x. Channels last:
    x (N, H, …, C), w (I, …, C / groups, F), out (N, …, F).
    """
    lhs, rhs = lift(x, "conv"), lift(w, "conv")
    dtype = common_dtype("conv", (lhs, rhs))
    lhs, rhs = result(convert(lhs.value, dtype)), result(convert(rhs.value, dtype))
    first = _layout(layout, lhs, "conv")
    if rhs.ndim != lhs.ndim:
        raise located(
            ShapeError,
            f"conv: x has {lhs.ndim} axes {spell(lhs.dims)} and w {rhs.ndim} {spell(rhs.dims)};"
            " expected as many.",
        )
    rank = lhs.ndim - 2
    window = rhs.dims[2:] if first == 2 else rhs.dims[:rank]
    s = Spatial(
        "conv",
        first,
        window,
        _each(stride, rank, "conv", "stride"),
        _each(dilation, rank, "conv", "dilation"),
    )
    apart = _each(lhs_dilation, rank, "conv", "lhs_dilation")
    for k, factor in enumerate(apart):
        lhs = result(interior(here().b, lhs.value, first + k, factor))
    lhs = _padded(lhs, first, _widths(padding, s, lhs.dims[first : first + rank]), 0)
    _check_groups(lhs, rhs, groups, first)
    made = _grouped(lhs, rhs, s, groups)
    return _with_bias(made, bias, layout)


def _check_groups(x: Tracer, w: Tracer, groups: int, first: int) -> None:
    channels = x.dims[1 if first == 2 else -1]
    filters, each = (w.dims[0], w.dims[1]) if first == 2 else (w.dims[-1], w.dims[-2])
    if channels != each * groups:
        raise located(
            ShapeError,
            f"conv: x has {channels} channels and w {each} for each of {groups} groups; expected"
            f" {each * groups} channels.",
        )
    if filters.constant is not None and filters.constant % groups:
        raise located(ShapeError, f"conv: {filters} filters do not divide into {groups} groups.")


def _grouped(x: Tracer, w: Tracer, s: Spatial, groups: int) -> Tracer:
    """The convolution; one filter per channel and no groups need no reshape of the result."""
    spots = "".join(s.word(k) for k in range(s.rank))
    out, inner = OUTSIDE[: s.rank], WINDOW[: s.rank]
    sizes, batch = s.sizes(x), x.dims[0]
    first = s.first == 2
    filters = w.dims[0] if first else w.dims[-1]
    element = x.row.ir
    if groups == 1:
        letters = f"ac{spots},fc{inner}->af{out}" if first else f"a{spots}c,{inner}cf->a{out}f"
        shape = (batch, filters, *sizes) if first else (batch, *sizes, filters)
        return _emit_conv(x, w, letters, tensor_type(element, shape))
    per_group = filters // groups
    if per_group == ONE and (w.dims[1] if first else w.dims[-2]) == ONE:
        flat = (filters, *s.window) if first else (*s.window, filters)
        w = result(reshaped(w.value, flat))
        letters = f"ac{spots},c{inner}->ac{out}" if first else f"a{spots}c,{inner}c->a{out}c"
        shape = (batch, filters, *sizes) if first else (batch, *sizes, filters)
        return _emit_conv(x, w, letters, tensor_type(element, shape))
    count = Dim.const(groups)
    channels = w.dims[1] if first else w.dims[-2]
    if first:
        x = result(reshaped(x.value, (batch, count, channels, *x.dims[2:])))
        w = result(reshaped(w.value, (count, per_group, channels, *s.window)))
        letters = f"agc{spots},gfc{inner}->agf{out}"
        shape, flat = (batch, count, per_group, *sizes), (batch, filters, *sizes)
    else:
        x = result(reshaped(x.value, (*x.dims[:-1], count, channels)))
        w = result(reshaped(w.value, (*s.window, channels, count, per_group)))
        letters = f"a{spots}gc,{inner}cgf->a{out}gf"
        shape, flat = (batch, *sizes, count, per_group), (batch, *sizes, filters)
    made = _emit_conv(x, w, letters, tensor_type(element, shape))
    return result(reshaped(made.value, flat))


def _emit_conv(x: Tracer, w: Tracer, letters: str, declared: Any) -> Tracer:
    rounds = rounding(ConvOp, x.row)
    made = here().emit(ConvOp, x.value, w.value, letters=letters, declared=declared, **rounds)
    return result(made)


@public()
def conv_transpose(
    x: Operand,
    w: Operand,
    *,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    bias: Operand = None,
    layout: Layout = "channels_first",
) -> Tracer:
    """
    The transpose of `conv` with respect to its input: each element of x adds a scaled w to out.

    x: (N, C, H, …); w: (C, F / groups, I, …); out: (N, F, (H - 1) * stride - both paddings +
    dilation * (I - 1) + output_padding + 1, …). Channels last: x (N, H, …, C), w (I, …, F / groups,
    C).
    """
    lhs, rhs = lift(x, "conv_transpose"), lift(w, "conv_transpose")
    first = _layout(layout, lhs, "conv_transpose")
    rank = lhs.ndim - 2
    window = rhs.dims[2:] if first == 2 else rhs.dims[:rank]
    strides = _each(stride, rank, "conv_transpose", "stride")
    spread = _each(dilation, rank, "conv_transpose", "dilation")
    s = Spatial("conv_transpose", first, window, (1,) * rank, spread)
    widths = _widths(padding, s, lhs.dims[first : first + rank])
    extra = tuple(output_padding) if is_series(output_padding) else (output_padding,) * rank
    reach = [(window[k] - 1) * spread[k] for k in range(rank)]
    for k, factor in enumerate(strides):
        lhs = result(interior(here().b, lhs.value, first + k, factor))
    around = [(reach[k] - low, reach[k] - high + extra[k]) for k, (low, high) in enumerate(widths)]
    lhs = _padded(lhs, first, around, 0)
    spatial = range(2, 2 + rank) if first == 2 else range(rank)
    backwards = result(flip(here().b, rhs.value, list(spatial)))
    return conv(
        lhs,
        _exchanged(backwards, groups, first),
        dilation=spread,
        groups=groups,
        bias=bias,
        layout=layout,
    )


def _exchanged(w: Tracer, groups: int, first: int) -> Tracer:
    """Weights (C, F / groups, …) as (F, C / groups, …)."""
    if first == 2:
        shape = w.shape
        apart = reshape(w, (groups, shape[0] // groups, *shape[1:]))
        turned = moveaxis(apart, 2, 1)
        return reshape(turned, (groups * shape[1], shape[0] // groups, *shape[2:]))
    shape = w.shape
    apart = reshape(w, (*shape[:-1], groups, shape[-1] // groups))
    turned = moveaxis(apart, -3, -1)
    turned = moveaxis(turned, -2, -3)
    return reshape(turned, (*shape[:-2], shape[-1] // groups, groups * shape[-2]))


# Pooling


@public()
def reduce_window(
    x: Operand,
    monoid: str,
    window: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    layout: Layout = "channels_first",
    ceil_mode: bool = False,
) -> Tracer:
    """
    The elements of each window combined: by "sum", "prod", "max" or "min". x: (N, C, H, …).

    `stride` is the window unless it is given. With `ceil_mode`, a window that begins inside x and
    reaches past its end counts too.
    """
    source = lift(x, "reduce_window")
    first = _layout(layout, source, "reduce_window")
    rank = source.ndim - 2
    sides = _each(window, rank, "reduce_window", "window")
    s = Spatial(
        "reduce_window",
        first,
        tuple(map(Dim.const, sides)),
        sides if stride is None else _each(stride, rank, "reduce_window", "stride"),
        _each(dilation, rank, "reduce_window", "dilation"),
    )
    widths = _widths(padding, s, source.dims[first : first + rank])
    if ceil_mode:
        sizes = source.dims[first : first + rank]
        widths = [_ceiled(s, k, sizes[k], *widths[k]) for k in range(rank)]
    (neutral, *_) = MONOIDS[monoid].identity(source.row)
    return _window(_padded(source, first, widths, neutral), monoid, s)


def _ceiled(s: Spatial, k: int, size: Dim, low: Dim, high: Dim) -> tuple[Dim, Dim]:
    """The padding with which the last window that begins inside fits."""
    whole = (size + low + high).constant
    begin, end = (size + low).constant, low
    reach = ((s.window[k] - 1) * s.dilation[k] + 1).constant
    if whole is None or begin is None or reach is None:
        raise located(NotSupportedError, f"{s.function}: ceil_mode needs known sizes, not {size}.")
    stride = s.strides[k]
    count = -(-(whole - reach) // stride) + 1
    if (count - 1) * stride >= begin:
        count -= 1
    return end, high + max((count - 1) * stride + reach - whole, 0)


def _window(x: Tracer, monoid: str, s: Spatial) -> Tracer:
    spots = "".join(s.word(k) for k in range(s.rank))
    out, sizes = OUTSIDE[: s.rank], s.sizes(x)
    first = s.first == 2
    letters = f"ac{spots}->ac{out}" if first else f"a{spots}c->a{out}c"
    shape = (*x.dims[:2], *sizes) if first else (x.dims[0], *sizes, x.dims[-1])
    made = here().emit(
        WindowOp,
        x.value,
        monoid=monoid,
        letters=letters,
        window=DimsAttr(s.window),
        declared=tensor_type(x.row.ir, shape),
    )
    return result(made)


@public()
def max_pool(
    x: Operand,
    window: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    layout: Layout = "channels_first",
    ceil_mode: bool = False,
) -> Tracer:
    """The largest element of each window; NaN if one is NaN. x: (N, C, H, …)."""
    return reduce_window(
        x, "max", window, stride, padding, dilation, layout=layout, ceil_mode=ceil_mode
    )


@public()
def avg_pool(
    x: Operand,
    window: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    count_include_pad: bool = True,
    layout: Layout = "channels_first",
    ceil_mode: bool = False,
) -> Tracer:
    """The mean of each window, over all its elements or without the padding. x: (N, C, H, …)."""
    source = lift(x, "avg_pool")

    def sums(of: Tracer) -> Tracer:
        return reduce_window(
            of, "sum", window, stride, padding, dilation, layout=layout, ceil_mode=ceil_mode
        )

    rank = source.ndim - 2
    if count_include_pad and not ceil_mode:
        count = int(np.prod(_each(window, rank, "avg_pool", "window")))
        return divide(sums(source), count)
    first = _layout(layout, source, "avg_pool")
    spatial = source.dims[first : first + rank]
    dims = (ONE, ONE, *spatial) if first == 2 else (ONE, *spatial, ONE)
    inside = result(number(1, source.row, dims))
    if count_include_pad:
        raise located(
            NotSupportedError,
            "avg_pool: ceil_mode with count_include_pad is not supported yet.",
            remedy="Set count_include_pad=False.",
        )
    return divide(sums(source), sums(inside))
