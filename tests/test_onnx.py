# pyright: basic
"""Models of ONNX as functions: families of ops, control flow, derivatives, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.onnx_graphs import body, f32, helper, model, node, ran, rng


def test_a_network_with_chains_of_shapes() -> None:
    """What PyTorch exports around a reshape: sizes that are computed of sizes."""
    x, w, b = f32(2, 3, 4), f32(12, 5), f32(5)
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 minus", "shape", axis=0),
        node("Reshape", "x shape", "flat"),
        node("Gemm", "flat w b", "h"),
        node("Relu", "h", "r"),
        node("Softmax", "r", "y", axis=-1),
    ]
    weights = {
        "w": w, "b": b, "zero": np.int64(0), "axes": np.array([0]), "minus": np.array([-1]),
    }  # fmt: skip
    found = ran(nodes, {"x": x}, ["y"], weights=weights)
    h = np.maximum(x.reshape(2, 12) @ w + b, 0)
    e = np.exp(h - h.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_convolution_pool_and_norm() -> None:
    x, w, scale = f32(1, 4, 7, 6), f32(6, 2, 3, 3), f32(6)
    nodes = [
        node("Conv", "x w", "c", group=2, pads=[1, 1, 1, 1], strides=[2, 1]),
        node("BatchNormalization", "c s s m v", "n"),
        node("MaxPool", "n", "p", kernel_shape=[2, 2], ceil_mode=1),
        node("AveragePool", "n", "q", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    weights = {"w": w, "s": scale, "m": np.zeros(6, np.float32), "v": np.ones(6, np.float32)}
    pooled, mean = ran(nodes, {"x": x}, ["p", "q"], weights=weights)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2]
    parts = [
        np.einsum("ncyxij,fcij->nfyx", windows[:, k : k + 2], w[3 * k // 2 : 3 * k // 2 + 3])
        for k in (0, 2)
    ]
    c = np.concatenate(parts, 1)
    n = c / np.sqrt(np.float32(1 + 1e-5)) * scale[:, None, None] + scale[:, None, None]
    assert pooled.shape == (1, 6, 3, 5)
    np.testing.assert_allclose(pooled[..., 0, 0], n[..., :2, :2].max((2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean[..., 0, 0], n[..., :2, :2].mean((2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_go_both_ways(op: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    x, w, r = f32(5, 2, 3), f32(2, gates * 4, 3), f32(2, gates * 4, 4)
    nodes = [node(op, "x w r", "y", hidden_size=4, direction="bidirectional")]
    both = ran(nodes, {"x": x}, ["y"], weights={"w": w, "r": r})
    assert both.shape == (5, 2, 2, 4)
    one = [node(op, "x w r", "y", hidden_size=4)]
    forward = ran(one, {"x": x}, ["y"], weights={"w": w[:1], "r": r[:1]})
    back = ran(one, {"x": x[::-1].copy()}, ["y"], weights={"w": w[1:], "r": r[1:]})
    np.testing.assert_allclose(both[:, 0], forward[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(both[:, 1], back[::-1, 0], rtol=1e-5, atol=1e-6)


def test_branches_and_loops_on_values() -> None:
    x = f32(4)
    then = body([node("Neg", "x", "t")], [], ["t"])
    other = body([node("Identity", "x", "e")], [], ["e"])
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]
    load = mlc.onnx.load(model(nodes, {"x": x}, ["y"], weights={"zero": np.float32(0)}))
    for value in (np.abs(x), -np.abs(x)):
        np.testing.assert_array_equal(load(value), -np.abs(x))
    trip = body(
        [
            node("Add", "v v", "w"),
            node("ReduceMax", "w", "m", keepdims=0),
            node("Less", "m limit", "go"),
        ],
        ["k", "c", "v"],
        ["go", "w"],
    )
    nodes = [node("Loop", "- - x", "y", body=trip)]
    found = ran(nodes, {"x": np.abs(x)}, ["y"], weights={"limit": np.float32(100)})
    wanted = np.abs(x)
    while True:
        wanted = wanted + wanted
        if wanted.max() >= 100:
            break
    np.testing.assert_allclose(found, wanted)


def test_functions_of_the_model_and_of_onnx() -> None:
    x = f32(2, 3)
    scaled = helper.make_function(
        "local", "Scaled", ["a"], ["b"],
        [node("Elu", "a", "c", alpha=2.0), node("Mul", "c c", "b")],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    call = helper.make_node("Scaled", ["x"], ["y"], domain="local")
    elu = np.where(x < 0, 2 * np.expm1(x), x)
    found = ran([call], {"x": x}, ["y"], functions=[scaled])
    np.testing.assert_allclose(found, elu**2, rtol=1e-5, atol=1e-6)
    q = f32(1, 2, 5, 4)
    attended = ran([node("Attention", "q q q", "y", is_causal=1)], {"q": q}, ["y"], opset=23)
    scores = np.where(np.tri(5, dtype=bool), q @ q.swapaxes(2, 3) / 2, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(attended, e / e.sum(-1, keepdims=True) @ q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_is_what_onnx_says(mode: str) -> None:
    """Beside ONNX's own reference, up and down."""
    from onnx.reference import ReferenceEvaluator

    x = f32(1, 2, 5, 4)
    for scales, more in (
        ([1, 1, 1.6, 2.5], {}),
        ([1, 1, 0.6, 0.75], {"antialias": 1} if mode != "nearest" else {}),
        ([1, 1, 2.0, 1.5], {"coordinate_transformation_mode": "align_corners"}),
        ([1, 1, 2.0, 0.5], {"coordinate_transformation_mode": "asymmetric"}),
    ):
        nodes = [node("Resize", "x - s", "y", mode=mode, **more)]
        made = model(nodes, {"x": x}, ["y"], weights={"s": np.array(scales, np.float32)})
        reference: Any = ReferenceEvaluator(made)
        (wanted,) = reference.run(None, {"x": x})
        found = mlc.onnx.load(made)(x)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_quantised_products_are_exact() -> None:
    a = rng.integers(0, 255, (4, 300)).astype(np.uint8)
    b = rng.integers(-128, 127, (300, 3)).astype(np.int8)
    nodes = [node("MatMulInteger", "a b z", "y")]
    found = ran(nodes, {"a": a, "b": b}, ["y"], weights={"z": np.uint8(7)})
    np.testing.assert_array_equal(found, (a.astype(np.int32) - 7) @ b.astype(np.int32))


def test_inputs_that_decide_on_shapes_are_part_of_the_program() -> None:
    x = f32(2, 6)
    shape = np.array([3, 4])
    load = mlc.onnx.load(model([node("Reshape", "x s", "y")], {"x": x, "s": shape}, ["y"]))
    assert load(x, shape).shape == (3, 4)
    assert load(x, np.array([12])).shape == (12,)
    assert load(s=np.array([0, -1]), x=x).shape == (2, 6)


def test_derivatives_and_batches() -> None:
    x, w = f32(3, 4), f32(4, 2)
    load = mlc.onnx.load(
        model([node("MatMul", "x w", "h"), node("Tanh", "h", "y")], {"x": x, "w": w}, ["y"])
    )
    slope = mlc.grad(lambda w: load(x, w).sum())(w)
    np.testing.assert_allclose(slope, x.T @ (1 - np.tanh(x @ w) ** 2), rtol=1e-4, atol=1e-5)
    assert mlc.vmap(load, in_axes=(None, 0))(x, np.stack([w, w])).shape == (2, 3, 2)


def test_transforms_of_numbers_of_32_bits_have_exact_zeros() -> None:
    x = np.arange(100, dtype=np.float32).reshape(1, 10, 10, 1)
    found = ran([node("DFT", "x", "y", axis=1)], {"x": x}, ["y"], opset=19)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0, 5, :, 1], 0, atol=1e-12)


def test_transforms_leave_one_part_as_it_is_beside_an_infinite_one() -> None:
    parts = np.array([[[1, np.inf], [2, 0], [3, 1], [0, 2]]], np.float32)
    found = ran([node("DFT", "x", "y", axis=1)], {"x": parts}, ["y"], opset=19)
    wanted = np.fft.fft(parts.view(np.complex64)[..., 0], axis=1)
    np.testing.assert_array_equal(found, np.stack([wanted.real, wanted.imag], -1))
    assert np.isfinite(found[..., 0]).all()


def test_a_model_is_a_function_of_the_program() -> None:
    x = f32(3, 4)
    load = mlc.onnx.load(
        model([node("Tanh", "x", "y"), node("Shape", "y", "s")], {"x": x}, ["y", "s"])
    )

    @mlc.compile
    def both(x: Any) -> Any:
        y, sizes = load(x)
        return y + load(2 * x)[0], np.ones(int(sizes[1]))

    text = both.lower(x).text("trace")
    assert (text.count("mlc.call @"), text.count("func.func private")) == (2, 1)
    found, ones = both(x)
    np.testing.assert_allclose(found, np.tanh(x) + np.tanh(2 * x), rtol=1e-5)
    assert ones.shape == (4,)


def test_nodes_that_are_not_supported_are_listed() -> None:
    nodes = [
        helper.make_node("Frob", ["x"], ["y"], name="first", domain="local"),
        helper.make_node("StringNormalizer", ["y"], ["z"], name="second"),
    ]
    said = r'node "first" \(local\.Frob, opset 1\)\n  node "second" \(StringNormalizer, opset 21\)'
    with pytest.raises(mlc.NotSupportedError, match=said):
        mlc.onnx.load(model(nodes, {"x": f32(2)}, ["z"]))
    twice = mlc.onnx.load(model([node("Add", "x x", "y")], {"x": f32(2)}, ["y"]))
    with pytest.raises(TypeError, match="takes 1 inputs, found 2"):
        twice(f32(2), f32(2))
    with pytest.raises(TypeError, match="no input 'z'; expected x"):
        twice(z=f32(2))
