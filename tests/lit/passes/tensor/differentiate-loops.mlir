// Reverse mode through loops: what is stacked, what goes round, what runs again.
// RUN: mlc opt %s -p 'differentiate{mode=reverse},canonicalize,cse,dce' | filecheck %s

// All outputs of a scan: nothing goes round for their cotangent %[[DYS]], a trip reads its own row of it. Of exp its result is kept: the outputs are that already.
// CHECK-LABEL: @outputs_vjp(
// CHECK-SAME:    , %[[DYS:[0-9]+]]: tensor<9x4xf32>
// CHECK:         mlc.for {{.*}} -> (tensor<4xf32>, tensor<9x4xf32>) {
// CHECK:         mlc.for %[[TRIP:[0-9]+]] to {{.*}} -> (tensor<4xf32>) {
// CHECK:           %[[AT:[0-9]+]] = mlc.sub %{{.*}}, %[[TRIP]]
// CHECK:           mlc.dynamic_slice %[[DYS]][%[[AT]]
// CHECK:         }
func.func @outputs(%x: tensor<4xf32>) -> tensor<9x4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %zeros = mlc.constant dense<0.0> : tensor<9x4xf32>
  %0, %1 = mlc.for %i to %n iter(%h = %x, %ys = %zeros) -> (tensor<4xf32>, tensor<9x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %2 = mlc.exp %h : tensor<4xf32>
    %3 = mlc.reshape %2 : tensor<4xf32> -> tensor<1x4xf32>
    %4 = mlc.dynamic_update %ys, %3[%i, %o] : tensor<9x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<9x4xf32>
    mlc.yield %2, %4 : tensor<4xf32>, tensor<9x4xf32>
  }
  func.return %1 : tensor<9x4xf32>
}

// Nine rows of ten are written: the tenth one's cotangent is what the start's is, so all go round.
// CHECK-LABEL: @some_rows_vjp(
// CHECK:         mlc.for {{.*}} -> (tensor<10x4xf32>
// CHECK:         mlc.for {{.*}} -> (tensor<10x4xf32>, tensor<4xf32>) {
// CHECK:           mlc.dynamic_update
func.func @some_rows(%x: tensor<4xf32>, %start: tensor<10x4xf32>) -> tensor<10x4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%ys = %start) -> (tensor<10x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %2 = mlc.add %x, %x : tensor<4xf32>
    %3 = mlc.reshape %2 : tensor<4xf32> -> tensor<1x4xf32>
    %4 = mlc.dynamic_update %ys, %3[%i, %o] : tensor<10x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<10x4xf32>
    mlc.yield %4 : tensor<10x4xf32>
  }
  func.return %0 : tensor<10x4xf32>
}

// Checkpoints: three states are kept of nine trips, once for the parts and once for the trips of a part; the last loop runs one trip again and goes back through it.
// CHECK-LABEL: @checkpoints_vjp(
// CHECK:         mlc.for {{.*}} -> (tensor<4xf32>) {
// CHECK:         attributes {mlc.checkpoint}
// CHECK:         mlc.for {{.*}} -> (tensor<3x4xf32>, tensor<4xf32>) {
// CHECK:         mlc.for {{.*}} -> (tensor<4xf32>) {
// CHECK:           mlc.for {{.*}} -> (tensor<3x4xf32>, tensor<4xf32>) {
func.func @checkpoints(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<4xf32>) {
    %1 = mlc.sin %h : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  } attributes {mlc.checkpoint}
  func.return %0 : tensor<4xf32>
}
