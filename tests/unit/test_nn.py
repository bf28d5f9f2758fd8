"""mlc.nn against the formulas in NumPy: outside a compiled function and inside."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc import nn

Array = NDArray[Any]
RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4, 6)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 4, 7, 9)).astype(np.float32)
erf = np.vectorize(math.erf)


def both(function: Callable[..., Any], *arrays: Array) -> list[Any]:
    """The function's result outside and inside a compiled function."""

    def traced(*a: Array) -> Any:
        return function(*a)

    return [function(*arrays), mlc.compile(traced)(*arrays)]


def agree(function: Callable[..., Any], want: Any, *arrays: Array, rtol: float = 3e-5) -> None:
    """Both results are `want`, in shape and within a tolerance."""
    for got in both(function, *arrays):
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


def softmax(x: Array, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "relu6": (nn.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "elu": (nn.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    "selu": (nn.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632 * np.expm1(x))),
    "gelu": (
        nn.gelu,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "gelu erf": (
        lambda x: nn.gelu(x, approximate=False),
        lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    ),
    "sigmoid": (nn.sigmoid, sigmoid),
    "silu": (nn.silu, lambda x: x * sigmoid(x)),
    "softplus": (nn.softplus, lambda x: np.log1p(np.exp(x))),
    "log_sigmoid": (nn.log_sigmoid, lambda x: np.log(sigmoid(x))),
    "softsign": (nn.softsign, lambda x: x / (1 + np.abs(x))),
    "mish": (nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hard_swish": (nn.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "glu": (nn.glu, lambda x: x[..., :3] * sigmoid(x[..., 3:])),
    "swiglu": (nn.swiglu, lambda x: x[..., :3] * sigmoid(x[..., :3]) * x[..., 3:]),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    function, formula = ACTIVATIONS[name]
    agree(function, formula(X.astype(np.float64)), X)
    assert function(X).dtype == np.float32


def test_activations_do_not_overflow() -> None:
    x = np.array([-1e30, -200.0, 200.0, 1e30], np.float32)
    for got in both(nn.softplus, x):
        np.testing.assert_array_equal(got, np.maximum(x, 0))
    for got in both(nn.elu, x):
        np.testing.assert_array_equal(got, np.where(x > 0, x, np.float32(-1)))


# Rows


def test_softmax_and_its_relatives() -> None:
    wide = X.astype(np.float64)
    agree(nn.softmax, softmax(wide), X)
    agree(lambda x: nn.softmax(x, axis=1), softmax(wide, 1), X)
    agree(nn.softmin, softmax(-wide), X)
    agree(nn.log_softmax, np.log(softmax(wide)), X)
    agree(nn.logsumexp, np.log(np.exp(wide).sum()), X)
    agree(lambda x: nn.logsumexp(x, 1), np.log(np.exp(wide).sum(1)), X)
    agree(
        lambda x: nn.logsumexp(x, (0, 2), True), np.log(np.exp(wide).sum((0, 2), keepdims=True)), X
    )
    nothing = np.full((2, 3), -np.inf, np.float32)
    agree(lambda x: nn.logsumexp(x, 1), np.full(2, -np.inf), nothing)
    agree(nn.softmax, softmax(wide), X + np.float32(1e4), rtol=3e-3)


def test_normalisations() -> None:
    wide = X.astype(np.float64)
    gamma, beta = RNG.standard_normal((2, 6)).astype(np.float32)
    away = wide - wide.mean(-1, keepdims=True)
    standard = away / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    agree(nn.layer_norm, standard, X)
    agree(nn.layer_norm, standard * gamma + beta, X, gamma, beta)
    root = np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    agree(nn.rms_norm, wide / root * gamma, X, gamma)
    agree(nn.normalize, wide / np.linalg.norm(wide, axis=-1, keepdims=True), X)


def test_normalisations_of_channels() -> None:
    wide = IMAGE.astype(np.float64)
    gamma, beta, mean = RNG.standard_normal((3, 4)).astype(np.float32)
    var = np.abs(RNG.standard_normal(4)).astype(np.float32)

    def column(v: Array) -> Array:
        return v.reshape(4, 1, 1)

    def standard(x: Array, axes: tuple[int, ...]) -> Array:
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)

    want = (wide - column(mean)) / np.sqrt(column(var) + 1e-5) * column(gamma) + column(beta)
    agree(nn.batch_norm, want, IMAGE, mean, var, gamma, beta)
    agree(nn.batch_norm, standard(wide, (0, 2, 3)), IMAGE)
    last = np.ascontiguousarray(np.moveaxis(IMAGE, 1, -1))
    agree(
        lambda x, m, v: nn.batch_norm(x, m, v, axis=-1),
        np.moveaxis((wide - column(mean)) / np.sqrt(column(var) + 1e-5), 1, -1),
        last,
        mean,
        var,
    )
    agree(nn.instance_norm, standard(wide, (2, 3)), IMAGE)
    pairs = standard(wide.reshape(2, 2, 2, 7, 9), (2, 3, 4)).reshape(wide.shape)
    agree(lambda x: nn.group_norm(x, 2), pairs, IMAGE)
    agree(
        lambda x, g, b: nn.group_norm(x, 2, g, b),
        pairs * column(gamma) + column(beta),
        IMAGE,
        gamma,
        beta,
    )
    with pytest.raises(mlc.ShapeError, match="4 channels do not divide into 3 groups"):
        nn.group_norm(IMAGE, 3)


# Convolutions


def naive_conv(
    x: Array,
    w: Array,
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """The definition, window by window, channels first."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *padding])
    sides = w.shape[2:]
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], sides, dilation, stride, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    each, per = w.shape[1], w.shape[0] // groups
    for at in itertools.product(*map(range, sizes)):
        cut = tuple(
            slice(a * s, a * s + (k - 1) * d + 1, d)
            for a, s, k, d in zip(at, stride, sides, dilation, strict=True)
        )
        patch = x[(slice(None), slice(None), *cut)]
        for f in range(w.shape[0]):
            g = f // per
            mine = patch[:, g * each : (g + 1) * each]
            out[(slice(None), f, *at)] = (mine * w[f]).reshape(x.shape[0], -1).sum(1)
    return out


CONVS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 4, 7, 9), (5, 4, 3, 3), {}),
    "one by one": ((2, 4, 7, 9), (5, 4, 1, 1), {}),
    "padded": ((2, 4, 7, 9), (5, 4, 3, 3), {"padding": 1}),
    "uneven": ((2, 4, 7, 9), (5, 4, 3, 2), {"padding": ((1, 2), (0, 1)), "stride": (2, 3)}),
    "dilated": ((2, 4, 9, 9), (5, 4, 3, 3), {"dilation": (2, 3), "padding": (2, 3)}),
    "grouped": ((2, 4, 7, 9), (6, 2, 3, 3), {"groups": 2, "stride": 2}),
    "depthwise": ((2, 4, 7, 40), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    "two filters a channel": ((2, 4, 7, 9), (8, 1, 3, 3), {"groups": 4}),
    "line": ((2, 4, 50), (5, 4, 4), {"stride": 2}),
    "volume": ((1, 2, 4, 5, 6), (3, 2, 2, 2, 3), {"padding": 1}),
    "wide": ((1, 16, 6, 70), (33, 16, 3, 3), {"padding": 1}),
    "many channels": ((1, 70, 9, 9), (40, 70, 3, 3), {"stride": 2, "padding": 1}),
}


def spread(options: dict[str, Any], rank: int) -> tuple[Any, ...]:
    """Options as `naive_conv` takes them."""

    def each(value: Any) -> Any:
        return value if isinstance(value, tuple) else (value,) * rank

    padding = [p if isinstance(p, tuple) else (p, p) for p in each(options.get("padding", 0))]
    return (
        each(options.get("stride", 1)),
        padding,
        each(options.get("dilation", 1)),
        options.get("groups", 1),
    )


@pytest.mark.parametrize("name", CONVS)
@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_conv(name: str, layout: Any) -> None:
    shape, weights, options = CONVS[name]
    rng = np.random.default_rng(len(name))
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (shape, weights))
    want = naive_conv(x, w, *spread(options, len(shape) - 2))
    if layout == "channels_last":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        w = np.ascontiguousarray(np.moveaxis(np.moveaxis(w, 0, -1), 0, -2))
        want = np.moveaxis(want, 1, -1)
    agree(lambda x, w: nn.conv(x, w, layout=layout, **options), want, x, w, rtol=1e-4)


def test_conv_same_padding_and_bias() -> None:
    w = RNG.standard_normal((5, 4, 3, 2)).astype(np.float32)
    bias = RNG.standard_normal(5).astype(np.float32)
    want = naive_conv(IMAGE, w, (1, 1), [(1, 1), (0, 1)], (1, 1), 1) + bias.reshape(5, 1, 1)
    agree(lambda x, w, b: nn.conv(x, w, padding="same", bias=b), want, IMAGE, w, bias)
    want = naive_conv(IMAGE, w, (2, 2), [(1, 1), (0, 1)], (1, 1), 1)
    agree(lambda x, w: nn.conv(x, w, padding="same", stride=2), want, IMAGE, w)


def test_conv_and_what_follows_are_one_kernel() -> None:
    def layer(x: Array, w: Array, b: Array) -> Any:
        return nn.relu(nn.conv(x, w, bias=b))

    w = RNG.standard_normal((5, 4, 3, 3)).astype(np.float32)
    lowered = mlc.compile(layer).lower(IMAGE, w, np.zeros(5, np.float32))
    assert lowered.text("plan").count("= mlc.kernel") == 1


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "extra"), [(1, 0, 0), (2, 1, 1), (3, 0, 0)])
def test_conv_transpose_is_the_transpose(
    stride: int, padding: int, extra: int, groups: int
) -> None:
    """<conv(u), v> = <u, conv_transpose(v)>, in both layouts."""
    w = RNG.standard_normal((6, 4 // groups, 3, 3))
    v = RNG.standard_normal((2, 6, 4, 5))
    size = [(n - 1) * stride - 2 * padding + 3 + extra for n in (4, 5)]
    u = RNG.standard_normal((2, 4, *size))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    forward = nn.conv(u, w, **options)
    assert forward.shape == v.shape
    for got in both(lambda v, w: nn.conv_transpose(v, w, output_padding=extra, **options), v, w):
        assert got.shape == u.shape
        np.testing.assert_allclose(np.vdot(forward, v), np.vdot(u, got), rtol=1e-10)
    last = np.ascontiguousarray(np.moveaxis(v, 1, -1))
    # weights (…, F / groups, C), where C is the axis of v's channels
    turned = np.ascontiguousarray(np.moveaxis(np.moveaxis(w, 0, -1), 0, -2))
    want = np.moveaxis(np.asarray(nn.conv_transpose(v, w, output_padding=extra, **options)), 1, -1)
    got = nn.conv_transpose(last, turned, output_padding=extra, layout="channels_last", **options)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_conv_with_dynamic_sizes() -> None:
    w = RNG.standard_normal((5, 4, 3, 3)).astype(np.float32)

    @mlc.compile(dynamic={"x": {0: "N", 2: "H", 3: "W"}})
    def layer(x: Array, w: Array) -> Any:
        return nn.conv(x, w, stride=2, padding=1)

    for shape in ((2, 4, 7, 9), (1, 4, 20, 33), (3, 4, 1, 2)):
        x = RNG.standard_normal(shape).astype(np.float32)
        want = naive_conv(x, w, (2, 2), [(1, 1), (1, 1)], (1, 1), 1)
        np.testing.assert_allclose(layer(x, w), want, rtol=1e-4, atol=1e-4)
    assert layer.stats().compilations == 1


# Pooling


def naive_pool(x: Array, combine: Any, window: int, stride: int, pad: int, fill: float) -> Array:
    wide = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=fill)
    rows, columns = ((n - window) // stride + 1 for n in wide.shape[2:])
    out = np.zeros((*x.shape[:2], rows, columns))
    for i, j in itertools.product(range(rows), range(columns)):
        a, b = i * stride, j * stride
        out[:, :, i, j] = combine(wide[:, :, a : a + window, b : b + window], axis=(2, 3))
    return out


@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_pooling(window: int, stride: int, pad: int) -> None:
    want = naive_pool(IMAGE, np.max, window, stride, pad, -np.inf)
    agree(lambda x: nn.max_pool(x, window, stride, pad), want, IMAGE)
    means = naive_pool(IMAGE, np.mean, window, stride, pad, 0)
    agree(lambda x: nn.avg_pool(x, window, stride, pad), means, IMAGE)
    inside = naive_pool(IMAGE, np.nanmean, window, stride, pad, np.nan)
    agree(lambda x: nn.avg_pool(x, window, stride, pad, count_include_pad=False), inside, IMAGE)
    last = np.ascontiguousarray(np.moveaxis(IMAGE, 1, -1))
    agree(
        lambda x: nn.max_pool(x, window, stride, pad, layout="channels_last"),
        np.moveaxis(want, 1, -1),
        last,
    )


def test_pooling_to_the_last_element() -> None:
    wide = np.pad(IMAGE, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-np.inf)
    want = naive_pool(wide, np.max, 2, 2, 0, 0)
    agree(lambda x: nn.max_pool(x, 2, ceil_mode=True), want, IMAGE)
    integers = (IMAGE * 9).astype(np.int32)
    agree(
        lambda x: nn.reduce_window(x, "min", 3, 1),
        naive_pool(integers, np.min, 3, 1, 0, 0),
        integers,
    )


# Attention


def naive_attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ v


def test_attention() -> None:
    q = RNG.standard_normal((2, 4, 5, 8))
    k, v = RNG.standard_normal((2, 2, 4, 7, 8))
    agree(nn.attention, naive_attention(q, k, v), q, k, v)
    agree(nn.attention, naive_attention(q[0, 0], k[0, 0], v[0, 0]), q[0, 0], k[0, 0], v[0, 0])
    causal = np.tril(np.ones((5, 7), bool), 2)
    agree(
        lambda q, k, v: nn.attention(q, k, v, causal=True),
        naive_attention(q, k, v, causal),
        q,
        k,
        v,
    )
    mask = RNG.random((2, 1, 5, 7)) < 0.7
    mask[..., 0] = True
    agree(
        lambda q, k, v, m: nn.attention(q, k, v, mask=m),
        naive_attention(q, k, v, mask),
        q,
        k,
        v,
        mask,
    )
    few_k, few_v = k[:, :2], v[:, :2]
    want = naive_attention(q, np.repeat(few_k, 2, 1), np.repeat(few_v, 2, 1))
    agree(nn.attention, want, q, few_k, few_v)
    with pytest.raises(mlc.ShapeError, match="a multiple of q"):
        nn.attention(q, k[:, :3], v[:, :3])


# Learning


def test_products_and_tables() -> None:
    w, b = RNG.standard_normal((6, 5)).astype(np.float32), np.ones(5, np.float32)
    agree(nn.linear, X @ w + b, X, w, b)
    ids = np.array([[3, 0], [1, 5]])
    agree(nn.embedding, w[ids], w, ids)
    want = np.eye(6, dtype=np.float32)[ids]
    agree(lambda i: nn.one_hot(i, 6), want, ids)
    agree(lambda i: nn.one_hot(i, 6, axis=1), np.moveaxis(want, -1, 1), ids)


def test_dropout() -> None:
    x = np.ones((100, 100), np.float32)
    key = mlc.random.key(3)
    first, second = both(lambda x, key: nn.dropout(x, 0.25, key), x, np.asarray(key))
    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(np.mean(first) - 1) < 0.03
    np.testing.assert_array_equal(nn.dropout(x, 0.25, key, training=False), x)


def test_losses() -> None:
    logits = RNG.standard_normal((8, 5))
    labels = RNG.integers(0, 5, 8)
    logs = np.log(softmax(logits))
    picked = -logs[np.arange(8), labels]
    agree(nn.cross_entropy, picked.mean(), logits, labels)
    assert nn.cross_entropy(np.float32(logits), labels, label_smoothing=0.1).dtype == np.float32
    agree(lambda x, y: nn.cross_entropy(x, y, reduction="none"), picked, logits, labels)
    smooth = 0.9 * picked - 0.1 / 5 * logs.sum(1)
    agree(lambda x, y: nn.cross_entropy(x, y, label_smoothing=0.1), smooth.mean(), logits, labels)
    counts = labels != 2
    want = picked[counts].mean()
    agree(lambda x, y: nn.cross_entropy(x, y, ignore_index=2), want, logits, labels)
    weight = np.arange(1.0, 6.0)
    want = (picked * weight[labels]).sum() / weight[labels].sum()
    agree(lambda x, y, w: nn.cross_entropy(x, y, weight=w), want, logits, labels, weight)
    soft = softmax(RNG.standard_normal((8, 5)))
    agree(nn.cross_entropy, -(soft * logs).sum(1).mean(), logits, soft)
    agree(nn.nll_loss, picked.mean(), logs, labels)
    targets = (RNG.random(8) < 0.5).astype(np.float64)
    p = sigmoid(logits[:, 0])
    bce = -(targets * np.log(p) + (1 - targets) * np.log(1 - p))
    agree(nn.binary_cross_entropy, bce.mean(), np.ascontiguousarray(logits[:, 0]), targets)
    agree(nn.mse_loss, ((logits - soft) ** 2).mean(), logits, soft)
    agree(nn.l1_loss, np.abs(logits - soft).mean(), logits, soft)
    away = np.abs(logits - soft)
    agree(nn.huber_loss, np.where(away < 1, away**2 / 2, away - 0.5).mean(), logits, soft)
    agree(nn.kl_div, (soft * (np.log(soft) - logs)).mean(), logs, soft)
    with pytest.raises(mlc.ShapeError, match="one class number for each"):
        nn.cross_entropy(logits, labels[:5])


# Mistakes


def test_what_users_read_after_a_mistake() -> None:
    w = np.zeros((5, 3, 3, 3), np.float32)
    with pytest.raises(mlc.ShapeError, match="x has 4 channels and w 3 for each of 1 groups"):
        nn.conv(IMAGE, w)
    with pytest.raises(
        mlc.ShapeError, match="a window of 9 elements does not fit into spatial axis 0 with 7"
    ):
        nn.conv(IMAGE, np.zeros((5, 4, 9, 3), np.float32))
    with pytest.raises(mlc.ShapeError, match="stride is 0; expected a positive integer"):
        nn.conv(IMAGE, np.zeros((5, 4, 3, 3), np.float32), stride=0)
    with pytest.raises(mlc.ShapeError, match="padding 'full'; expected 'valid' or 'same'"):
        nn.conv(IMAGE, np.zeros((5, 4, 3, 3), np.float32), padding="full")
    with pytest.raises(mlc.ShapeError, match=r"x has 4 axes .* and w 3"):
        nn.conv(IMAGE, np.zeros((5, 4, 3), np.float32))
    with pytest.raises(mlc.ShapeError, match="layout 'NHWC'; expected 'channels_first'"):
        nn.max_pool(IMAGE, 2, layout="NHWC")  # pyright: ignore[reportArgumentType]


STRIDED = [  # size, window, stride, padding, dilation
    (9, 3, 2, 1, 1),
    (8, 3, 2, 0, 1),
    (8, 2, 2, 0, 1),
    (12, 4, 3, 2, 1),
    (10, 2, 3, 0, 1),
    (11, 5, 2, 2, 1),
    (9, 3, 2, 1, 2),
    (7, 1, 2, 0, 1),
]


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize(("size", "window", "stride", "padding", "dilation"), STRIDED)
def test_strided_convolutions_transpose(
    layout: Any, size: int, window: int, stride: int, padding: int, dilation: int
) -> None:
    """<g, J v> = <transpose(J) g, v>, and the transpose's transpose is J."""
    rng = np.random.default_rng(8)
    last = layout == "channels_last"
    v = rng.standard_normal((2, size, size + 1, 3) if last else (2, 3, size, size + 1))
    w = rng.standard_normal((window, window, 3, 4) if last else (4, 3, window, window))

    def f(x: Any) -> Any:
        return mlc.nn.conv(x, w, stride=stride, padding=padding, dilation=dilation, layout=layout)

    @mlc.compile
    def back(g: Any) -> Any:
        return mlc.vjp(f, np.zeros_like(v))[1](g)[0]

    expected = np.asarray(f(v))
    g = rng.standard_normal(expected.shape)
    np.testing.assert_allclose((g * expected).sum(), (back(g) * v).sum(), rtol=1e-11)
    again = mlc.compile(mlc.grad(lambda g: (back(g) * v).sum()))(g)
    np.testing.assert_allclose(again, expected, rtol=1e-11, atol=1e-11)


def test_gradient_of_patches_multiplies_no_zeros() -> None:
    """Windows that touch: as many products as forward, not stride^2 times as many."""
    w = np.ones((4, 4, 3, 8), np.float32)

    def f(x: Any) -> Any:
        return mlc.nn.conv(x, w, stride=4, layout="channels_last")

    x = np.ones((2, 16, 16, 3), np.float32)
    forward = mlc.compile(f).lower(x).compile().cost().flops
    back = mlc.compile(lambda g: mlc.vjp(f, x)[1](g)[0]).lower(f(x)).compile().cost().flops
    assert back <= forward
