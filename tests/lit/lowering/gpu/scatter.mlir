// A scatter adds in an order of its own: places are sorted, and each place is one thread's. No atomic op.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @gather_{{.*}}_0
// CHECK:         vector.store %{{.*}}, %out
// CHECK-LABEL: func.func @gather_{{.*}}_1
// CHECK:         mlc_gpu.shared : memref<1024xi32, 3 : i64>
// CHECK:         mlc_gpu.barrier
// CHECK-LABEL: func.func @gather_{{.*}}_2
// CHECK-NOT:     atomic
// CHECK:         arith.addf
// CHECK:         memref.store %{{.*}}, %out
// CHECK-LABEL: func.func @counts
func.func @counts(%x: tensor<1000xf64>, %i: tensor<1000xi64>) -> tensor<10xf64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "gather" (%1 = %x, %2 = %i) : (tensor<1000xf64>, tensor<1000xi64>) -> (tensor<10xf64>) {
    %3 = mlc.constant dense<0.000000e+00> : tensor<10xf64>
    %4 = mlc.scatter "add" "0,b->b" %3[%2], %1 : tensor<10xf64>, tensor<1000xf64>, tensor<1000xi64> -> tensor<10xf64>
    mlc.yield %4 : tensor<10xf64>
  } {schedule = #mlc.schedule<[vector(2), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<10xf64>
}
