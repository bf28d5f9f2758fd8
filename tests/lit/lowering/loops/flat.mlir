// Few columns: vectors hold whole rows, whose lanes are added column by column at the end.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK:         scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-6:   vector.load %x
// CHECK:           scf.yield
// CHECK:         %[[LANES:.*]] = memref.alloca() {alignment = 64 : i64} : memref<24xf32>
// CHECK-COUNT-3: vector.store %{{.*}}, %[[LANES]]
// CHECK:         scf.for %[[COLUMN:.*]] =
// CHECK-COUNT-8:   memref.load %[[LANES]]
// CHECK:           memref.store %{{.*}}, %out[%[[COLUMN]]] : memref<3xf32>
func.func @three(%x: tensor<1000x3xf32>) -> tensor<3xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<1000x3xf32>) -> (tensor<3xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<1000x3xf32> -> tensor<3xf32>
    mlc.yield %2 : tensor<3xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(60000), flat(6)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3xf32>
}
