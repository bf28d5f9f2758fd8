// bf16 on AMX: pairs along k, the lhs read in place, columns behind the last one zero.
mlc_tile.kernel @bf16(%a: !mlc_tile.view<"M"x64xbf16>, %b: !mlc_tile.view<64x40xbf16>) -> (%c: !mlc_tile.view<"M"x40xf32>) workers("M" by 1) {
  %bp = mlc_tile.alloc team : !mlc_tile.view<4x32x16x2xbf16>
  mlc_tile.copy %b -> %bp "(k p) (J n) -> J k n p" deal(team, J)
  mlc_tile.barrier
  mlc_tile.for %i in "M" step 32, %j in 40 step 32 deal(team) {
    %s = mlc_tile.dot "m(kp),knp->mn" %a[%i], %bp[(%j + n) floordiv 16, k, n mod 16, p] over (k 32, p 2) via amx_bf16 : !mlc_tile.frag<32x32xf32>
    mlc_tile.store %s, %c[%i, %j]
  }
}
