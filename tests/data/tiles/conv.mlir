// A convolution 3×3 with padding 1: strips of padded rows, windows as letters in subscripts.
mlc_tile.kernel @conv(%x: !mlc_tile.view<2x3x10x8xf32>, %w: !mlc_tile.view<6x3x3x3xf32>, %bn: !mlc_tile.view<6xf32>) -> (%out: !mlc_tile.view<2x6x10x8xf32>) workers(960 by 1) {
  %xs = mlc_tile.alloc worker : !mlc_tile.view<3x64xf32>
  mlc_tile.for %n in 2, %y in 10 step 4 deal(team) {
    mlc_tile.copy %x[%n, 0, %y - 1, -1] -> %xs "c y x -> c (yx)" over (x 10, y 6) fill 0.0
    mlc_tile.for %f in 6 step 4, %v in min(40, 100 - 10*%y) step 16 {
      %s = mlc_tile.dot "fcij,cvij->fv" %w[%f + f, c, i, j], %xs[c, %v + v + 10*i + j] over (c 3, i 3, j 3) via fma : !mlc_tile.frag<4x16xf32>
      %r = mlc_tile.map(%e = %s) at(%i = %f, %j) -> (!mlc_tile.frag<4x16xf32>) {
        %k = mlc_tile.read %bn[%i] : tensor<f32>
        %m = mlc.mul %e, %k : tensor<f32>
        %zero = mlc.constant dense<0.0> : tensor<f32>
        %o = mlc.max %m, %zero : tensor<f32>
        mlc_tile.yield %o : tensor<f32>
      }
      mlc_tile.store %r, %out[%n, %f + f, %y + (%v + v) floordiv 10, (%v + v) mod 10] as "fv" where (%v + v) mod 10 < 8 and %v + v < 40
    }
  }
}
