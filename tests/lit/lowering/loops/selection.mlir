// A place far from both ends: samples say between which two elements it lies, the rest is left.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @sort_
// CHECK-SAME:    %[[SCRATCH:scratch]]: memref<{{.*}}>
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %worker,
// CHECK-NEXT:    scf.if %[[FIRST]] {
// CHECK-NEXT:      %[[STATE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8xi64>
// CHECK-NEXT:      memref.alloca() {alignment = 64 : i64} : memref<4xi32>
// CHECK-NEXT:      %[[SAMPLE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<128xi32>
// CHECK:           scf.while
// CHECK:             memref.store %{{.*}}, %[[SAMPLE]]
// CHECK:             mlc_vec.compress
func.func @middle(%x: tensor<100000xf32>) -> tensor<100000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "sort" (%1 = %x) : (tensor<100000xf32>) -> (tensor<100000xf32>) {
    %2 = mlc.partition "ascending" 50000 : i64 "all" %1 : tensor<100000xf32> -> tensor<100000xf32>
    mlc.yield %2 : tensor<100000xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(8510)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100000xf32>
}
