// Products of the rows of a tensor with one factor are one product before the loop.
// RUN: mlc opt %s -p multiply-before-loops | filecheck %s

// CHECK-LABEL: @inputs
// CHECK:         %[[ALL:.*]] = mlc.contract "amk,kn->amn" %x, %w
// CHECK:         mlc.for %[[I:.*]] to
// CHECK:           %[[PART:.*]] = mlc.dynamic_slice %[[ALL]][%[[I]],
// CHECK-NEXT:      %[[Z:.*]] = mlc.reshape %[[PART]]
// CHECK-NEXT:      mlc.add %{{.*}}, %[[Z]]
func.func @inputs(%x: tensor<9x4x32xf32>, %w: tensor<32x8xf32>, %h: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %h) -> (tensor<4x8xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o, %o] : tensor<9x4x32xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x4x32xf32>
    %2 = mlc.reshape %1 : tensor<1x4x32xf32> -> tensor<4x32xf32>
    %3 = mlc.contract "mk,kn->mn" %2, %w : tensor<4x32xf32>, tensor<32x8xf32> -> tensor<4x8xf32>
    %4 = mlc.add %s, %3 : tensor<4x8xf32>
    mlc.yield %4 : tensor<4x8xf32>
  }
  func.return %0 : tensor<4x8xf32>
}

// The product has more bytes than the factor, or the factor is another one in each trip: it stays.
// CHECK-LABEL: @stays
// CHECK-NEXT:    mlc.constant
// CHECK-NEXT:    mlc.for
// CHECK-COUNT-3: mlc.contract
func.func @stays(%x: tensor<9x64x4xf32>, %w: tensor<4x4xf32>, %h: tensor<64x4xf32>) -> tensor<64x4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %h) -> (tensor<64x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o, %o] : tensor<9x64x4xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x64x4xf32>
    %2 = mlc.reshape %1 : tensor<1x64x4xf32> -> tensor<64x4xf32>
    %3 = mlc.contract "mk,kn->mn" %2, %w : tensor<64x4xf32>, tensor<4x4xf32> -> tensor<64x4xf32>
    %4 = mlc.contract "mk,mn->kn" %3, %s : tensor<64x4xf32>, tensor<64x4xf32> -> tensor<4x4xf32>
    %5 = mlc.contract "mk,kn->mn" %2, %4 : tensor<64x4xf32>, tensor<4x4xf32> -> tensor<64x4xf32>
    mlc.yield %5 : tensor<64x4xf32>
  }
  func.return %0 : tensor<64x4xf32>
}
