// Short rows: a lane for each row's sum, joined by shuffles, so that one store writes them all.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK-COUNT-4: vector.maskedload %{{.*}} : memref<1000x4xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
// CHECK:         vector.shuffle %{{.*}} [0, 1, 2, 3, 8, 9, 10, 11]
// CHECK:         vector.shuffle %{{.*}} [0, 1, 4, 5, 8, 9, 12, 13]
// CHECK:         %[[ROWS:.*]] = arith.addf %{{.*}} : vector<4xf32>
// CHECK-NEXT:    vector.store %[[ROWS]], %{{.*}} : memref<1000xf32>, vector<4xf32>
func.func @sums(%x: tensor<1000x4xf32>) -> tensor<1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<1000x4xf32>) -> (tensor<1000xf32>) {
    %2 = mlc.reduce "sum" "ab->a" %1 : tensor<1000x4xf32> -> tensor<1000xf32>
    mlc.yield %2 : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), grain(60000), unroll(2), rows(4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}
