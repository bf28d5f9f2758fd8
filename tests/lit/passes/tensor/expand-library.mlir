// Pseudo-inverses are products with what LAPACK finds; what it has in one step stays.
// RUN: mlc opt %s -p expand-library | filecheck %s

// CHECK-LABEL: @pinv
// CHECK:         mlc.library "svd_reduced" %a
// CHECK:         mlc.reduce "max"
// CHECK:         mlc.compare "gt"
// CHECK:         mlc.contract
// CHECK-NOT:     mlc.library "pinv"
func.func @pinv(%a: tensor<4x3xf64>, %rcond: tensor<f64>) -> tensor<12xf64> {
  %0 = mlc.library "pinv" %a, %rcond : tensor<4x3xf64>, tensor<f64> -> tensor<12xf64>
  func.return %0 : tensor<12xf64>
}

// CHECK-LABEL: @inverse_or_limit
// CHECK:         mlc.library "slogdet" %a
// CHECK:         mlc.if
// CHECK:           mlc.library "svd_full" %a
// CHECK:         } else {
// CHECK:           mlc.library "inv" %a
func.func @inverse_or_limit(%a: tensor<2x3x3xf64>) -> tensor<2x9xf64> {
  %0 = mlc.library "any_inverse" %a : tensor<2x3x3xf64> -> tensor<2x9xf64>
  func.return %0 : tensor<2x9xf64>
}

// CHECK-LABEL: @solve
// CHECK-NEXT:    mlc.library "det" %a
func.func @solve(%a: tensor<3x3xf64>) -> tensor<1xf64> {
  %0 = mlc.library "det" %a : tensor<3x3xf64> -> tensor<1xf64>
  func.return %0 : tensor<1xf64>
}
