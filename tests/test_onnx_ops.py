# pyright: basic
"""Ops of ONNX beside ONNX's own reference: sampling, boxes, signals, bits, updates of training."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import mlc
from tests.onnx_graphs import body, f32, helper, model, node, onnx, ran, rng


def same(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], rtol: float = 1e-4, **more: Any
) -> None:
    """Our results are those of the reference, with their dtypes."""
    from onnx.reference import ReferenceEvaluator

    made = model(nodes, inputs, outputs, **more)
    reference: Any = ReferenceEvaluator(made)
    wanted = reference.run(None, inputs)
    found = mlc.onnx.load(made)(*inputs.values())
    for x, y in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-5)


CUTS = list(
    itertools.product(("linear", "cubic", "nearest"), ("zeros", "border", "reflection"), (0, 1))
)


@pytest.mark.parametrize(("mode", "around", "corners"), CUTS[::3] + CUTS[1::5])
def test_samples_of_a_grid(mode: str, around: str, corners: int) -> None:
    if (mode, around) == ("cubic", "border"):
        pytest.skip("ONNX's reference clips the place itself, unlike ONNX Runtime and PyTorch")
    grid = (f32(1, 3, 3, 2) * 1.2).astype(np.float32)
    nodes = [node("GridSample", "x g", "y", mode=mode, padding_mode=around, align_corners=corners)]
    same(nodes, {"x": f32(1, 2, 4, 5), "g": grid}, ["y"], opset=20)


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode: str, samples: int) -> None:
    """How many samples a region has, the region says where no number is given."""
    rois = np.array([[0, 0, 3, 3], [1.5, 0.5, 4.2, 3.9], [2, 1, 2.5, 6]], np.float32)
    nodes = [
        node("RoiAlign", "x r b", "y", mode=mode, sampling_ratio=samples, output_height=2,
             output_width=3, spatial_scale=0.8)
    ]  # fmt: skip
    same(nodes, {"x": f32(2, 3, 6, 7), "r": rois, "b": np.array([0, 1, 0])}, ["y"], opset=16)


def test_the_largest_of_regions() -> None:
    x = f32(2, 3, 6, 8)
    rois = np.array([[0, 0, 0, 3, 3], [1, 2, 1, 7, 5]], np.float32)
    found = ran([node("MaxRoiPool", "x r", "y", pooled_shape=[2, 2])], {"x": x, "r": rois}, ["y"])
    first, second = x[0, :, 0:4, 0:4], x[1, :, 1:6, 2:8]
    np.testing.assert_array_equal(found[0], first.reshape(3, 2, 2, 2, 2).max((2, 4)))
    rows = [second[:, 0:3], second[:, 2:5]]  # bins of 2.5 rows share one
    wanted = np.stack([r.reshape(3, 3, 2, 3).max((1, 3)) for r in rows], 1)
    np.testing.assert_array_equal(found[1], wanted)


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_that_overlap_are_left_out(centred: int) -> None:
    boxes = np.abs(f32(2, 9, 4)).cumsum(-1).astype(np.float32)
    nodes = [node("NonMaxSuppression", "b s m o t", "y", center_point_box=centred)]
    limits = {"m": np.array([3]), "o": np.array([0.3], np.float32),
              "t": np.array([-0.5], np.float32)}  # fmt: skip
    same(nodes, {"b": boxes, "s": f32(2, 3, 9)}, ["y"], weights=limits)


def test_kernels_that_are_bent() -> None:
    inputs = {"x": f32(1, 4, 5, 5), "w": f32(4, 2, 3, 3), "o": f32(1, 36, 5, 5) * 0.5,
              "b": f32(4), "m": np.abs(f32(1, 18, 5, 5))}  # fmt: skip
    nodes = [node("DeformConv", "x w o b m", "y", pads=[1, 1, 1, 1], group=2, offset_group=2)]
    same(nodes, inputs, ["y"], opset=22)


def test_signals() -> None:
    steps = {"s": np.int64(4), "w": np.hanning(16).astype(np.float32)}
    same([node("STFT", "x s w", "y", onesided=1)], {"x": f32(2, 40, 1)}, ["y"], weights=steps,
         rtol=1e-3)  # fmt: skip
    mel = {"n": np.int64(8), "l": np.int64(16), "r": np.int64(8192), "a": np.float32(0),
           "b": np.float32(4096)}  # fmt: skip
    same([node("MelWeightMatrix", "n l r a b", "w"), node("Add", "w x", "y")],
         {"x": np.float32(1)}, ["y"], weights=mel)  # fmt: skip
    half = [node("DFT", "x - a", "y", onesided=1), node("DFT", "y - a", "z", onesided=1, inverse=1)]
    same(half, {"x": f32(2, 8, 1)}, ["y", "z"], weights={"a": np.int64(1)}, rtol=1e-3, opset=20)
    grams = {
        "mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
        "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3, 4],
        "pool_int64s": [2, 3, 5, 2, 3, 3, 5], "weights": [1.0, 2.0, 0.5, 1.0, 3.0],
    }  # fmt: skip
    words = np.array([[2, 3, 5, 2, 3], [5, 5, 2, 1, 3]])
    same([node("TfIdfVectorizer", "x", "y", **grams)], {"x": words}, ["y"])


def test_large_windows() -> None:
    x = f32(1, 2, 20, 24)
    cut = {"kernel_shape": [7, 9], "strides": [3, 2], "pads": [1, 2, 1, 2], "dilations": [2, 1]}
    for op in ("MaxPool", "AveragePool"):
        same([node(op, "x", "y", **cut)], {"x": x}, ["y"], opset=21)


def test_bits_and_caches() -> None:
    x = f32(3, 4)
    found = ran([node("BitCast", "x", "y", to=onnx.TensorProto.INT32)], {"x": x}, ["y"], opset=26)
    np.testing.assert_array_equal(found, x.view(np.int32))
    for mode, begin in (("linear", [0, 2]), ("circular", [1, 4])):
        inputs = {"p": f32(2, 3, 5, 4), "u": f32(2, 3, 2, 4), "w": np.array(begin)}
        same([node("TensorScatter", "p u w", "y", mode=mode)], inputs, ["y"], opset=24)
    wide = np.array([1, 500, -1e6, np.nan], np.float32)
    kind = onnx.TensorProto.FLOAT8E4M3FN
    nodes = [node("Cast", "x", "c", to=kind), node("Cast", "c", "y", to=1)]
    np.testing.assert_array_equal(ran(nodes, {"x": wide}, ["y"]), [1, 448, -448, np.nan])


def test_a_loop_that_ends_by_itself_stacks_what_it_found() -> None:
    """How many trips there are the model computes; at most 9."""
    trip = body(
        [node("Add", "v v", "w"), node("ReduceMax", "w", "m", keepdims=0),
         node("Less", "m limit", "go"), node("Identity", "w", "w_out")],
        ["k", "c", "v"], ["go", "w", "w_out"],
    )  # fmt: skip
    weights = {"limit": np.float32(20), "most": np.int64(9), "always": np.bool_(True)}
    nodes = [node("Loop", "most always x", "y all", body=trip)]
    last, every = ran(nodes, {"x": np.array([1.0, 2.0], np.float32)}, ["y", "all"], weights=weights)
    np.testing.assert_array_equal(every, [[2, 4], [4, 8], [8, 16], [16, 32]])
    np.testing.assert_array_equal(last, every[-1])


@pytest.mark.parametrize("op", ["Adagrad", "Adam", "Momentum"])
def test_updates_of_training(op: str) -> None:
    more = {"Momentum": {"alpha": 0.9, "beta": 0.8, "mode": "nesterov"}}.get(op, {})
    states = ["v", "h"] if op == "Adam" else ["h"]
    names = [f"{kind}{k}" for kind in ("x", "g", *states) for k in (0, 1)]
    outs = [f"new_{kind}{k}" for kind in ("x", *states) for k in (0, 1)]
    domain = "ai.onnx.preview.training"
    made = helper.make_node(
        op, ["r", "t", *names], outs, domain=domain, norm_coefficient=0.01,
        **({} if op == "Momentum" else {"epsilon": 1e-4}), **more,
    )  # fmt: skip
    inputs = {"r": np.float32(0.1), "t": np.int64(3)}
    inputs |= {name: np.abs(f32(2 + int(name[-1]))) for name in names}
    proto = model([made], inputs, outs)
    proto.opset_import.append(helper.make_opsetid(domain, 1))
    found = mlc.onnx.load(proto)(**inputs)
    for k in (0, 1):
        x, g, *rest = (inputs[f"{kind}{k}"] for kind in ("x", "g", *states))
        g = 0.01 * x + g
        if op == "Adagrad":
            wanted = x - 0.1 * g / (np.sqrt(rest[0] + g * g) + 1e-4)
        elif op == "Adam":
            first, second = 0.9 * rest[0] + 0.1 * g, 0.999 * rest[1] + 0.001 * g * g
            rate = 0.1 * np.sqrt(1 - 0.999**3) / (1 - 0.9**3)
            wanted = x - rate * first / (np.sqrt(second) + 1e-4)
        else:
            wanted = x - 0.1 * (g + 0.9 * (0.9 * rest[0] + 0.8 * g))
        np.testing.assert_allclose(found[k], wanted, rtol=1e-4, atol=1e-5)


def test_gradients_that_a_model_asks_for() -> None:
    """d (a * b + a) / d a, of a graph that computes the value too."""
    domain = "ai.onnx.preview.training"
    asked = helper.make_node("Gradient", ["a"], ["da"], domain=domain, xs=["a"], zs=["b"], y="y")
    asked.input.append("b")
    proto = model(
        [node("Mul", "a b", "m"), node("Add", "m a", "y"), asked], {"a": f32(3), "b": f32(3)},
        ["y", "da"],
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid(domain, 1))
    a, b = f32(3), f32(3)
    y, slope = mlc.onnx.load(proto)(a, b)
    np.testing.assert_allclose(y, a * b + a, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, b + 1, rtol=1e-5, atol=1e-6)


def test_derivatives_of_samples() -> None:
    g = mlc.onnx.load(
        model([node("GridSample", "x g", "y")], {"x": f32(1, 2, 4, 4), "g": f32(1, 3, 3, 2)}, ["y"])
    )
    # places within a cell of the 4 x 4 samples: at its border the slope jumps
    places = rng.integers(0, 3, (1, 3, 3, 2)) + 0.2 + 0.6 * rng.random((1, 3, 3, 2))
    grid = ((places + 0.5) / 2 - 1).astype(np.float32)
    mlc.check_grads(lambda x, q: g(x, q).sum(), (f32(1, 2, 4, 4), grid), order=1)


def test_versions_of_ops() -> None:
    """What an op of an old opset means, beside the same thing as the newest says it."""
    x = f32(2, 3, 4)
    flat = np.exp(x - x.max((1, 2), keepdims=True))
    old: list[tuple[int, Any, Any]] = [
        (11, node("Softmax", "x", "y", axis=1), flat / flat.sum((1, 2), keepdims=True)),
        (7, node("Clip", "x", "y", min=-0.5, max=0.5), np.clip(x, -0.5, 0.5)),
        (7, node("Slice", "x", "y", starts=[1, -3], ends=[9, -1], axes=[1, 2]), x[:, 1:, -3:-1]),
        (7, node("Pad", "x", "y", pads=[0, 1, 0, 0, 0, 2], value=1.5),
         np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=1.5)),
        (9, node("TopK", "x", "y i", k=2, axis=2), -np.sort(-x, 2)[:, :, :2]),
        (11, node("Unsqueeze", "x", "y", axes=[0, 2]), x[None, :, None]),
        (11, node("ReduceSum", "x", "y", axes=[-1]), x.sum(-1, keepdims=True)),
        (7, node("Split", "x", "y z", axis=1, split=[1, 2]), x[:, :1]),
        (7, node("Upsample", "x", "y", scales=[1.0, 2.0, 1.0]), x.repeat(2, 1)),
        (7, node("Dropout", "x", "y", ratio=0.5), x),
    ]  # fmt: skip
    for opset, made, wanted in old:
        found = ran([made], {"x": x}, ["y"], opset=opset)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=made.op_type)


def test_ops_of_bf16() -> None:
    """NumPy calls it neither a float nor anything else."""
    x = f32(1, 2, 4, 6).astype(bfloat16)
    wide = x.astype(np.float32)
    pool = [node("MaxPool", "x", "y i", kernel_shape=[2, 2], strides=[2, 2])]
    found, places = ran(pool, {"x": x}, ["y", "i"], opset=22)
    windows = wide.reshape(1, 2, 2, 2, 3, 2).max((3, 5))
    np.testing.assert_array_equal(found.astype(np.float32), windows)
    np.testing.assert_array_equal(wide.ravel()[places], windows)
    scales = {"s": np.array([1, 1, 0.5, 1], np.float32)}
    small = ran([node("Resize", "x - s", "y", mode="linear")], {"x": x}, ["y"], weights=scales)
    halves = (wide[:, :, ::2] + wide[:, :, 1::2]) / 2
    np.testing.assert_allclose(small.astype(np.float32), halves, rtol=1e-2, atol=1e-2)
    least = ran([node("ReduceMax", "x", "y", keepdims=0)], {"x": x[:, :0]}, ["y"], opset=20)
    assert least == -np.inf


def test_a_batch_is_normalised_with_the_bits_of_onnx_runtime() -> None:
    """One product and one sum an element; near a pole of `Tan` other bits are other numbers."""
    x, w, b, mean, spread = f32(2, 64, 5), *(f32(64) for _ in range(3)), np.abs(f32(64))
    inputs = {"x": x, "w": w, "b": b, "m": mean, "v": spread}
    found = ran([node("BatchNormalization", "x w b m v", "y")], inputs, ["y"], opset=15)
    scale = w * (np.float32(1) / np.sqrt(spread + np.float32(1e-5)))
    shift = b - mean * scale
    np.testing.assert_array_equal(found, x * scale[:, None] + shift[:, None])


@pytest.mark.parametrize("dtype", [np.float16, bfloat16], ids=str)
def test_what_lies_between_may_be_larger_than_floats_of_16_bits(dtype: Any) -> None:
    """Sums, squares and counts of more than 65504, whose quotients and roots are small again."""
    x = np.full((1, 2, 300, 300), 100, dtype)
    pool = {"kernel_shape": [300, 300]}
    some = {"s": np.ones(2, dtype), "b": np.zeros(2, dtype)}
    for made, wanted in (
        (node("AveragePool", "x", "y", **pool), 100), (node("GlobalAveragePool", "x", "y"), 100),
        (node("ReduceMean", "x", "y"), 100), (node("ReduceL2", "x", "y"), 42426.4),
        (node("ReduceLogSum", "x", "y"), np.log(1.8e7)),
        (node("LpPool", "x", "y", **pool), 30000), (node("GlobalLpPool", "x", "y"), 30000),
        (node("InstanceNormalization", "x s b", "y"), 0),
    ):  # fmt: skip
        found = ran([made], {"x": x}, ["y"], weights=some, opset=17)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(np.float32), wanted, 8e-3, err_msg=made.op_type)
