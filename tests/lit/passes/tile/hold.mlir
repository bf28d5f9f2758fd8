// The word hold: a block of threads has so many whole rows.
// RUN: mlc opt %s -p apply-words --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: @rows(
// CHECK-NEXT:    mlc_tile.work %i in 16384 step 4 raster 1 threads 128 lanes 4 {
// CHECK-NEXT:      %[[X:.*]] = mlc_tile.load %x[%i + m, n] as "mn" : !mlc_tile.frag<4x4096xf32>
// CHECK-NEXT:      mlc_tile.store %[[X]], %y[%i + m, n] as "mn"
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @rows(%x: !mlc_tile.view<16384x4096xf32>) -> (%y: !mlc_tile.view<16384x4096xf32>) attributes {schedule = #mlc.schedule<[hold(rows 4, threads 128, lanes 4)]>} {
    %1 = mlc_tile.load %x[m, n] as "mn" : !mlc_tile.frag<16384x4096xf32>
    mlc_tile.store %1, %y[m, n] as "mn"
  }
}

// -----

// CHECK-LABEL: @ahead(
// CHECK:      mlc_tile.work %i in 16384 step 1 raster 1 threads 256 lanes 4 {
// CHECK-NEXT:   mlc_tile.load %x[%i + m, n] as "mn" ahead 512 : !mlc_tile.frag<1x4096xf32>
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @ahead(%x: !mlc_tile.view<16384x4096xf32>) -> (%y: !mlc_tile.view<16384x4096xf32>) attributes {schedule = #mlc.schedule<[hold(rows 1, threads 256, lanes 4, ahead 512)]>} {
    %1 = mlc_tile.load %x[m, n] as "mn" : !mlc_tile.frag<16384x4096xf32>
    mlc_tile.store %1, %y[m, n] as "mn"
  }
}

// -----

// CHECK-LABEL: @walked(
// CHECK:      mlc_tile.work %i in 256 step 1 raster 1 threads 512 lanes 4 cluster 8 walkers 30 {
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @walked(%x: !mlc_tile.view<256x131072xf32>) -> (%y: !mlc_tile.view<256x131072xf32>) attributes {schedule = #mlc.schedule<[hold(rows 1, threads 512, lanes 4, cluster 8, walkers 30)]>} {
    %1 = mlc_tile.load %x[m, n] as "mn" : !mlc_tile.frag<256x131072xf32>
    mlc_tile.store %1, %y[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: hold(rows 4, threads 128, lanes 4): expected whole rows, which are stored
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @nothing(%x: !mlc_tile.view<16384x4096xf32>) -> (%y: !mlc_tile.view<16384x4096xf32>) attributes {schedule = #mlc.schedule<[hold(rows 4, threads 128, lanes 4)]>} {
  }
}

// -----

// CHECK: tiles: hold(rows 1, threads 7, lanes 4): expected a power of two of threads a row, at most 32 of several rows
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @odd(%x: !mlc_tile.view<16384x4096xf32>) -> (%y: !mlc_tile.view<16384x4096xf32>) attributes {schedule = #mlc.schedule<[hold(rows 1, threads 7, lanes 4)]>} {
    %1 = mlc_tile.load %x[m, n] as "mn" : !mlc_tile.frag<16384x4096xf32>
    mlc_tile.store %1, %y[m, n] as "mn"
  }
}
