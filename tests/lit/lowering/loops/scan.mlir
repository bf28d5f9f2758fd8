// Scans: a vector's own scan in log2(lanes) shuffles, and one number carried from vector to vector.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @scan_
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           %{{.*}} = scf.for %[[AT:.*]] = {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (f32) {
// CHECK:             %[[X:.*]] = vector.load %{{.*}}[%[[ROW]], %[[AT]]] : memref<8x1000xf32>, vector<8xf32>
// CHECK-NEXT:        %[[ONE:.*]] = vector.shuffle %{{.*}}, %[[X]] [0, 8, 9, 10, 11, 12, 13, 14]
// CHECK-NEXT:        %[[TWO:.*]] = arith.addf %[[ONE]], %[[X]] : vector<8xf32>
// CHECK-NEXT:        vector.shuffle %{{.*}}, %[[TWO]] [0, 1, 8, 9, 10, 11, 12, 13]
// CHECK:             vector.shuffle %{{.*}} [0, 1, 2, 3, 8, 9, 10, 11]
// CHECK-NEXT:        %[[SCAN:.*]] = arith.addf
// CHECK-NEXT:        %[[LAST:.*]] = vector.extract %[[SCAN]][7]
// CHECK-NEXT:        %[[NEXT:.*]] = arith.addf %[[SUM]], %[[LAST]] : f32
// CHECK:             vector.store
// CHECK-NEXT:        scf.yield %[[NEXT]] : f32
func.func @sums(%x: tensor<8x1000xf32>) -> tensor<8x1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "scan" (%1 = %x) : (tensor<8x1000xf32>) -> (tensor<8x1000xf32>) {
    %2 = mlc.scan "sum" "forward" "inclusive" 1 %1 : tensor<8x1000xf32> -> tensor<8x1000xf32>
    mlc.yield %2 : tensor<8x1000xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(12121)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8x1000xf32>
}

// -----

// Along rows, columns are lanes: no shuffle at all.
// CHECK-LABEL: func.func @scan_
// CHECK-NOT:     vector.shuffle
// CHECK:         arith.addf %{{.*}} : vector<8xf32>
// CHECK-NOT:     vector.shuffle
// CHECK:         func.return
func.func @down(%x: tensor<1000x8xf32>) -> tensor<1000x8xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "scan" (%1 = %x) : (tensor<1000x8xf32>) -> (tensor<1000x8xf32>) {
    %2 = mlc.scan "sum" "forward" "inclusive" 0 %1 : tensor<1000x8xf32> -> tensor<1000x8xf32>
    mlc.yield %2 : tensor<1000x8xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(12121)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000x8xf32>
}
