// A product of bf16 with a bias on a GPU: a producer fills a ring, two groups multiply and store.
mlc_tile.kernel @gemm(%a: !mlc_tile.view<"M"x"K"xbf16>, %b: !mlc_tile.view<"N"x"K"xbf16>, %bias: !mlc_tile.view<"N"xf32>) -> (%c: !mlc_tile.view<"M"x"N"xbf16>) workers("M*N" by 512) attributes {cluster = 2 : i64} {
  %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>]>
  %out = mlc_tile.alloc worker : !mlc_tile.view<32x16xbf16, sw32>
  mlc_tile.roles producer(1, regs 40) %p {
    mlc_tile.work %i in "M" step 32, %j in "N" step 16 raster 2 {
      mlc_tile.for %k in "K" step 16 {
        %x, %y = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>
        mlc_tile.copy %a[%i, %k] -> %x "m k -> m k" via tma
        mlc_tile.copy %b[%j, %k] -> %y "n k -> n k" via tma {multicast}
      }
    }
  } consumer(2, regs 232) %group {
    mlc_tile.work %i in "M" step 32, %j in "N" step 16 raster 2 {
      %zero = mlc_tile.map() -> (!mlc_tile.frag<16x16xf32>) {
        %0 = mlc.constant dense<0.0> : tensor<f32>
        mlc_tile.yield %0 : tensor<f32>
      }
      %start = mlc_tile.ready %zero : !mlc_tile.frag<16x16xf32> -> !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
      %t = mlc_tile.for %k in "K" step 16 carry(%u = %start) -> (!mlc_tile.token<!mlc_tile.frag<16x16xf32>>) {
        %x, %y = mlc_tile.get %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>]> -> !mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>
        %v = mlc_tile.dot_start "mk,nk->mn" %x[16*%group, 0], %y over (k 16) init %u : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
        mlc_tile.wait %v, 1 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
        mlc_tile.release %ring behind 1 : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>]>
        mlc_tile.yield %v : !mlc_tile.token<!mlc_tile.frag<16x16xf32>>
      }
      %s = mlc_tile.wait %t, 0 : !mlc_tile.token<!mlc_tile.frag<16x16xf32>> -> !mlc_tile.frag<16x16xf32>
      mlc_tile.release %ring : !mlc_tile.channel<2 x [!mlc_tile.view<32x16xbf16, sw32>, !mlc_tile.view<16x16xbf16, sw32>]>
      %r = mlc_tile.map(%e = %s) at(%m = %i + 16*%group, %n = %j) -> (!mlc_tile.frag<16x16xbf16>) {
        %add = mlc_tile.read %bias[%n] : tensor<f32>
        %sum = mlc.add %e, %add : tensor<f32>
        %narrow = mlc.convert %sum : tensor<f32> -> tensor<bf16>
        mlc_tile.yield %narrow : tensor<bf16>
      }
      mlc_tile.store %r, %out[16*%group, 0]
      mlc_tile.copy %out[16*%group, 0] -> %c[%i + 16*%group, %j] "m n -> m n" over (m 16, n 16) via tma
    }
  }
}
