// Results live in the function's results or in slots of one arena, which values share over time.
// RUN: mlc opt %s -p 'form-kernels{fusion="none"},plan-buffers' | filecheck %s

// A chain of four needs two slots, in turns: no kernel writes over what it reads. The last is a result.
// CHECK-LABEL: @chain
// CHECK-SAME:    mlc.arena = {"0" = #mlc.dims<32>, "1" = #mlc.dims<32>}
// CHECK:         mlc.exp
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.log
// CHECK:         buffers = [#mlc.buffer<arena 1>]
// CHECK:         mlc.sqrt
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.neg
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mlc.exp %x : tensor<8xf32>
  %1 = mlc.log %0 : tensor<8xf32>
  %2 = mlc.sqrt %1 : tensor<8xf32>
  %3 = mlc.neg %2 : tensor<8xf32>
  func.return %3 : tensor<8xf32>
}

// Sizes with a symbol share a slot when they are equal; a slot of constant sizes holds the largest.
// CHECK-LABEL: @sizes
// CHECK-SAME:    mlc.arena = {"0" = #mlc.dims<"4*B">, "1" = #mlc.dims<"4*B">, "2" = #mlc.dims<64>}
func.func @sizes(%x: tensor<?xf32, #mlc.dims<"B">>, %y: tensor<8xf32>, %z: tensor<16xf32>) -> (tensor<?xf32, #mlc.dims<"B">>, tensor<8xf32>, tensor<16xf32>) {
  %0 = mlc.exp %x : tensor<?xf32, #mlc.dims<"B">>
  %1 = mlc.log %0 : tensor<?xf32, #mlc.dims<"B">>
  %2 = mlc.sqrt %1 : tensor<?xf32, #mlc.dims<"B">>
  %3 = mlc.neg %2 : tensor<?xf32, #mlc.dims<"B">>
  %4 = mlc.exp %y : tensor<8xf32>
  %5 = mlc.log %4 : tensor<8xf32>
  %6 = mlc.exp %z : tensor<16xf32>
  %7 = mlc.log %6 : tensor<16xf32>
  func.return %3, %5, %7 : tensor<?xf32, #mlc.dims<"B">>, tensor<8xf32>, tensor<16xf32>
}

// What goes round lies in one slot where it is dead when its successor is written; what the body reads
// from outside (slot 0) stays until the loop ends, so that no temporary of the body takes its place.
// CHECK-LABEL: @loop
// CHECK:         mlc.exp
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.for
// CHECK:           mlc.log
// CHECK:           buffers = [#mlc.buffer<arena 2>]
// CHECK:           mlc.add
// CHECK:           buffers = [#mlc.buffer<arena 1>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @loop(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %e = mlc.exp %x : tensor<4xf32>
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.log %a : tensor<4xf32>
    %1 = mlc.add %0, %e : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Read only at the element that is about to be written, it needs no second slot.
// CHECK-LABEL: @same_element
// CHECK:         mlc.for
// CHECK:           mlc.tanh
// CHECK:           over = [0 : i64], buffers = [#mlc.buffer<arena 0>]
func.func @same_element(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.tanh %a : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Read where its successor is written, it needs a second slot: the kernel takes the one that is free.
// CHECK-LABEL: @two_slots
// CHECK:         mlc.for
// CHECK:           mlc.slice
// CHECK:           buffers = [#mlc.buffer<arena 0, 1>]
func.func @two_slots(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.slice %a[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// A line of three: only the new value is written, over the oldest; the others move up. Never a copy.
// CHECK-LABEL: @line
// CHECK:         mlc.for
// CHECK:           mlc.add
// CHECK:           over = [1 : i64], buffers = [#mlc.buffer<arena 0, 1, 2>]
// CHECK-NEXT:      mlc.yield
func.func @line(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %p, %q, %r = mlc.for %i to %n iter(%a = %x, %b = %x, %c = %x) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = mlc.add %a, %c : tensor<4xf32>
    mlc.yield %0, %a, %b : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Both branches write the same slot.
// CHECK-LABEL: @branches
// CHECK:         mlc.if
// CHECK:           mlc.exp
// CHECK:           buffers = [#mlc.buffer<out 0>]
// CHECK:         } else {
// CHECK:           mlc.log
// CHECK:           buffers = [#mlc.buffer<out 0>]
// CHECK-NOT:     mlc.kernel "copy"
func.func @branches(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %r = mlc.if %c -> (tensor<4xf32>) {
    %0 = mlc.exp %x : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  } else {
    %0 = mlc.log %x : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
