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
func.func @numbers(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x) : (tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %s = mlc.contract "mk,kn->mn" %a, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    mlc.yield %s : tensor<8x8xf32>
  } {schedule = #mlc.schedule<lanes = 8, vector_axis = 1>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8x8xf32>
}

// -----

// CHECK: plan to tiles: 'abk,kn->abn' has several letters in a role (batch '', rows 'ab', columns 'n', summed 'k'); expected one in each
func.func @letters(%x: tensor<2x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<2x4x8xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "contraction" (%a = %x, %b = %w) : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> (tensor<2x4x8xf32>) {
    %s = mlc.contract "abk,kn->abn" %a, %b : tensor<2x4x8xf32>, tensor<8x8xf32> -> tensor<2x4x8xf32>
    mlc.yield %s : tensor<2x4x8xf32>
  } {schedule = #mlc.schedule<[register(m 4, n 8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<2x4x8xf32>
}

// -----

// CHECK: has a schedule of words; expected a matrix product
func.func @cell(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mlc.arena = {}} {
  %y = mlc.kernel "cell" (%a = %x) : (tensor<8xf32>) -> (tensor<8xf32>) {
    %s = mlc.abs %a : tensor<8xf32>
    mlc.yield %s : tensor<8xf32>
  } {schedule = #mlc.schedule<[grain(4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8xf32>
}
