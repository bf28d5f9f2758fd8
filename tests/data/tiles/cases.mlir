// Cases by size, a loop dealt where there is enough, a lhs that is computed, folds, other letters.
mlc_tile.kernel @cases(%x: !mlc_tile.view<"M"x24xf32, strided>, %w: !mlc_tile.view<24x"N"xf32, rows>) -> (%y: !mlc_tile.view<"N"x"M"xf32>, %sum: !mlc_tile.view<1x24xf32>) workers("M" by 1) {
  mlc_tile.case "M" >= 8 and "M*N" >= 64 {
    %e = mlc_tile.elements at(%m, %k) : !mlc_tile.view<"M"x24xf32> {
      %f = mlc_tile.read %x[%m, %k] : tensor<f32>
      %g = mlc.exp %f : tensor<f32>
      mlc_tile.yield %g : tensor<f32>
    }
    mlc_tile.for %i in "M" step 6, %j in "N" step 8 deal(team when "M" >= 6*workers) {
      mlc_tile.prefetch %w[0, %j + 8]
      %s = mlc_tile.dot "mk,kn->mn" %e[%i], %w[0, %j] over (k 24) via fma clamp(m) : !mlc_tile.frag<6x8xf32>
      mlc_tile.store %s, %y[%j + n, %i + m] as "mn"
    }
    %none = mlc_tile.load %w fill 0.0 : !mlc_tile.frag<1x24xf32>
    %zero = mlc_tile.map(%a = %none) -> (!mlc_tile.frag<1x24xf32>) {
      %z = mlc.constant dense<0.5> : tensor<f32>
      mlc_tile.yield %z : tensor<f32>
    }
    %r = mlc_tile.for %i in "M" deal(team) carry(%c = %zero) fold("sum") -> (!mlc_tile.frag<1x24xf32>) {
      %row = mlc_tile.load %x[%i] : !mlc_tile.frag<1x24xf32>
      %n = mlc_tile.map(%a = %row, %b = %c) -> (!mlc_tile.frag<1x24xf32>) {
        %z = mlc.add %b, %a : tensor<f32>
        mlc_tile.yield %z : tensor<f32>
      }
      mlc_tile.yield %n : !mlc_tile.frag<1x24xf32>
    }
    mlc_tile.for %z in 1 deal(team) {
      mlc_tile.store %r, %sum
    }
  } else case "M" == 0 {
  } else {
    mlc_tile.for %i in "M" step 6, %j in "N" step 8 deal(team) {
      %s = mlc_tile.dot "mk,kn->mn" %x[%i], %w[0, %j] over (k 24) via fma : !mlc_tile.frag<6x8xf32>
      mlc_tile.store %s, %y[%j + n, %i + m] as "mn"
    }
    mlc_tile.fill %sum = 0.5
  }
}
