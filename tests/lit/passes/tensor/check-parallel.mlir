// Loops that are said to be parallel, which are: they pass as they are.
// RUN: mlc opt %s -p check-parallel | filecheck %s

// Elements at 2 i and 2 i + 1, and a sum over the trips.
// CHECK-LABEL: @interleaved
// CHECK:       attributes {mlc.parallel}
func.func @interleaved(%a: tensor<9xf32>) -> (tensor<18xf32>, tensor<f32>) {
  %n = mlc.constant dense<9> : tensor<i64>
  %two = mlc.constant dense<2> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %start = mlc.constant dense<0.0> : tensor<18xf32>
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %0, %1 = mlc.for %i to %n iter(%y = %start, %s = %zero) -> (tensor<18xf32>, tensor<f32>) {
    %e = mlc.dynamic_slice %a[%i] {fits} : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %j = mlc.mul %i, %two : tensor<i64>
    %k = mlc.add %j, %one : tensor<i64>
    %y0 = mlc.dynamic_update %y, %e[%j] {fits} : tensor<18xf32>, tensor<1xf32>, tensor<i64> -> tensor<18xf32>
    %y1 = mlc.dynamic_update %y0, %e[%k] {fits} : tensor<18xf32>, tensor<1xf32>, tensor<i64> -> tensor<18xf32>
    %x = mlc.reshape %e : tensor<1xf32> -> tensor<f32>
    %t = mlc.add %s, %x : tensor<f32>
    mlc.yield %y1, %t : tensor<18xf32>, tensor<f32>
  } attributes {mlc.parallel}
  func.return %0, %1 : tensor<18xf32>, tensor<f32>
}
