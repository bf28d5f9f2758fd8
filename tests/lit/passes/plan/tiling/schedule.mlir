// Each kernel's loop nest is cut for the module's machine: the vector follows the axis that memory
// walks, and only contractions worth packing get register and cache tiles.
// RUN: mlc opt %s --target=avx512 -p mlc-schedule --split-input-file | filecheck %s
// RUN: mlc opt %s --target=avx2 -p mlc-schedule --split-input-file | filecheck %s --check-prefix=AVX2

// Sixteen floats fill an AVX-512 register, eight an AVX2 one.
// CHECK-LABEL: @pointwise
// CHECK: schedule = #mlc.schedule<[vector(16, axis 1)
// AVX2-LABEL: @pointwise
// AVX2: schedule = #mlc.schedule<[vector(8, axis 1)
func.func @pointwise(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %y = mlc.kernel "cell" (%a = %x) : (tensor<4x64xf32>) -> (tensor<4x64xf32>) {
    %0 = mlc.neg %a : tensor<4x64xf32>
    mlc.yield %0 : tensor<4x64xf32>
  }
  func.return %y : tensor<4x64xf32>
}

// -----

// Sums along rows: the vector runs along the summed axis, which lies together in memory.
// CHECK-LABEL: @rows
// CHECK: schedule = #mlc.schedule<[vector(16, axis 1)
func.func @rows(%x: tensor<4x64xf32>) -> tensor<4xf32> {
  %y = mlc.kernel "row" (%a = %x) : (tensor<4x64xf32>) -> (tensor<4xf32>) {
    %0 = mlc.reduce "sum" "mn->m" %a : tensor<4x64xf32> -> tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// Sums down columns: the same axis of memory is now the result's, axis 0 of the iteration space.
// CHECK-LABEL: @columns
// CHECK: schedule = #mlc.schedule<[vector(16, axis 0)
func.func @columns(%x: tensor<4x64xf32>) -> tensor<64xf32> {
  %y = mlc.kernel "row" (%a = %x) : (tensor<4x64xf32>) -> (tensor<64xf32>) {
    %0 = mlc.reduce "sum" "mn->n" %a : tensor<4x64xf32> -> tensor<64xf32>
    mlc.yield %0 : tensor<64xf32>
  }
  func.return %y : tensor<64xf32>
}

// -----

// A large product: 6 x 64 accumulators fill 24 of 32 registers, and its rows do not repay a copy of w; with 16 registers, 6 x 16
// fill 12.
// CHECK-LABEL: @large
// CHECK: [block(m, 12, team, dynamic), register(m 6, n 64), via(fma), edge(m, clamp), prefetch(b, 4), grain(416000)]>
// AVX2-LABEL: @large
// AVX2: [block(n, 16, team, dynamic), block(m, 132, team, dynamic), pack(b, panels 16), register(m 6, n 16), via(fma), edge(m, clamp), grain(240000)]>
func.func @large(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<256x256xf32>, tensor<256x256xf32>) -> (tensor<256x256xf32>) {
    %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
    mlc.yield %0 : tensor<256x256xf32>
  }
  func.return %y : tensor<256x256xf32>
}

// -----

// A convolution of 16 filters with channels last: a strip for each row of 8 positions.
// CHECK-LABEL: @few_filters
// CHECK: [pack(b, panels 16, team), strip(a, rows 1, unit 8), register(m 8, n 16), via(fma)
// AVX2-LABEL: @few_filters
// AVX2: [pack(b, panels 16, team), strip(a, rows 1, unit 4), register(m 4, n 16), via(fma)
func.func @few_filters(%x: tensor<8x10x10x16xf32>, %w: tensor<3x3x16x16xf32>) -> tensor<8x8x8x16xf32> {
  %y = mlc.kernel "window" (%a = %x, %b = %w) : (tensor<8x10x10x16xf32>, tensor<3x3x16x16xf32>) -> (tensor<8x8x8x16xf32>) {
    %0 = mlc.conv "n(y+i)(x+j)c,ijcf->nyxf" %a, %b : tensor<8x10x10x16xf32>, tensor<3x3x16x16xf32> -> tensor<8x8x8x16xf32>
    mlc.yield %0 : tensor<8x8x8x16xf32>
  }
  func.return %y : tensor<8x8x8x16xf32>
}

// -----

// 96 columns are two tiles of 48, not one of 64 and half a one.
// CHECK-LABEL: @two_tiles
// CHECK: {{.*}}block(m, {{[0-9]+}}, team{{.*}}pack(b, panels 48), register(m 9, n 48), via(fma)
func.func @two_tiles(%x: tensor<279x1024xf32>, %w: tensor<1024x96xf32>) -> tensor<279x96xf32> {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<279x1024xf32>, tensor<1024x96xf32>) -> (tensor<279x96xf32>) {
    %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<279x1024xf32>, tensor<1024x96xf32> -> tensor<279x96xf32>
    mlc.yield %0 : tensor<279x96xf32>
  }
  func.return %y : tensor<279x96xf32>
}

// -----

// A narrow one has a tile but no copies: its rhs is read in place. A schedule that somebody wrote is
// kept.
// CHECK-LABEL: @small
// CHECK: [block(m, 8, team), register(m 8, n 16), via(fma), edge(n, mask)
// CHECK: schedule = #mlc.schedule<[vector(4)]>
func.func @small(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    mlc.yield %0 : tensor<8x8xf32>
  }
  %z = mlc.kernel "cell" (%a = %y) : (tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %0 = mlc.neg %a : tensor<8x8xf32>
    mlc.yield %0 : tensor<8x8xf32>
  } {schedule = #mlc.schedule<[vector(4)]>}
  func.return %z : tensor<8x8xf32>
}

// -----

// What lies along another axis than the results is turned in tiles that half of level 1 holds; an
// axis shorter than a tile has as many whole squares as it holds. Rows of three stay far apart.
// CHECK-LABEL: @turned
// CHECK: turn(0, rows 64, columns 32)]>
// CHECK-NOT: turn(
// AVX2-LABEL: @turned
// AVX2: turn(0, rows 64, columns 40)]>
func.func @turned(%x: tensor<40x500xf32>, %w: tensor<3x500xf32>) -> (tensor<500x40xf32>, tensor<500x3xf32>) {
  %y = mlc.kernel "cell" (%a = %x) : (tensor<40x500xf32>) -> (tensor<500x40xf32>) {
    %0 = mlc.transpose "mn->nm" %a : tensor<40x500xf32> -> tensor<500x40xf32>
    %1 = mlc.neg %0 : tensor<500x40xf32>
    mlc.yield %1 : tensor<500x40xf32>
  }
  %z = mlc.kernel "cell" (%a = %w) : (tensor<3x500xf32>) -> (tensor<500x3xf32>) {
    %0 = mlc.transpose "mn->nm" %a : tensor<3x500xf32> -> tensor<500x3xf32>
    %1 = mlc.neg %0 : tensor<500x3xf32>
    mlc.yield %1 : tensor<500x3xf32>
  }
  func.return %y, %z : tensor<500x40xf32>, tensor<500x3xf32>
}
