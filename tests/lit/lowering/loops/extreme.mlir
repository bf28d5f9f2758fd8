// Places of extremes: the extreme and its block first, in vectors, then the first place in that block.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK:         %[[MOST:.*]], %[[BLOCK:.*]] = scf.for %[[START:.*]] = %{{.*}} iter_args
// CHECK:           scf.for %{{.*}} = %[[START]] to
// CHECK-COUNT-2:     arith.maximumf %{{.*}} fastmath<nsz> : vector<8xf32>
// CHECK:           arith.maximumf %{{.*}} fastmath<nsz> : f32
// CHECK-NEXT:      arith.index_cast %[[START]] : index to i64
// CHECK:           scf.yield %{{.*}}, %{{.*}} : f32, i64
// CHECK:         %[[FIRST:.*]] = arith.index_cast %[[BLOCK]] : i64 to index
// CHECK:         %[[ORDERED:.*]] = arith.cmpf oeq, %[[MOST]], %[[MOST]] : f32
// CHECK:         scf.if %[[ORDERED]] -> (i64) {
// CHECK-NEXT:      scf.while (%{{.*}} = %[[FIRST]])
// CHECK-COUNT-4:     mlc_vec.cmpf oeq, %{{.*}} : vector<8xf32>
// CHECK:             vector.reduction <or>
func.func @place(%x: tensor<8x1000xf32>) -> tensor<8xi64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<8x1000xf32>) -> (tensor<8xi64>) {
    %2 = mlc.reduce "argmax" "ab->a" %1 : tensor<8x1000xf32> -> tensor<8xi64>
    mlc.yield %2 : tensor<8xi64>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8xi64>
}
