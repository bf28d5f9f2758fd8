// Updates: of memory that is the update's alone one row is written where it lies; of any other,
// what is kept is copied around it.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK-NOT:     scf.for
// CHECK:         %[[ROW:.*]] = vector.load %{{.*}} : memref<4xf32>, vector<4xf32>
// CHECK-NEXT:    vector.store %[[ROW]], %{{.*}} : memref<100x4xf32>, vector<4xf32>
// CHECK-NEXT:    func.return
// CHECK-LABEL: func.func @in_place
// CHECK:         scf.for %{{.*}} iter_args(%[[Y:.*]] = %{{.*}})
// CHECK:           %[[ROWS:.*]] = memref.reinterpret_cast %[[Y]]
// CHECK:           func.call @cell_{{.*}}, %[[ROWS]], %[[ROWS]])
// CHECK:           scf.yield %[[Y]]
func.func @in_place(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<100x4xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" () : () -> (tensor<100x4xf32>) {
    %zeros = mlc.constant dense<0.000000e+00> : tensor<100x4xf32>
    mlc.yield %zeros : tensor<100x4xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  %ys = mlc.for %i to %n iter(%y = %0) -> (tensor<100x4xf32>) {
    %1 = mlc.kernel "cell" (%2 = %i, %3 = %x, %4 = %y) : (tensor<i64>, tensor<4xf32>, tensor<100x4xf32>) -> (tensor<100x4xf32>) {
      %zero = mlc.constant dense<0> : tensor<i64>
      %u = mlc.reshape %3 : tensor<4xf32> -> tensor<1x4xf32>
      %z = mlc.dynamic_update %4, %u[%2, %zero] : tensor<100x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<100x4xf32>
      mlc.yield %z : tensor<100x4xf32>
    } {schedule = #mlc.schedule<[vector(4), grain(60000)]>, buffers = [#mlc.buffer<input 2>]}
    mlc.yield %1 : tensor<100x4xf32>
  }
  func.return %ys : tensor<100x4xf32>
}

// -----

// Three walks: before, what is written, behind; the place is moved so that all of it fits.
// CHECK-LABEL: func.func @cell_
// CHECK:         arith.minsi
// CHECK-NEXT:    arith.maxsi
// CHECK:         vector.load %[[X:.*]][%{{.*}}] : memref<100xf32>, vector<8xf32>
// CHECK:         vector.load %{{.*}} : memref<8xf32>, vector<8xf32>
// CHECK:         vector.load %[[X]][%{{.*}}] : memref<100xf32>, vector<8xf32>
func.func @copied(%x: tensor<100xf32>, %u: tensor<8xf32>, %i: tensor<i64>) -> tensor<100xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x, %2 = %u, %3 = %i) : (tensor<100xf32>, tensor<8xf32>, tensor<i64>) -> (tensor<100xf32>) {
    %z = mlc.dynamic_update %1, %2[%3] : tensor<100xf32>, tensor<8xf32>, tensor<i64> -> tensor<100xf32>
    mlc.yield %z : tensor<100xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100xf32>
}
