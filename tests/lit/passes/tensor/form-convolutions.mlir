// Sums of products of a tensor's shifted parts are convolutions.
// RUN: mlc opt %s -p form-convolutions,dce | filecheck %s

// Stride 2, dilation 3; the sum that the program begins with is another term.
// CHECK-LABEL: @line
// CHECK-NEXT:    %[[X:.*]] = mlc.slice %x[<1, 0>, <1, 1>] : tensor<14x4xf32> -> tensor<12x4xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc.conv "(2m+3a)k,akn->mn" %[[X]], %w
// CHECK-NEXT:    mlc.add %[[Y]], %y
func.func @line(%x: tensor<14x4xf32>, %w: tensor<2x4x5xf32>, %y: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %w0 = mlc.slice %w[<0, 0, 0>, <1, 1, 1>] : tensor<2x4x5xf32> -> tensor<1x4x5xf32>
  %w1 = mlc.slice %w[<1, 0, 0>, <1, 1, 1>] : tensor<2x4x5xf32> -> tensor<1x4x5xf32>
  %a0 = mlc.reshape %w0 : tensor<1x4x5xf32> -> tensor<4x5xf32>
  %a1 = mlc.reshape %w1 : tensor<1x4x5xf32> -> tensor<4x5xf32>
  %x0 = mlc.slice %x[<1, 0>, <2, 1>] : tensor<14x4xf32> -> tensor<5x4xf32>
  %x1 = mlc.slice %x[<4, 0>, <2, 1>] : tensor<14x4xf32> -> tensor<5x4xf32>
  %0 = mlc.contract "mk,kn->mn" %x0, %a0 : tensor<5x4xf32>, tensor<4x5xf32> -> tensor<5x5xf32>
  %1 = mlc.contract "mk,kn->mn" %x1, %a1 : tensor<5x4xf32>, tensor<4x5xf32> -> tensor<5x5xf32>
  %2 = mlc.add %y, %1 : tensor<5x5xf32>
  %3 = mlc.add %0, %2 : tensor<5x5xf32>
  func.return %3 : tensor<5x5xf32>
}

// One of three shifts has the weights of another one: the products stay.
// CHECK-LABEL: @stays
// CHECK-NOT:     mlc.conv
func.func @stays(%x: tensor<7x4xf32>, %w: tensor<2x4x4xf32>) -> tensor<5x4xf32> {
  %w0 = mlc.slice %w[<0, 0, 0>, <1, 1, 1>] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %w1 = mlc.slice %w[<1, 0, 0>, <1, 1, 1>] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %a0 = mlc.reshape %w0 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %a1 = mlc.reshape %w1 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %x0 = mlc.slice %x[<0, 0>, <1, 1>] : tensor<7x4xf32> -> tensor<5x4xf32>
  %x1 = mlc.slice %x[<1, 0>, <1, 1>] : tensor<7x4xf32> -> tensor<5x4xf32>
  %x2 = mlc.slice %x[<2, 0>, <1, 1>] : tensor<7x4xf32> -> tensor<5x4xf32>
  %0 = mlc.contract "mk,kn->mn" %x0, %a0 : tensor<5x4xf32>, tensor<4x4xf32> -> tensor<5x4xf32>
  %1 = mlc.contract "mk,kn->mn" %x1, %a1 : tensor<5x4xf32>, tensor<4x4xf32> -> tensor<5x4xf32>
  %2 = mlc.contract "mk,kn->mn" %x2, %a1 : tensor<5x4xf32>, tensor<4x4xf32> -> tensor<5x4xf32>
  %3 = mlc.add %0, %1 : tensor<5x4xf32>
  %4 = mlc.add %3, %2 : tensor<5x4xf32>
  func.return %4 : tensor<5x4xf32>
}
