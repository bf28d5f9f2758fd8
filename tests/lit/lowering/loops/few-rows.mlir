// Few long rows: each worker takes blocks of them, all wait, and the states of a row's blocks are
// combined in order.
// RUN: mlc opt %s --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK-SAME:    %scratch: memref<192xf32>
// CHECK:         scf.for %[[PIECE:[a-z_0-9]+]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[ROW:.*]] = arith.divui %[[PIECE]], %[[BLOCKS:.*]] : index
// CHECK:           scf.for
// CHECK-COUNT-2:     vector.load %x[%{{.*}}, %{{.*}}] : memref<3x200000xf32>, vector<8xf32>
// CHECK:           memref.store %{{.*}}, %scratch[%[[PIECE]]]
// CHECK:         mlc_par.barrier
// CHECK:         scf.for %[[LAST:[a-z_0-9]+]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[FIRST:.*]] = arith.muli %[[LAST]], %[[BLOCKS]] : index
// CHECK:           scf.for %[[BLOCK:[a-z_0-9]+]] =
// CHECK-NEXT:        %[[AT:.*]] = arith.addi %[[FIRST]], %[[BLOCK]] : index
// CHECK-NEXT:        memref.load %scratch[%[[AT]]]
// CHECK:           memref.store %{{.*}}, %out
func.func @sums(%x: tensor<3x200000xf32>) -> tensor<3xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<3x200000xf32>) -> (tensor<3xf32>) {
    %2 = mlc.reduce "sum" "ab->a" %1 : tensor<3x200000xf32> -> tensor<3xf32>
    mlc.yield %2 : tensor<3xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3xf32>
}
