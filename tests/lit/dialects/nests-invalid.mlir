// What stands in a nest is verified before the nest, which asks for the places that it writes.
// RUN: mlc opt %s --verify-diagnostics | filecheck %s

// CHECK: mlc.dynamic_update: 2 axes, 1 offsets, a part of 2 axes; expected as many of each
func.func @few(%x: tensor<4x4xf32>, %n: tensor<i64>) -> tensor<4x4xf32> {
  %0 = mlc.kernel "nest" (%a = %x, %m = %n) : (tensor<4x4xf32>, tensor<i64>) -> (tensor<4x4xf32>) {
    %r = mlc.for %i to %m iter(%b = %a) -> (tensor<4x4xf32>) {
      %zero = mlc.constant dense<0> : tensor<i64>
      %1 = mlc.slice %b[<0, 0>, <1, 1>] : tensor<4x4xf32> -> tensor<1x4xf32>
      %2 = mlc.dynamic_update %b, %1[%zero] : tensor<4x4xf32>, tensor<1x4xf32>, tensor<i64> -> tensor<4x4xf32>
      mlc.yield %2 : tensor<4x4xf32>
    }
    mlc.yield %r : tensor<4x4xf32>
  }
  func.return %0 : tensor<4x4xf32>
}
