// Reductions of rows: threads share one and exchange states.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// Eight threads share a row of 64: three exchanges, no shared memory.
// CHECK-LABEL: func.func @row_
// CHECK-NOT: mlc_gpu.shared
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 4
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 2
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 1
// CHECK-NOT: mlc_gpu.barrier
// CHECK-LABEL: func.func @short_rows
func.func @short_rows(%x: tensor<1000x64xf32>) -> tensor<1000xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<1000x64xf32>) -> (tensor<1000xf32>) {
    %y = mlc.reduce "sum" "mn->m" %1 : tensor<1000x64xf32> -> tensor<1000xf32>
    mlc.yield %y : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 1), unroll(4), threads(8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}

// -----

// A block for each long row: warps exchange, then meet in shared memory.
// CHECK-LABEL: func.func @row_
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 16
// CHECK: mlc_gpu.shared : memref<32xf32, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK-LABEL: func.func @long_rows
func.func @long_rows(%x: tensor<10x4096xf32>) -> tensor<10xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<10x4096xf32>) -> (tensor<10xf32>) {
    %y = mlc.reduce "max" "mn->m" %1 : tensor<10x4096xf32> -> tensor<10xf32>
    mlc.yield %y : tensor<10xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 1), unroll(4), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<10xf32>
}
