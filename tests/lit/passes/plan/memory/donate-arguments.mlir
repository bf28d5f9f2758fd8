// A result takes the place of an argument that the caller gives away: `over` where the kernel reads
// what it writes over, a copy at the end where the old elements are still needed.
// RUN: mlc opt %s -p form-kernels,donate-arguments,plan-buffers | filecheck %s

// One step of gradient descent: the product is summed first, then each weight is read and written.
// CHECK-LABEL: @step
// CHECK:         mlc.kernel "contraction" (%{{.*}} = %w
// CHECK:         over = [0 : i64], buffers = [#mlc.buffer<out 0>]
// CHECK-NOT:     mlc.kernel
func.func @step(%w: tensor<8x4xf32> {mlc.donated = 0 : i64}, %x: tensor<16x8xf32>, %g: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = mlc.contract "ba,bc->ac" %x, %g : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %1 = mlc.sub %w, %0 : tensor<8x4xf32>
  func.return %1 : tensor<8x4xf32>
}

// A long sum waits in memory between its blocks, so what follows it is a kernel of its own.
// CHECK-LABEL: @long_sum
// CHECK:         mlc.kernel "contraction" (%{{.*}} = %x, %{{.*}} = %g)
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "cell" (%{{.*}} = %w
// CHECK:         over = [0 : i64], buffers = [#mlc.buffer<out 0>]
// CHECK-NOT:     mlc.kernel
func.func @long_sum(%w: tensor<8x4xf32> {mlc.donated = 0 : i64}, %x: tensor<4096x8xf32>, %g: tensor<4096x4xf32>) -> tensor<8x4xf32> {
  %0 = mlc.contract "ba,bc->ac" %x, %g : tensor<4096x8xf32>, tensor<4096x4xf32> -> tensor<8x4xf32>
  %1 = mlc.sub %w, %0 : tensor<8x4xf32>
  func.return %1 : tensor<8x4xf32>
}

// Other elements are read while one is written: made elsewhere, then copied.
// CHECK-LABEL: @factor
// CHECK-SAME:    mlc.arena = {"0" = #mlc.dims<36>}
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @factor(%w: tensor<3x3xf32> {mlc.donated = 0 : i64}) -> tensor<3x3xf32> {
  %0 = mlc.contract "ba,bc->ac" %w, %w : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  func.return %0 : tensor<3x3xf32>
}

// CHECK-LABEL: @reversed
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @reversed(%w: tensor<4xf32> {mlc.donated = 0 : i64}) -> tensor<4xf32> {
  %0 = mlc.slice %w[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
  %1 = mlc.add %w, %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Read again by a kernel that does not wait for the new elements: the writer runs last instead.
// CHECK-LABEL: @later
// CHECK:         mlc.reduce
// CHECK:         buffers = [#mlc.buffer<out 1>]
// CHECK:         mlc.exp
// CHECK:         over = [0 : i64], buffers = [#mlc.buffer<out 0>]
// CHECK-NOT:     mlc.kernel
func.func @later(%w: tensor<4x5xf32> {mlc.donated = 0 : i64}) -> (tensor<4x5xf32>, tensor<5xf32>) {
  %0 = mlc.exp %w : tensor<4x5xf32>
  %1 = mlc.reduce "max" "ab->b" %w : tensor<4x5xf32> -> tensor<5xf32>
  func.return %0, %1 : tensor<4x5xf32>, tensor<5xf32>
}

// Each is read to make the other: one copy is enough.
// CHECK-LABEL: @swapped
// CHECK:         mlc.kernel "copy" (%{{.*}} = %b
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "copy" (%{{.*}} = %a
// CHECK:         buffers = [#mlc.buffer<out 1>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @swapped(%a: tensor<8xf32> {mlc.donated = 0 : i64}, %b: tensor<8xf32> {mlc.donated = 1 : i64}) -> (tensor<8xf32>, tensor<8xf32>) {
  func.return %b, %a : tensor<8xf32>, tensor<8xf32>
}

// Returned as it came, it stays where it is.
// CHECK-LABEL: @kept
// CHECK-NOT:     mlc.kernel
// CHECK:         func.return %a
func.func @kept(%a: tensor<8xf32> {mlc.donated = 0 : i64}) -> tensor<8xf32> {
  func.return %a : tensor<8xf32>
}

// What goes round a loop goes round in the argument's memory.
// CHECK-LABEL: @descent
// CHECK:         mlc.for
// CHECK:           over = [0 : i64], buffers = [#mlc.buffer<out 0>]
// CHECK-NEXT:      mlc.yield
// CHECK-NOT:     mlc.kernel
func.func @descent(%w: tensor<4xf32> {mlc.donated = 0 : i64}, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%a = %w) -> (tensor<4xf32>) {
    %0 = mlc.tanh %a : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// So do rows that a loop writes where they belong: the copy that the loop would start from goes.
// CHECK-LABEL: @rows
// CHECK-NOT:     mlc.kernel "copy"
// CHECK:         mlc.for
// CHECK:           buffers = [#mlc.buffer<input
// CHECK-NOT:     mlc.kernel
func.func @rows(%x: tensor<9xf32> {mlc.donated = 0 : i64}, %u: tensor<1xf32>, %n: tensor<i64>) -> tensor<9xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<9xf32>) {
    %b = mlc.dynamic_update %a, %u[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %b : tensor<9xf32>
  }
  func.return %r : tensor<9xf32>
}

// The loop reads the old elements in every trip: its values lie elsewhere, in one place.
// CHECK-LABEL: @old_in_loop
// CHECK:         mlc.for
// CHECK:           over = [1 : i64], buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<out 0>]
func.func @old_in_loop(%w: tensor<4xf32> {mlc.donated = 0 : i64}, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%a = %w) -> (tensor<4xf32>) {
    %0 = mlc.add %a, %w : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// A tile loop writes over tiles that its trips read where they write them.
// CHECK-LABEL: @tiles
// CHECK:         mlc.tiles
// CHECK:           over = [0 : i64], buffers = [#mlc.buffer<tile 0>]
// CHECK:         buffers = [#mlc.buffer<out 0>]
// CHECK-NOT:     mlc.kernel
func.func @tiles(%w: tensor<6x4xf32> {mlc.donated = 0 : i64}) -> tensor<6x4xf32> {
  %m = mlc.tiles (%i in 6 step 3) -> (tensor<6x4xf32> at (0)) {
    %t = mlc.tile %w[%i] at (0) : tensor<6x4xf32> -> tensor<3x4xf32>
    %e = mlc.tanh %t : tensor<3x4xf32>
    mlc.yield %e : tensor<3x4xf32>
  }
  func.return %m : tensor<6x4xf32>
}

// It does not where another trip, or who comes after it, reads the old elements.
// CHECK-LABEL: @other_tiles
// CHECK:         buffers = [#mlc.buffer<arena 0>]
// CHECK:         mlc.kernel "copy"
// CHECK:           buffers = [#mlc.buffer<out 0>]
func.func @other_tiles(%w: tensor<6x6xf32> {mlc.donated = 0 : i64}) -> tensor<6x6xf32> {
  %m = mlc.tiles (%i in 6 step 3) -> (tensor<6x6xf32> at (0)) {
    %t = mlc.tile %w[%i] at (1) : tensor<6x6xf32> -> tensor<6x3xf32>
    %e = mlc.transpose "ab->ba" %t : tensor<6x3xf32> -> tensor<3x6xf32>
    %f = mlc.tanh %e : tensor<3x6xf32>
    mlc.yield %f : tensor<3x6xf32>
  }
  func.return %m : tensor<6x6xf32>
}

// CHECK-LABEL: @tiles_later
// CHECK:         mlc.reduce
// CHECK:         mlc.kernel "copy"
// CHECK:           buffers = [#mlc.buffer<out 0>]
func.func @tiles_later(%w: tensor<6x4xf32> {mlc.donated = 0 : i64}, %x: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>) {
  %m = mlc.tiles (%i in 6 step 3) -> (tensor<6x4xf32> at (0)) {
    %t = mlc.tile %x[%i] at (0) : tensor<6x4xf32> -> tensor<3x4xf32>
    %e = mlc.exp %t : tensor<3x4xf32>
    mlc.yield %e : tensor<3x4xf32>
  }
  %s = mlc.reduce "sum" "ab->b" %w : tensor<6x4xf32> -> tensor<4xf32>
  func.return %m, %s : tensor<6x4xf32>, tensor<4xf32>
}
