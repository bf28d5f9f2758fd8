// A kernel whose schedule is a list of words becomes a tile program: one tile that is the whole
// kernel, and no loop. The list goes with it, but for the grain; other kernels stay.
// RUN: mlc opt %s -p plan-to-tiles --split-input-file --verify-diagnostics | filecheck %s

// CHECK:       mlc_tile.kernel @[[NAME:contraction_[0-9a-f]+]](%x: !mlc_tile.view<"M"x512xf32, strided>, %w: !mlc_tile.view<512x4096xf32>, %bias: !mlc_tile.view<4096xf32>) -> (%y: !mlc_tile.view<"M"x4096xf32>) workers("2097152*M" by 4096) attributes {schedule = #mlc.schedule<[block(n, 3072, team), register(m 12, n 32)]>} {
// CHECK-NEXT:    %0 = mlc_tile.elements at(%1, %2) : !mlc_tile.view<"M"x512xf32> {
// CHECK-NEXT:      %3 = mlc_tile.read %x[%1, %2] : tensor<f32>
// CHECK-NEXT:      %p = mlc.abs %3 : tensor<f32>
// CHECK-NEXT:      mlc_tile.yield %p : tensor<f32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %4 = mlc_tile.dot "mk,kn->mn" %0[m, k], %w[k, n] over (k 512) : !mlc_tile.frag<"M"x4096xf32>
// CHECK-NEXT:    %5 = mlc_tile.map(%6 = %4) at(%7, %8) -> (!mlc_tile.frag<"M"x4096xf32>) {
// CHECK-NEXT:      %9 = mlc_tile.read %bias[%8] : tensor<f32>
// CHECK-NEXT:      %t = mlc.add %6, %9 : tensor<f32>
// CHECK-NEXT:      mlc_tile.yield %t : tensor<f32>
// CHECK-NEXT:    }
// CHECK-NEXT:    mlc_tile.store %5, %y[m, n] as "mn"
// CHECK:         %y = mlc_tile.call @[[NAME]](%x, %w, %bias) : {{.*}} {buffers = [#mlc.buffer<out 0>]}
func.func @main(%x: tensor<?x512xf32, #mlc.dims<"M", 512>> {mlc.layout = "general"}, %w: tensor<512x4096xf32>, %bias: tensor<4096xf32>) -> tensor<?x4096xf32, #mlc.dims<"M", 4096>> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w, %c = %bias) : (tensor<?x512xf32, #mlc.dims<"M", 512>>, tensor<512x4096xf32>, tensor<4096xf32>) -> (tensor<?x4096xf32, #mlc.dims<"M", 4096>>) {
    %p = mlc.abs %a : tensor<?x512xf32, #mlc.dims<"M", 512>>
    %s = mlc.contract "mk,kn->mn" %p, %b : tensor<?x512xf32, #mlc.dims<"M", 512>>, tensor<512x4096xf32> -> tensor<?x4096xf32, #mlc.dims<"M", 4096>>
    %wide = mlc.broadcast "n->mn" %c : tensor<4096xf32> -> tensor<?x4096xf32, #mlc.dims<"M", 4096>>
    %t = mlc.add %s, %wide : tensor<?x4096xf32, #mlc.dims<"M", 4096>>
    mlc.yield %t : tensor<?x4096xf32, #mlc.dims<"M", 4096>>
  } {schedule = #mlc.schedule<[block(n, 3072, team), register(m 12, n 32), grain(4096)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<?x4096xf32, #mlc.dims<"M", 4096>>
}

// -----

// Numbers, not words.
// CHECK:       mlc.kernel "contraction"
// CHECK-NOT:   mlc_tile
// CHECK:       func.return
func.func @numbers(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x) : (tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %s = mlc.contract "mk,kn->mn" %a, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    mlc.yield %s : tensor<8x8xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8x8xf32>
}

// -----

// Letters that memory walks as one are one axis: of views, and of the tile.
// CHECK:       (%x: !mlc_tile.view<8x8xf32>, %w: !mlc_tile.view<8x6xf32>) -> (%y: !mlc_tile.view<8x6xf32>)
// CHECK-NEXT:    %0 = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 8) : !mlc_tile.frag<8x6xf32>
func.func @letters(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<2x4x6xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> (tensor<2x4x6xf32>) {
    %s = mlc.contract "abk,kn->abn" %a, %b : tensor<2x4x8xf32>, tensor<8x6xf32> -> tensor<2x4x6xf32>
    mlc.yield %s : tensor<2x4x6xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<2x4x6xf32>
}

// -----

// Axes of size 1, and axes changed for each other, are looked through: the factor is memory.
// CHECK:       (%x: !mlc_tile.view<1x8x4xf32>, %w: !mlc_tile.view<4x6xf32>) -> (%y: !mlc_tile.view<8x6xf32>)
// CHECK-NEXT:    %0 = mlc_tile.dot "mk,kn->mn" %x[0, m, k], %w[k, n] over (k 4) : !mlc_tile.frag<8x6xf32>
// CHECK-NEXT:    mlc_tile.store
func.func @axes_of_size_1(%x: tensor<1x8x4xf32>, %w: tensor<4x6xf32>) -> tensor<8x6xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<1x8x4xf32>, tensor<4x6xf32>) -> (tensor<8x6xf32>) {
    %r = mlc.reshape %a : tensor<1x8x4xf32> -> tensor<8x4xf32>
    %t = mlc.transpose "kn->nk" %b : tensor<4x6xf32> -> tensor<6x4xf32>
    %s = mlc.contract "mk,nk->mn" %r, %t : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
    mlc.yield %s : tensor<8x6xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8x6xf32>
}

// -----

// Others are quotients and remainders; summed ones that lie apart are axes of their own.
// CHECK:       mlc_tile.dot "mkij,kijn->mn" %x[m floordiv 16, k, 2*(m floordiv 4) + i - 8*(m floordiv 16), j + 2*m - 8*(m floordiv 4)], %w[n, 3*i + j + 9*k] over (k 3, i 3, j 3) : !mlc_tile.frag<32x4xf32>
// CHECK-NEXT:  mlc_tile.store %{{.*}}, %y[m floordiv 16, n, (m) mod 16] as "mn"
func.func @windows(%x: tensor<2x3x9x9xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "window" (%a = %x, %b = %w) : (tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>) -> (tensor<2x4x4x4xf32>) {
    %s = mlc.conv "nc(2y+i)(2x+j),fcij->nfyx" %a, %b : tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32> -> tensor<2x4x4x4xf32>
    mlc.yield %s : tensor<2x4x4x4xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<2x4x4x4xf32>
}

// -----

// What is read at computed places is computed in the region; what is not needed is not.
// CHECK:       mlc_tile.elements at(%[[M:.*]], %[[K:.*]]) :
// CHECK-NEXT:    %[[ZERO:.*]] = mlc.constant dense<0> : tensor<i64>
// CHECK-NEXT:    %[[LAST:.*]] = mlc.constant dense<4> : tensor<i64>
// CHECK-NEXT:    %[[I:.*]] = mlc_tile.read %i : tensor<i64>
// CHECK-NEXT:    %[[LOW:.*]] = mlc.min %[[I]], %[[LAST]]
// CHECK-NEXT:    %[[AT:.*]] = mlc.max %[[LOW]], %[[ZERO]]
// CHECK-NEXT:    mlc_tile.read %x[%[[AT]], %[[M]], %[[K]]] : tensor<f32>
// CHECK:       mlc_tile.map(%[[S:.*]] = %{{.*}}) at(%{{.*}}, %[[N:.*]]) ->
// CHECK-NEXT:    %[[P:.*]] = mlc_tile.position %[[N]] + 2 : tensor<i64>
// CHECK-NEXT:    %[[C:.*]] = mlc.convert %[[P]]
// CHECK-NEXT:    mlc.mul %[[S]], %[[C]]
func.func @part(%x: tensor<5x7x8xf32>, %w: tensor<8x6xf32>, %i: tensor<i64>) -> tensor<7x6xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w, %k = %i) : (tensor<5x7x8xf32>, tensor<8x6xf32>, tensor<i64>) -> (tensor<7x6xf32>) {
    %z = mlc.constant dense<0> : tensor<i64>
    %p = mlc.dynamic_slice %a[%k, %z, %z] : tensor<5x7x8xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x7x8xf32>
    %q = mlc.reshape %p : tensor<1x7x8xf32> -> tensor<7x8xf32>
    %s = mlc.contract "mk,kn->mn" %q, %b : tensor<7x8xf32>, tensor<8x6xf32> -> tensor<7x6xf32>
    %n = mlc.iota 1 : tensor<7x8xf32>
    %o = mlc.slice %n[<0, 2>, <1, 1>] : tensor<7x8xf32> -> tensor<7x6xf32>
    %t = mlc.mul %s, %o : tensor<7x6xf32>
    mlc.yield %t : tensor<7x6xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<7x6xf32>
}

// -----

// CHECK: has a schedule of words; expected a matrix product
func.func @cell(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "cell" (%a = %x) : (tensor<8xf32>) -> (tensor<8xf32>) {
    %s = mlc.abs %a : tensor<8xf32>
    mlc.yield %s : tensor<8xf32>
  } {schedule = #mlc.schedule<[block(m, 4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: mlc.contract of size 0 along 'k' has a schedule of words; expected at least one element
func.func @empty(%x: tensor<7x0xf32>, %w: tensor<0x6xf32>) -> tensor<7x6xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<7x0xf32>, tensor<0x6xf32>) -> (tensor<7x6xf32>) {
    %s = mlc.contract "mk,kn->mn" %a, %b : tensor<7x0xf32>, tensor<0x6xf32> -> tensor<7x6xf32>
    mlc.yield %s : tensor<7x6xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<7x6xf32>
}
