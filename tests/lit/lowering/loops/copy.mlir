// Concatenation: one loop nest per piece, each written where it belongs.
// RUN: mlc opt %s --split-input-file --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @copy_
// CHECK:         %[[FIRST:.*]] = arith.constant 3 : index
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK-NEXT:      vector.load %x[%[[ROW]]
// CHECK-NEXT:      vector.store %{{.*}}, %out[%[[ROW]]
// CHECK:         scf.for %[[ROW2:.*]] =
// CHECK-NEXT:      vector.load %y[%[[ROW2]]
// CHECK-NEXT:      %[[BELOW:.*]] = arith.addi %[[ROW2]], %[[FIRST]]
// CHECK-NEXT:      vector.store %{{.*}}, %out[%[[BELOW]]
func.func @below(%x: tensor<3x8xf32>, %y: tensor<2x8xf32>) -> tensor<5x8xf32> {
  %0 = mlc.concat 0 %x, %y : tensor<3x8xf32>, tensor<2x8xf32> -> tensor<5x8xf32>
  func.return %0 : tensor<5x8xf32>
}

// -----

// Returned twice: both results are written.
// CHECK-LABEL: func.func @copy_
// CHECK:         vector.store %[[PART:.*]], %out[
// CHECK-NEXT:    vector.store %[[PART]], %out_1[
func.func @twice(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = mlc.concat 0 %x, %y : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  func.return %0, %0 : tensor<16xf32>, tensor<16xf32>
}
