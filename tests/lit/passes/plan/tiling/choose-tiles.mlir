// The ops of the next tile loop say so, with where they have its axes; who forms it reads no more.
// RUN: mlc opt %s --target=avx512 -p mlc-choose-tiles --split-input-file | filecheck %s
// RUN: mlc opt %s --target=avx512 -p mlc-form-tiles --split-input-file | filecheck %s --check-prefix=FORM
// RUN: mlc opt %s --target=avx512 -p mlc-choose-tiles --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAID

// CHECK-LABEL: @softmax
// CHECK: mlc.reduce "max" "ab->a" %x {mlc.loop = {axes = array<i64: 0>}}
// CHECK-NEXT: mlc.broadcast "a->ab" %{{.*}} : tensor<4096xf32>
// CHECK-NEXT: mlc.sub %{{.*}} {mlc.loop = {axes = array<i64: 0>}}
// CHECK-NEXT: mlc.exp %{{.*}} {mlc.loop = {axes = array<i64: 0>}}
// CHECK-NEXT: mlc.reduce "sum" "ab->a" %{{.*}} {mlc.loop = {axes = array<i64: 0>}}
// CHECK: mlc.div %{{.*}} {mlc.loop = {axes = array<i64: 0>, steps = array<i64: 16>}}
// FORM-LABEL: @softmax
// FORM: mlc.tiles (%{{.*}} in 4096 step 16)
// FORM-NOT: mlc.loop
// SAID: remark: mlc.div: 5 ops pay as a tile loop: what they are part of takes {{.*}} us as a tile loop (rows 16), and {{.*}} us as kernels of their own
func.func @softmax(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %m = mlc.reduce "max" "ab->a" %x : tensor<4096x1024xf32> -> tensor<4096xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<4096xf32> -> tensor<4096x1024xf32>
  %d = mlc.sub %x, %mb : tensor<4096x1024xf32>
  %e = mlc.exp %d : tensor<4096x1024xf32>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<4096x1024xf32> -> tensor<4096xf32>
  %sb = mlc.broadcast "a->ab" %s : tensor<4096xf32> -> tensor<4096x1024xf32>
  %p = mlc.div %e, %sb : tensor<4096x1024xf32>
  func.return %p : tensor<4096x1024xf32>
}

// -----

// Edited: what is said already is not chosen again. Other rows in a tile, and a reduction and what is made of it stay out.
// CHECK-LABEL: @edited
// CHECK: mlc.exp %{{.*}} {mlc.loop = {axes = array<i64: 0>}}
// CHECK-NEXT: mlc.loop = {axes = array<i64: 0>, steps = array<i64: 8>}
// FORM-LABEL: @edited
// FORM: %[[T:.*]], %[[M:.*]] = mlc.tiles (%{{.*}} in 64 step 8) -> (tensor<64x32xf32> at (0), tensor<64xf32> at (0))
// FORM-NOT: mlc.tiles
// FORM: mlc.reduce "sum"
func.func @edited(%x: tensor<64x32xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %t = mlc.exp %x {mlc.loop = {axes = array<i64: 0>}} : tensor<64x32xf32>
  %m = mlc.reduce "max" "ab->a" %t {mlc.loop = {axes = array<i64: 0>, steps = array<i64: 8>}} : tensor<64x32xf32> -> tensor<64xf32>
  %s = mlc.reduce "sum" "ab->a" %t : tensor<64x32xf32> -> tensor<64xf32>
  func.return %m, %s : tensor<64xf32>, tensor<64xf32>
}

// -----

// Columns too: none of the values that have both is stored.
// FORM-LABEL: @columns
// FORM: mlc.tiles (%{{.*}} in 64 step 8) -> (tensor<64xf32> at (0))
// FORM: mlc.tiles (%{{.*}} in 32 step 16) iter({{.*}}) fold("max") -> (tensor<8xf32>)
func.func @columns(%x: tensor<64x32xf32>) -> tensor<64xf32> {
  %t = mlc.exp %x {mlc.loop = {axes = array<i64: 0, 1>}} : tensor<64x32xf32>
  %m = mlc.reduce "max" "ab->a" %t {mlc.loop = {axes = array<i64: 0, 1>, steps = array<i64: 8>, columns = 16 : i64}} : tensor<64x32xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}

// -----

// What saves nothing is said too.
// SAID: remark: mlc.reduce: 4 ops stay kernels of their own: what differs takes {{.*}} us as kernels of their own, and {{.*}} us as a tile loop (rows 1)
// FORM-LABEL: @apart
// FORM-NOT: mlc.tiles
func.func @apart(%x: tensor<8x50000xf32>) -> tensor<8xf32> {
  %m = mlc.reduce "max" "ab->a" %x : tensor<8x50000xf32> -> tensor<8xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<8xf32> -> tensor<8x50000xf32>
  %d = mlc.sub %x, %mb : tensor<8x50000xf32>
  %e = mlc.exp %d : tensor<8x50000xf32>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<8x50000xf32> -> tensor<8xf32>
  func.return %s : tensor<8xf32>
}

// -----

// What bytes cannot see, planning both ways does: rows of vectors stay whole where rows are cut, and columns do not.
// SAID: remark: mlc.reduce: 4 ops stay kernels of their own: what they are part of takes {{.*}} us as kernels of their own, and {{.*}} us as a tile loop (rows 10)
// SAID: remark: mlc.reduce: 4 ops pay as a tile loop: what they are part of takes {{.*}} us as a tile loop (rows 64), and {{.*}} us as kernels of their own
// FORM-LABEL: @rows_and_columns
// FORM: mlc.tiles (%{{.*}} in 4096 step 64)
func.func @rows_and_columns(%x: tensor<4096x1000xf32>) -> (tensor<1000xf32>, tensor<4096xf32>, tensor<f32>) {
  %0 = mlc.reduce "sum" "ab->b" %x : tensor<4096x1000xf32> -> tensor<1000xf32>
  %1 = mlc.reduce "max" "ab->a" %x : tensor<4096x1000xf32> -> tensor<4096xf32>
  %2 = mlc.mul %x, %x : tensor<4096x1000xf32>
  %3 = mlc.reduce "sum" "ab->" %2 : tensor<4096x1000xf32> -> tensor<f32>
  func.return %0, %1, %3 : tensor<1000xf32>, tensor<4096xf32>, tensor<f32>
}

// -----

// Sums over rows and over columns of one value: one loop over tiles of both, for each head. What is multiplied by a constant
// is so tile by tile.
// CHECK-LABEL: @both_ways
// CHECK: mlc.contract "hik,hjk->hij" %x, %y {mlc.loop = {axes = array<i64: 0, 1, 2>}}
// CHECK: mlc.tanh %{{.*}} {mlc.loop = {axes = array<i64: 0, 1, 2>}}
// CHECK: mlc.contract "hij,hjk->hik" %{{.*}}, %y {mlc.loop = {axes = array<i64: 0, 1, 3>}}
// CHECK: mlc.contract "hij,hik->hjk" %{{.*}}, %x {mlc.loop = {axes = array<i64: 0, 3, 1>, steps = array<i64: 1, 128>, columns = 512 : i64}}
// FORM-LABEL: @both_ways
// FORM: %[[R:.*]], %[[C:.*]] = mlc.tiles (%[[H:.*]] in 32 step 1, %[[J:.*]] in 2048 step 512, %[[I:.*]] in 1024 step 128) onto(%[[A:.*]], %[[B:.*]]) -> (tensor<32x1024x64xf32> "sum" at (0, -1, 1), tensor<32x2048x64xf32> "sum" at (0, 1, -1))
// FORM-NEXT: %[[X:.*]] = mlc.tile %x[%[[H]], %[[I]]] at (0, 1)
// FORM-NEXT: %[[Y:.*]] = mlc.tile %y[%[[H]], %[[J]]] at (0, 1)
// FORM-NEXT: mlc.contract "hik,hjk->hij" %[[X]], %[[Y]]
// FORM-NEXT: mlc.tanh
// FORM: mlc.contract "hij,hjk->hik"
// FORM: mlc.mul
// FORM-NEXT: mlc.add %[[A]],
// FORM: mlc.contract "hij,hik->hjk"
// FORM-NEXT: mlc.add %[[B]],
// FORM-NOT: mlc.tiles
// FORM: func.return %[[R]], %[[C]]
// SAID: remark: mlc.contract: 4 ops pay as a tile loop: what differs takes {{.*}} us as a tile loop (rows 1 x 128, columns 512)
func.func @both_ways(%x: tensor<32x1024x64xf32>, %y: tensor<32x2048x64xf32>) -> (tensor<32x1024x64xf32>, tensor<32x2048x64xf32>) {
  %half = mlc.constant dense<0.5> : tensor<f32>
  %halves = mlc.broadcast "->hik" %half : tensor<f32> -> tensor<32x1024x64xf32>
  %s = mlc.contract "hik,hjk->hij" %x, %y : tensor<32x1024x64xf32>, tensor<32x2048x64xf32> -> tensor<32x1024x2048xf32>
  %t = mlc.tanh %s : tensor<32x1024x2048xf32>
  %r = mlc.contract "hij,hjk->hik" %t, %y : tensor<32x1024x2048xf32>, tensor<32x2048x64xf32> -> tensor<32x1024x64xf32>
  %p = mlc.mul %r, %halves : tensor<32x1024x64xf32>
  %c = mlc.contract "hij,hik->hjk" %t, %x : tensor<32x1024x2048xf32>, tensor<32x1024x64xf32> -> tensor<32x2048x64xf32>
  func.return %p, %c : tensor<32x1024x64xf32>, tensor<32x2048x64xf32>
}

// -----

// Fewer heads than cores: workers have all tiles of one loop for each kind of sums.
// FORM-LABEL: @few_heads
// FORM: mlc.tiles (%{{.*}} in 2 step 1, %{{.*}} in 2048 step 128) -> (tensor<2x2048x64xf32> at (0, 1))
// FORM-NOT: onto
// FORM: func.return
func.func @few_heads(%x: tensor<2x2048x64xf32>, %y: tensor<2x2048x64xf32>) -> (tensor<2x2048x64xf32>, tensor<2x2048x64xf32>) {
  %s = mlc.contract "hik,hjk->hij" %x, %y : tensor<2x2048x64xf32>, tensor<2x2048x64xf32> -> tensor<2x2048x2048xf32>
  %t = mlc.tanh %s : tensor<2x2048x2048xf32>
  %r = mlc.contract "hij,hjk->hik" %t, %y : tensor<2x2048x2048xf32>, tensor<2x2048x64xf32> -> tensor<2x2048x64xf32>
  %c = mlc.contract "hij,hik->hjk" %t, %x : tensor<2x2048x2048xf32>, tensor<2x2048x64xf32> -> tensor<2x2048x64xf32>
  func.return %r, %c : tensor<2x2048x64xf32>, tensor<2x2048x64xf32>
}

// -----

// Edited: what a small product is summed to both ways, in tiles of any size.
// FORM-LABEL: @edited_both_ways
// FORM: mlc.tiles (%{{.*}} in 4 step 1, %{{.*}} in 30 step 7 as "T1", %{{.*}} in 20 step 5) onto(%{{.*}}, %{{.*}}) -> (tensor<4x20xf32> "max" at (0, -1, 1), tensor<4x30xf32> "sum" at (0, 1, -1))
func.func @edited_both_ways(%x: tensor<4x20x8xf32>, %y: tensor<4x30x8xf32>) -> (tensor<4x20xf32>, tensor<4x30xf32>) {
  %s = mlc.contract "hik,hjk->hij" %x, %y {mlc.loop = {axes = array<i64: 0, 1, 2>}} : tensor<4x20x8xf32>, tensor<4x30x8xf32> -> tensor<4x20x30xf32>
  %r = mlc.reduce "max" "hij->hi" %s {mlc.loop = {axes = array<i64: 0, 1, 2>}} : tensor<4x20x30xf32> -> tensor<4x20xf32>
  %c = mlc.reduce "sum" "hij->hj" %s {mlc.loop = {axes = array<i64: 0, 2, 1>, steps = array<i64: 1, 5>, columns = 7 : i64}} : tensor<4x20x30xf32> -> tensor<4x30xf32>
  func.return %r, %c : tensor<4x20xf32>, tensor<4x30xf32>
}

// -----

// An array that is read beside the product from beyond level 2 comes in whole rows, where a tile of them fits there;
// alone, the product is cut for a quarter of level 2.
// CHECK-LABEL: @beside
// CHECK:       mlc.reduce {{.*}}columns = 2000 : i64
// CHECK-LABEL: @alone
// CHECK:       mlc.reduce {{.*}}columns = 500 : i64
func.func @beside(%x: tensor<2000x2000xf32>, %u: tensor<2000x100xf32>, %v: tensor<2000x100xf32>) -> tensor<f32> {
  %p = mlc.contract "ik,jk->ij" %u, %v : tensor<2000x100xf32>, tensor<2000x100xf32> -> tensor<2000x2000xf32>
  %l = mlc.log %p : tensor<2000x2000xf32>
  %y = mlc.mul %x, %l : tensor<2000x2000xf32>
  %s = mlc.reduce "sum" "ij->" %y : tensor<2000x2000xf32> -> tensor<f32>
  func.return %s : tensor<f32>
}
func.func @alone(%u: tensor<2000x100xf32>, %v: tensor<2000x100xf32>) -> tensor<f32> {
  %p = mlc.contract "ik,jk->ij" %u, %v : tensor<2000x100xf32>, tensor<2000x100xf32> -> tensor<2000x2000xf32>
  %l = mlc.log %p : tensor<2000x2000xf32>
  %s = mlc.reduce "sum" "ij->" %l : tensor<2000x2000xf32> -> tensor<f32>
  func.return %s : tensor<f32>
}
