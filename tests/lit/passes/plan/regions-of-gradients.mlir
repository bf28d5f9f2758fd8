// What loops start from, and factors that all trips read.
// RUN: mlc opt %s -p form-kernels,plan-buffers | filecheck %s

// Every row is written by its own trip: the start is memory, nothing is written to it.
// CHECK-LABEL: @rows
// CHECK:         mlc.kernel "copy" ()
// CHECK:         } {{{.*}}written 0>, unwritten, buffers
// CHECK:         mlc.for
// CHECK:           buffers = [#mlc.buffer<input
func.func @rows(%x: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %zeros = mlc.constant dense<0.0> : tensor<9x4xf32>
  %0 = mlc.for %i to %n iter(%ys = %zeros) -> (tensor<9x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o] : tensor<9x4xf32>, tensor<i64>, tensor<i64> -> tensor<1x4xf32>
    %2 = mlc.exp %1 : tensor<1x4xf32>
    %3 = mlc.dynamic_update %ys, %2[%i, %o] : tensor<9x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<9x4xf32>
    mlc.yield %3 : tensor<9x4xf32>
  }
  func.return %0 : tensor<9x4xf32>
}

// Eight trips write nine rows: the zeros are read.
// CHECK-LABEL: @some_rows
// CHECK-NOT:     unwritten
func.func @some_rows(%x: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %n = mlc.constant dense<8> : tensor<i64>
  %zeros = mlc.constant dense<0.0> : tensor<9x4xf32>
  %0 = mlc.for %i to %n iter(%ys = %zeros) -> (tensor<9x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o] : tensor<9x4xf32>, tensor<i64>, tensor<i64> -> tensor<1x4xf32>
    %2 = mlc.exp %1 : tensor<1x4xf32>
    %3 = mlc.dynamic_update %ys, %2[%i, %o] : tensor<9x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<9x4xf32>
    mlc.yield %3 : tensor<9x4xf32>
  }
  func.return %0 : tensor<9x4xf32>
}

// Two sums start from one constant: each has zeros, and memory, of its own, in which it is added to.
// CHECK-LABEL: @two_sums
// CHECK-COUNT-2: mlc.kernel "copy" ()
// CHECK:         mlc.for
// CHECK-COUNT-2: over = [{{[01]}} : i64], buffers = [#mlc.buffer<out {{[01]}}>]
// CHECK-NOT:     mlc.kernel
func.func @two_sums(%x: tensor<4x4xf32>, %n: tensor<i64>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zeros = mlc.constant dense<0.0> : tensor<4x4xf32>
  %0, %1 = mlc.for %i to %n iter(%a = %zeros, %b = %zeros) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %2 = mlc.contract "mk,nk->mn" %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %3 = mlc.add %a, %2 : tensor<4x4xf32>
    %4 = mlc.contract "km,kn->mn" %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %5 = mlc.add %b, %4 : tensor<4x4xf32>
    mlc.yield %3, %5 : tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A factor that was transposed before the loop is written there, not in every trip.
// CHECK-LABEL: @turned
// CHECK:         %[[T:[0-9]+]] = mlc.kernel "copy" ({{.*}} = %w)
// CHECK:         mlc.for
// CHECK:           mlc.kernel "contraction" ({{.*}} = %[[T]]
func.func @turned(%w: tensor<8x8xf32>, %x: tensor<4x8xf32>, %n: tensor<i64>) -> tensor<4x8xf32> {
  %t = mlc.transpose "ab->ba" %w : tensor<8x8xf32> -> tensor<8x8xf32>
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<4x8xf32>) {
    %1 = mlc.contract "mk,kn->mn" %h, %t : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    mlc.yield %1 : tensor<4x8xf32>
  }
  func.return %0 : tensor<4x8xf32>
}
