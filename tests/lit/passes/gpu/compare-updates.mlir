// A number that repeats, updated in one column of each row, is computed element by element.
// RUN: mlc opt %s -p compare-updates --split-input-file | filecheck %s

// The gradient of a label's logit.
// CHECK-LABEL: @label
// CHECK: %[[HIT:.*]] = mlc.compare "eq"
// CHECK: mlc.select %[[HIT]]
// CHECK-NOT: mlc.scatter
func.func @label(%y: tensor<64x1xi64>, %g: tensor<64x1xf32>) -> tensor<64x10xf32> {
  %0 = mlc.constant dense<0.0> : tensor<64x10xf32>
  %1 = mlc.scatter "add" "a0,ab->ab" %0[%y], %g : tensor<64x10xf32>, tensor<64x1xf32>, tensor<64x1xi64> -> tensor<64x10xf32>
  func.return %1 : tensor<64x10xf32>
}

// -----

// What is updated where it lies stays: the other elements are not touched.
// CHECK-LABEL: @argument
// CHECK: mlc.scatter
func.func @argument(%x: tensor<64x10xf32>, %y: tensor<64x1xi64>, %g: tensor<64x1xf32>) -> tensor<64x10xf32> {
  %0 = mlc.scatter "add" "a0,ab->ab" %x[%y], %g : tensor<64x10xf32>, tensor<64x1xf32>, tensor<64x1xi64> -> tensor<64x10xf32>
  func.return %0 : tensor<64x10xf32>
}

// -----

// Rows that several updates meet are no table of columns.
// CHECK-LABEL: @rows
// CHECK: mlc.scatter
func.func @rows(%y: tensor<40xi64>, %g: tensor<40x10xf32>) -> tensor<64x10xf32> {
  %0 = mlc.constant dense<0.0> : tensor<64x10xf32>
  %1 = mlc.scatter "add" "0b,a->ab" %0[%y], %g : tensor<64x10xf32>, tensor<40x10xf32>, tensor<40xi64> -> tensor<64x10xf32>
  func.return %1 : tensor<64x10xf32>
}
