# pyright: basic
"""Elements of less than a byte, and floats of 8 bits, in models of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from tests.onnx_graphs import f32, model, node, onnx, ran

KINDS = {
    "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2, "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4, "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def kind_of(name: str) -> int:
    return onnx.TensorProto.DataType.Value(name)


@pytest.mark.parametrize("name", KINDS)
def test_conversions_there_and_back(name: str) -> None:
    x = np.array([0.5, 1, 1.5, 2, 3, 0.25], np.float32)
    x = np.trunc(x) if "INT" in name else x
    cast = node("Cast", "x", "y", to=kind_of(name), round_mode="down")
    found = ran([cast], {"x": x}, ["y"], opset=25)
    assert found.dtype == np.dtype(KINDS[name])
    # powers of 2 are rounded down
    wanted = np.array([0.5, 1, 1, 2, 2, 0.25], np.float32) if name == "FLOAT8E8M0" else x
    np.testing.assert_array_equal(found, wanted.astype(KINDS[name]))
    back = ran([node("Cast", "x", "y", to=1)], {"x": found}, ["y"], opset=25)
    np.testing.assert_array_equal(back, found.astype(np.float32))


def test_what_is_too_large_wraps_in_integers_and_is_the_largest_of_floats() -> None:
    x = np.array([-9, 9, 300, 1e6], np.float32)
    expected: dict[str, list[Any]] = {
        "INT4": [7, -7, -4, 0], "UINT2": [3, 1, 0, 0], "FLOAT4E2M1": [-6, 6, 6, 6],
        "FLOAT8E4M3FNUZ": [-9, 9, 240, 240], "FLOAT8E5M2FNUZ": [-8, 8, 320, 57344],
    }  # fmt: skip
    for name, wanted in expected.items():
        found = ran([node("Cast", "x", "y", to=kind_of(name))], {"x": x}, ["y"], opset=25)
        np.testing.assert_array_equal(found.astype(np.float32), wanted, name)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str) -> None:
    x = np.array([0, 1e-45, 0.75, 1, 1.1, 1.5, 3, 3e38, np.inf, np.nan], np.float32)
    cast = node("Cast", "x", "y", to=kind_of("FLOAT8E8M0"), round_mode=mode)
    found = ran([cast], {"x": x}, ["y"], opset=25).astype(np.float32)
    ends = [2.0**-127, 2.0**-127], [2.0**127, 2.0**127, np.nan]
    inside = {"up": [1, 1, 2, 2, 4], "down": [0.5, 1, 1, 1, 2], "nearest": [1, 1, 1, 2, 4]}[mode]
    np.testing.assert_array_equal(found, np.array([*ends[0], *inside, *ends[1]], np.float32))
    kept = node("Cast", "x", "y", to=kind_of("FLOAT8E8M0"), round_mode=mode, saturate=0)
    found = ran([kept], {"x": x}, ["y"], opset=25).astype(np.float32)
    assert np.isnan(found[[0, 1, 8, 9]]).all()


@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"])
def test_weights_in_blocks(name: str) -> None:
    """A matrix of few bits with a scale for each block of its rows, and its derivative."""
    rng = np.random.default_rng(3)
    x, scale = f32(2, 8), np.abs(f32(2, 4)) + np.float32(0.1)
    bits = rng.integers(0, 4 if "2" in name[-1] else 16, (8, 4)).astype(np.uint8)
    w = bits.view(KINDS[name]) if "INT" in name else (bits & 7).view(KINDS[name])
    zero = np.ones((2, 4), np.float32).astype(KINDS[name])
    nodes = [
        node("DequantizeLinear", "w s z", "d", axis=0, block_size=4),
        node("MatMul", "x d", "y"),
    ]
    made = model(nodes, {"x": x, "s": scale}, ["y"], weights={"w": w, "z": zero}, opset=25)
    function = mlc.onnx.load(made)
    wide = np.repeat(scale, 4, 0) * (w.astype(np.float32) - 1)
    np.testing.assert_allclose(function(x, scale), x @ wide, 1e-5, 1e-5)
    slope = mlc.grad(lambda s: function(x, s).sum())(scale)
    ones = x.sum(0)[:, None] * (w.astype(np.float32) - 1)
    np.testing.assert_allclose(slope, ones.reshape(2, 4, 4).sum(1), 1e-4, 1e-4)


def test_quantised_and_arranged() -> None:
    """What arranges elements takes them as they are."""
    x = f32(3, 4) * 4
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("Transpose", "q", "t", perm=[1, 0]),
        node("Concat", "t t", "c", axis=0),
        node("Gather", "c i", "g"),
        node("Reshape", "g n", "r"),
        node("DequantizeLinear", "r s z", "y"),
    ]
    weights = {
        "s": np.float32(0.5), "z": np.array(2, ml_dtypes.int4), "i": np.array([5, 0, 2]),
        "n": np.array([9]),
    }  # fmt: skip
    found = ran(nodes, {"x": x}, ["y"], weights=weights, opset=25)
    q = np.clip(np.rint(x / np.float32(0.5)) + 2, -8, 7)
    wanted = (np.concatenate([q.T, q.T])[[5, 0, 2]].reshape(9) - 2) * np.float32(0.5)
    np.testing.assert_array_equal(found, wanted)


def test_packed_weights_beside_the_model(tmp_path: Path) -> None:
    w = np.arange(-8, 7, dtype=np.int8).astype(ml_dtypes.int4).reshape(3, 5)
    made = model([node("Cast", "w", "y", to=1)], {}, ["y"], weights={"w": w}, opset=25)
    (weight,) = made.graph.initializer
    packed = weight.raw_data or onnx.numpy_helper.from_array(w).raw_data
    assert len(packed) == 8  # of 15 elements
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "4"), ("length", "8")):
        weight.external_data.add(key=key, value=value)
    (tmp_path / "w.bin").write_bytes(b"1234" + packed)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.testing.assert_array_equal(
        mlc.onnx.load(tmp_path / "m.onnx")(), np.arange(-8, 7, dtype=np.float32).reshape(3, 5)
    )
    (tmp_path / "w.bin").write_bytes(b"1234" + packed[:-1])
    with pytest.raises(mlc.MlcError, match="the file is shorter"):
        mlc.onnx.load(tmp_path / "m.onnx")


def test_they_are_not_computed_with() -> None:
    x = np.array([1, 2], ml_dtypes.int4)
    with pytest.raises(mlc.MlcError, match=r"Add.*i4"):
        ran([node("Add", "x x", "y")], {"x": x}, ["y"])


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Softmax", {}), ("LogSoftmax", {"axis": 0}), ("LpNormalization", {"axis": 0}),
        ("MeanVarianceNormalization", {"axes": [0, 1]}),
    ],
)  # fmt: skip
def test_floats_of_16_bits_are_rounded_once(op: str, attributes: dict[str, Any]) -> None:
    x = (np.random.default_rng(0).standard_normal((60, 70)) * 9 + 300).astype(np.float16)
    nodes = [node(op, "x", "y", **attributes)]
    found = ran(nodes, {"x": x}, ["y"], opset=13)
    exact = ran(nodes, {"x": x.astype(float)}, ["y"], opset=13)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), exact, rtol=1.1 * 2.0**-11, atol=2.0**-22)
