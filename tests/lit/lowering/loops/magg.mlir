// Reductions to a single number.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// Blocks whose size depends on N alone, so that every number of threads gives the same bits; each
// writes its sum, and one thread adds them in order.
// CHECK-LABEL: func.func @magg_
// CHECK-SAME:    %worker: index, %workers: index, {{.*}}%[[SUMS:scratch]]: memref<64xf64>
// CHECK:         scf.for %[[BLOCK:.*]] =
// CHECK:           %[[SUM:.*]] = arith.addf {{.*}} : f64
// CHECK-NEXT:      memref.store %[[SUM]], %[[SUMS]][%[[BLOCK]]]
// CHECK:         %[[STOP:.*]] = mlc_par.barrier %ctx, %worker of %workers : i1
// CHECK-NEXT:    mlc_par.leave %[[STOP]]
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %worker, %{{.*}} : index
// CHECK-NEXT:    scf.if %[[FIRST]]
// CHECK:           %[[TOTAL:.*]] = scf.for %[[BLOCK:.*]] = {{.*}} iter_args
// CHECK-NEXT:        memref.load %[[SUMS]][%[[BLOCK]]]
// CHECK:           memref.store %[[TOTAL]], %{{.*}}[]
// CHECK-LABEL: func.func @sum
// CHECK:         memref.alloca() {alignment = 64 : i64} : memref<64xf64>
// CHECK:         mlc_par.region
func.func @sum(%x: tensor<?xf64, #mlc.dims<"N">>) -> tensor<f64> attributes {mlc.symbols = ["N"], mlc.arena = {}} {
  %0 = mlc.kernel "magg" (%1 = %x) : (tensor<?xf64, #mlc.dims<"N">>) -> (tensor<f64>) {
    %2 = mlc.reduce "sum" "n->" %1 : tensor<?xf64, #mlc.dims<"N">> -> tensor<f64>
    mlc.yield %2 : tensor<f64>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(4), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<f64>
}

// -----

// Few elements: no blocks and no threads. The largest value, or NaN, is found first; then the first
// block of vectors that holds it, and of those the least position.
// CHECK-LABEL: func.func @magg_
// CHECK-DAG:     %[[NOWHERE:.*]] = arith.constant dense<9223372036854775807> : vector<8xi64>
// CHECK-NOT:     mlc_par.region
// CHECK:         arith.maximumf
// CHECK:         %[[NUMBER:.*]] = arith.cmpf oeq, %[[BEST:.*]], %[[BEST]]
// CHECK:         scf.if %[[NUMBER]]
// CHECK:           %[[BLOCK:.*]] = scf.while
// CHECK:             mlc_vec.cmpf oeq
// CHECK:             vector.reduction <or>
// CHECK:           scf.for {{.*}} = %[[BLOCK]] to {{.*}} iter_args(%{{.*}} = %[[NOWHERE]])
// CHECK:           vector.reduction <minsi>
// CHECK:         } else {
// CHECK:           mlc_vec.cmpf une, %[[X:.*]], %[[X]]
// CHECK:         memref.store {{.*}} : memref<i64>
func.func @argmax(%x: tensor<40xf32>) -> tensor<i64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "magg" (%1 = %x) : (tensor<40xf32>) -> (tensor<i64>) {
    %2 = mlc.reduce "argmax" "n->" %1 : tensor<40xf32> -> tensor<i64>
    mlc.yield %2 : tensor<i64>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<i64>
}
