// What roles and rings may not say, and what is said about it.
// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: mlc_tile.view: rows of 24 bytes; sw32 permutes whole 32 bytes
mlc_tile.kernel @swizzle(%x: !mlc_tile.view<8x12xbf16, sw32>) -> () {
}

// -----

// CHECK: mlc_tile.view: a slot's sizes are numbers from 1 on
mlc_tile.kernel @size(%x: !mlc_tile.view<"M"x16xbf16, sw32>) -> () {
}

// -----

mlc_tile.kernel @places() -> () {
  // CHECK: mlc_tile.channel: 0 places; expected 1 or more
  %r = mlc_tile.channel : !mlc_tile.channel<0 x [!mlc_tile.view<8xf32, shared>]>
}

// -----

mlc_tile.kernel @no_slot() -> () {
  // CHECK: mlc_tile.channel: expected slots in each place
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32>]>
}

// -----

mlc_tile.kernel @no_role() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  // CHECK: mlc_tile.put: stands in no role
  %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<8xf32, shared>
}

// -----

mlc_tile.kernel @other_slots() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  mlc_tile.roles producer(1, regs 40) %p {
    // CHECK: mlc_tile.put: expected the slots of !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
    %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<9xf32, shared>
  }
}

// -----

mlc_tile.kernel @reading_producer() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  // CHECK: mlc_tile.roles: a producer reads slots: mlc_tile.load; expected copies alone
  mlc_tile.roles producer(1, regs 40) %p {
    %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<8xf32, shared>
    %f = mlc_tile.load %x : !mlc_tile.frag<8xf32>
  }
}

// -----

mlc_tile.kernel @two_producers() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  // CHECK: mlc_tile.put: two roles put into one channel
  mlc_tile.roles producer(1, regs 40) %p {
    %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<8xf32, shared>
  } producer(1, regs 40) %q {
    %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<8xf32, shared>
  }
}

// -----

mlc_tile.kernel @putting_consumer() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  // CHECK: mlc_tile.put: stands in a consumer
  mlc_tile.roles consumer(1, regs 40) %p {
    %x = mlc_tile.put %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]> -> !mlc_tile.view<8xf32, shared>
  }
}

// -----

mlc_tile.kernel @registers() -> () {
  // CHECK: mlc_tile.roles: 94592 registers; expected 65536 at most
  mlc_tile.roles producer(1, regs 40) %p {
  } consumer(3, regs 243) %g {
  }
}

// -----

mlc_tile.kernel @release() -> () {
  %r = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  mlc_tile.roles consumer(1, regs 40) %p {
    // CHECK: mlc_tile.release: its role gets nothing from the channel
    mlc_tile.release %r : !mlc_tile.channel<2 x [!mlc_tile.view<8xf32, shared>]>
  }
}

// -----

mlc_tile.kernel @value(%x: !mlc_tile.view<8x8xf32>) -> () {
  // CHECK: mlc_tile.dot_start: gives !mlc_tile.frag<8x8xf32>; expected a !mlc_tile.token
  %s = mlc_tile.dot_start "mk,kn->mn" %x, %x over (k 8) : !mlc_tile.frag<8x8xf32>
}

// -----

mlc_tile.kernel @other_tile(%x: !mlc_tile.view<64x64xf32>) -> () {
  // CHECK: mlc_tile.frag: #mlc_tile.layout<wgmma_acc(32)> is of a tile 64x32
  %0 = mlc_tile.load %x : !mlc_tile.frag<64x64xf32, #mlc_tile.layout<wgmma_acc(32)>>
}

// -----

mlc_tile.kernel @holes(%x: !mlc_tile.view<64x64xf32>) -> () {
  // CHECK: is of a tile 2x4, not all of whose elements somebody holds
  %0 = mlc_tile.load %x : !mlc_tile.frag<2x4xf32, #mlc_tile.layout<register [[0, 1], [1, 2]]>>
}

// -----

mlc_tile.kernel @power(%x: !mlc_tile.view<64x64xf32>) -> () {
  // CHECK: wgmma_acc of [24]; expected 1 powers of two from 8 on
  %0 = mlc_tile.load %x : !mlc_tile.frag<64x24xf32, #mlc_tile.layout<wgmma_acc(24)>>
}

// -----

mlc_tile.kernel @reduced(%x: !mlc_tile.view<64x64xf32>) -> () {
  %0 = mlc_tile.load %x : !mlc_tile.frag<16x8xf32, #mlc_tile.layout<mma_acc(8)>>
  // CHECK: mlc_tile.reduce: gives #mlc_tile.layout<lane {{.*}}>; expected #mlc_tile.layout<register {{\[\[}}0], [8]], lane {{\[\[}}0], [0], [1], [2], [4]]>
  %1 = mlc_tile.reduce "max" %0 along 1 : !mlc_tile.frag<16xf32, #mlc_tile.layout<lane [[1], [2], [4], [8]]>>
}

// -----

mlc_tile.kernel @left(%y: !mlc_tile.view<"M"xf32>) -> () {
  %x = mlc_tile.load %y : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.work: the region yields (); expected (!mlc_tile.frag<4xf32>)
  %last, %left = mlc_tile.work %i in "M" step 4 raster 1 after(%before) carry(%c = %x) -> (!mlc_tile.frag<4xf32>) {
  }
}

// -----

mlc_tile.kernel @one_position(%y: !mlc_tile.view<"M"xf32>) -> () {
  // CHECK: mlc_tile.work: the region takes a position of index for each axis, after an item those of the item before
  %last:2 = mlc_tile.work %i in "M" step 4, %j in "M" step 4 raster 1 after(%before) {
  }
}

// -----

mlc_tile.kernel @together(%y: !mlc_tile.view<"M"xf32>) -> () {
  // CHECK: mlc_tile.work: the last positions come first in roles alone
  mlc_tile.work %i in "M" step 4 raster 1 down threads 128 lanes 4 {
  }
}

// -----

mlc_tile.kernel @together(%y: !mlc_tile.view<"M"xf32>) -> () {
  // CHECK: mlc_tile.work: walkers are 1 or more, outside roles
  mlc_tile.work %i in "M" step 4 raster 1 walkers 3 {
  }
}

// -----

mlc_tile.kernel @alone(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  %x = mlc_tile.alloc worker : !mlc_tile.view<32x16xbf16, sw32>
  // CHECK: mlc_tile.copy: multicast, of items that no cluster takes
  mlc_tile.work %i in "M" step 32 raster 4 {
    mlc_tile.copy %a[0, 0] -> %x "n k -> n k" via tma multicast
  }
}

// -----

mlc_tile.kernel @differs(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  %x = mlc_tile.alloc worker : !mlc_tile.view<32x16xbf16, sw32>
  // CHECK: mlc_tile.copy: multicast from a place that is another one in each block
  mlc_tile.work %i in "M" step 32 raster 4 cluster 2 {
    mlc_tile.copy %a[%i, 0] -> %x "n k -> n k" via tma multicast
  }
}

// -----

mlc_tile.kernel @memory(%a: !mlc_tile.view<"M"x16xbf16>, %x: !mlc_tile.view<"M"x16xbf16>) -> () {
  // CHECK: mlc_tile.copy: multicast to !mlc_tile.view<"M"x16xbf16>; expected a slot, and via what
  mlc_tile.copy %a[0, 0] -> %x "n k -> n k" via tma multicast
}

// -----

mlc_tile.kernel @rasters(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  // CHECK: mlc_tile.work: cluster 2; expected a multiple as raster
  mlc_tile.work %i in "M" step 32 raster 3 cluster 2 {
  }
}

// -----

mlc_tile.kernel @blocks(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  // CHECK: mlc_tile.work: split_k [32, 5, 3]; expected elements of a step, a multiple of 2 blocks, and parts
  mlc_tile.work %i in "M" step 32 raster 2 cluster 2 split_k(%from, %to in 512 step 32 blocks 5 parts 3) {
  }
}

// -----

mlc_tile.kernel @whole(%y: !mlc_tile.view<"M"x"K"xf32>, %partial: !mlc_tile.view<6x2x64x16xf32>, %arrived: !mlc_tile.view<6x8xi32>) -> () {
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 64 raster 1 {
      %x = mlc_tile.load %y[%i, 0] : !mlc_tile.frag<64x16xf32>
      // CHECK: mlc_tile.join: expected the part of an item of mlc_tile.work
      mlc_tile.join %whole = %x of %group part(%i, %i) through %partial, %arrived : !mlc_tile.frag<64x16xf32>, !mlc_tile.view<6x2x64x16xf32>, !mlc_tile.view<6x8xi32> {
      }
    }
  }
}

// -----

mlc_tile.kernel @room(%y: !mlc_tile.view<"M"x"K"xf32>, %partial: !mlc_tile.view<5x2x64x16xf32>, %arrived: !mlc_tile.view<6x8xi32>) -> () {
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 64 raster 1 split_k(%from, %to in "K" step 32 blocks 6 parts 3) {
      %x = mlc_tile.load %y[%i, 0] : !mlc_tile.frag<64x16xf32>
      // CHECK: mlc_tile.join: through !mlc_tile.view<5x2x64x16xf32>, !mlc_tile.view<6x8xi32>; expected 6 x groups x 64 x 16, and 6 x warps
      mlc_tile.join %whole = %x of %group part(%from, %to) through %partial, %arrived : !mlc_tile.frag<64x16xf32>, !mlc_tile.view<5x2x64x16xf32>, !mlc_tile.view<6x8xi32> {
      }
    }
  }
}

// -----

mlc_tile.kernel @turns(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 32 raster 2 {
      // CHECK: mlc_tile.turn: expected places, and items in turn
      mlc_tile.turn %ring, 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
    }
  }
}

// -----

mlc_tile.kernel @passes(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 32 raster 2 in_turn {
      // CHECK: mlc_tile.turn: expected one turn of an item, and one mlc_tile.pass
      mlc_tile.turn %ring, 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>]>
    }
  }
}

// -----

mlc_tile.kernel @pairs(%a: !mlc_tile.view<"M"x16xbf16>) -> () {
  mlc_tile.roles consumer(2, regs 232) %group {
    // CHECK: mlc_tile.work: groups take items in turn; expected roles, and whole items of one block
    mlc_tile.work %i in "M" step 32 raster 1 paired in_turn {
    }
  }
}
