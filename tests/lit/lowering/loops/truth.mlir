// Whether any or all: walked block by block, until the answer is known.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @magg_
// CHECK:         scf.for %{{.*}} iter_args(%[[FOUND:.*]] = %{{.*}}) -> (i8) {
// CHECK:           %[[KNOWN:.*]] = arith.cmpi ne, %[[FOUND]], %{{.*}} : i8
// CHECK:           %[[ENDS:.*]] = arith.ori %{{.*}}, %[[KNOWN]] : i1
// CHECK:           scf.if %[[ENDS]] -> (i8) {
// CHECK-NEXT:        scf.yield %[[FOUND]] : i8
// CHECK:             scf.while
// CHECK:               vector.reduction <or>
// CHECK:               scf.condition
func.func @some(%x: tensor<100000xi1>) -> tensor<i1> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "magg" (%1 = %x) : (tensor<100000xi1>) -> (tensor<i1>) {
    %2 = mlc.reduce "sum" "n->" %1 : tensor<100000xi1> -> tensor<i1>
    mlc.yield %2 : tensor<i1>
  } {schedule = #mlc.schedule<[vector(32, axis 0), unroll(4), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<i1>
}
