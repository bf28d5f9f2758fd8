// RUN: mlc opt %s -p insert-fences | filecheck %s

// What is stored to a slot is there for the copy after a fence; it is stored to again when the copy
// has read it: of two slots in turn one copy may still read the other one.
// CHECK-LABEL: mlc_tile.kernel @k
// CHECK:      mlc_tile.work
// CHECK-NEXT:   %x = mlc_tile.load
// CHECK-NEXT:   mlc_tile.drain 1
// CHECK-NEXT:   mlc_tile.store %x, %out[%group, 0]
// CHECK-NEXT:   mlc_tile.fence
// CHECK-NEXT:   mlc_tile.copy %out[%group, 0]
// CHECK-NEXT:   mlc_tile.drain 1
// CHECK-NEXT:   mlc_tile.store %x, %out[%group, 1]
// CHECK-NEXT:   mlc_tile.fence
// CHECK-NEXT:   mlc_tile.copy %out[%group, 1]
// CHECK-NEXT: }
// CHECK-NEXT: mlc_tile.drain 0
mlc_tile.kernel @k(%a: !mlc_tile.view<64x64xbf16>) -> (%c: !mlc_tile.view<"M"x128xbf16>) workers("M" by 1) {
  %out = mlc_tile.alloc worker : !mlc_tile.view<2x2x64x64xbf16, sw128>
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 128 raster 1 {
      %x = mlc_tile.load %a : !mlc_tile.frag<64x64xbf16>
      mlc_tile.store %x, %out[%group, 0]
      mlc_tile.copy %out[%group, 0] -> %c[%i + 64*%group, 0] "m n -> m n" over (m 64, n 64) via tma
      mlc_tile.store %x, %out[%group, 1]
      mlc_tile.copy %out[%group, 1] -> %c[%i + 64*%group, 64] "m n -> m n" over (m 64, n 64) via tma
    }
  }
}

// Slots that may be the same: all copies from them are waited for. What no copy takes needs nothing.
// CHECK-LABEL: mlc_tile.kernel @same
// CHECK:      mlc_tile.drain 0
// CHECK-NEXT: mlc_tile.store %x, %out[%group, 0]
// CHECK-NEXT: mlc_tile.store %x, %own
// CHECK-NEXT: mlc_tile.fence
// CHECK-NEXT: mlc_tile.copy
// CHECK-NEXT: }
mlc_tile.kernel @same(%a: !mlc_tile.view<64x64xbf16>) -> (%c: !mlc_tile.view<"M"x64xbf16>) workers("M" by 1) {
  %out = mlc_tile.alloc worker : !mlc_tile.view<2x2x64x64xbf16, sw128>
  %own = mlc_tile.alloc worker : !mlc_tile.view<64x64xbf16, sw128>
  mlc_tile.roles consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 128 raster 1 {
      %x = mlc_tile.load %a : !mlc_tile.frag<64x64xbf16>
      mlc_tile.store %x, %out[%group, 0]
      mlc_tile.store %x, %own
      mlc_tile.copy %out[%group, %group] -> %c[%i + 64*%group, 0] "m n -> m n" over (m 64, n 64) via tma
    }
  }
}
