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

// A carried value has two slots of its own; what the body reads from outside (slot 0) stays until the
// loop ends, so that no temporary of the body takes its place.
// CHECK-LABEL: @loop
// CHECK:         mlc.exp
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.for
// CHECK:           mlc.log
// CHECK:           buffers = [#mlc.buffer<arena 3>]
// CHECK:           mlc.add
// CHECK:           buffers = [#mlc.buffer<arena 1>]
// CHECK:         mlc.carried = {{\[\[}}1 : i64, 2 : i64]]
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
