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
}
