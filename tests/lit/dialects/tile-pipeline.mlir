// A GPU's roles, rings and products that are waited for: their text reads back as it was.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// CHECK:      %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
// CHECK-NEXT: %out = mlc_tile.alloc worker : !mlc_tile.view<8x8xf32, shared>
// CHECK-NEXT: mlc_tile.roles producer(1, regs 40) %p {
// CHECK-NEXT:   mlc_tile.work %i in "M" step 32, %j in min("N", 64) step 16 raster 2 {
// CHECK-NEXT:     %x = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
// CHECK-NEXT:     mlc_tile.copy %a[%i, 0] -> %x "m k -> m k" over (m 16, k 16) part via tma {mark}
// CHECK-NEXT:   }
// CHECK-NEXT: } consumer(2, regs 232) %group {
// CHECK:          %u = mlc_tile.ready %zero : !mlc_tile.frag<16x16xf32> -> !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
// CHECK-NEXT:     %y = mlc_tile.get %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
// CHECK-NEXT:     %v = mlc_tile.dot_start "mk,nk->mn" %y[16*%group, 0], %y over (k 16) init %u via wgmma_m64n256k16 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
// CHECK-NEXT:     mlc_tile.wait %v, 1 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
// CHECK-NEXT:     mlc_tile.release %ring behind 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
// CHECK-NEXT:     %s = mlc_tile.wait %v, 0 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>> -> !mlc_tile.frag<16x16xf32>
// CHECK-NEXT:     mlc_tile.release %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
// CHECK-NEXT:   }
// CHECK-NEXT: } store(1, regs 24) %w {
mlc_tile.kernel @k(%a: !mlc_tile.view<"M"x16xbf16>) -> (%c: !mlc_tile.view<"M"x"N"xf32>) workers("M" by 1) {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
  %out = mlc_tile.alloc worker : !mlc_tile.view<8x8xf32, shared>
  mlc_tile.roles producer(1, regs 40) %p {
    mlc_tile.work %i in "M" step 32, %j in min("N", 64) step 16 raster 2 {
      %x = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
      mlc_tile.copy %a[%i, 0] -> %x "m k -> m k" over (m 16, k 16) part via tma {mark}
    }
  } consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 32, %j in min("N", 64) step 16 raster 2 {
      %zero = mlc_tile.load %c fill 0.0 : !mlc_tile.frag<16x16xf32>
      %u = mlc_tile.ready %zero : !mlc_tile.frag<16x16xf32> -> !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
      %y = mlc_tile.get %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
      %v = mlc_tile.dot_start "mk,nk->mn" %y[16*%group, 0], %y over (k 16) init %u via wgmma_m64n256k16 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
      mlc_tile.wait %v, 1 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
      mlc_tile.release %ring behind 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
      %s = mlc_tile.wait %v, 0 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>> -> !mlc_tile.frag<16x16xf32>
      mlc_tile.release %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
    }
  } store(1, regs 24) %w {
  }
}

// How tiles lie over threads: constructors, and linear maps of bits.
// CHECK-LABEL: mlc_tile.kernel @layouts
// CHECK-NEXT:    %0 = mlc_tile.load %x : !mlc_tile.frag<64x256xf32, #mlc_tile.layout<wgmma_acc(256)>>
// CHECK-NEXT:    %1 = mlc_tile.convert %0 : !mlc_tile.frag<64x256xf32, #mlc_tile.layout<wgmma_acc(256)>> to !mlc_tile.frag<64x256xf32, #mlc_tile.layout<rows(64, 256)>>
// CHECK-NEXT:    %2 = mlc_tile.load %x : !mlc_tile.frag<16x8xf32, #mlc_tile.layout<mma_acc(8)>>
// CHECK-NEXT:    %3 = mlc_tile.load %x : !mlc_tile.frag<2x4xf32, #mlc_tile.layout<register {{\[\[}}0, 1], [1, 2]], lane {{\[\[}}0, 2]]>>
mlc_tile.kernel @layouts(%x: !mlc_tile.view<64x256xf32>) -> () {
  %0 = mlc_tile.load %x : !mlc_tile.frag<64x256xf32, #mlc_tile.layout<wgmma_acc(256)>>
  %1 = mlc_tile.convert %0 : !mlc_tile.frag<64x256xf32, #mlc_tile.layout<wgmma_acc(256)>> to !mlc_tile.frag<64x256xf32, #mlc_tile.layout<rows(64, 256)>>
  %2 = mlc_tile.load %x : !mlc_tile.frag<16x8xf32, #mlc_tile.layout<register [[0, 1], [8, 0]], lane [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>>
  %3 = mlc_tile.load %x : !mlc_tile.frag<2x4xf32, #mlc_tile.layout<lane [[0, 2]], register [[0, 1], [1, 2]]>>
}

// What orders stores to slots with the copies that take them.
// CHECK-LABEL: mlc_tile.kernel @ordered
// CHECK:      mlc_tile.drain 1
// CHECK-NEXT: mlc_tile.fence
mlc_tile.kernel @ordered(%x: !mlc_tile.view<64x256xf32>) -> () {
  mlc_tile.roles consumer(1, regs 232) %group {
    mlc_tile.drain 1
    mlc_tile.fence
  }
}

// What items leave each other, and the last of which comes first.
// CHECK-LABEL: mlc_tile.kernel @after
// CHECK:      %last, %left = mlc_tile.work %i in "M" step 4 raster 1 paired down after(%before) carry(%c = %x) -> (!mlc_tile.frag<4xf32>) {
// CHECK-NEXT:   mlc_tile.store %c, %y[%before]
// CHECK-NEXT:   mlc_tile.yield %c : !mlc_tile.frag<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: mlc_tile.store %left, %y[%last]
// CHECK:      mlc_tile.work %i_1 in "M" step 4 raster 1 after(%before_1) {
mlc_tile.kernel @after(%y: !mlc_tile.view<"M"xf32>) -> () {
  mlc_tile.roles consumer(1, regs 232) %group {
    %x = mlc_tile.load %y : !mlc_tile.frag<4xf32>
    %last, %left = mlc_tile.work %i in "M" step 4 raster 1 paired down after(%before) carry(%c = %x) -> (!mlc_tile.frag<4xf32>) {
      mlc_tile.store %c, %y[%before]
      mlc_tile.yield %c : !mlc_tile.frag<4xf32>
    }
    mlc_tile.store %left, %y[%last]
    %end = mlc_tile.work %i in "M" step 4 raster 1 after(%before) {
    }
  }
}

// Items that blocks of a cluster take at the same time, and what they copy for each other.
// CHECK-LABEL: mlc_tile.kernel @clusters
// CHECK:      mlc_tile.work %i in "M" step 32, %j in 64 step 16 raster 4 cluster 2 {
// CHECK-NEXT:   %x = mlc_tile.put %ring
// CHECK-NEXT:   mlc_tile.copy %a[%j, 0] -> %x "n k -> n k" via tma multicast
mlc_tile.kernel @clusters(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
  mlc_tile.roles producer(1, regs 40) %p {
    mlc_tile.work %i in "M" step 32, %j in 64 step 16 raster 4 cluster 2 {
      %x = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
      mlc_tile.copy %a[%j, 0] -> %x "n k -> n k" via tma multicast
    }
  }
}

// Items that come in parts, and where their sums meet.
// CHECK-LABEL: mlc_tile.kernel @parts
// CHECK:      mlc_tile.work %i in "M" step 64, %j in 64 step 16 raster 1 split_k(%from, %to in "K" step 32 blocks 6 parts 3) {
// CHECK-NEXT:   %x = mlc_tile.load %y[%from, %to]
// CHECK-NEXT:   mlc_tile.join %whole = %x of %group part(%from, %to) through %partial, %arrived : !mlc_tile.frag<64x16xf32>, !mlc_tile.view<6x2x64x16xf32>, !mlc_tile.view<6x8xi32> {
// CHECK-NEXT:     mlc_tile.store %whole, %y[%i, %j]
mlc_tile.kernel @parts(%y: !mlc_tile.view<"M"x"K"xf32>) -> () {
  %partial = mlc_tile.alloc team : !mlc_tile.view<6x2x64x16xf32>
  %arrived = mlc_tile.alloc team : !mlc_tile.view<6x8xi32>
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 64, %j in 64 step 16 raster 1 split_k(%from, %to in "K" step 32 blocks 6 parts 3) {
      %x = mlc_tile.load %y[%from, %to] : !mlc_tile.frag<64x16xf32>
      mlc_tile.join %whole = %x of %group part(%from, %to) through %partial, %arrived : !mlc_tile.frag<64x16xf32>, !mlc_tile.view<6x2x64x16xf32>, !mlc_tile.view<6x8xi32> {
        mlc_tile.store %whole, %y[%i, %j]
      }
    }
  }
}

// Groups that take items in turn, each with so many places of a ring.
// CHECK-LABEL: mlc_tile.kernel @turns
// CHECK:      mlc_tile.work %i_1 in "M" step 32 raster 2 in_turn {
// CHECK-NEXT:   mlc_tile.turn %ring, 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
// CHECK:        mlc_tile.pass %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
mlc_tile.kernel @turns(%a: !mlc_tile.view<"M"x16xbf16>) -> () workers("M" by 1) {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
  mlc_tile.roles producer(1, regs 40) %p {
    mlc_tile.work %i in "M" step 32 raster 2 {
      %x = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
      mlc_tile.copy %a[%i, 0] -> %x "m k -> m k" over (m 16, k 16) part via tma
    }
  } consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 32 raster 2 in_turn {
      mlc_tile.turn %ring, 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
      %y = mlc_tile.get %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>
      mlc_tile.pass %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
      mlc_tile.release %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
    }
  }
}
