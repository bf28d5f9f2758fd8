// A product that threads multiply.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// A matrix product stages both operands in shared memory.
// CHECK-LABEL: func.func @contraction_
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK: math.fma
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<100x50xf64>, %y: tensor<50x70xf64>) -> tensor<100x70xf64> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<100x50xf64>, tensor<50x70xf64>) -> (tensor<100x70xf64>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<100x50xf64>, tensor<50x70xf64> -> tensor<100x70xf64>
    mlc.yield %z : tensor<100x70xf64>
  } {schedule = #mlc.schedule<[vector(4, axis 1), threads(256), stage(m 64, n 64, k 16, rows 4, columns 4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100x70xf64>
}
