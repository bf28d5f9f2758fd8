// A factor whose rows lie along the summed axis is transposed once, before the loops that read it.
// RUN: mlc opt %s -p prepack-loop-factors | filecheck %s

// CHECK-LABEL: @state
// CHECK:         %[[T:.*]] = mlc.transpose "ab->ba" %w
// CHECK:         mlc.for
// CHECK:           mlc.contract "mk,kn->mn" %{{.*}}, %[[T]]
func.func @state(%w: tensor<64x64xf32>, %x: tensor<32x64xf32>, %n: tensor<i64>) -> tensor<32x64xf32> {
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<32x64xf32>) {
    %1 = mlc.contract "mk,nk->mn" %h, %w : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<32x64xf32>
    mlc.yield %1 : tensor<32x64xf32>
  }
  func.return %0 : tensor<32x64xf32>
}

// It lies well already, or it is another one in each trip, or there is no loop: nothing is moved.
// CHECK-LABEL: @stays
// CHECK-NOT:     mlc.transpose
func.func @stays(%w: tensor<64x64xf32>, %x: tensor<64x64xf32>, %n: tensor<i64>) -> tensor<64x64xf32> {
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<64x64xf32>) {
    %1 = mlc.contract "mk,kn->mn" %h, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %2 = mlc.contract "mk,nk->mn" %w, %1 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    mlc.yield %2 : tensor<64x64xf32>
  }
  %3 = mlc.contract "mk,nk->mn" %0, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  func.return %3 : tensor<64x64xf32>
}
