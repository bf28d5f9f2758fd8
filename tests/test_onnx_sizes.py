# pyright: basic
"""Sizes that a model of ONNX names: one program serves all of them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.importers.onnx.values import LARGE
from tests.onnx_graphs import f32, model, node


def load(
    nodes: list[Any], inputs: dict[str, tuple[int, list[Any]]], outputs: list[str],
    weights: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """A model whose inputs have an element type and sizes, some of which are names."""
    return mlc.onnx.load(model(nodes, inputs, outputs, weights))


def test_chains_of_shapes_are_sizes() -> None:
    """Heads are split and joined, positions counted, and a mask made, for every length."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "b"),
        node("Gather", "s one", "t"),
        node("Unsqueeze", "b ax", "b1"),
        node("Unsqueeze", "t ax", "t1"),
        node("Concat", "b1 t1 heads minus", "split", axis=0),
        node("Reshape", "x split", "h"),
        node("Transpose", "h", "ht", perm=[0, 2, 1, 3]),
        node("Range", "zero_s t one_s", "line"),
        node("Unsqueeze", "line ax1", "column"),
        node("LessOrEqual", "line column", "mask"),
        node("Mul", "t t", "tt"),
        node("Div", "tt t", "t_again"),
        node("Unsqueeze", "t_again ax", "t2"),
        node("Concat", "t1 t2", "square", axis=0),
        node("ConstantOfShape", "square", "none"),
        node("Where", "mask none low", "bias"),
        node("Transpose", "h", "hk", perm=[0, 2, 3, 1]),
        node("MatMul", "ht hk", "scores"),
        node("Add", "scores bias", "biased"),
        node("Softmax", "biased", "p"),
        node("MatMul", "p ht", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Concat", "b1 t1 minus", "join", axis=0),
        node("Reshape", "ot join", "y"),
    ]
    weights = {
        "zero": np.int64(0), "one": np.int64(1), "ax": np.array([0]), "ax1": np.array([1]),
        "heads": np.array([2]), "minus": np.array([-1]), "zero_s": np.int64(0),
        "one_s": np.int64(1), "low": np.float32(-1e9),
    }  # fmt: skip
    f = load(nodes, {"x": (1, ["batch", "time", 6])}, ["y"], weights)
    for b, t in ((2, 3), (1, 7), (4, 1), (3, 5)):
        x = f32(b, t, 6)
        h = x.reshape(b, t, 2, 3).transpose(0, 2, 1, 3)
        scores = h @ h.swapaxes(2, 3) + np.where(np.tri(t, dtype=bool), 0, -1e9)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = (e / e.sum(-1, keepdims=True) @ h).transpose(0, 2, 1, 3).reshape(b, t, 6)
        np.testing.assert_allclose(f(x), wanted, rtol=1e-4, atol=1e-5)
    assert len(f.programs()) == 1


def test_a_cache_grows() -> None:
    """Sizes are sums of others, in the declaration too, and the program divides by them."""
    nodes = [
        node("Concat", "past new", "all", axis=1),
        node("Add", "all bias", "sum"),
        node("Shape", "all", "length", start=1, end=2),
        node("Concat", "minus length", "shape", axis=0),
        node("Transpose", "sum", "turned", perm=[0, 2, 1]),
        node("Reshape", "turned shape", "rows"),
        node("Slice", "all begin end axis", "last"),
    ]
    weights = {
        "minus": np.array([-1]), "begin": np.array([-1]), "end": np.array([2**63 - 1]),
        "axis": np.array([1]),
    }  # fmt: skip
    sizes = {"past": ["B", "p", 4], "new": ["B", "n", 4], "bias": ["B", "p + n", 4]}
    f = load(nodes, {k: (1, v) for k, v in sizes.items()}, ["all", "rows", "last"], weights)
    for b, p, n in ((1, 2, 3), (2, 5, 1), (3, 6, 1)):
        past, new, bias = f32(b, p, 4), f32(b, n, 4), f32(b, p + n, 4)
        whole, rows, last = f(past, new, bias)
        wanted = np.concatenate([past, new], 1)
        np.testing.assert_array_equal(whole, wanted)
        np.testing.assert_array_equal(rows, (wanted + bias).swapaxes(1, 2).reshape(-1, p + n))
        np.testing.assert_array_equal(last, wanted[:, -1:])
    assert len(f.programs()) == 1


def test_images_of_any_size() -> None:
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("MaxPool", "c", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "p", "m"),
        node("Flatten", "m", "y"),
    ]
    w = f32(3, 2, 3, 3)
    f = load(nodes, {"x": (1, ["N", 2, "H", "W"])}, ["y"], {"w": w})
    for shape in ((1, 2, 8, 6), (3, 2, 5, 9), (2, 2, 4, 4)):
        x = f32(*shape)
        wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
        c = np.einsum("ncyxij,fcij->nfyx", windows, w)
        h, v = (n // 2 for n in shape[2:])
        pooled = c[:, :, : 2 * h, : 2 * v].reshape(shape[0], 3, h, 2, v, 2).max((3, 5))
        np.testing.assert_allclose(f(x), pooled.mean((2, 3)), rtol=1e-4, atol=1e-5)
    assert len(f.programs()) == 1


def test_a_size_that_decides_is_part_of_the_program() -> None:
    """How an image is resized depends on its height; the batch still varies."""
    nodes = [node("Resize", "x - s", "y", mode="linear")]
    scales = np.array([1, 1, 1.5, 1], np.float32)
    f = load(nodes, {"x": (1, ["N", 1, "H", 4])}, ["y"], {"s": scales})
    shapes = [f(f32(n, 1, h, 4)).shape for n, h in ((1, 4), (2, 4), (3, 6), (1, 6))]
    assert shapes == [(1, 1, 6, 4), (2, 1, 6, 4), (3, 1, 9, 4), (1, 1, 9, 4)]
    assert len(f.programs()) == 2


def test_sizes_of_one_name_are_equal() -> None:
    f = load([node("MatMul", "x y", "z")], {"x": (1, ["n", "m"]), "y": (1, ["m", "k"])}, ["z"])
    assert f(f32(2, 3), f32(3, 4)).shape == (2, 4)
    with pytest.raises(mlc.MlcError, match="both called m, but they have 5 and 4"):
        f(f32(2, 5), f32(4, 4))


def test_names_that_python_cannot_spell() -> None:
    f = load([node("Add", "in.1 in/1", "y")], {k: (1, ["a b", None]) for k in ("in.1", "in/1")},
             ["y"])  # fmt: skip
    assert f(f32(2, 3), f32(2, 3)).shape == (2, 3)
    assert f(f32(4, 1), f32(4, 1)).shape == (4, 1)
    assert list(signature(f.compiled()).parameters) == ["in_1", "in_1_2"]
    of_classes = load([node("Neg", "x", "y")], {"x": (1, ["class", "2 + class"])}, ["y"])
    for n in (1, 3):
        assert of_classes(f32(n, n + 2)).shape == (n, n + 2)


def test_weights_can_be_arguments() -> None:
    w, x = f32(4, 3), f32(2, 4)
    made = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("Reshape", "t s", "y")]
    proto = model(made, {"x": (1, ["N", 4])}, ["y"], {"w": w, "s": np.array([-1])})
    f = mlc.onnx.load(proto, weights="arguments")
    assert [port.name for port in f.inputs] == ["x", "w"]  # a shape is no argument
    np.testing.assert_allclose(f(x), np.tanh(x @ w).ravel(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(f(x, w=2 * w), np.tanh(x @ (2 * w)).ravel(), rtol=1e-5, atol=1e-6)
    slopes = mlc.grad(lambda p: f(x, **p).sum())(dict(f.weights))
    np.testing.assert_allclose(slopes["w"], x.T @ (1 - np.tanh(x @ w) ** 2), rtol=1e-4, atol=1e-5)
    mlc.check_grads(lambda x, w: f(x, w=w).sum(), (x, w))
    assert mlc.vmap(f)(f32(5, 2, 4)).shape == (5, 6)
    with pytest.raises(ValueError, match="expected 'constants' or 'arguments'"):
        mlc.onnx.load(proto, weights="none")  # pyright: ignore[reportArgumentType]


def test_a_call_that_fails_leaves_nothing_behind() -> None:
    """Sizes that vary do so whatever was wrong with the first calls."""
    nodes = [node("Add", "x y", "s"), node("Reshape", "s shape", "z")]
    inputs = {"x": (1, ["n", 3]), "y": (1, ["n", 3])}
    f = load(nodes, inputs, ["z"], {"shape": np.array([2, -1])})
    for x, y, error in (
        (f32(1, 3), f32(4, 3), mlc.ShapeError),  # n twice
        (f32(2, 3).astype(np.float64), f32(2, 3), mlc.DTypeError),
        (f32(2, 4), f32(2, 4), mlc.ShapeError),
        (f32(3, 3), f32(3, 3), mlc.ShapeError),  # nine elements in two rows
    ):
        with pytest.raises(error):
            f(x, y)
    assert f.programs() == []
    for n in (2, 6, 4):
        assert f(f32(n, 3), f32(n, 3)).shape == (2, n // 2 * 3)
    assert len(f.programs()) == 1


@pytest.mark.parametrize("apart", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_windows_without_places_that_meet_padding_alone(size: int, stride: int, apart: int) -> None:
    """Of known weights what any window meets is part of the program, as a product walks it."""
    w, x = f32(160, 60, 3, 3), f32(2, 60, size, size)
    assert w.size > LARGE
    pads, steps, gaps = [apart] * 4, [stride] * 2, [apart] * 2
    nodes = [node("Conv", "x w", "y", pads=pads, strides=steps, dilations=gaps)]
    f = load(nodes, {"x": (1, ["batch", 60, size, size])}, ["y"], {"w": w})
    span = 2 * apart + 1
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, [(0, 0), (0, 0), (apart, apart), (apart, apart)]), (span, span), (2, 3)
    )[:, :, ::stride, ::stride, ::apart, ::apart]
    wanted = np.einsum("ncyxij,fcij->nfyx", windows, w)
    np.testing.assert_allclose(f(x), wanted, rtol=1e-3, atol=1e-3)
    if size == 1:
        text = f.compiled().lower(x).text("trace")
        assert "tensor<60x160xf32>" in text
        assert "tensor<160x60x3x3xf32>" not in text


def test_an_array_from_outside_decides_on_shapes_in_a_traced_function() -> None:
    """As it is when the function is compiled; with other numbers it is compiled again."""
    x, shape = np.arange(6, dtype=np.float32), np.array([2, 3])
    made = model([node("Reshape", "x n", "y")], {"x": x, "n": shape}, ["y"])
    function = mlc.onnx.load(made)
    weight = np.arange(3, dtype=np.float32)
    slope = mlc.grad(lambda x: (function(x, shape) * weight).sum())
    np.testing.assert_array_equal(slope(x), [0, 1, 2, 0, 1, 2])
    rows = mlc.vmap(lambda x: function(x, shape))(np.stack([x, 2 * x]))
    np.testing.assert_array_equal(rows, np.stack([x, 2 * x]).reshape(2, 2, 3))
    compiled = mlc.compile(lambda x: function(x, shape))
    assert compiled(x).shape == (2, 3)
    shape[:] = 3, 2
    assert compiled(x).shape == (3, 2)
