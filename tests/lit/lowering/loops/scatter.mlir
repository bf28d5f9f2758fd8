// Scatters: what is written to begins as it was; a place outside says where, and nothing is written.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @gather_
// CHECK:         scf.for
// CHECK-NEXT:      vector.store %{{.*}}, %[[OUT:[a-z]+]][
// CHECK:         scf.for %[[K:.*]] =
// CHECK-NEXT:      %[[PLACE:.*]] = memref.load %{{.*}}[%[[K]]] : memref<1000xi64>
// CHECK:           %[[INSIDE:.*]] = arith.andi %{{.*}} : i1
// CHECK-NEXT:      %[[OUTSIDE:.*]] = arith.xori %[[INSIDE]]
// CHECK-NEXT:      scf.if %[[OUTSIDE]] {
// CHECK:             mlc_par.fail
// CHECK:           scf.if %[[INSIDE]] {
// CHECK-NEXT:        %[[MORE:.*]] = memref.load
// CHECK-NEXT:        %[[OLD:.*]] = memref.load %[[OUT]][%[[AT:.*]]]
// CHECK-NEXT:        %[[NEW:.*]] = arith.addf %[[OLD]], %[[MORE]] : f64
// CHECK-NEXT:        memref.store %[[NEW]], %[[OUT]][%[[AT]]]
func.func @counts(%x: tensor<1000xf64>, %i: tensor<1000xi64>) -> tensor<10xf64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "gather" (%1 = %x, %2 = %i) : (tensor<1000xf64>, tensor<1000xi64>) -> (tensor<10xf64>) {
    %3 = mlc.constant dense<0.000000e+00> : tensor<10xf64>
    %4 = mlc.scatter "add" "0,b->b" %3[%2], %1 : tensor<10xf64>, tensor<1000xf64>, tensor<1000xi64> -> tensor<10xf64>
    mlc.yield %4 : tensor<10xf64>
  } {schedule = #mlc.schedule<[vector(4), grain(8163)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<10xf64>
}
