// Tile programs: their text reads back as it was.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-debuginfo | filecheck %s --check-prefix=PLACE
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// A batched product with bias and GELU, M symbolic: both factors packed, sums waiting in the result.
// PLACE:       mlc_tile.barrier loc("{{.*}}tile.mlir":{{[0-9]+}}:7)
// PLACE:       mlc_tile.dot {{.*}} loc("{{.*}}tile.mlir":{{[0-9]+}}:11)
// CHECK-LABEL: mlc_tile.kernel @gemm
// CHECK-SAME:      (%a: !mlc_tile.view<"G"x"M"x1024xf32>, %b: !mlc_tile.view<"G"x1024x3072xf32>, %bias: !mlc_tile.view<3072xf32>) -> (%c: !mlc_tile.view<"G"x"M"x3072xf32>) workers("3145728*G*M" by 4000000) {
// CHECK-NEXT:    %bp = mlc_tile.alloc team : !mlc_tile.view<96x256x32xf32>
// CHECK-NEXT:    %ap = mlc_tile.alloc worker : !mlc_tile.view<16x256x12xf32>
// CHECK-NEXT:    mlc_tile.for %g in "G" {
// CHECK-NEXT:      mlc_tile.for %p in 1024 step 256 {
// CHECK-NEXT:        mlc_tile.barrier
// CHECK-NEXT:        mlc_tile.copy %b[%g, %p, 0] -> %bp "k (J n) -> J k n" deal(team, J)
// CHECK-NEXT:        mlc_tile.barrier
// CHECK-NEXT:        mlc_tile.for %i in "M" step 192 as %rows deal(team 12) {
// CHECK-NEXT:          mlc_tile.copy %a[%g, %i, %p] -> %ap "(I m) k -> I k m" fill 0.0
// CHECK-NEXT:          mlc_tile.for %j in 3072 step 32, %r in %rows step 12 {
// CHECK-NEXT:            %s = mlc_tile.dot "km,kn->mn" %ap[%r floordiv 12], %bp[%j floordiv 32] over (k 256) via fma prefetch(0, 2) : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:            %t = mlc_tile.if first(%p) -> (!mlc_tile.frag<12x32xf32>) {
// CHECK-NEXT:              mlc_tile.yield %s : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:            } else {
// CHECK-NEXT:              %e = mlc_tile.load %c[%g, %i + %r, %j] : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:              %u = mlc_tile.map(%x = %s, %y = %e) -> (!mlc_tile.frag<12x32xf32>) {
// CHECK-NEXT:                %v = mlc.add %y, %x : tensor<f32>
// CHECK-NEXT:                mlc_tile.yield %v : tensor<f32>
// CHECK-NEXT:              }
// CHECK-NEXT:              mlc_tile.yield %u : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:            }
// CHECK-NEXT:            mlc_tile.if last(%p) {
// CHECK-NEXT:              %y_1 = mlc_tile.map(%x_1 = %t) at(%m = %i + %r, %n = %j) -> (!mlc_tile.frag<12x32xf32>) {
// CHECK-NEXT:                %bn = mlc_tile.read %bias[%n] : tensor<f32>
// CHECK:                   mlc_tile.yield %h : tensor<f32>
// CHECK-NEXT:              }
// CHECK-NEXT:              mlc_tile.store %y_1, %c[%g, %i + %r, %j]
// CHECK-NEXT:            } else {
// CHECK-NEXT:              mlc_tile.store %t, %c[%g, %i + %r, %j]
mlc_tile.kernel @gemm(%a: !mlc_tile.view<"G"x"M"x1024xf32>, %b: !mlc_tile.view<"G"x1024x3072xf32>, %bias: !mlc_tile.view<3072xf32>) -> (%c: !mlc_tile.view<"G"x"M"x3072xf32>) workers("3145728*G*M" by 4000000) {
  %bp = mlc_tile.alloc team : !mlc_tile.view<96x256x32xf32>
  %ap = mlc_tile.alloc worker : !mlc_tile.view<16x256x12xf32>
  mlc_tile.for %g in "G" {
    mlc_tile.for %p in 1024 step 256 {
      mlc_tile.barrier
      mlc_tile.copy %b[%g, %p, 0] -> %bp "k (J n) -> J k n" deal(team, J)
      mlc_tile.barrier
      mlc_tile.for %i in "M" step 192 as %rows deal(team 12) {
        mlc_tile.copy %a[%g, %i, %p] -> %ap "(I m) k -> I k m" fill 0.0
        mlc_tile.for %j in 3072 step 32, %r in %rows step 12 {
          %s = mlc_tile.dot "km,kn->mn" %ap[%r floordiv 12], %bp[%j floordiv 32] over (k 256) via fma prefetch(0, 2) : !mlc_tile.frag<12x32xf32>
          %t = mlc_tile.if first(%p) -> (!mlc_tile.frag<12x32xf32>) {
            mlc_tile.yield %s : !mlc_tile.frag<12x32xf32>
          } else {
            %e = mlc_tile.load %c[%g, %i + %r, %j] : !mlc_tile.frag<12x32xf32>
            %u = mlc_tile.map(%x = %s, %y = %e) -> (!mlc_tile.frag<12x32xf32>) {
              %v = mlc.add %y, %x : tensor<f32>
              mlc_tile.yield %v : tensor<f32>
            }
            mlc_tile.yield %u : !mlc_tile.frag<12x32xf32>
          }
          mlc_tile.if last(%p) {
            %y = mlc_tile.map(%x = %t) at(%m = %i + %r, %n = %j) -> (!mlc_tile.frag<12x32xf32>) {
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

// bf16 on AMX: pairs along k; the lhs is read in place.
// CHECK-LABEL: mlc_tile.kernel @bf16
// CHECK-NEXT:    %bp = mlc_tile.alloc team : !mlc_tile.view<192x512x16x2xbf16>
// CHECK-NEXT:    mlc_tile.copy %b -> %bp "(k p) (J n) -> J k n p" deal(team, J)
// CHECK:         %s = mlc_tile.dot "m(kp),knp->mn" %a[%i], %bp[(%j + n) floordiv 16, k, (n) mod 16, p] over (k 512, p 2) via amx_bf16 : !mlc_tile.frag<32x32xf32>
mlc_tile.kernel @bf16(%a: !mlc_tile.view<"M"x1024xbf16>, %b: !mlc_tile.view<1024x3072xbf16>) -> (%c: !mlc_tile.view<"M"x3072xf32>) workers("3145728*M" by 4000000) {
  %bp = mlc_tile.alloc team : !mlc_tile.view<192x512x16x2xbf16>
  mlc_tile.copy %b -> %bp "(k p) (J n) -> J k n p" deal(team, J)
  mlc_tile.barrier
  mlc_tile.for %i in "M" step 32, %j in 3072 step 32 deal(team) {
    %s = mlc_tile.dot "m(kp),knp->mn" %a[%i], %bp[(%j + n) floordiv 16, k, n mod 16, p] over (k 512, p 2) via amx_bf16 : !mlc_tile.frag<32x32xf32>
    mlc_tile.store %s, %c[%i, %j]
  }
}

// A convolution: a strip of padded rows for each worker, windows as letters in subscripts.
// CHECK-LABEL: mlc_tile.kernel @conv
// CHECK:         mlc_tile.for %n in 8, %y in 56 step 14 deal(team) {
// CHECK-NEXT:      mlc_tile.copy %x[%n, 0, %y - 1, -1] -> %xs "c y x -> c (yx)" over (x 58, y 16) fill 0.0
// CHECK-NEXT:      mlc_tile.for %f in 64 step 8, %v in 812 step 48 {
// CHECK-NEXT:        %s = mlc_tile.dot "fcij,cvij->fv" %w[%f + f, c, i, j], %xs[c, %v + 58*i + j + v] over (c 64, i 3, j 3) via fma : !mlc_tile.frag<8x48xf32>
// CHECK:             mlc_tile.store %r, %out[%n, %f + f, %y + (%v + v) floordiv 58, (%v + v) mod 58] as "fv" where (%v + v) mod 58 < 56
mlc_tile.kernel @conv(%x: !mlc_tile.view<8x64x56x56xf32>, %w: !mlc_tile.view<64x64x3x3xf32>, %bn: !mlc_tile.view<64xf32>) -> (%out: !mlc_tile.view<8x64x56x56xf32>) workers(924844032 by 4000000) {
  %xs = mlc_tile.alloc worker : !mlc_tile.view<64x936xf32>
  mlc_tile.for %n in 8, %y in 56 step 14 deal(team) {
    mlc_tile.copy %x[%n, 0, %y - 1, -1] -> %xs "c y x -> c (yx)" over (x 58, y 16) fill 0.0
    mlc_tile.for %f in 64 step 8, %v in 812 step 48 {
      %s = mlc_tile.dot "fcij,cvij->fv" %w[%f + f, c, i, j], %xs[c, %v + v + 58*i + j] over (c 64, i 3, j 3) via fma : !mlc_tile.frag<8x48xf32>
      %r = mlc_tile.map(%e = %s) at(%i = %f, %j) -> (!mlc_tile.frag<8x48xf32>) {
        %k = mlc_tile.read %bn[%i] : tensor<f32>
        %m = mlc.mul %e, %k : tensor<f32>
        %zero = mlc.constant dense<0.0> : tensor<f32>
        %o = mlc.max %m, %zero : tensor<f32>
        mlc_tile.yield %o : tensor<f32>
      }
      mlc_tile.store %r, %out[%n, %f + f, %y + (%v + v) floordiv 58, (%v + v) mod 58] as "fv" where (%v + v) mod 58 < 56
    }
  }
}

// Attention, forward: the rows' states lie in a worker's L1; a tile whose mask holds nothing is not
// looked into.
// CHECK-LABEL: mlc_tile.kernel @attention
// CHECK:         mlc_tile.for %h in 32, %i in 512 step 60 deal(team) {
// CHECK-NEXT:      mlc_tile.fill %m = -inf
// CHECK-NEXT:      mlc_tile.fill %l = 0.0
// CHECK:           %x = mlc_tile.dot "md,nd->mn" %q[%h, %i + %r], %kp[%h, %j + %c] over (d 64) via fma : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:      %y = mlc_tile.map(%e = %x) at(%a = %i + %r, %b = %j + %c) -> (!mlc_tile.frag<12x32xf32>) {
// CHECK-NEXT:        %on = mlc_tile.read %mask[%a, %b] : tensor<i1>
// CHECK:           mlc_tile.nest "row" (%nx = %s, %nm = %m, %nl = %l) -> (%s, %m, %l, %f)
// CHECK:           %u = mlc_tile.dot "mn,nd->md" %s[%r_1], %v[%h, %j, %d] over (n 256) via fma : !mlc_tile.frag<12x32xf32>
mlc_tile.kernel @attention(%q: !mlc_tile.view<32x512x64xf32>, %kp: !mlc_tile.view<32x512x64xf32>, %v: !mlc_tile.view<32x512x64xf32>, %mask: !mlc_tile.view<512x512xi1>) -> (%o: !mlc_tile.view<32x512x64xf32>) workers(1073741824 by 4000000) {
  %m = mlc_tile.alloc worker : !mlc_tile.view<60xf32>
  %l = mlc_tile.alloc worker : !mlc_tile.view<60xf32>
  %f = mlc_tile.alloc worker : !mlc_tile.view<60xf32>
  %acc = mlc_tile.alloc worker : !mlc_tile.view<60x64xf32>
  %s = mlc_tile.alloc worker : !mlc_tile.view<60x256xf32>
  mlc_tile.for %h in 32, %i in 512 step 60 deal(team) {
    mlc_tile.fill %m = -inf
    mlc_tile.fill %l = 0.0
    mlc_tile.fill %acc = 0.0
    mlc_tile.for %j in 512 step 256 {
      mlc_tile.for %c in 256 step 32, %r in 60 step 12 {
        %x = mlc_tile.dot "md,nd->mn" %q[%h, %i + %r], %kp[%h, %j + %c] over (d 64) via fma : !mlc_tile.frag<12x32xf32>
        %y = mlc_tile.map(%e = %x) at(%a = %i + %r, %b = %j + %c) -> (!mlc_tile.frag<12x32xf32>) {
          %on = mlc_tile.read %mask[%a, %b] : tensor<i1>
          %scale = mlc.constant dense<0.125> : tensor<f32>
          %low = mlc.constant dense<-1.0e+30> : tensor<f32>
          %z = mlc.mul %e, %scale : tensor<f32>
          %w = mlc.select %on, %z, %low : tensor<i1>, tensor<f32>
          mlc_tile.yield %w : tensor<f32>
        }
        mlc_tile.store %y, %s[%r, %c]
      }
      mlc_tile.nest "row" (%nx = %s, %nm = %m, %nl = %l) -> (%s, %m, %l, %f) {
        %top = mlc.reduce "max" "ab->a" %nx : tensor<60x256xf32> -> tensor<60xf32>
        %next = mlc.max %nm, %top : tensor<60xf32>
        %wide = mlc.broadcast "a->ab" %next : tensor<60xf32> -> tensor<60x256xf32>
        %less = mlc.sub %nx, %wide : tensor<60x256xf32>
        %e = mlc.exp %less : tensor<60x256xf32>
        %down = mlc.sub %nm, %next : tensor<60xf32>
        %factor = mlc.exp %down : tensor<60xf32>
        %row = mlc.reduce "sum" "ab->a" %e : tensor<60x256xf32> -> tensor<60xf32>
        %old = mlc.mul %nl, %factor : tensor<60xf32>
        %new = mlc.add %old, %row : tensor<60xf32>
        mlc.yield %e, %next, %new, %factor : tensor<60x256xf32>, tensor<60xf32>, tensor<60xf32>, tensor<60xf32>
      }
      mlc_tile.for %d in 64 step 32, %r in 60 step 12 {
        %u = mlc_tile.dot "mn,nd->md" %s[%r], %v[%h, %j, %d] over (n 256) via fma : !mlc_tile.frag<12x32xf32>
        %before = mlc_tile.load %acc[%r, %d] : !mlc_tile.frag<12x32xf32>
        %w = mlc_tile.map(%a = %u, %b = %before) at(%row = %r, %col = %d) -> (!mlc_tile.frag<12x32xf32>) {
          %factor = mlc_tile.read %f[%row] : tensor<f32>
          %t = mlc.mul %b, %factor : tensor<f32>
          %z = mlc.add %t, %a : tensor<f32>
          mlc_tile.yield %z : tensor<f32>
        }
        mlc_tile.store %w, %acc[%r, %d]
      }
    }
    mlc_tile.for %r in min(60, 512 - %i) step 12, %d in 64 step 32 {
      %sum = mlc_tile.load %acc[%r, %d] : !mlc_tile.frag<12x32xf32>
      %w = mlc_tile.map(%a = %sum) at(%row = %r, %col = %d) -> (!mlc_tile.frag<12x32xf32>) {
        %by = mlc_tile.read %l[%row] : tensor<f32>
        %z = mlc.div %a, %by : tensor<f32>
        mlc_tile.yield %z : tensor<f32>
      }
      mlc_tile.store %w, %o[%h, %i + %r, %d]
    }
  }
}

// A step of an LSTM: four gates of a unit in one tile; one map makes cell and output.
// CHECK-LABEL: mlc_tile.kernel @lstm
// CHECK:         %g = mlc_tile.dot "mk,kgu->mgu" %h[%i], %w[0, 0, %j] over (k 256) via fma : !mlc_tile.frag<6x4x16xf32>
// CHECK-NEXT:    %in = mlc_tile.extract %g[:, 0, :] : !mlc_tile.frag<6x16xf32>
// CHECK:         %c2, %h2 = mlc_tile.map(%ei = %in, %ef = %forget, %eo = %out, %ez = %cell, %ec = %before) -> (!mlc_tile.frag<6x16xf32>, !mlc_tile.frag<6x16xf32>) {
mlc_tile.kernel @lstm(%h: !mlc_tile.view<6x256xf32>, %w: !mlc_tile.view<256x4x256xf32>, %c: !mlc_tile.view<6x256xf32>) -> (%next_c: !mlc_tile.view<6x256xf32>, %next_h: !mlc_tile.view<6x256xf32>) workers(1572864 by 100000) {
  mlc_tile.for %i in 6 step 6, %j in 256 step 16 deal(team) {
    %g = mlc_tile.dot "mk,kgu->mgu" %h[%i], %w[0, 0, %j] over (k 256) via fma : !mlc_tile.frag<6x4x16xf32>
    %in = mlc_tile.extract %g[:, 0, :] : !mlc_tile.frag<6x16xf32>
    %forget = mlc_tile.extract %g[:, 1, :] : !mlc_tile.frag<6x16xf32>
    %out = mlc_tile.extract %g[:, 2, :] : !mlc_tile.frag<6x16xf32>
    %cell = mlc_tile.extract %g[:, 3, 0:16] : !mlc_tile.frag<6x16xf32>
    %before = mlc_tile.load %c[%i, %j] : !mlc_tile.frag<6x16xf32>
    %c2, %h2 = mlc_tile.map(%ei = %in, %ef = %forget, %eo = %out, %ez = %cell, %ec = %before) -> (!mlc_tile.frag<6x16xf32>, !mlc_tile.frag<6x16xf32>) {
      %keep = mlc.mul %ef, %ec : tensor<f32>
      %z = mlc.tanh %ez : tensor<f32>
      %add = mlc.mul %ei, %z : tensor<f32>
      %now = mlc.add %keep, %add : tensor<f32>
      %bent = mlc.tanh %now : tensor<f32>
      %shown = mlc.mul %eo, %bent : tensor<f32>
      mlc_tile.yield %now, %shown : tensor<f32>, tensor<f32>
    }
    mlc_tile.store %c2, %next_c[%i, %j]
    mlc_tile.store %h2, %next_h[%i, %j]
  }
}

// What has no tile form is the plan's kernel; the entry calls it where the kernel stood.
// CHECK-LABEL: mlc_tile.kernel @softmax
// CHECK-NEXT:    mlc_tile.nest "row" (%a = %x) -> (%y) {
// CHECK:         } {schedule = #mlc.schedule<[vector(16, axis 1), unroll(4)]>}
// CHECK:         func.func @main
// CHECK-NEXT:      %y = mlc_tile.call @softmax(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {buffers = [#mlc.buffer<out 0>]}
mlc_tile.kernel @softmax(%x: !mlc_tile.view<8x64xf32>) -> (%y: !mlc_tile.view<8x64xf32>) {
  mlc_tile.nest "row" (%a = %x) -> (%y) {
    %top = mlc.reduce "max" "ab->a" %a : tensor<8x64xf32> -> tensor<8xf32>
    %wide = mlc.broadcast "a->ab" %top : tensor<8xf32> -> tensor<8x64xf32>
    %less = mlc.sub %a, %wide : tensor<8x64xf32>
    %e = mlc.exp %less : tensor<8x64xf32>
    mlc.yield %e : tensor<8x64xf32>
  } {schedule = #mlc.schedule<[vector(16, axis 1), unroll(4)]>}
}
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = mlc_tile.call @softmax(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<8x64xf32>
}

// Cases by size, a loop dealt one way or another, a lhs that is computed where it is read, carried
// and folded values, and what reduces, scans, converts and prefetches.
// CHECK-LABEL: mlc_tile.kernel @words
// CHECK:         mlc_tile.case "M" >= 4 and "M"*"N" >= 4096 {
// CHECK:           %e = mlc_tile.elements at(%m, %k) : !mlc_tile.view<"M"x64xf32> {
// CHECK-NEXT:        %f = mlc_tile.read %x[%m, %k] : tensor<f32>
// CHECK:           mlc_tile.for %i in "M" step 12, %j in min("N", 96) step 32 deal(team when "M" >= 24*workers) {
// CHECK-NEXT:        mlc_tile.prefetch %w[0, %j + 32]
// CHECK-NEXT:        mlc_tile.prefetch %y[%j + n, %i + m] as "mn" write : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:        %s = mlc_tile.dot "mk,kn->mn" %e[%i], %w[0, %j] over (k 64) init %zero via fma clamp(m) : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:        %t = mlc_tile.reduce "max" %s along 1 : !mlc_tile.frag<12xf32>
// CHECK-NEXT:        %c = mlc_tile.scan "sum" %t along 0 : !mlc_tile.frag<12xf32>
// CHECK-NEXT:        %d = mlc_tile.convert %c : !mlc_tile.frag<12xf32> to !mlc_tile.frag<12xbf16>
// CHECK-NEXT:        mlc_tile.store %s, %y[%j + n, %i + m] as "mn" {note = "transposed"}
// CHECK:         } else case "M" == 0 {
// CHECK-NEXT:    } else {
// CHECK:           %r = mlc_tile.for %i_1 in "M" step 4 deal(team) carry(%c_1 = %zero_1) fold("sum") -> (!mlc_tile.frag<12x32xf32>) {
mlc_tile.kernel @words(%x: !mlc_tile.view<"M"x64xf32, strided>, %w: !mlc_tile.view<64x"N"xf32, rows>) -> (%y: !mlc_tile.view<"N"x"M"xf32>) {
  mlc_tile.case "M" >= 4 and "M*N" >= 4096 {
    %e = mlc_tile.elements at(%m, %k) : !mlc_tile.view<"M"x64xf32> {
      %f = mlc_tile.read %x[%m, %k] : tensor<f32>
      %g = mlc.exp %f : tensor<f32>
      mlc_tile.yield %g : tensor<f32>
    }
    %zero = mlc_tile.load %y[0, 0] fill 1.0 : !mlc_tile.frag<12x32xf32>
    mlc_tile.for %i in "M" step 12, %j in min("N", 96) step 32 deal(team when "M" >= 24*workers) {
      mlc_tile.prefetch %w[0, %j + 32]
      mlc_tile.prefetch %y[%j + n, %i + m] as "mn" write : !mlc_tile.frag<12x32xf32>
      %s = mlc_tile.dot "mk,kn->mn" %e[%i], %w[0, %j] over (k 64) init %zero via fma clamp(m) : !mlc_tile.frag<12x32xf32>
      %t = mlc_tile.reduce "max" %s along 1 : !mlc_tile.frag<12xf32>
      %c = mlc_tile.scan "sum" %t along 0 : !mlc_tile.frag<12xf32>
      %d = mlc_tile.convert %c : !mlc_tile.frag<12xf32> to !mlc_tile.frag<12xbf16>
      mlc_tile.store %s, %y[%j + n, %i + m] as "mn" {note = "transposed"}
    }
  } else case "M" == 0 {
  } else {
    %zero = mlc_tile.load %y : !mlc_tile.frag<12x32xf32>
    %r = mlc_tile.for %i in "M" step 4 deal(team) carry(%c = %zero) fold("sum") -> (!mlc_tile.frag<12x32xf32>) {
      mlc_tile.yield %c : !mlc_tile.frag<12x32xf32>
    }
  }
}
