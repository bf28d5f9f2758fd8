// Attention, forward: states of rows in a worker's memory, a plan's kernel inside the loop.
mlc_tile.kernel @attention(%q: !mlc_tile.view<2x26x8xf32>, %kp: !mlc_tile.view<2x48x8xf32>, %v: !mlc_tile.view<2x48x8xf32>, %mask: !mlc_tile.view<26x48xi1>) -> (%o: !mlc_tile.view<2x26x8xf32>) workers(52 by 1) {
  %m = mlc_tile.alloc worker : !mlc_tile.view<12xf32>
  %l = mlc_tile.alloc worker : !mlc_tile.view<12xf32>
  %f = mlc_tile.alloc worker : !mlc_tile.view<12xf32>
  %acc = mlc_tile.alloc worker : !mlc_tile.view<12x8xf32>
  %s = mlc_tile.alloc worker : !mlc_tile.view<12x16xf32>
  mlc_tile.for %h in 2, %i in 26 step 12 deal(team) {
    mlc_tile.fill %m = -inf
    mlc_tile.fill %l = 0.0
    mlc_tile.fill %acc = 0.0
    mlc_tile.for %j in 48 step 16 {
      mlc_tile.for %c in 16 step 8, %r in 12 step 4 {
        %x = mlc_tile.dot "md,nd->mn" %q[%h, %i + %r], %kp[%h, %j + %c] over (d 8) via fma : !mlc_tile.frag<4x8xf32>
        %y = mlc_tile.map(%e = %x) at(%a = %i + %r, %b = %j + %c) -> (!mlc_tile.frag<4x8xf32>) {
          %on = mlc_tile.read %mask[%a, %b] : tensor<i1>
          %scale = mlc.constant dense<0.35> : tensor<f32>
          %low = mlc.constant dense<-1.0e+30> : tensor<f32>
          %z = mlc.mul %e, %scale : tensor<f32>
          %w = mlc.select %on, %z, %low : tensor<i1>, tensor<f32>
          mlc_tile.yield %w : tensor<f32>
        }
        mlc_tile.store %y, %s[%r, %c]
      }
      mlc_tile.nest "row" (%nx = %s, %nm = %m, %nl = %l) -> (%s, %m, %l, %f) {
        %top = mlc.reduce "max" "ab->a" %nx : tensor<12x16xf32> -> tensor<12xf32>
        %next = mlc.max %nm, %top : tensor<12xf32>
        %wide = mlc.broadcast "a->ab" %next : tensor<12xf32> -> tensor<12x16xf32>
        %less = mlc.sub %nx, %wide : tensor<12x16xf32>
        %e = mlc.exp %less : tensor<12x16xf32>
        %down = mlc.sub %nm, %next : tensor<12xf32>
        %factor = mlc.exp %down : tensor<12xf32>
        %row = mlc.reduce "sum" "ab->a" %e : tensor<12x16xf32> -> tensor<12xf32>
        %old = mlc.mul %nl, %factor : tensor<12xf32>
        %new = mlc.add %old, %row : tensor<12xf32>
        mlc.yield %e, %next, %new, %factor : tensor<12x16xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>
      }
      mlc_tile.for %d in 8 step 8, %r in 12 step 4 {
        %u = mlc_tile.dot "mn,nd->md" %s[%r], %v[%h, %j, %d] over (n 16) via fma : !mlc_tile.frag<4x8xf32>
        %before = mlc_tile.load %acc[%r, %d] : !mlc_tile.frag<4x8xf32>
        %w = mlc_tile.map(%a = %u, %b = %before) at(%row = %r, %col = %d) -> (!mlc_tile.frag<4x8xf32>) {
          %factor = mlc_tile.read %f[%row] : tensor<f32>
          %t = mlc.mul %b, %factor : tensor<f32>
          %z = mlc.add %t, %a : tensor<f32>
          mlc_tile.yield %z : tensor<f32>
        }
        mlc_tile.store %w, %acc[%r, %d]
      }
    }
    mlc_tile.for %r in min(12, 26 - %i) step 4, %d in 8 step 8 {
      %sum = mlc_tile.load %acc[%r, %d] : !mlc_tile.frag<4x8xf32>
      %w = mlc_tile.map(%a = %sum) at(%row = %r, %col = %d) -> (!mlc_tile.frag<4x8xf32>) {
        %by = mlc_tile.read %l[%row] : tensor<f32>
        %z = mlc.div %a, %by : tensor<f32>
        mlc_tile.yield %z : tensor<f32>
      }
      mlc_tile.store %w, %o[%h, %i + %r, %d]
    }
  }
}
