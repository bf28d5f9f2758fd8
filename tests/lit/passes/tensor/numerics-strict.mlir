// Under numerics "strict" no rule may change the order of a reduction; exact rules still apply.
// RUN: mlc opt %s -p fold-views,dce | filecheck %s

// CHECK-LABEL: @strict
// CHECK-NEXT:    mlc.transpose
// CHECK-NEXT:    mlc.reduce "sum" "nm->m"
// CHECK-NEXT:    mlc.contract "mk,nk->mn"
module attributes {mlc.numerics = "strict"} {
  func.func @strict(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> (tensor<2xf32>, tensor<2x4xf32>) {
    %0 = mlc.transpose "mn->nm" %x : tensor<2x3xf32> -> tensor<3x2xf32>
    %1 = mlc.reduce "sum" "nm->m" %0 : tensor<3x2xf32> -> tensor<2xf32>
    %2 = mlc.transpose "nk->kn" %w : tensor<4x3xf32> -> tensor<3x4xf32>
    %3 = mlc.contract "mk,kn->mn" %x, %2 : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    func.return %1, %3 : tensor<2xf32>, tensor<2x4xf32>
  }

  // Letters in another order would add the terms in another order; integers have none.
  // CHECK-LABEL: @two_summed_axes
  // CHECK-NEXT:    mlc.transpose
  // CHECK-NEXT:    mlc.contract "mkl,nkl->mn"
  // CHECK-NEXT:    mlc.contract "mlk,nkl->mn" {{.*}}xi32>
  func.func @two_summed_axes(%x: tensor<2x3x4xf32>, %y: tensor<5x4x3xf32>, %i: tensor<2x3x4xi32>, %j: tensor<5x4x3xi32>) -> (tensor<2x5xf32>, tensor<2x5xi32>) {
    %0 = mlc.transpose "mlk->mkl" %x : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
    %1 = mlc.contract "mkl,nkl->mn" %0, %y : tensor<2x4x3xf32>, tensor<5x4x3xf32> -> tensor<2x5xf32>
    %2 = mlc.transpose "mlk->mkl" %i : tensor<2x3x4xi32> -> tensor<2x4x3xi32>
    %3 = mlc.contract "mkl,nkl->mn" %2, %j : tensor<2x4x3xi32>, tensor<5x4x3xi32> -> tensor<2x5xi32>
    func.return %1, %3 : tensor<2x5xf32>, tensor<2x5xi32>
  }

  // Sums of a matrix product are taken in turn, those of a vector with a matrix in lanes.
  // CHECK-LABEL: @rows_that_are_equal
  // CHECK-NEXT:    mlc.broadcast
  // CHECK-NEXT:    mlc.contract "mk,kn->mn"
  func.func @rows_that_are_equal(%x: tensor<3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
    %0 = mlc.broadcast "k->mk" %x : tensor<3xf32> -> tensor<2x3xf32>
    %1 = mlc.contract "mk,kn->mn" %0, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    func.return %1 : tensor<2x4xf32>
  }
}
