// Down many columns: states of a block of columns wait in level 1, eight rows are added at a time.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK:         %[[STATES:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1008xf32>
// CHECK:         scf.for %[[BLOCK:.*]] = {{.*}} {
// CHECK:           vector.store %{{.*}}, %[[STATES]]
// CHECK:           scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:             scf.for
// CHECK:               vector.load %[[STATES]]
// CHECK-COUNT-8:       vector.load %x
// CHECK:               vector.store %{{.*}}, %[[STATES]]
// CHECK:         vector.store %{{.*}}, %out
func.func @totals(%x: tensor<4096x1000xf32>) -> tensor<1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<4096x1000xf32>) -> (tensor<1000xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<4096x1000xf32> -> tensor<1000xf32>
    mlc.yield %2 : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(60000), rows(8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}
