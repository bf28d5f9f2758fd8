// What is turned.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// What is read along one axis and written along another is turned in shared memory.
// CHECK-LABEL: func.func @copy_
// CHECK: [[TILE:%.+]] = mlc_gpu.shared : memref<32x33xi8, 3 : i64>
// CHECK: memref.store %{{.+}}, [[TILE]]
// CHECK: mlc_gpu.barrier
// CHECK: memref.load [[TILE]]
// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<100x50xi1>) -> tensor<50x100xi1> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x) : (tensor<100x50xi1>) -> (tensor<50x100xi1>) {
    %y = mlc.transpose "mn->nm" %1 : tensor<100x50xi1> -> tensor<50x100xi1>
    mlc.yield %y : tensor<50x100xi1>
  } {schedule = #mlc.schedule<[vector(4, axis 1), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<50x100xi1>
}

// -----

// Few columns would leave a tile mostly empty.
// CHECK-LABEL: func.func @copy_
// CHECK-NOT: mlc_gpu.shared
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<100x3xf32>) -> tensor<3x100xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x) : (tensor<100x3xf32>) -> (tensor<3x100xf32>) {
    %y = mlc.transpose "mn->nm" %1 : tensor<100x3xf32> -> tensor<3x100xf32>
    mlc.yield %y : tensor<3x100xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 1), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3x100xf32>
}
