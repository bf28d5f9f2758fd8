// An update: each thread takes an element of what was there, or of what is written.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         %[[NEW:.*]] = vector.maskedload %u[%{{.*}}], %[[INSIDE:[^,]*]],
// CHECK-NEXT:    %[[OLD:.*]] = vector.load %x
// CHECK-NEXT:    %[[ALL:.*]] = mlc_vec.select %[[INSIDE]], %[[NEW]], %[[OLD]]
// CHECK-NEXT:    vector.store %[[ALL]], %out
// CHECK-LABEL: func.func @copied
// CHECK-NOT:     scf.for
// CHECK:         mlc_gpu.launch @cell_
func.func @copied(%x: tensor<100xf32>, %u: tensor<8xf32>, %i: tensor<i64>) -> tensor<100xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x, %2 = %u, %3 = %i) : (tensor<100xf32>, tensor<8xf32>, tensor<i64>) -> (tensor<100xf32>) {
    %z = mlc.dynamic_update %1, %2[%3] : tensor<100xf32>, tensor<8xf32>, tensor<i64> -> tensor<100xf32>
    mlc.yield %z : tensor<100xf32>
  } {schedule = #mlc.schedule<[vector(2, axis 0), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100xf32>
}
