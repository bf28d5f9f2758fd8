// RUN: mlc opt %s -p place-slots | filecheck %s
// RUN: mlc opt %s -p place-slots | mlc opt | filecheck %s

// Slots first, at multiples of 1024 bytes, then a pair of barriers for each place of a ring.
// CHECK: mlc_tile.kernel @k{{.*}} attributes {shared_bytes = 19536 : i64}
// CHECK-NEXT: %ring = mlc_tile.channel {offset = 0 : i64, barriers = 18432 : i64} : !mlc_tile.channel<3 x
// CHECK-NEXT: %small = mlc_tile.channel {offset = 15360 : i64, barriers = 18480 : i64} : !mlc_tile.channel<2 x
// CHECK-NEXT: %out = mlc_tile.alloc worker {offset = 17408 : i64} : !mlc_tile.view<8x8xf32, shared>
builtin.module attributes {mlc.target = #mlc.target<"h200">} {
  mlc_tile.kernel @k(%a: !mlc_tile.view<64x64xbf16>) -> (%c: !mlc_tile.view<64x64xbf16>) {
    %ring = mlc_tile.channel : !mlc_tile.channel<3 x [!mlc_tile.view<32x64xbf16, sw128>, !mlc_tile.view<8x64xbf16, sw128>]>
    %small = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<4x4xf32, shared>]>
    %out = mlc_tile.alloc worker : !mlc_tile.view<8x8xf32, shared>
  }
}
