# pyright: basic
"""Numbers far beyond any array, in ONNX and StableHLO: an error that says where, soon, or right."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import mlc

pytest.importorskip("onnx", reason="onnx is not installed")

from mlc.frontend.importers.onnx.windows import _meets
from tests.onnx_graphs import model, node

FAR = (1 << 31, (1 << 31) + 7, 1 << 40, (1 << 63) - 1, -(1 << 31) - 1, -(1 << 63))
SECONDS = 10
WINDOW = {"pads": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1], "kernel_shape": [3, 3]}


def f32(*shape: int) -> Any:
    """Numbers of its own: those of `onnx_graphs` depend on who draws before."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


IMAGE, PLANE = f32(1, 2, 6, 6), f32(4, 6)


@contextmanager
def limited() -> Generator[None]:
    """Fails where what is inside takes long."""

    def late(*_: object) -> None:
        pytest.fail(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused(nodes: list[Any], x: Any, what: str, **more: Any) -> None:
    """Loading or calling says which node it is, and which of its numbers."""
    outputs = list(nodes[0].output)
    with limited(), pytest.raises(mlc.MlcError) as caught:
        mlc.onnx.load(model(nodes, {"x": x}, outputs, **more))(x)
    said = str(caught.value)
    assert nodes[0].op_type in said, said
    assert re.search(what, said), said


ATTRIBUTES: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {
    "Conv": ("x w", {"w": f32(3, 2, 3, 3)}, {**WINDOW, "group": 1}, IMAGE),
    "ConvTranspose": ("x w", {"w": f32(2, 3, 3, 3)}, {**WINDOW, "output_padding": [0, 0]}, IMAGE),
    "MaxPool": ("x", {}, WINDOW, IMAGE),
    "AveragePool": ("x", {}, {**WINDOW, "ceil_mode": 1}, IMAGE),
    "LpPool": ("x", {}, {**WINDOW, "p": 2}, IMAGE),
    "LRN": ("x", {}, {"size": 3}, IMAGE),
    "DepthToSpace": ("x", {}, {"blocksize": 1}, IMAGE),
    "RoiAlign": (
        "x r b",
        {"r": np.array([[0, 0, 3, 3]], np.float32), "b": np.zeros(1, np.int64)},
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        IMAGE,
    ),
    "Softmax": ("x", {}, {"axis": 1}, PLANE),
    "Flatten": ("x", {}, {"axis": 1}, PLANE),
    "Transpose": ("x", {}, {"perm": [1, 0]}, PLANE),
    "Concat": ("x x", {}, {"axis": 1}, PLANE),
    "LpNormalization": ("x", {}, {"axis": 1, "p": 2}, PLANE),
}
SIGNED = ("ceil_mode",)  # any number but 0 is yes


@pytest.mark.parametrize("op", ATTRIBUTES)
@pytest.mark.parametrize("far", FAR)
def test_attributes(op: str, far: int) -> None:
    names, weights, attributes, x = ATTRIBUTES[op]
    for name, value in attributes.items():
        if name in SIGNED:
            continue
        for k in range(len(value) if isinstance(value, list) else 1):
            new = [*value[:k], far, *value[k + 1 :]] if isinstance(value, list) else far
            refused([node(op, names, "y", **{**attributes, name: new})], x, name, weights=weights)


INPUTS: dict[str, tuple[str, list[int], dict[str, Any], Any, str]] = {
    "Tile": ("x s", [1, 2], {}, PLANE, "repeats"),
    "Expand": ("x s", [1, 4, 6], {}, PLANE, "the shape"),
    "Reshape": ("x s", [6, 4], {}, PLANE, "the shape"),
    "ConstantOfShape": ("s", [2, 3], {}, PLANE, "the shape"),
    "Resize": ("x - - s", [1, 2, 12, 12], {"mode": "linear"}, IMAGE, "axis|size"),
    "Pad": ("x s", [1, 1, 1, 1], {}, PLANE, "pads"),
    "CenterCropPad": ("x s", [3, 8], {}, PLANE, "the shape"),
    "Split": ("x s", [2, 2], {"axis": 0}, PLANE, "split"),
    "Unsqueeze": ("x s", [0], {}, PLANE, "axes"),
    "ReduceSum": ("x s", [0], {}, PLANE, "axes"),
    "CumSum": ("x s", [0], {}, PLANE, "axis"),
    "HannWindow": ("s", [8], {}, PLANE, "size"),
    "TopK": ("x s", [2], {}, PLANE, "k = "),
}


@pytest.mark.parametrize("op", INPUTS)
@pytest.mark.parametrize("far", FAR)
def test_inputs_that_decide(op: str, far: int) -> None:
    names, numbers, attributes, x, what = INPUTS[op]
    outputs = "y z" if op in ("Split", "TopK") else "y"
    for k in range(len(numbers)):
        new = np.array([*numbers[:k], far, *numbers[k + 1 :]], np.int64)
        refused([node(op, names, outputs, **attributes)], x, what, weights={"s": new})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [1e9, 1e18, 1e30, float("inf"), float("nan"), -1.0, 0.0])
def test_scales(mode: str, scale: float) -> None:
    weights = {"s": np.array([1, 1, scale, 2], np.float32)}
    refused([node("Resize", "x - s", "y", mode=mode)], IMAGE, "scales|axis 2", weights=weights)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Unsqueeze", {"a": [0, 0]}, {}),
        ("Squeeze", {"a": [1, -3]}, {}),
        ("ReduceSum", {"a": [2, -2]}, {}),
        ("Slice", {"b": [0, 0], "e": [1, 1], "a": [1, 1]}, {}),
        ("Pad", {"p": [1, 1, 1, 1], "v": np.float32(0), "a": [1, 1]}, {}),
        ("CenterCropPad", {"s": [2, 3]}, {"axes": [1, 1]}),
        ("Resize", {"r": np.zeros(0, np.float32), "z": np.zeros(0, np.float32), "s": [2, 3]},
         {"axes": [1, 1]}),
    ],
)  # fmt: skip
def test_an_axis_that_occurs_twice(op: str, inputs: Any, attributes: Any) -> None:
    weights = {name: np.asarray(value) for name, value in inputs.items()}
    made = node(op, " ".join(["x", *inputs]), "y", **attributes)
    refused([made], IMAGE, "axes = .*; expected each axis once", weights=weights)


def test_ends_of_slices_may_be_far() -> None:
    far = np.array([(1 << 63) - 1], np.int64)
    weights = {"b": np.array([2], np.int64), "e": far, "a": np.array([1], np.int64)}
    found = mlc.onnx.load(model([node("Slice", "x b e a", "y")], {"x": PLANE}, ["y"], weights))
    np.testing.assert_array_equal(found(PLANE), PLANE[:, 2:])


def test_outputs_that_an_op_does_not_have() -> None:
    refused([node("Abs", "x", "y z")], PLANE, "has no output 'z'")


def test_windows_that_meet_an_input() -> None:
    for first in range(-7, 5):
        for step in (1, 2, 3, 5):
            for count in (1, 2, 4):
                places = [first + u * step for u in range(count)]
                assert _meets(first, step, count, 3) == any(0 <= p < 3 for p in places)


def test_a_line_of_many_numbers_is_not_written_out() -> None:
    begin = time.perf_counter()
    lowered = mlc.compile(lambda x: np.arange(1 << 36)[3] + x).lower(np.float32(1))
    assert lowered is not None
    assert time.perf_counter() - begin < SECONDS


# StableHLO

TEXTS = {
    "pad": (
        "%0 = stablehlo.pad %a, %z, low = [1, 1], high = [1, 1], interior = [0, 0] :"
        " (tensor<4x6xf32>, tensor<f32>) -> tensor<6x8xf32>"
    ),
    "iota": "%0 = stablehlo.iota dim = 1 : tensor<4x6xi64>",
    "reduce": (
        "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] :"
        " (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>"
    ),
    "conv": (
        "%0 = stablehlo.convolution(%c, %d) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],"
        " window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1],"
        " rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :"
        " (tensor<1x2x6x6xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x6x6xf32>"
    ),
    "reduce_window": (
        '%0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2, 3>,'
        " window_strides = array<i64: 1, 2>, window_dilations = array<i64: 1, 1>,"
        " padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({\n^bb0(%p: tensor<f32>,"
        " %q: tensor<f32>):\n%r = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %r :"
        " tensor<f32>\n}) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x3xf32>"
    ),
}
ARGUMENTS = "%a: tensor<4x6xf32>, %z: tensor<f32>, %c: tensor<1x2x6x6xf32>, %d: tensor<3x2x3x3xf32>"
NUMBER = re.compile(r"(?<=[\[ ])\d+(?=[,\]])|(?<=[<x])\d+(?=x)")


def module(body: str) -> str:
    return f"func.func @main({ARGUMENTS}) -> tensor<f32> {{\n{body}\nreturn %z : tensor<f32>\n}}"


@pytest.mark.parametrize("op", TEXTS)
def test_texts_as_they_are(op: str) -> None:
    mlc.stablehlo.load(module(TEXTS[op]), name="m").lower()


@pytest.mark.parametrize("op", TEXTS)
@pytest.mark.parametrize("far", FAR)
def test_texts(op: str, far: int) -> None:
    body = TEXTS[op]
    names = body.partition("dim_numbers")[0], body.partition("]->[b, f, 0, 1]")[2]
    for place in NUMBER.finditer(body):
        if op == "conv" and len(names[0]) < place.start() < len(body) - len(names[1]):
            continue  # numbers that are names of axes
        text = body[: place.start()] + str(far) + body[place.end() :]
        with limited(), pytest.raises(mlc.MlcError, match=r"m:\d+: |line \d+"):
            mlc.stablehlo.load(module(text), name="m").lower()


def test_axes_that_are_not_there() -> None:
    for body in (
        TEXTS["reduce"].replace("dimensions = [1]", "dimensions = [2]"),
        "%0 = stablehlo.reverse %a, dims = [7] : tensor<4x6xf32>",
        "%0 = stablehlo.iota dim = 2 : tensor<4x6xi64>",
    ):
        with pytest.raises(mlc.MlcError, match="expected 0 to 1"):
            mlc.stablehlo.load(module(body), name="m").lower()


def test_operands_are_of_the_types_that_the_text_says() -> None:
    wrong = "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x5xf32>) -> tensor<6x4xf32>"
    with pytest.raises(mlc.MlcError, match="%a as tensor<3x5xf32>; expected tensor<4x6xf32>"):
        mlc.stablehlo.load(module(wrong), name="m").lower()


def test_a_literal_that_its_type_does_not_hold() -> None:
    for number, kind in ((1 << 32, "i32"), (-129, "i8"), (256, "ui8")):
        body = f"%0 = stablehlo.constant dense<{number}> : tensor<{kind}>"
        with pytest.raises(mlc.MlcError, match=f"{number}, which is no number of"):
            mlc.stablehlo.load(module(body), name="m")
