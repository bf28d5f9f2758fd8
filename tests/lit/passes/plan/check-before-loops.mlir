// An index that each trip makes one larger is checked at its first and last place, before the loop.
// RUN: mlc opt %s -p form-kernels,form-nests,check-before-loops | filecheck %s

// Both indices lie in the axis, or the loop is as it was.
// CHECK-LABEL: @coins
// CHECK:         %[[ONE:.*]] = mlc.constant dense<1> : tensor<i64>
// CHECK:         %[[LAST:.*]] = mlc.sub %n{{.*}}, %[[ONE]]
// CHECK:         mlc.compare "lt" %{{.*}}, %{{.*}}
// CHECK:         mlc.if %{{.*}} -> (tensor<9xi64>) {
// CHECK:           mlc.for
// CHECK:             mlc.within %{{.*}} of <9> {holds}
// CHECK:             mlc.within %{{.*}} of <9> {holds}
// CHECK:         } else {
// CHECK:           mlc.for
// CHECK:             mlc.within %{{.*}} of <9> : tensor<i64>
// CHECK:             mlc.within %{{.*}} of <9> : tensor<i64>
func.func @coins(%ways: tensor<9xi64>, %coin: tensor<i64>, %n: tensor<i64>) -> tensor<9xi64> {
  %0 = mlc.for %k to %n iter(%w = %ways) -> (tensor<9xi64>) {
    %5 = mlc.for %i to %n iter(%x = %w) -> (tensor<9xi64>) {
      %a = mlc.add %coin, %i : tensor<i64>
      %at = mlc.within %a of <9> : tensor<i64>
      %1 = mlc.dynamic_slice %x[%at] {fits} : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
      %from = mlc.sub %a, %coin : tensor<i64>
      %there = mlc.within %from of <9> : tensor<i64>
      %2 = mlc.dynamic_slice %x[%there] {fits} : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
      %3 = mlc.add %1, %2 : tensor<1xi64>
      %4 = mlc.dynamic_update %x, %3[%at] {fits} : tensor<9xi64>, tensor<1xi64>, tensor<i64> -> tensor<9xi64>
      mlc.yield %4 : tensor<9xi64>
    }
    mlc.yield %5 : tensor<9xi64>
  }
  func.return %0 : tensor<9xi64>
}

// Data say where: nothing is known before the loop.
// CHECK-LABEL: @histogram
// CHECK-NOT:     mlc.if
// CHECK:         mlc.within %{{.*}} of <9> : tensor<i64>
// CHECK-NOT:     mlc.if
// CHECK:         func.return
func.func @histogram(%h: tensor<9xi64>, %k: tensor<5xi64>, %n: tensor<i64>) -> tensor<9xi64> {
  %one = mlc.constant dense<1> : tensor<1xi64>
  %m = mlc.constant dense<5> : tensor<i64>
  %0 = mlc.for %j to %n iter(%w = %h) -> (tensor<9xi64>) {
    %4 = mlc.for %i to %m iter(%x = %w) -> (tensor<9xi64>) {
      %p = mlc.dynamic_slice %k[%i] {fits} : tensor<5xi64>, tensor<i64> -> tensor<1xi64>
      %q = mlc.reshape %p : tensor<1xi64> -> tensor<i64>
      %at = mlc.within %q of <9> : tensor<i64>
      %1 = mlc.dynamic_slice %x[%at] {fits} : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
      %2 = mlc.add %1, %one : tensor<1xi64>
      %3 = mlc.dynamic_update %x, %2[%at] {fits} : tensor<9xi64>, tensor<1xi64>, tensor<i64> -> tensor<9xi64>
      mlc.yield %3 : tensor<9xi64>
    }
    mlc.yield %4 : tensor<9xi64>
  }
  func.return %0 : tensor<9xi64>
}
