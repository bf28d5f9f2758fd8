// In the order of numerics "strict": sixteen sums in lanes, folded as one tree, whatever the vectors.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK:         %[[LOW:.*]], %[[HIGH:.*]] = scf.for
// CHECK-COUNT-2:   arith.addf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK:         %[[REST:.*]] = arith.addf %[[LOW]], %{{.*}} : vector<8xf32>
// CHECK-NEXT:    %[[ALL:.*]] = arith.addf %[[REST]], %[[HIGH]] : vector<8xf32>
// CHECK-NEXT:    vector.shuffle %[[ALL]], %[[ALL]] [0, 1, 2, 3]
// CHECK-NEXT:    vector.shuffle %[[ALL]], %[[ALL]] [4, 5, 6, 7]
// CHECK-NOT:     math.fma
// CHECK:         memref.store
builtin.module attributes {mlc.numerics = "strict"} {
  func.func @strict(%x: tensor<8x1000xf32>) -> tensor<8xf32> attributes {mlc.arena = {}} {
    %0 = mlc.kernel "row" (%1 = %x) : (tensor<8x1000xf32>) -> (tensor<8xf32>) {
      %2 = mlc.reduce "sum" "mn->m" %1 : tensor<8x1000xf32> -> tensor<8xf32>
      mlc.yield %2 : tensor<8xf32>
    } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %0 : tensor<8xf32>
  }
}
