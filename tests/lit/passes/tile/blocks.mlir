// Words of a product on tensor cores, which say its form together: tile, stages, roles, raster.
// RUN: mlc opt %s -p apply-words --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: @product(
// CHECK-NEXT:    %ring = mlc_tile.channel : !mlc_tile.channel<4 x [!mlc_tile.view<128x64xbf16, sw128>, !mlc_tile.view<64x256xbf16, sw128>]>
// CHECK-NEXT:    %out = mlc_tile.alloc worker
// CHECK-NEXT:    mlc_tile.roles producer(1, regs 40) %warp {
// CHECK-NEXT:      mlc_tile.work %i in 4096 step 128, %j in 4096 step 256 raster 16 {
// CHECK-NEXT:        mlc_tile.for %k in 4096 step 64 {
// CHECK-NEXT:          %{{.*}} = mlc_tile.put %ring
// CHECK-NEXT:          mlc_tile.copy %a[%i, %k] -> %{{.*}} via tma
// CHECK-NEXT:          mlc_tile.copy %b[%k, %j] -> %{{.*}} via tma
// CHECK:         } consumer(2, regs 232) %group {
// CHECK:               mlc_tile.get %ring
// CHECK-NEXT:          %[[V:.*]] = mlc_tile.dot_start "mk,kn->mn" %{{.*}}[64*%group + m, k], %{{.*}}[k, n] over (k 64)
// CHECK-NEXT:          mlc_tile.wait %[[V]], 1
// CHECK-NEXT:          mlc_tile.release %ring behind 1
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @product(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 128, n 256, k 64), stages(4), roles(producer 1, consumer 2), raster(16)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// Blocks of a cluster copy steps of b together.
// CHECK-LABEL: @together(
// CHECK:         mlc_tile.work %i in 4096 step 128, %j in 4096 step 256 raster 16 cluster 2 {
// CHECK:           mlc_tile.copy %a[%i, %k] -> %{{.*}} via tma
// CHECK-NEXT:      mlc_tile.copy %b[%k, %j] -> %{{.*}} via tma multicast
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @together(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 128, n 256, k 64), stages(4), roles(producer 1, consumer 2), raster(15), cluster(2)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// Tiles of the last wave come in parts along k.
// CHECK-LABEL: @parts(
// CHECK:         %partial = mlc_tile.alloc team : !mlc_tile.view<132x2x64x128xf32>
// CHECK-NEXT:    %arrived = mlc_tile.alloc team : !mlc_tile.view<132x8xi32>
// CHECK:         mlc_tile.work %i in 512 step 128, %j in 512 step 128 raster 4 split_k(%from, %to in 16384 step 64 blocks 132 parts 4) {
// CHECK-NEXT:      mlc_tile.for %k in %to - %from step 64 {
// CHECK:             mlc_tile.copy %a[%i, %k + %from] -> %{{.*}} via tma
// CHECK-NEXT:        mlc_tile.copy %b[%k + %from, %j] -> %{{.*}} via tma
// CHECK:         mlc_tile.join %whole = %[[SUMS:[0-9]*]] of %group part(%from_1, %to_1) through %partial, %arrived
// CHECK-NEXT:      mlc_tile.convert %whole
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @parts(%a: !mlc_tile.view<512x16384xbf16>, %b: !mlc_tile.view<16384x512xbf16>) -> (%c: !mlc_tile.view<512x512xbf16>) attributes {schedule = #mlc.schedule<[tile(m 128, n 128, k 64), stages(6), roles(producer 1, consumer 2), raster(4), split_k(blocks 132, parts 4)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 16384) : !mlc_tile.frag<512x512xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<512x512xf32> to !mlc_tile.frag<512x512xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// Groups take tiles in turn: one multiplies, while others finish theirs.
// CHECK-LABEL: @turns(
// CHECK:         %out = mlc_tile.alloc worker : !mlc_tile.view<3x1x64x64xbf16, sw128>
// CHECK:         mlc_tile.work %i in 4096 step 64, %j in 4096 step 192 raster 32 {
// CHECK:           mlc_tile.put %ring
// CHECK:         mlc_tile.work %{{.*}} in 4096 step 64, %{{.*}} in 4096 step 192 raster 32 in_turn {
// CHECK:           mlc_tile.turn %ring, 64 :
// CHECK-NEXT:      mlc_tile.for %{{.*}} in 4096 step 64 carry
// CHECK:             mlc_tile.dot_start "mk,kn->mn" %{{[0-9]+}}[m, k], %{{[0-9]+}}[k, n] over (k 64)
// CHECK:           mlc_tile.pass %ring :
// CHECK-NEXT:      mlc_tile.wait
// CHECK:           mlc_tile.store %{{[0-9]+}}, %out[%group, 0]
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @turns(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 64, n 192, k 64), stages(6), roles(producer 1, consumer 3, fill 32, sums 160), raster(32), overlap(items)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: tile(m 96, n 256, k 64): 2 groups have 64 rows each; expected m 128
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @rows(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 96, n 256, k 64), stages(4), roles(producer 1, consumer 2), raster(16)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: tile(…) without stages(…); expected both
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @alone(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 128, n 256, k 64), roles(producer 1, consumer 2), raster(16)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: via(fma) beside tile(…): expected stages, roles, raster
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @other(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 128, n 256, k 64), stages(4), roles(producer 1, consumer 2), raster(16), via(fma)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: overlap(items): expected several consumers, and neither split_k nor cluster
builtin.module attributes {mlc.target = #mlc.target<"cuda:h200">} {
  mlc_tile.kernel @alone(%a: !mlc_tile.view<4096x4096xbf16>, %b: !mlc_tile.view<4096x4096xbf16>) -> (%c: !mlc_tile.view<4096x4096xbf16>) attributes {schedule = #mlc.schedule<[tile(m 64, n 256, k 64), stages(4), roles(producer 1, consumer 1), raster(16), overlap(items)]>} {
    %0 = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 4096) : !mlc_tile.frag<4096x4096xf32>
    %1 = mlc_tile.convert %0 : !mlc_tile.frag<4096x4096xf32> to !mlc_tile.frag<4096x4096xbf16>
    mlc_tile.store %1, %c[m, n] as "mn"
  }
}
