// Contractions that no words cut are reductions: rows of vectors, the summed axis inside.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @contraction_
// CHECK-NOT:     scratch
// CHECK:         scf.for %[[K:[^ ]*]] = {{.*}} iter_args
// CHECK:           %[[LHS:.*]] = memref.load %x[%{{.*}}, %[[K]]]
// CHECK:           vector.broadcast %[[LHS]] : f32 to vector<8xf32>
// CHECK:           math.fma
// CHECK:         func.return
func.func @small(%x: tensor<3x16xf32>, %y: tensor<16x24xf32>) -> tensor<3x24xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<3x16xf32>, tensor<16x24xf32>) -> (tensor<3x24xf32>) {
    %3 = mlc.contract "mk,kn->mn" %1, %2 : tensor<3x16xf32>, tensor<16x24xf32> -> tensor<3x24xf32>
    mlc.yield %3 : tensor<3x24xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(3), grain(1200000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3x24xf32>
}
