// The word epilogue(loop): what follows a product runs over the rows of its tile, from memory of the worker.
// RUN: mlc opt %s -p apply-words --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: @rows(
// CHECK:         %sums = mlc_tile.alloc worker : !mlc_tile.view<12x32xf32>
// CHECK:             %s = mlc_tile.dot {{.*}} : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:        mlc_tile.store %s, %sums[m, n] as "mn"
// CHECK-NEXT:        mlc_tile.for %row in 12
// CHECK-NEXT:          %[[ROW:.*]] = mlc_tile.load %sums[%row + m, n] as "mn" : !mlc_tile.frag<1x32xf32>
// CHECK-NEXT:          %t = mlc_tile.map(%e = %[[ROW]]) at(%i = %m + %row, %j = %n)
// CHECK:               mlc_tile.store %t, %y[%m + %row + m, %n + n] as "mn"
mlc_tile.kernel @rows(%x: !mlc_tile.view<64x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<64x512xf32>) attributes {schedule = #mlc.schedule<[register(m 12, n 32), via(fma), epilogue(loop)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<64x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<64x512xf32>) {
    %v = mlc.exp %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: epilogue(loop): the tile is !mlc_tile.frag<"M"x512xf32>; expected it behind a word register
mlc_tile.kernel @whole(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[epilogue(loop), register(m 12, n 32)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<"M"x512xf32>) {
    %v = mlc.exp %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}
