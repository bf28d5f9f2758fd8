// What a loop that is written down may not be, and what is said about it.
// RUN: not mlc opt %s --target=avx512 -p mlc-form-tiles --split-input-file 2>&1 | filecheck %s

// CHECK: mlc.loop of mlc.reduce: it cannot be computed so with the others: edit it, or run mlc-choose-tiles
func.func @other_rows(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %t = mlc.exp %x {mlc.loop = {axes = array<i64: 1>}} : tensor<64x64xf32>
  %m = mlc.reduce "max" "ab->a" %t {mlc.loop = {axes = array<i64: 0>, steps = array<i64: 8>}} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// CHECK: mlc.loop of mlc.reduce: no steps; expected array<i64: …> of at least 1
func.func @no_steps(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %m = mlc.reduce "max" "ab->a" %x {mlc.loop = {axes = array<i64: 0>}} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// CHECK: mlc.loop of mlc.reduce: axes [7]; expected as many as of mlc.reduce, below 2
func.func @no_such_axis(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %m = mlc.reduce "max" "ab->a" %x {mlc.loop = {axes = array<i64: 7>, steps = array<i64: 8>}} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// CHECK: mlc.loop of mlc.exp: no reduction has all axes
func.func @nothing_to_begin_with(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %t = mlc.exp %x {mlc.loop = {axes = array<i64: 0>, steps = array<i64: 8>}} : tensor<64x64xf32>
  func.return %t : tensor<64x64xf32>
}

// -----

// CHECK: mlc.loop of mlc.reduce: 2 steps for 1 row axes; expected one for each of the first ones
func.func @many_steps(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %m = mlc.reduce "max" "ab->a" %x {mlc.loop = {axes = array<i64: 0>, steps = array<i64: 8, 8>}} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// CHECK: mlc.loop of mlc.reduce: "0"; expected axes of an op on tensors
func.func @not_axes(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %m = mlc.reduce "max" "ab->a" %x {mlc.loop = "0"} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// Sums both ways of one loop are complete at its end.
// CHECK: mlc.loop of mlc.sub: it cannot be computed so with the others
func.func @reads_a_sum(%x: tensor<4x20x8xf32>, %y: tensor<4x30x8xf32>) -> (tensor<4x20xf32>, tensor<4x30xf32>) {
  %s = mlc.contract "hik,hjk->hij" %x, %y {mlc.loop = {axes = array<i64: 0, 1, 2>}} : tensor<4x20x8xf32>, tensor<4x30x8xf32> -> tensor<4x20x30xf32>
  %r = mlc.reduce "sum" "hij->hi" %s {mlc.loop = {axes = array<i64: 0, 1, 2>}} : tensor<4x20x30xf32> -> tensor<4x20xf32>
  %b = mlc.broadcast "hi->hij" %r : tensor<4x20xf32> -> tensor<4x20x30xf32>
  %d = mlc.sub %s, %b {mlc.loop = {axes = array<i64: 0, 1, 2>}} : tensor<4x20x30xf32>
  %c = mlc.reduce "sum" "hij->hj" %d {mlc.loop = {axes = array<i64: 0, 2, 1>, steps = array<i64: 1, 5>, columns = 7 : i64}} : tensor<4x20x30xf32> -> tensor<4x30xf32>
  func.return %r, %c : tensor<4x20xf32>, tensor<4x30xf32>
}
