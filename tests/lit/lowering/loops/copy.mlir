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

// Returned twice: what the first kernel has written, a second one copies.
// CHECK-LABEL: func.func @copy_
// CHECK:         vector.load %x[
// CHECK:         vector.load %y[
// CHECK-NOT:     vector.load
// CHECK:       func.func @copy_{{.*}}, %[[WHOLE:.*]]: memref<16xf32> {mlc.readonly}, %out
// CHECK:         %[[PART:.*]] = vector.load %[[WHOLE]][
// CHECK-NEXT:    vector.store %[[PART]], %out[
// CHECK:       func.func @twice(%{{.*}}, %[[FIRST:[0-9]+]]: memref<16xf32>, %[[SECOND:[0-9]+]]: memref<16xf32>)
// CHECK:         func.call @copy_{{.*}}, %[[FIRST]]) :
// CHECK:         func.call @copy_{{.*}}, %[[FIRST]], %[[SECOND]]) :
func.func @twice(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = mlc.concat 0 %x, %y : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  func.return %0, %0 : tensor<16xf32>, tensor<16xf32>
}
