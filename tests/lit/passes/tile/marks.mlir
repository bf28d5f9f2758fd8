// Words that mark the product: via, edge, prefetch. They cut nothing.
// RUN: mlc opt %s -p apply-words --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: @marked(
// CHECK-NEXT:    %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) via fma clamp(m) prefetch(0, 2) : !mlc_tile.frag<64x512xf32>
// CHECK-NEXT:    %t = mlc_tile.map
mlc_tile.kernel @marked(%x: !mlc_tile.view<64x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<64x512xf32>) attributes {schedule = #mlc.schedule<[via(fma), edge(m, clamp), edge(n, mask), prefetch(b, 2)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<64x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<64x512xf32>) {
    %v = mlc.exp %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: edge(k, clamp): k is no axis of the result; expected one of m, n
mlc_tile.kernel @summed(%x: !mlc_tile.view<64x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<64x512xf32>) attributes {schedule = #mlc.schedule<[edge(k, clamp)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<64x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<64x512xf32>) {
    %v = mlc.exp %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: edge(g, mask): g is no axis of the result; expected one of m, n
mlc_tile.kernel @batched(%x: !mlc_tile.view<64x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<64x512xf32>) attributes {schedule = #mlc.schedule<[edge(g, mask)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<64x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<64x512xf32>) {
    %v = mlc.exp %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// Sums that are stored row by row behind the tile are no tile's.
// CHECK: tiles: prefetch(c): no sums wait and none are stored tile by tile
mlc_tile.kernel @rows(%x: !mlc_tile.view<64x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<64x512xf32>) attributes {schedule = #mlc.schedule<[prefetch(c)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<64x512xf32>
  %t = mlc_tile.extract %s[0, :] : !mlc_tile.frag<512xf32>
  mlc_tile.store %t, %y[0, n] as "n"
}
