// What regions hand on is handed on as it lies in memory; what is updated for the last time is
// written where it lies.
// RUN: mlc opt %s -p 'form-kernels,plan-buffers' | filecheck %s

// The stacked output of a loop is the function's result: made once, then one row a trip.
// CHECK-LABEL: @stacked
// CHECK:         %[[YS:.*]] = mlc.kernel "copy" ()
// CHECK:         buffers = [#mlc.buffer<out 1>]
// CHECK:         mlc.for %{{.*}} iter({{.*}}, %[[STACK:[0-9a-z]+]] = %[[YS]])
// CHECK:           over = [2 : i64], buffers = [#mlc.buffer<arena 0>]
// CHECK:           mlc.kernel "cell" ({{.*}} = %[[STACK]]
// CHECK:             mlc.dynamic_update
// CHECK:           buffers = [#mlc.buffer<input
// CHECK:         mlc.kernel "copy"
// CHECK-NOT:     mlc.kernel
func.func @stacked(%xs: tensor<100x4xf32>, %x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<100x4xf32>) {
  %zero = mlc.constant dense<0> : tensor<i64>
  %zeros = mlc.constant dense<0.0> : tensor<100x4xf32>
  %r, %ys = mlc.for %i to %n iter(%a = %x, %y = %zeros) -> (tensor<4xf32>, tensor<100x4xf32>) {
    %row = mlc.dynamic_slice %xs[%i, %zero] : tensor<100x4xf32>, tensor<i64>, tensor<i64> -> tensor<1x4xf32>
    %flat = mlc.reshape %row : tensor<1x4xf32> -> tensor<4xf32>
    %b = mlc.add %a, %flat : tensor<4xf32>
    %u = mlc.reshape %b : tensor<4xf32> -> tensor<1x4xf32>
    %z = mlc.dynamic_update %y, %u[%i, %zero] : tensor<100x4xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64> -> tensor<100x4xf32>
    mlc.yield %b, %z : tensor<4xf32>, tensor<100x4xf32>
  }
  func.return %r, %ys : tensor<4xf32>, tensor<100x4xf32>
}

// An argument is nobody's to write: one copy, before the loop.
// CHECK-LABEL: @argument
// CHECK:         %[[COPY:.*]] = mlc.kernel "copy" (%{{.*}} = %x)
// CHECK:         mlc.for %{{.*}} iter(%{{.*}} = %[[COPY]])
// CHECK:           buffers = [#mlc.buffer<input
func.func @argument(%x: tensor<9xf32>, %u: tensor<1xf32>, %n: tensor<i64>) -> tensor<9xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<9xf32>) {
    %b = mlc.dynamic_update %a, %u[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %b : tensor<9xf32>
  }
  func.return %r : tensor<9xf32>
}

// Read after the update: the old values must stay, so the update makes a new tensor.
// CHECK-LABEL: @read_again
// CHECK:         mlc.for
// CHECK-NOT:       #mlc.buffer<input
// CHECK:         func.return
func.func @read_again(%x: tensor<9xf32>, %u: tensor<1xf32>, %n: tensor<i64>) -> tensor<9xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<9xf32>) {
    %b = mlc.dynamic_update %a, %u[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    %c = mlc.add %b, %a : tensor<9xf32>
    mlc.yield %c : tensor<9xf32>
  }
  func.return %r : tensor<9xf32>
}

// Given to two carried values, the memory is not one value's alone.
// CHECK-LABEL: @given_twice
// CHECK:         mlc.for
// CHECK-NOT:       #mlc.buffer<input
// CHECK:         func.return
func.func @given_twice(%x: tensor<9xf32>, %u: tensor<1xf32>, %n: tensor<i64>) -> (tensor<9xf32>, tensor<9xf32>) {
  %r, %s = mlc.for %i to %n iter(%a = %x, %o = %x) -> (tensor<9xf32>, tensor<9xf32>) {
    %b = mlc.dynamic_update %a, %u[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %b, %b : tensor<9xf32>, tensor<9xf32>
  }
  func.return %r, %s : tensor<9xf32>, tensor<9xf32>
}

// One branch updates, the other hands on: no copy in either.
// CHECK-LABEL: @masked
// CHECK:         mlc.for %{{.*}} iter(%[[A:[0-9a-z]+]] =
// CHECK-NEXT:      mlc.if
// CHECK-NEXT:        mlc.kernel
// CHECK:             buffers = [#mlc.buffer<input
// CHECK:           } else {
// CHECK-NEXT:        mlc.yield %[[A]]
// CHECK-NEXT:      }
func.func @masked(%x: tensor<9xf32>, %u: tensor<1xf32>, %n: tensor<i64>, %c: tensor<i1>) -> tensor<9xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<9xf32>) {
    %b = mlc.if %c -> (tensor<9xf32>) {
      %d = mlc.dynamic_update %a, %u[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
      mlc.yield %d : tensor<9xf32>
    } else {
      mlc.yield %a : tensor<9xf32>
    }
    mlc.yield %b : tensor<9xf32>
  }
  func.return %r : tensor<9xf32>
}

// Values that change places take no kernel and no memory.
// CHECK-LABEL: @swap
// CHECK-SAME:    mlc.arena = {}
// CHECK:         mlc.for
// CHECK-NEXT:      mlc.yield
// CHECK-NEXT:    }
func.func @swap(%x: tensor<9xf32>, %y: tensor<9xf32>, %n: tensor<i64>) -> tensor<9xf32> {
  %r, %s = mlc.for %i to %n iter(%a = %x, %b = %y) -> (tensor<9xf32>, tensor<9xf32>) {
    mlc.yield %b, %a : tensor<9xf32>, tensor<9xf32>
  }
  func.return %r : tensor<9xf32>
}

// The number of a trip lies where the next one's will: handed on, it is copied.
// CHECK-LABEL: @number
// CHECK:         mlc.for %[[I:[a-z]+]] to
// CHECK-NEXT:      %[[COPY:[0-9]+]] = mlc.kernel "copy" (%{{[0-9]+}} = %[[I]])
// CHECK:           mlc.yield %[[COPY]]
func.func @number(%x: tensor<i64>, %n: tensor<i64>) -> tensor<i64> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<i64>) {
    mlc.yield %i : tensor<i64>
  }
  func.return %r : tensor<i64>
}
