// Loops over single elements whose trips are independent are marked, and no others.
// RUN: mlc opt %s -p find-parallel | filecheck %s

// CHECK-LABEL: @each
// CHECK:       attributes {mlc.parallel}
func.func @each(%a: tensor<9xf32>) -> tensor<9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<9xf32>) {
    %e = mlc.dynamic_slice %y[%i] {fits} : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %x = mlc.exp %e : tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %x[%i] {fits} : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %y0 : tensor<9xf32>
  }
  func.return %0 : tensor<9xf32>
}

// Trip i + 1 reads what trip i writes.
// CHECK-LABEL: @next
// CHECK-NOT:   mlc.parallel
func.func @next(%a: tensor<10xf32>) -> tensor<10xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<10xf32>) {
    %k = mlc.add %i, %one : tensor<i64>
    %e = mlc.dynamic_slice %y[%i] {fits} : tensor<10xf32>, tensor<i64> -> tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %e[%k] {fits} : tensor<10xf32>, tensor<1xf32>, tensor<i64> -> tensor<10xf32>
    mlc.yield %y0 : tensor<10xf32>
  }
  func.return %0 : tensor<10xf32>
}
