// A batched product with bias and GELU, both factors packed, sums waiting in the result.
mlc_tile.kernel @gemm(%a: !mlc_tile.view<"G"x"M"x40xf32>, %b: !mlc_tile.view<"G"x40x40xf32>, %bias: !mlc_tile.view<40xf32>) -> (%c: !mlc_tile.view<"G"x"M"x40xf32>) workers("G*M" by 1) {
  %bp = mlc_tile.alloc team : !mlc_tile.view<3x16x16xf32>
  %ap = mlc_tile.alloc worker : !mlc_tile.view<3x16x4xf32>
  mlc_tile.for %g in "G" {
    mlc_tile.for %p in 40 step 16 {
      mlc_tile.barrier
      mlc_tile.copy %b[%g, %p, 0] -> %bp "k (J n) -> J k n" over (k min(16, 40 - %p)) deal(team, J)
      mlc_tile.barrier
      mlc_tile.for %i in "M" step 12 as %rows deal(team 4) {
        mlc_tile.copy %a[%g, %i, %p] -> %ap "(I m) k -> I k m" fill 0.0
        mlc_tile.for %j in 40 step 16, %r in %rows step 4 {
          %s = mlc_tile.dot "km,kn->mn" %ap[%r floordiv 4], %bp[%j floordiv 16] over (k min(16, 40 - %p)) via fma prefetch(0, 2) : !mlc_tile.frag<4x16xf32>
          %t = mlc_tile.if first(%p) -> (!mlc_tile.frag<4x16xf32>) {
            mlc_tile.yield %s : !mlc_tile.frag<4x16xf32>
          } else {
            %e = mlc_tile.load %c[%g, %i + %r, %j] : !mlc_tile.frag<4x16xf32>
            %u = mlc_tile.map(%x = %s, %y = %e) -> (!mlc_tile.frag<4x16xf32>) {
              %v = mlc.add %y, %x : tensor<f32>
              mlc_tile.yield %v : tensor<f32>
            }
            mlc_tile.yield %u : !mlc_tile.frag<4x16xf32>
          }
          mlc_tile.if last(%p) {
            %y = mlc_tile.map(%x = %t) at(%m = %i + %r, %n = %j) -> (!mlc_tile.frag<4x16xf32>) {
              %bn = mlc_tile.read %bias[%n] : tensor<f32>
              %v = mlc.add %x, %bn : tensor<f32>
              %scale = mlc.constant dense<1.595769> : tensor<f32>
              %one = mlc.constant dense<1.0> : tensor<f32>
              %w = mlc.mul %v, %scale : tensor<f32>
              %neg = mlc.neg %w : tensor<f32>
              %ex = mlc.exp %neg : tensor<f32>
              %den = mlc.add %one, %ex : tensor<f32>
              %h = mlc.div %v, %den : tensor<f32>
              mlc_tile.yield %h : tensor<f32>
            }
            mlc_tile.store %y, %c[%g, %i + %r, %j]
          } else {
            mlc_tile.store %t, %c[%g, %i + %r, %j]
          }
        }
      }
    }
  }
}
