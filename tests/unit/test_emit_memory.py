"""Addresses, masks, gathers and views, executed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emitted import CallContext, bound, compile_module, kernel, parse_loops, run_entry


def test_strided_and_row_major_arguments() -> None:
    text = """
    func.func @k(%n: index, %m: index, %x: memref<?x?xf32, strided<[?, ?]>>,
                 %out: memref<?x?xf32> {mlc.noalias}) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %i = %c0 to %n step %c1 {
        scf.for %j = %c0 to %m step %c1 {
          %v = memref.load %x[%i, %j] : memref<?x?xf32, strided<[?, ?]>>
          memref.store %v, %out[%i, %j] : memref<?x?xf32>
        }
      }
      return
    }"""
    base = np.arange(40, dtype=np.float32).reshape(8, 5)
    call = kernel(text)
    for x in (base, base.T, base[::2, ::-1], base[1:4, 2:3]):
        out = np.zeros(x.shape, np.float32)
        steps = [stride // 4 for stride in x.strides]
        call(*x.shape, x, *steps, out, x.shape[1])
        np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    ("element", "dtype", "lanes"),
    [
        ("f32", np.float32, 16),
        ("f64", np.float64, 8),
        ("i8", np.int8, 64),
        ("i64", np.int64, 8),
        ("f32", np.float32, 4),
        ("i32", np.int32, 3),
    ],
)
def test_masked_copy(element: str, dtype: type[np.generic], lanes: int) -> None:
    vector, mask = f"vector<{lanes}x{element}>", f"vector<{lanes}xi1>"
    text = f"""
    func.func @k(%n: index, %x: memref<?x{element}>, %out: memref<?x{element}> {{mlc.noalias}}) {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {lanes} : index
      %zero = arith.constant dense<{"0.0" if element[0] == "f" else "0"}> : {vector}
      scf.for %i = %c0 to %n step %step {{
        %left = arith.subi %n, %i : index
        %mask = vector.create_mask %left : {mask}
        %v = vector.maskedload %x[%i], %mask, %zero : memref<?x{element}>, {mask}, {vector} into {vector}
        vector.maskedstore %out[%i], %mask, %v : memref<?x{element}>, {mask}, {vector}
      }}
      return
    }}"""  # noqa: E501
    call = kernel(text)
    for n in (0, 1, lanes - 1, lanes, lanes + 1, 5 * lanes + 2):
        x = np.arange(1, n + 1).astype(dtype)
        out = np.full(n + lanes, 77).astype(dtype)
        call(n, x, out)
        np.testing.assert_array_equal(out[:n], x)
        np.testing.assert_array_equal(out[n:], 77)


def test_mask_of_negative_and_constant_counts() -> None:
    text = """
    func.func @k(%n: index, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %c5 = arith.constant 5 : index
      %one = arith.constant dense<1.0> : vector<16xf32>
      %m = vector.create_mask %n : vector<16xi1>
      vector.maskedstore %out[%c0], %m, %one : memref<?xf32>, vector<16xi1>, vector<16xf32>
      %f = vector.create_mask %c5 : vector<16xi1>
      vector.maskedstore %out[%c16], %f, %one : memref<?xf32>, vector<16xi1>, vector<16xf32>
      return
    }"""
    call = kernel(text)
    for n in (-(2**40), -1, 0, 3, 16, 2**40):
        out = np.zeros(32, np.float32)
        call(n, out)
        assert out[:16].sum() == max(0, min(n, 16))
        assert out[16:].sum() == 5


def test_gather_scatter_and_step() -> None:
    text = """
    func.func @k(%x: memref<?x8xf32>, %out: memref<?xf32>, %index: memref<?xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %pass = arith.constant dense<-1.0> : vector<8xf32>
      %mask = vector.create_mask %c3 : vector<8xi1>
      %raw = vector.load %index[%c0] : memref<?xi64>, vector<8xi64>
      %at = mlc_vec.cast index_cast %raw : vector<8xi64> to vector<8xindex>
      %v = mlc_vec.gather %x[%c1, %c0] at %at, %mask, %pass : memref<?x8xf32>, vector<8xf32>
      %lane = mlc_vec.step : vector<8xindex>
      %twice = arith.addi %lane, %lane : vector<8xindex>
      %all = arith.constant dense<true> : vector<8xi1>
      mlc_vec.scatter %v, %out[%c0] at %twice, %all : memref<?xf32>, vector<8xf32>
      mlc_vec.prefetch %x[%c1, %c0] locality 2 : memref<?x8xf32>
      return
    }"""
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    index = np.array([9, 0, -8, 10**12, 5, 5, 5, 5], np.int64)
    out = np.zeros(16, np.float32)
    kernel(text)(x, out, index)
    np.testing.assert_array_equal(out[::2], [17, 8, 0, -1, -1, -1, -1, -1])
    np.testing.assert_array_equal(out[1::2], 0)


def test_views() -> None:
    text = """
    func.func @k(%n: index, %x: memref<?x6xf32>, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %sub = memref.subview %x[1, %c2] [2, 3] [1, 1] : memref<?x6xf32> to memref<2x3xf32, strided<[6, 1], offset: ?>>
      %a = memref.load %sub[%c1, %c1] : memref<2x3xf32, strided<[6, 1], offset: ?>>
      memref.store %a, %out[%c0] : memref<?xf32>
      %row = memref.subview %x[%c2, 0] [1, 6] [1, 2] : memref<?x6xf32> to memref<6xf32, strided<[2], offset: ?>>
      %b = memref.load %row[%c2] : memref<6xf32, strided<[2], offset: ?>>
      memref.store %b, %out[%c1] : memref<?xf32>
      %t = memref.reinterpret_cast %x to offset: [%c1], sizes: [6, %n], strides: [1, 6] : memref<?x6xf32> to memref<6x?xf32, strided<[1, 6], offset: ?>>
      %c = memref.load %t[%c2, %c1] : memref<6x?xf32, strided<[1, 6], offset: ?>>
      memref.store %c, %out[%c2] : memref<?xf32>
      %tmp = memref.alloca() : memref<2x4xf32>
      memref.store %c, %tmp[%c1, %c2] : memref<2x4xf32>
      %d = memref.load %tmp[%c1, %c2] : memref<2x4xf32>
      %c3 = arith.constant 3 : index
      memref.store %d, %out[%c3] : memref<?xf32>
      return
    }"""  # noqa: E501
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    out = np.zeros(4, np.float32)
    kernel(text)(4, x, out)
    np.testing.assert_array_equal(out, [x[2, 3], x[2, 4], x.reshape(-1)[9], x.reshape(-1)[9]])


def test_shuffle_insert_extract_and_reductions() -> None:
    text = """
    func.func @k(%x: memref<?xf32>, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %v = vector.load %x[%c0] : memref<?xf32>, vector<8xf32>
      %s = vector.shuffle %v, %v [7, 6, 5, 4, 3, 2, 1, 0] : vector<8xf32>, vector<8xf32>
      %e = vector.extract %s[0] : f32 from vector<8xf32>
      %d = vector.extract %s[%c1] : f32 from vector<8xf32>
      %i = vector.insert %e, %v [2] : f32 into vector<8xf32>
      %sum = vector.reduction <add>, %i : vector<8xf32> into f32
      %max = vector.reduction <maximumf>, %v fastmath<nsz> : vector<8xf32> into f32
      %min = vector.reduction <minimumf>, %v : vector<8xf32> into f32
      %tree = vector.reduction <add>, %v, %e fastmath<reassoc> : vector<8xf32> into f32
      memref.store %e, %out[%c0] : memref<?xf32>
      memref.store %d, %out[%c1] : memref<?xf32>
      memref.store %sum, %out[%c2] : memref<?xf32>
      memref.store %max, %out[%c3] : memref<?xf32>
      memref.store %min, %out[%c4] : memref<?xf32>
      memref.store %tree, %out[%c5] : memref<?xf32>
      return
    }"""
    call = kernel(text)
    x = np.arange(8, dtype=np.float32)
    out = np.zeros(6, np.float32)
    call(x, out)
    np.testing.assert_array_equal(out, [7, 6, 28 - 2 + 7, 7, 0, 28 + 7])
    x[3] = np.nan
    call(x, out)
    assert np.isnan(out[2:]).all()


def test_half_precision_constants_and_arithmetic() -> None:
    text = """
    func.func @k(%x: memref<?xf32>, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %b = arith.constant 1.0078125 : bf16
      %h = arith.constant 1.0009765625 : f16
      %v = memref.load %x[%c0] : memref<?xf32>
      %vb = arith.truncf %v : f32 to bf16
      %wb = arith.extf %vb : bf16 to f32
      %wc = arith.extf %b : bf16 to f32
      %pw = arith.addf %wb, %wc : f32
      %pb = arith.truncf %pw : f32 to bf16
      %rb = arith.extf %pb : bf16 to f32
      memref.store %rb, %out[%c0] : memref<?xf32>
      %vh = arith.truncf %v : f32 to f16
      %ph = arith.addf %vh, %h : f16
      %rh = arith.extf %ph : f16 to f32
      memref.store %rh, %out[%c1] : memref<?xf32>
      return
    }"""
    out = np.zeros(2, np.float32)
    kernel(text)(np.zeros(1, np.float32), out)
    np.testing.assert_array_equal(out, [1.0078125, 1.0009765625])


def test_constant_table() -> None:
    text = """
    "memref.global"() <{sym_name = "table", sym_visibility = "private", constant,
      type = memref<2x2xf32>,
      initial_value = dense<[[1.5, 2.5], [3.5, 4.5]]> : tensor<2x2xf32>}> : () -> ()
    func.func @k(%i: index, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %t = memref.get_global @table : memref<2x2xf32>
      %v = memref.load %t[%i, %c0] : memref<2x2xf32>
      memref.store %v, %out[%c0] : memref<?xf32>
      return
    }"""
    out = np.zeros(1, np.float32)
    kernel(text)(1, out)
    assert out[0] == 3.5


ENTRY = """
func.func @double(%ctx: !mlc_par.ctx, %n: index, %x: memref<?x2xf32> {mlc.readonly},
                  %out: memref<?x2xf32> {mlc.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c1 step %c1 {
      %v = memref.load %x[%i, %j] : memref<?x2xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %out[%i, %j] : memref<?x2xf32>
    }
  }
  return
}
func.func @f(%ctx: !mlc_par.ctx, %n: index, %x: memref<?xf32>, %out: memref<?xf32>)
    attributes {mlc.entry = {inputs = 1, outputs = 1}} {
  %c8 = arith.constant 8 : index
  %bytes = arith.muli %n, %c8 : index
  mlc_par.reserve %ctx, %bytes
  %c0 = arith.constant 0 : index
  %tmp = mlc_par.arena %ctx, %c0 [%n] : memref<?x2xf32>
  %in = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 2], strides: [2, 1] : memref<?xf32> to memref<?x2xf32>
  %to = memref.reinterpret_cast %out to offset: [0], sizes: [%n, 2], strides: [2, 1] : memref<?xf32> to memref<?x2xf32>
  func.call @double(%ctx, %n, %in, %tmp) : (!mlc_par.ctx, index, memref<?x2xf32>, memref<?x2xf32>) -> ()
  mlc_par.check %ctx
  func.call @double(%ctx, %n, %tmp, %to) : (!mlc_par.ctx, index, memref<?x2xf32>, memref<?x2xf32>) -> ()
  mlc_par.check %ctx
  return
}"""  # noqa: E501


def test_entry_uses_the_arena_and_reports_its_status() -> None:
    code = compile_module(parse_loops(ENTRY))
    x, out = np.ones((100, 2), np.float32), np.zeros((100, 2), np.float32)
    assert run_entry(code, "f", CallContext(), [x], [100], [out]) == 0
    np.testing.assert_array_equal(out[:, 0], 4)
    assert run_entry(code, "f", CallContext(grow_status=1), [x], [100], [out]) == 2
    cancelled = CallContext()
    cancelled.counter[0] = 1
    assert run_entry(code, "f", cancelled, [x], [100], [out]) == 3
    assert bound(code, "double") is not None
