// Sums over the trips of a parallel loop are sums of chunks, added up one after the other.
// RUN: mlc opt %s -p chunk-folds | filecheck %s

// 1000 trips are 64 chunks of 16: each writes its sum, and the last one's trips end with the loop.
// CHECK-LABEL: @sum
// CHECK:       %[[SUMS:.*]] = mlc.for %{{.*}} iter(%{{.*}} = %{{.*}}) -> (tensor<64xf32>) {
// CHECK:         mlc.min
// CHECK:         mlc.for
// CHECK:           mlc.add
// CHECK:         mlc.dynamic_update
// CHECK:       } attributes {mlc.parallel}
// CHECK:       mlc.for
// CHECK:         mlc.dynamic_slice %[[SUMS]]
// CHECK:         mlc.add
func.func @sum(%a: tensor<1000xf32>, %start: tensor<f32>) -> tensor<f32> {
  %n = mlc.constant dense<1000> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %start) -> (tensor<f32>) {
    %e = mlc.dynamic_slice %a[%i] {fits} : tensor<1000xf32>, tensor<i64> -> tensor<1xf32>
    %x = mlc.reshape %e : tensor<1xf32> -> tensor<f32>
    %t = mlc.add %s, %x : tensor<f32>
    mlc.yield %t : tensor<f32>
  } attributes {mlc.parallel}
  func.return %0 : tensor<f32>
}

// A loop that nobody says is parallel stays.
// CHECK-LABEL: @in_turn
// CHECK-NOT:   tensor<64xf32>
func.func @in_turn(%a: tensor<1000xf32>, %start: tensor<f32>) -> tensor<f32> {
  %n = mlc.constant dense<1000> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %start) -> (tensor<f32>) {
    %e = mlc.dynamic_slice %a[%i] {fits} : tensor<1000xf32>, tensor<i64> -> tensor<1xf32>
    %x = mlc.reshape %e : tensor<1xf32> -> tensor<f32>
    %t = mlc.add %s, %x : tensor<f32>
    mlc.yield %t : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
