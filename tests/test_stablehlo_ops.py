# pyright: basic
"""Ops of StableHLO one by one, against what its specification says: NumPy works out the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import mlc

F = np.float32
x23 = np.arange(6, dtype=F).reshape(2, 3) - 2
REGION = "({{\n^bb0(%p: tensor<{0}>, %q: tensor<{0}>):\n{1}\nstablehlo.return %r : tensor<{2}>\n}})"


def region(dtype: str, body: str, result: str | None = None) -> str:
    return REGION.format(dtype, body, result or dtype)


def loaded(body: str, inputs: str, output: str) -> Any:
    arguments = ", ".join(
        f"%{k}: {kind}" for k, kind in zip("abcde", inputs.split("; "), strict=False) if kind
    )
    return mlc.stablehlo.load(
        f"func.func @main({arguments}) -> ({output}) {{\n{body}\n}}\n"
        "func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "%0 = stablehlo.add %x, %x : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>\n}"
    )


def normed(x: Any) -> list[Any]:
    mean, variance = x.mean(0), x.var(0)
    return [(x - mean) / np.sqrt(variance + F(0.5)) * 2 + 1, mean, variance]


def norm_slopes(x: Any, g: Any) -> list[Any]:
    mean, variance = x.mean(0), x.var(0)
    c, s = x - mean, np.sqrt(variance + F(0.5))
    rest = 2 * g - g.sum(0) - c * (g * c).sum(0) / s**2
    return [2 * rest / (2 * s), (g * c / s).sum(0), g.sum(0)]


def sorted_by_size(x: Any) -> Any:
    return np.take_along_axis(x, np.argsort(np.abs(x), 1, kind="stable"), 1)


def by_rest(x: Any) -> Any:
    return x[np.argsort(np.lexsort((x, x % 3)), kind="stable").argsort()]


three = "tensor<3xf32>"
twos = np.array([2, 2, 2], F)
whole = np.array([7, -8, 5, 4, -3, 0], np.int32)
bits = np.array([[True, False, True], [False, False, True]])
slopes = np.array([[1, 2, -1], [0.5, 0, 3]], F)
SHORT = "tensor<2xf32>, tensor<2x?xf32, #stablehlo.bounds<?, 3>>"
SHORTER = (
    "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "%0 = stablehlo.set_dimension_size %a, %n, dim = 1 : (tensor<2x3xf32>, tensor<i32>)"
    " -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>\n"
    "%1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] :"
    " (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<f32>) -> tensor<2xf32>\n"
    "%2 = stablehlo.add %0, %0 : tensor<2x?xf32, #stablehlo.bounds<?, 3>>\n"
    f"return %1, %2 : {SHORT}"
)
CASES: dict[str, tuple[str, str, str, list[Any], list[Any]]] = {
    "batch_norm_training": (
        "%s = stablehlo.constant dense<2.0> : tensor<3xf32>\n"
        "%o = stablehlo.constant dense<1.0> : tensor<3xf32>\n"
        '%0:3 = "stablehlo.batch_norm_training"(%a, %s, %o) {epsilon = 0.5 : f32, feature_index = 1'
        f" : i64}} : (tensor<2x3xf32>, {three}, {three}) -> (tensor<2x3xf32>, {three}, {three})\n"
        f"return %0#0, %0#1, %0#2 : tensor<2x3xf32>, {three}, {three}",
        "tensor<2x3xf32>", f"tensor<2x3xf32>, {three}, {three}", [x23], normed(x23),
    ),
    "batch_norm_grad": (
        "%s = stablehlo.constant dense<2.0> : tensor<3xf32>\n"
        '%0:3 = "stablehlo.batch_norm_grad"(%a, %s, %b, %c, %d) {epsilon = 0.5 : f32, feature_index'
        f" = 1 : i64}} : (tensor<2x3xf32>, {three}, {three}, {three}, tensor<2x3xf32>)"
        f" -> (tensor<2x3xf32>, {three}, {three})\n"
        f"return %0#0, %0#1, %0#2 : tensor<2x3xf32>, {three}, {three}",
        f"tensor<2x3xf32>; {three}; {three}; tensor<2x3xf32>",
        f"tensor<2x3xf32>, {three}, {three}",
        [x23, x23.mean(0), x23.var(0), slopes], norm_slopes(x23, slopes),
    ),
    "einsum": (
        '%0 = stablehlo.einsum %a, %a, config = "ij,kj->ik" : (tensor<2x3xf32>, tensor<2x3xf32>)'
        " -> tensor<2x2xf32>\nreturn %0 : tensor<2x2xf32>",
        "tensor<2x3xf32>", "tensor<2x2xf32>", [x23], [x23 @ x23.T],
    ),
    "torch_index_select": (
        '%0 = "stablehlo.torch_index_select"(%a, %b) {dim = 1 : i64, batch_dims = 1 : i64}'
        " : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x2xf32>\nreturn %0 : tensor<2x2xf32>",
        "tensor<2x3xf32>; tensor<2x2xi32>", "tensor<2x2xf32>",
        [x23, np.array([[2, 0], [1, 1]], np.int32)],
        [np.take_along_axis(x23, np.array([[2, 0], [1, 1]]), 1)],
    ),
    "arithmetic shift of unsigned numbers": (
        "%0 = stablehlo.shift_right_arithmetic %a, %b : tensor<4xui8>\nreturn %0 : tensor<4xui8>",
        "tensor<4xui8>; tensor<4xui8>", "tensor<4xui8>",
        [np.array([255, 128, 127, 200], np.uint8), np.array([42, 1, 9, 0], np.uint8)],
        [np.array([255, 192, 0, 200], np.uint8)],
    ),
    "composite": (
        '%0 = stablehlo.composite "my.twice" %a {composite_attributes = {n = 2 : i64},'
        " decomposition = @twice} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "return %0 : tensor<2x3xf32>",
        "tensor<2x3xf32>", "tensor<2x3xf32>", [x23], [2 * x23],
    ),
    "tuples": (
        "%0 = stablehlo.tuple %a, %b : tuple<tensor<2x3xf32>, tensor<f32>>\n"
        "%1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2x3xf32>, tensor<f32>>)"
        " -> tensor<f32>\n"
        "%2 = stablehlo.optimization_barrier %1 : tensor<f32>\nreturn %2 : tensor<f32>",
        "tensor<2x3xf32>; tensor<f32>", "tensor<f32>", [x23, F(4)], [F(4)],
    ),
    "tokens": (
        "%0 = stablehlo.create_token : !stablehlo.token\n"
        "%1 = stablehlo.after_all %0, %0 : !stablehlo.token\nreturn %a : tensor<2x3xf32>",
        "tensor<2x3xf32>", "tensor<2x3xf32>", [x23], [x23],
    ),
    "sort by a function of each": (
        '%0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> '
        + region(
            "f32", "%1 = stablehlo.abs %p : tensor<f32>\n%2 = stablehlo.abs %q : tensor<f32>\n"
            "%r = stablehlo.compare GT, %2, %1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            "i1",
        ) + " : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
        "tensor<2x3xf32>", "tensor<2x3xf32>", [x23], [sorted_by_size(x23)],
    ),
    "sort by a comparator of its own": (
        "%t = stablehlo.constant dense<2> : tensor<i32>\n"
        '%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> '
        + region(  # p < q, but everything below 2 is equal and comes last
            "i32",
            "%1 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "%2 = stablehlo.compare GE, %p, %t : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "%3 = stablehlo.compare LT, %q, %t : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "%4 = stablehlo.and %1, %2 : tensor<i1>\n%5 = stablehlo.and %2, %3 : tensor<i1>\n"
            "%r = stablehlo.or %4, %5 : tensor<i1>", "i1",
        ) + " : (tensor<6xi32>) -> tensor<6xi32>\nreturn %0 : tensor<6xi32>",
        "tensor<6xi32>", "tensor<6xi32>", [whole], [np.array([4, 5, 7, -8, -3, 0], np.int32)],
    ),
    "sort of zeros and NaN in the total order": (
        '%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> '
        + region(
            "f32", "%r = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>)"
            " -> tensor<i1>", "i1",
        ) + " : (tensor<5xf32>) -> tensor<5xf32>\n"
        "%1 = stablehlo.bitcast_convert %0 : (tensor<5xf32>) -> tensor<5xui32>\n"
        "return %1 : tensor<5xui32>",
        "tensor<5xf32>", "tensor<5xui32>",
        [np.array([0x7FC00000, 0, 0x80000000, 0xFFC00000, 0xBF800000], np.uint32).view(F)],
        [np.array([0xFFC00000, 0xBF800000, 0x80000000, 0, 0x7FC00000], np.uint32)],
    ),
    "order of zeros and NaN of bf16": (
        '%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> '
        + region(
            "bf16", "%r = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<bf16>, tensor<bf16>)"
            " -> tensor<i1>", "i1",
        ) + " : (tensor<5xbf16>) -> tensor<5xbf16>\n"
        "%1 = stablehlo.bitcast_convert %0 : (tensor<5xbf16>) -> tensor<5xui16>\n"
        "%2 = stablehlo.reverse %0, dims = [0] : tensor<5xbf16>\n"
        "%3 = stablehlo.compare LT, %0, %2, TOTALORDER :"
        " (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xi1>\n"
        "return %1, %3 : tensor<5xui16>, tensor<5xi1>",
        "tensor<5xbf16>", "tensor<5xui16>, tensor<5xi1>",
        [np.array([0x7FC0, 0, 0x8000, 0xFFC0, 0xBF80], np.uint16).view(bfloat16)],
        [np.array([0xFFC0, 0xBF80, 0x8000, 0, 0x7FC0], np.uint16),
         np.array([True, True, False, False, False])],
    ),
    "set_dimension_size by a constant": (
        "%n = stablehlo.constant dense<2> : tensor<i32>\n" + SHORTER,
        "tensor<2x3xf32>", SHORT, [x23], [x23[:, :2].sum(1), x23[:, :2] * 2],
    ),
    "set_dimension_size by another array's size": (
        "%n = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n"
        + SHORTER,
        "tensor<2x3xf32>; tensor<?xf32>", SHORT, [x23, twos[:1]],
        [x23[:, :1].sum(1), x23[:, :1] * 2],
    ),
    "set_dimension_size by data": (
        "%n = stablehlo.convert %b : (tensor<i8>) -> tensor<i32>\n" + SHORTER,
        "tensor<2x3xf32>; tensor<i8>", SHORT, [x23, np.int8(2)],
        [x23[:, :2].sum(1), x23[:, :2] * 2],
    ),
    "scatter by a region of its own": (
        '%0 = "stablehlo.scatter"(%a, %b, %c) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> "
        + region(
            "i32", "%1 = stablehlo.multiply %p, %p : tensor<i32>\n"
            "%r = stablehlo.subtract %1, %q : tensor<i32>",
        ) + " : (tensor<6xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<6xi32>\n"
        "return %0 : tensor<6xi32>",
        "tensor<6xi32>; tensor<3x1xi32>; tensor<3xi32>", "tensor<6xi32>",
        [whole, np.array([[2], [9], [2]], np.int32), np.array([1, 2, 3], np.int32)],
        [np.array([7, -8, (25 - 1) ** 2 - 3, 4, -3, 0], np.int32)],
    ),
    "scatter of bits": (
        '%0 = "stablehlo.scatter"(%a, %b, %c) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> "
        + region("i32", "%r = stablehlo.xor %p, %q : tensor<i32>")
        + " : (tensor<6xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<6xi32>\n"
        "return %0 : tensor<6xi32>",
        "tensor<6xi32>; tensor<3x1xi32>; tensor<3xi32>", "tensor<6xi32>",
        [whole, np.array([[0], [0], [3]], np.int32), np.array([1, 2, 3], np.int32)],
        [np.array([7 ^ 3, -8, 5, 4 ^ 3, -3, 0], np.int32)],
    ),
    "fold by a region of its own": (
        "%z = stablehlo.constant dense<1> : tensor<i32>\n"
        "%0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<6xi32>, tensor<i32>)"
        " -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n"
        "%1 = stablehlo.multiply %p, %q : tensor<i32>\n%2 = stablehlo.add %1, %q : tensor<i32>\n"
        "stablehlo.return %2 : tensor<i32>\n}\nreturn %0 : tensor<i32>",
        "tensor<6xi32>", "tensor<i32>", [whole],
        [np.int32(((((1 * 7 + 7) * -8 - 8) * 5 + 5) * 4 + 4) * -3 - 3) * 0],
    ),
    "select_and_scatter by the largest": (
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%0 = "stablehlo.select_and_scatter"(%a, %b, %z) ({\n'
        "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
        "%1 = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %1 : tensor<i1>\n}, {\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
        "%1 = stablehlo.maximum %p, %q : tensor<f32>\nstablehlo.return %1 : tensor<f32>\n"
        "}) {window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 1>}"
        " : (tensor<2x3xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x3xf32>\n"
        "return %0 : tensor<2x3xf32>",
        "tensor<2x3xf32>; tensor<2x2xf32>", "tensor<2x3xf32>",
        [np.array([[1, 5, 2], [4, 1, 0]], F), np.array([[3, 7], [-1, 6]], F)],
        [np.array([[0, 7, 0], [0, 6, 0]], F)],
    ),
    "real_dynamic_slice": (
        "%s = stablehlo.constant dense<[0, 1]> : tensor<2xi32>\n"
        "%l = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
        "%t = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
        "%0 = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<2x3xf32>, tensor<2xi32>,"
        " tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xf32>\nreturn %0 : tensor<2x1xf32>",
        "tensor<2x3xf32>", "tensor<2x1xf32>", [x23], [x23[:, 1:3:2]],
    ),
    "dynamic_pad": (
        "%z = stablehlo.constant dense<9.0> : tensor<f32>\n"
        "%l = stablehlo.constant dense<[1, -1]> : tensor<2xi32>\n"
        "%h = stablehlo.constant dense<[0, 2]> : tensor<2xi32>\n"
        "%i = stablehlo.constant dense<[0, 0]> : tensor<2xi32>\n"
        "%0 = stablehlo.dynamic_pad %a, %z, %l, %h, %i : (tensor<2x3xf32>, tensor<f32>,"
        " tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<3x4xf32>\n"
        "return %0 : tensor<3x4xf32>",
        "tensor<2x3xf32>", "tensor<3x4xf32>", [x23],
        [np.pad(x23[:, 1:], ((1, 0), (0, 2)), constant_values=9)],
    ),
    "broadcasting of CHLO": (
        "%0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xf32>,"
        " tensor<2xf32>) -> tensor<2x3xf32>\n"
        "%1 = chlo.constant_like %0 {value = 3.0 : f32} : tensor<2x3xf32>\n"
        "%2 = stablehlo.multiply %0, %1 : tensor<2x3xf32>\nreturn %2 : tensor<2x3xf32>",
        "tensor<2x3xf32>; tensor<2xf32>", "tensor<2x3xf32>", [x23, np.array([10, 20], F)],
        [(x23 + np.array([[10], [20]], F)) * 3],
    ),
    "zeta and polygamma": (
        "%0 = chlo.zeta %a, %b : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>\n"
        "%1 = chlo.polygamma %b, %b : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>\n"
        "return %0, %1 : tensor<3xf64>, tensor<3xf64>",
        "tensor<3xf64>; tensor<3xf64>", "tensor<3xf64>, tensor<3xf64>",
        [np.array([2.0, 4.0, 1.0]), np.array([1.0, 2.0, 3.0])],
        [np.array([np.pi**2 / 6, np.pi**4 / 90 - 1, np.inf]),
         np.array([np.pi**2 / 6, 2 - 2 * 1.2020569031595942,
                   6 * (np.pi**4 / 90 - 1 - 1 / 16)])],
    ),
    "complex parts keep infinities": (
        "%0 = stablehlo.complex %a, %b : tensor<3xcomplex<f32>>\n"
        "%1 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>\n"
        "%2 = stablehlo.imag %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>\n"
        "return %1, %2 : tensor<3xf32>, tensor<3xf32>",
        f"{three}; {three}", f"{three}, {three}",
        [np.array([1, np.inf, -0.0], F), np.array([np.inf, 2, 0], F)],
        [np.array([1, np.inf, -0.0], F), np.array([np.inf, 2, 0], F)],
    ),
    "narrow integers wrap": (
        "%0 = stablehlo.convert %a : (tensor<6xi32>) -> tensor<6xi4>\n"
        "%1 = stablehlo.add %0, %0 : tensor<6xi4>\n"
        "%2 = stablehlo.convert %1 : (tensor<6xi4>) -> tensor<6xi32>\n"
        "%3 = stablehlo.convert %a : (tensor<6xi32>) -> tensor<6xui2>\n"
        "return %2, %3 : tensor<6xi32>, tensor<6xui2>",
        "tensor<6xi32>", "tensor<6xi32>, tensor<6xui2>", [whole],
        [(2 * whole + 8) % 16 - 8, (whole % 4).astype(np.uint8)],
    ),
    "floats become the nearest narrow integer": (
        "%0 = stablehlo.convert %a : (tensor<3xf32>) -> tensor<3xi4>\n"
        "%1 = stablehlo.convert %0 : (tensor<3xi4>) -> tensor<3xi32>\n"
        "%2 = stablehlo.convert %a : (tensor<3xf32>) -> tensor<3xui2>\n"
        "return %1, %2 : tensor<3xi32>, tensor<3xui2>",
        three, "tensor<3xi32>, tensor<3xui2>", [np.array([-9.5, 2.75, 300], F)],
        [np.array([-8, 2, 7], np.int32), np.array([0, 2, 3], np.uint8)],
    ),
    "products do not wrap": (
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], precision = [DEFAULT,"
        " DEFAULT], algorithm = <lhs_precision_type = f32, rhs_precision_type = f32,"
        " accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,"
        " num_primitive_operations = 1, allow_imprecise_accumulation = false>"
        " : (tensor<3xi8>, tensor<3xi8>) -> tensor<i32>\nreturn %0 : tensor<i32>",
        "tensor<3xi8>", "tensor<i32>", [np.array([100, -100, 100], np.int8)], [np.int32(30000)],
    ),
    "quantised": (
        "%0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>)"
        " -> tensor<2x3x!quant.uniform<i8:f32, 0.5:10>>\n"
        "%1 = stablehlo.add %0, %0 : tensor<2x3x!quant.uniform<i8:f32, 0.5:10>>\n"
        "%2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:10>>)"
        " -> tensor<3x2x!quant.uniform<i8:f32, 0.5:10>>\n"
        "%3 = stablehlo.uniform_dequantize %2 : (tensor<3x2x!quant.uniform<i8:f32, 0.5:10>>)"
        " -> tensor<3x2xf32>\n"
        "%4 = stablehlo.bitcast_convert %1 : (tensor<2x3x!quant.uniform<i8:f32, 0.5:10>>)"
        " -> tensor<2x3xi8>\nreturn %3, %4 : tensor<3x2xf32>, tensor<2x3xi8>",
        "tensor<2x3xf32>", "tensor<3x2xf32>, tensor<2x3xi8>", [x23 * 20 + F(0.2)],
        [np.clip(np.rint((x23 * 20 + F(0.2)) / 0.5) * 2 + 10, -128, 127).T.astype(F) / 2 - 5,
         np.clip(np.rint((x23 * 20 + F(0.2)) / 0.5) * 2 + 10, -128, 127).astype(np.int8)],
    ),
    "quantised folds": (
        "%0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>)"
        " -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>\n"
        "%z = stablehlo.constant() {value = dense<0> : tensor<i8>}"
        " : () -> tensor<!quant.uniform<i8:f32, 0.5>>\n"
        "%1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1]"
        " : (tensor<2x3x!quant.uniform<i8:f32, 0.5>>, tensor<!quant.uniform<i8:f32, 0.5>>)"
        " -> tensor<2x!quant.uniform<i8:f32, 0.5>>\n"
        "%2 = stablehlo.uniform_dequantize %1 : (tensor<2x!quant.uniform<i8:f32, 0.5>>)"
        " -> tensor<2xf32>\nreturn %2 : tensor<2xf32>",
        "tensor<2x3xf32>", "tensor<2xf32>", [x23], [x23.sum(1)],
    ),
    "quantised by axis": (
        "%0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>)"
        " -> tensor<2x3x!quant.uniform<u8<0:200>:f32:0, {0.5:100, 0.25}>>\n"
        "%1 = stablehlo.uniform_dequantize %0"
        " : (tensor<2x3x!quant.uniform<u8<0:200>:f32:0, {0.5:100, 0.25}>>) -> tensor<2x3xf32>\n"
        "return %1 : tensor<2x3xf32>",
        "tensor<2x3xf32>", "tensor<2x3xf32>", [x23 * F(1.1)],
        [np.stack([np.rint(x23[0] * F(1.1) / F(0.5)) * F(0.5),
                   np.clip(np.rint(x23[1] * F(1.1) / F(0.25)), 0, 200) * F(0.25)])],
    ),
    "running sums as GPUs compute them": (
        "%c = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>\n"
        "%1:2 = chlo.scan(%a) inits (%c) dimension=1 attributes"
        " {is_associative = true, is_reverse = true} {\n"
        "^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):\n%2 = stablehlo.add %x, %y : tensor<2xf32>\n"
        "stablehlo.return %2, %2 : tensor<2xf32>, tensor<2xf32>\n"
        "} : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)\n"
        "return %1#0, %1#1 : tensor<2x3xf32>, tensor<2xf32>",
        "tensor<2x3xf32>", "tensor<2x3xf32>, tensor<2xf32>", [x23],
        [np.cumsum(x23[:, ::-1], 1)[:, ::-1] + np.array([[2], [3]], F),
         x23.sum(1) + np.array([2, 3], F)],
    ),
    "a scan of two values": (
        '%1:4 = "chlo.scan"(%a, %b, %c, %d) <{dimension = 0 : i64, is_reverse = false,'
        " operandSegmentSizes = array<i32: 2, 2>, resultSegmentSizes = array<i32: 2, 2>}> ({\n"
        "^bb0(%x: tensor<3xf32>, %y: tensor<3xf32>, %p: tensor<3xf32>, %q: tensor<3xf32>):\n"
        "%2 = stablehlo.multiply %x, %p : tensor<3xf32>\n"
        "%3 = stablehlo.add %y, %q : tensor<3xf32>\n"
        "%4 = stablehlo.subtract %p, %q : tensor<3xf32>\n"
        '"stablehlo.return"(%4, %x, %2, %3) : '
        f"({', '.join([three] * 4)}) -> ()\n}}) : (tensor<2x3xf32>, tensor<2x3xf32>, {three},"
        f" {three}) -> (tensor<2x3xf32>, tensor<2x3xf32>, {three}, {three})\n"
        f"return %1#0, %1#1, %1#2, %1#3 : tensor<2x3xf32>, tensor<2x3xf32>, {three}, {three}",
        f"tensor<2x3xf32>; tensor<2x3xf32>; {three}; {three}",
        f"tensor<2x3xf32>, tensor<2x3xf32>, {three}, {three}", [x23, x23 * 2, twos, twos * 3],
        [np.stack([twos - 3 * twos, x23[0] * twos - (2 * x23[0] + 3 * twos)]), x23,
         x23[0] * x23[1] * twos, 2 * x23.sum(0) + 3 * twos],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_means_what_the_specification_says(name: str) -> None:
    body, inputs, output, arguments, wanted = CASES[name]
    found = loaded(body, inputs, output)(*arguments)
    results = found if isinstance(found, tuple) else (found,)
    for a, b in zip(results, wanted, strict=True):
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


COLLECTIVES = (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute",
    "reduce_scatter", "infeed", "outfeed", "send", "recv",
)  # fmt: skip


def test_what_needs_other_machines_is_refused_all_at_once() -> None:
    body = "\n".join(f'%{name} = "stablehlo.{name}"(%a) : (tensor<2xf32>) -> tensor<2xf32>'
                     for name in COLLECTIVES)  # fmt: skip
    body += (
        "\n%x = stablehlo.custom_call @Unheard(%a) : (tensor<2xf32>) -> tensor<2xf32>"
        "\n%n = stablehlo.constant dense<1> : tensor<2xi4>\n%y = stablehlo.popcnt %n : tensor<2xi4>"
    )
    with pytest.raises(mlc.NotSupportedError) as caught:
        loaded(f"{body}\nreturn %a : tensor<2xf32>", "tensor<2xf32>", "tensor<2xf32>")
    assert all(f"line {k}: {name}" in str(caught.value) for k, name in enumerate(COLLECTIVES, 2))
    assert "Unheard" in str(caught.value)
    assert "popcnt" in str(caught.value)


def test_a_size_that_does_not_fit_is_an_error() -> None:
    body = "%n = stablehlo.constant dense<4> : tensor<i32>\n" + SHORTER
    with pytest.raises(mlc.stablehlo.StableHloError, match="the size 4 of an axis that has 3"):
        loaded(body, "tensor<2x3xf32>", SHORT)(x23)
    body = "%0 = stablehlo.iota dim = 0 : tensor<?xf32>\nreturn %0 : tensor<?xf32>"
    with pytest.raises(mlc.stablehlo.StableHloError, match="expected dynamic_iota"):
        loaded(body, "", "tensor<?xf32>")()
