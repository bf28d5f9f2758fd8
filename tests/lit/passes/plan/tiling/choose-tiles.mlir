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
