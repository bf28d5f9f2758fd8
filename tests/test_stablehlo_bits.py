# pyright: basic
"""Ops of StableHLO on bits: as other elements, and the upper halves of products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from tests.test_stablehlo_ops import loaded

rng = np.random.default_rng(5)
BYTES = rng.integers(0, 256, (3, 2, 8), np.uint8)
BYTES[..., 7] &= 0x3F  # no NaN among floats, which compare with nothing
BYTES[..., 3] &= 0x3F
KINDS = {
    "i8": np.int8, "ui8": np.uint8, "i16": np.int16, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "ui32": np.uint32, "f32": np.float32, "i64": np.int64, "f64": np.float64,
}  # fmt: skip
PAIRS = [
    ("i32", "ui8"), ("ui8", "f32"), ("ui32", "i64"), ("ui32", "f64"), ("i64", "ui32"),
    ("f64", "i8"), ("f32", "bf16"), ("bf16", "f32"), ("f16", "f64"), ("f64", "f32"),
    ("i16", "ui8"), ("f32", "i32"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_bits_of_elements_of_other_widths(source: str, target: str) -> None:
    a, b = np.dtype(KINDS[source]), np.dtype(KINDS[target])
    count = max(b.itemsize // a.itemsize, 1)
    given = BYTES[..., : count * a.itemsize].copy().view(a)
    given = given if count > 1 else given[..., 0]
    wanted = np.ascontiguousarray(given).view(np.uint8).reshape(3, 2, -1).view(b)
    wanted = wanted if b.itemsize < a.itemsize else wanted[..., 0]
    kinds = [f"tensor<{'x'.join(map(str, x.shape))}x{k}>"
             for x, k in ((given, source), (wanted, target))]  # fmt: skip
    body = f"%0 = stablehlo.bitcast_convert %a : ({kinds[0]}) -> {kinds[1]}\nreturn %0 : {kinds[1]}"
    found = loaded(body, kinds[0], kinds[1])(given)
    assert (found.dtype, found.tobytes()) == (b, wanted.tobytes())


def test_bits_of_complex_numbers() -> None:
    narrow, wide = "tensor<3x2xcomplex<f32>>", "tensor<3xcomplex<f64>>"
    z = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    body = (
        f"%0 = stablehlo.bitcast_convert %a : ({wide}) -> {narrow}\n"
        f"%1 = stablehlo.bitcast_convert %0 : ({narrow}) -> {wide}\n"
        f"return %0, %1 : {narrow}, {wide}"
    )
    parts, again = loaded(body, wide, f"{narrow}, {wide}")(z)
    assert parts.tobytes() == z.tobytes() == again.tobytes()
    kind = "tensor<3x2xf64>"
    body = f"%0 = stablehlo.bitcast_convert %a : ({wide}) -> {kind}\nreturn %0 : {kind}"
    with pytest.raises(mlc.stablehlo.StableHloError, match="expected complex numbers for complex"):
        loaded(body, wide, kind)(z)


@pytest.mark.parametrize("kind", ["i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"])
def test_upper_halves_of_products(kind: str) -> None:
    dtype = np.dtype(kind.replace("u", "").replace("i", "uint" if "u" in kind else "int"))
    ends = np.iinfo(dtype)
    given = rng.integers(ends.min, ends.max, 40, dtype, endpoint=True)
    given[:4] = [ends.min, ends.max, 0, ends.max // 3]
    x, y = np.concatenate([given, given]), np.concatenate([given, given[::-1]])
    name = f"tensor<80x{kind}>"
    body = f"%0 = chlo.mulhi %a, %b : {name}, {name} -> {name}\nreturn %0 : {name}"
    found = loaded(body, f"{name}; {name}", name)(x, y)
    wanted = [int(a) * int(b) >> 8 * dtype.itemsize for a, b in zip(x, y, strict=True)]
    assert found.dtype == dtype
    assert found.tolist() == wanted


def test_calls_that_stand_for_the_largest() -> None:
    x = np.array([[3, 1, 2, 3], [0, -1, 5, 4]], np.float32)

    def top(said: str) -> Any:
        body = (
            "%0:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, "
            + said
            + "}, mhlo.version = 1 : i64} : (tensor<2x4xf32>)"
            " -> (tensor<2x2xf32>, tensor<2x2xi32>)\n"
            "return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xi32>"
        )
        found = loaded(body, "tensor<2x4xf32>", "tensor<2x2xf32>, tensor<2x2xi32>")(x)
        return [part.tolist() for part in found]

    assert top("largest = true") == [[[3, 3], [5, 4]], [[0, 3], [2, 3]]]
    assert top("largest = false") == [[[1, 2], [-1, 0]], [[1, 2], [1, 0]]]


MESH = """module @one attributes {mhlo.num_partitions = %d : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["i"=%d]> {stablehlo.mesh = {axes = [{name = "i", size = 1 : i64}]}}
func.func public @main(%%a: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}, {}]>})
  -> (tensor<2x3xf32> {jax.result_info = "result"}) {
%%0 = sdy.sharding_constraint %%a <@mesh, [{"i"}, {}]> : tensor<2x3xf32>
%%1 = "stablehlo.all_reduce"(%%0) <{
  channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<%s>
  : tensor<1x%dxi64>, use_global_device_ids}> ({
^bb0(%%x: tensor<f32>, %%y: tensor<f32>):
  %%s = stablehlo.add %%x, %%y : tensor<f32>
  stablehlo.return %%s : tensor<f32>
}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
%%2 = "stablehlo.all_gather"(%%1) <{all_gather_dim = 0 : i64, replica_groups = dense<%s>
  : tensor<1x%dxi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
%%3 = "stablehlo.collective_permute"(%%2) <{source_target_pairs = dense<0> : tensor<1x2xi64>}>
  : (tensor<2x3xf32>) -> tensor<2x3xf32>
%%4 = stablehlo.partition_id : tensor<ui32>
%%5 = stablehlo.convert %%4 : (tensor<ui32>) -> tensor<f32>
%%6 = stablehlo.broadcast_in_dim %%5, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
%%7 = stablehlo.add %%3, %%6 : tensor<2x3xf32>
return %%7 : tensor<2x3xf32>
}}"""


def test_meshes_of_one_device() -> None:
    """What `jax.pmap` and `jax.shard_map` write for one device."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (mlc.stablehlo.load(MESH % (1, 1, "0", 1, "0", 1))(x) == x).all()
    with pytest.raises(mlc.NotSupportedError) as caught:
        mlc.stablehlo.load(MESH % (2, 2, "[[0, 1]]", 2, "[[0, 1]]", 2))
    for name in ("all_reduce", "all_gather", "collective_permute", "partition_id"):
        assert f": {name}" in str(caught.value)
