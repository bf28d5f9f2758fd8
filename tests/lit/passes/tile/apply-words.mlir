// Each word of a schedule rewrites the tile program in place; then it is gone.
// RUN: mlc opt %s -p apply-words --split-input-file --verify-diagnostics | filecheck %s

// block(n, 96), which does not divide: the loop says what is left.
// CHECK-LABEL: @columns(
// CHECK-SAME:      !mlc_tile.view<"M"x512xf32>) {
// CHECK-NEXT:    mlc_tile.for %n in 512 step 96 as %n_left {
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, %n + n] over (k 256) : !mlc_tile.frag<"M"x96xf32>
// CHECK-NEXT:      mlc_tile.store %s, %y[m, %n + n] as "mn"
// CHECK-NEXT:    }
mlc_tile.kernel @columns(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[block(n, 96)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// block(k, 64): sums wait in the result, and the last block finishes them.
// CHECK-LABEL: @depth(
// CHECK:         mlc_tile.for %k in 256 step 64 {
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %x[m, %k + k], %w[%k + k, n] over (k 64) : !mlc_tile.frag<"M"x512xf32>
// CHECK-NEXT:      %0 = mlc_tile.if first(%k) -> (!mlc_tile.frag<"M"x512xf32>) {
// CHECK-NEXT:        mlc_tile.yield %s : !mlc_tile.frag<"M"x512xf32>
// CHECK-NEXT:      } else {
// CHECK-NEXT:        %1 = mlc_tile.load %y[m, n] as "mn" : !mlc_tile.frag<"M"x512xf32>
// CHECK-NEXT:        %2 = mlc_tile.map(%3 = %s, %4 = %1) -> (!mlc_tile.frag<"M"x512xf32>) {
// CHECK-NEXT:          %5 = mlc.add %4, %3 : tensor<f32>
// CHECK:           mlc_tile.if last(%k) {
// CHECK-NEXT:        %t = mlc_tile.map(%e = %0) -> (!mlc_tile.frag<"M"x512xf32>) {
// CHECK:             mlc_tile.store %t, %y[m, n] as "mn"
// CHECK-NEXT:      } else {
// CHECK-NEXT:        mlc_tile.store %0, %y[m, n] as "mn"
// CHECK-NEXT:      }
mlc_tile.kernel @depth(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[block(k, 64)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  %t = mlc_tile.map(%e = %s) -> (!mlc_tile.frag<"M"x512xf32>) {
    %v = mlc.abs %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// A block as large as the axis cuts nothing; one of a batch of one element drops its axis.
// CHECK-LABEL: @batches(
// CHECK:         mlc_tile.for %g in 8 {
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %x[%g, m, k], %w[%g, k, n] over (k 4) : !mlc_tile.frag<16x16xf32>
// CHECK-NEXT:      mlc_tile.store %s, %y[%g, m, n] as "mn"
mlc_tile.kernel @batches(%x: !mlc_tile.view<8x16x4xf32>, %w: !mlc_tile.view<8x4x16xf32>) -> (%y: !mlc_tile.view<8x16x16xf32>) attributes {schedule = #mlc.schedule<[block(g, 1), block(n, 16), block(k, 64)]>} {
  %s = mlc_tile.dot "gmk,gkn->gmn" %x[g, m, k], %w[g, k, n] over (k 4) : !mlc_tile.frag<8x16x16xf32>
  mlc_tile.store %s, %y[g, m, n] as "gmn"
}

// pack: the team's panels of the rhs, each worker's of its rows of the lhs.
// CHECK-LABEL: @packed(
// CHECK:         %packed_b = mlc_tile.alloc team : !mlc_tile.view<16x256x32xf32>
// CHECK:         mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.copy %w[k, 32*J + n] -> %packed_b "k(Jn) -> Jkn" over (J 16, k 256) deal(team, J)
// CHECK-NEXT:    mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.for %m in "M" step 48 as %m_left deal(team) {
// CHECK-NEXT:      mlc_tile.copy %x[%m + 12*J + m, k] -> %packed_a "k(Jm) -> Jkm" over (J (%m_left + 11) floordiv 12, k 256)
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %packed_a[m floordiv 12, k, (m) mod 12], %packed_b[n floordiv 32, k, (n) mod 32] over (k 256) : !mlc_tile.frag<48x512xf32>
mlc_tile.kernel @packed(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, team), block(m, 48, team), pack(a, panels 12)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// pack with groups: an instruction takes four summed bytes at once. What only widens goes, and the
// lhs is unsigned, 128 more than it stands for.
// CHECK-LABEL: @bytes(
// CHECK-NEXT:    %packed_a = mlc_tile.alloc worker : !mlc_tile.view<4x64x12x4xui8>
// CHECK-NEXT:    %packed_b = mlc_tile.alloc team : !mlc_tile.view<16x64x32x4xi8>
// CHECK-NEXT:    mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.copy %w[c + 4*k, 32*J + n] -> %packed_b "(kc)(Jn) -> Jknc" over (J 16, k 64, c 4) deal(team, J)
// CHECK:         mlc_tile.for %m in "M" step 48 as %m_left deal(team) {
// CHECK-NEXT:      %[[SHIFTED:.+]] = mlc_tile.elements at(%[[I:.+]], %[[K:.+]]) : !mlc_tile.view<"M"x256xui8> {
// CHECK-NEXT:        %[[E:.+]] = mlc_tile.read %x[%[[I]], %[[K]]] : tensor<i8>
// CHECK-NEXT:        %[[LOW:.+]] = mlc.constant dense<-128> : tensor<i8>
// CHECK-NEXT:        %[[T:.+]] = mlc.add %[[E]], %[[LOW]] : tensor<i8>
// CHECK-NEXT:        mlc.convert %[[T]] : tensor<i8> -> tensor<ui8>
// CHECK:           mlc_tile.copy %[[SHIFTED]][%m + 12*J + m, c + 4*k] -> %packed_a "(kc)(Jm) -> Jkmc" over (J (%m_left + 11) floordiv 12, k 64, c 4)
// CHECK-NEXT:      mlc_tile.dot "mkc,kcn->mn" %packed_a[m floordiv 12, k, (m) mod 12, c], %packed_b[n floordiv 32, k, (n) mod 32, c] over (k 64, c 4) zero(128) : !mlc_tile.frag<48x512xi32>
mlc_tile.kernel @bytes(%x: !mlc_tile.view<"M"x256xi8>, %w: !mlc_tile.view<256x512xi8>) -> (%y: !mlc_tile.view<"M"x512xi32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, group 4, i8, team), block(m, 48, team), pack(a, panels 12, group 4, u8), edge(k, pack)]>} {
  %v = mlc_tile.elements at(%k, %n) : !mlc_tile.view<256x512xi32> {
    %e = mlc_tile.read %w[%k, %n] : tensor<i8>
    %c = mlc.convert %e : tensor<i8> -> tensor<i32>
    mlc_tile.yield %c : tensor<i32>
  }
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %v[k, n] over (k 256) : !mlc_tile.frag<"M"x512xi32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// The same, multiplied by that instruction: what a is too much is summed once for all rows that meet a panel.
// CHECK-LABEL: @bytes_in_registers(
// CHECK:         %beyond = mlc_tile.alloc worker : !mlc_tile.view<32xi32>
// CHECK:           mlc_tile.for %n in 512 step 32 deal(team when "M" < 24*workers) {
// CHECK-NEXT:        %[[MUCH:.+]] = mlc_tile.elements at(%{{.+}}) : !mlc_tile.view<4xui8> {
// CHECK-NEXT:          mlc.constant dense<128> : tensor<ui8>
// CHECK:             %[[SUMS:.+]] = mlc_tile.dot "c,kcn->n" %[[MUCH]][c], %packed_b[%n floordiv 32, k, n, c] over (k 64, c 4) via dot_u8s8 : !mlc_tile.frag<32xi32>
// CHECK-NEXT:        %[[LESS:.+]] = mlc_tile.map(%{{.+}} = %[[SUMS]]) -> (!mlc_tile.frag<32xi32>) {
// CHECK-NEXT:          mlc.neg
// CHECK:             mlc_tile.store %[[LESS]], %beyond[n] as "n"
// CHECK-NEXT:        mlc_tile.for %m_1 in %m_left step 12 {
// CHECK-NEXT:          %[[BEGIN:.+]] = mlc_tile.map() at(%{{.+}}, %[[N:.+]]) -> (!mlc_tile.frag<12x32xi32>) {
// CHECK-NEXT:            mlc_tile.read %beyond[%[[N]]] : tensor<i32>
// CHECK:               mlc_tile.dot "mkc,kcn->mn" {{.*}} over (k 64, c 4) init %[[BEGIN]] via dot_u8s8 clamp(m) : !mlc_tile.frag<12x32xi32>
mlc_tile.kernel @bytes_in_registers(%x: !mlc_tile.view<"M"x256xi8>, %w: !mlc_tile.view<256x512xi8>) -> (%y: !mlc_tile.view<"M"x512xi32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, group 4, i8, team), block(m, 48, team), pack(a, panels 12, group 4, u8), register(m 12, n 32), via(dot_u8s8), edge(m, clamp), edge(k, pack)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xi32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// pack as f32: elements are converted while they are copied.
// CHECK-LABEL: @widened(
// CHECK:         %[[WIDE:.+]] = mlc_tile.elements at(%{{.+}}, %{{.+}}) : !mlc_tile.view<256x512xf32> {
// CHECK:           mlc.convert %{{.+}} : tensor<bf16> -> tensor<f32>
// CHECK:         mlc_tile.copy %[[WIDE]][k, 32*J + n] -> %packed_b "k(Jn) -> Jkn" over (J 16, k 256)
mlc_tile.kernel @widened(%x: !mlc_tile.view<48x256xbf16>, %w: !mlc_tile.view<256x512xbf16>) -> (%y: !mlc_tile.view<48x512xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, f32)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<48x512xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// Blocks of columns and of rows that workers share are one loop.
// CHECK-LABEL: @grid(
// CHECK:         mlc_tile.for %n in 512 step 128 as %n_left, %m in "M" step 48 as %m_left deal(team) {
// CHECK-NEXT:      mlc_tile.for %n_1 in %n_left step 32 {
// CHECK-NEXT:        mlc_tile.for %m_1 in %m_left step 12 {
// CHECK-NEXT:          %s = mlc_tile.dot "mk,kn->mn" %x[%m + %m_1 + m, k], %packed_b[(%n + %n_1) floordiv 32, k, n] over (k 256) via fma clamp(m) : !mlc_tile.frag<12x32xf32>
mlc_tile.kernel @grid(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, team), block(n, 128, team), block(m, 48, team), register(m 12, n 32), via(fma), edge(m, clamp)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// register: rows inside columns; panels are found by number. Shares are cut between register tiles,
// and where there are few rows workers share the columns. via, edge and prefetch mark the product.
// CHECK-LABEL: @registers(
// CHECK:         mlc_tile.for %m in "M" step 48 as %m_left deal(team 12 when "M" >= 24*workers) {
// CHECK-NEXT:      mlc_tile.for %n in 512 step 32 deal(team when "M" < 24*workers) {
// CHECK-NEXT:        mlc_tile.for %m_1 in %m_left step 12 {
// CHECK-NEXT:          mlc_tile.prefetch %y[%m + %m_1 + m, %n + n] as "mn" write : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:          %s = mlc_tile.dot "mk,kn->mn" %x[%m + %m_1 + m, k], %packed_b[%n floordiv 32, k, n] over (k 256) via fma clamp(m) prefetch(0, 2) : !mlc_tile.frag<12x32xf32>
// CHECK-NEXT:          %t = mlc_tile.map(%e = %s) at(%i = %m + %m_1, %j = %n) -> (!mlc_tile.frag<12x32xf32>) {
mlc_tile.kernel @registers(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 32, team), block(m, 48, team), register(m 12, n 32), via(fma), edge(m, clamp), prefetch(b, 2), prefetch(c)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  %t = mlc_tile.map(%e = %s) at(%i, %j) -> (!mlc_tile.frag<"M"x512xf32>) {
    %v = mlc.abs %e : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// case: each list cuts a copy of the program, and the kernel runs the first whose condition holds.
// CHECK-LABEL: @cases(
// CHECK-NEXT:    %packed_b = mlc_tile.alloc worker : !mlc_tile.view<8x256x64xf32>
// CHECK-NEXT:    mlc_tile.case "M" < 8 {
// CHECK:             mlc_tile.for %m in "M" step 4 {
// CHECK:         } else case 131072*"M" < 262144 {
// CHECK:             mlc_tile.for %m_1 in "M" {
// CHECK:         } else {
// CHECK-NEXT:      mlc_tile.copy %w[k, 64*J + n] -> %packed_b "k(Jn) -> Jkn" over (J 8, k 256)
// CHECK:             mlc_tile.for %m_2 in "M" step 6 {
mlc_tile.kernel @cases(%x: !mlc_tile.view<"M"x256xf32>, %w: !mlc_tile.view<256x512xf32>) -> (%y: !mlc_tile.view<"M"x512xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 64), register(m 6, n 64), case(m, below 8), register(m 4, n 64), case(mnk, below 262144), register(m 1, n 64)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 256) : !mlc_tile.frag<"M"x512xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: case(n, below 8): the product has no axis 'n'; expected some of g, m, k
mlc_tile.kernel @column(%x: !mlc_tile.view<8x8xf32>, %w: !mlc_tile.view<8xf32>) -> (%y: !mlc_tile.view<8xf32>) attributes {schedule = #mlc.schedule<[via(fma), case(n, below 8), via(fma)]>} {
  %s = mlc_tile.dot "mk,k->m" %x[m, k], %w[k] over (k 8) : !mlc_tile.frag<8xf32>
  mlc_tile.store %s, %y[m] as "m"
}

// -----

// An axis of a size by name: where there is nothing to sum a trip writes the results all the same.
// CHECK-LABEL: @depth(
// CHECK:         mlc_tile.for %k in "K" step 64 as %k_left once {
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %x[m, %k + k], %w[%k + k, n] over (k %k_left) : !mlc_tile.frag<8x8xf32>
// CHECK-NEXT:      {{.*}} = mlc_tile.if first(%k)
mlc_tile.kernel @depth(%x: !mlc_tile.view<8x"K"xf32>, %w: !mlc_tile.view<"K"x8xf32>) -> (%y: !mlc_tile.view<8x8xf32>) attributes {schedule = #mlc.schedule<[block(k, 64)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k "K") : !mlc_tile.frag<8x8xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// With numerics "strict" sums are added in turn: each block begins with what waits in the result.
// CHECK-LABEL: @strict(
// CHECK:         mlc_tile.for %k in 96 step 64 as %k_left {
// CHECK-NEXT:      [[E:%.*]] = mlc_tile.if first(%k) -> (!mlc_tile.frag<8x8xf32>) {
// CHECK:           } else {
// CHECK-NEXT:        [[W:%.*]] = mlc_tile.load %y[m, n] as "mn" : !mlc_tile.frag<8x8xf32>
// CHECK-NEXT:        mlc_tile.yield [[W]]
// CHECK-NEXT:      }
// CHECK-NEXT:      %s = mlc_tile.dot "mk,kn->mn" %x[m, %k + k], %w[%k + k, n] over (k %k_left) init [[E]] : !mlc_tile.frag<8x8xf32>
// CHECK-NEXT:      mlc_tile.store %s, %y[m, n] as "mn"
builtin.module attributes {mlc.numerics = "strict"} {
  mlc_tile.kernel @strict(%x: !mlc_tile.view<8x96xf32>, %w: !mlc_tile.view<96x8xf32>) -> (%y: !mlc_tile.view<8x8xf32>) attributes {schedule = #mlc.schedule<[block(k, 64)]>} {
    %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 96) : !mlc_tile.frag<8x8xf32>
    mlc_tile.store %s, %y[m, n] as "mn"
  }
}

// -----

// CHECK: tiles: block(k, 16): sums wait in the result between the blocks of one loop; expected one block of k
mlc_tile.kernel @twice(%x: !mlc_tile.view<8x96xf32>, %w: !mlc_tile.view<96x8xf32>) -> (%y: !mlc_tile.view<8x8xf32>) attributes {schedule = #mlc.schedule<[block(k, 64), block(k, 16)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 96) : !mlc_tile.frag<8x8xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: block(k, 4): sums of f32 wait in the one result that has their dtype; narrow writes !mlc_tile.view<8x8xbf16>
mlc_tile.kernel @narrow(%x: !mlc_tile.view<8x8xbf16>) -> (%y: !mlc_tile.view<8x8xbf16>) attributes {schedule = #mlc.schedule<[block(k, 4)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %x[k, n] over (k 8) : !mlc_tile.frag<8x8xf32>
  %t = mlc_tile.convert %s : !mlc_tile.frag<8x8xf32> to !mlc_tile.frag<8x8xbf16>
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// The result lies where c does, which is read after the sums: these wait elsewhere.
// CHECK:       mlc_tile.kernel @scratch
// CHECK-NEXT:    %sums = mlc_tile.alloc team : !mlc_tile.view<8x8xf32>
// CHECK-NEXT:    mlc_tile.for %k in 32 step 16 {
// CHECK:           mlc_tile.if first(%k)
// CHECK:             mlc_tile.load %sums[%m + m, %n + n] as "mn"
// CHECK:           mlc_tile.if last(%k) {
// CHECK:             mlc_tile.store %t, %y[%m + m, %n + n] as "mn"
// CHECK-NEXT:      } else {
// CHECK-NEXT:        mlc_tile.store %{{.*}}, %sums[%m + m, %n + n] as "mn"
mlc_tile.kernel @scratch(%a: !mlc_tile.view<8x32xf32>, %b: !mlc_tile.view<32x8xf32>, %c: !mlc_tile.view<8x8xf32>) -> (%y: !mlc_tile.view<8x8xf32>) attributes {over = [2], schedule = #mlc.schedule<[sums(scratch), block(k, 16), register(m 4, n 8)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 32) : !mlc_tile.frag<8x8xf32>
  %t = mlc_tile.map(%e = %s) at(%m, %n) -> (!mlc_tile.frag<8x8xf32>) {
    %d = mlc_tile.read %c[%m, %n] : tensor<f32>
    %v = mlc.add %e, %d : tensor<f32>
    mlc_tile.yield %v : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: block(k, 16): sums wait in the result, which lies where over reads what it needs after them; expected sums(scratch) before
mlc_tile.kernel @over(%a: !mlc_tile.view<8x32xf32>, %b: !mlc_tile.view<32x8xf32>) -> (%y: !mlc_tile.view<8x8xf32>) attributes {over = [0], schedule = #mlc.schedule<[block(k, 16)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 32) : !mlc_tile.frag<8x8xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: pack(b, panels 8): the factor has the axes g, k, n; expected n and k alone: block the others first
mlc_tile.kernel @batch(%x: !mlc_tile.view<2x8x8xf32>) -> (%y: !mlc_tile.view<2x8x8xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 8)]>} {
  %s = mlc_tile.dot "gmk,gkn->gmn" %x[g, m, k], %x[g, k, n] over (k 8) : !mlc_tile.frag<2x8x8xf32>
  mlc_tile.store %s, %y[g, m, n] as "gmn"
}

// -----

// CHECK: tiles: pack(b, panels 8): the size of n is N; expected a number: block it first
mlc_tile.kernel @wide(%x: !mlc_tile.view<8x8xf32>, %w: !mlc_tile.view<8x"N"xf32>) -> (%y: !mlc_tile.view<8x"N"xf32>) attributes {schedule = #mlc.schedule<[pack(b, panels 8)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %x[m, k], %w[k, n] over (k 8) : !mlc_tile.frag<8x"N"xf32>
  mlc_tile.store %s, %y[m, n] as "mn"
}

// -----

// CHECK: tiles: words cut programs with one product; none has 0
mlc_tile.kernel @none(%x: !mlc_tile.view<8xf32>) -> () attributes {schedule = #mlc.schedule<[via(fma)]>} {
}

// -----

// prefetch(c): what is read beside each sum is asked for as well, along rows; a bias and a transposed read are not.
// CHECK-LABEL: @beside(
// CHECK:            mlc_tile.prefetch %y[%m + m, %n + n] as "mn" write : !mlc_tile.frag<4x16xf32>
// CHECK-NEXT:       mlc_tile.prefetch %c[%m + m + 1, %n + n] as "mn" : !mlc_tile.frag<4x16xf64>
// CHECK-NEXT:       mlc_tile.dot
mlc_tile.kernel @beside(%a: !mlc_tile.view<8x32xf32>, %b: !mlc_tile.view<32x32xf32>, %c: !mlc_tile.view<9x32xf64>, %d: !mlc_tile.view<32xf32>, %e: !mlc_tile.view<32x8xf32>) -> (%y: !mlc_tile.view<8x32xf32>) attributes {schedule = #mlc.schedule<[register(m 4, n 16), prefetch(c)]>} {
  %s = mlc_tile.dot "mk,kn->mn" %a[m, k], %b[k, n] over (k 32) : !mlc_tile.frag<8x32xf32>
  %t = mlc_tile.map(%x = %s) at(%m, %n) -> (!mlc_tile.frag<8x32xf32>) {
    %u = mlc_tile.read %c[%m + 1, %n] : tensor<f64>
    %v = mlc.convert %u : tensor<f64> -> tensor<f32>
    %w = mlc_tile.read %d[%n] : tensor<f32>
    %z = mlc_tile.read %e[%n, %m] : tensor<f32>
    %p = mlc.add %x, %v : tensor<f32>
    %q = mlc.add %p, %w : tensor<f32>
    %r = mlc.add %q, %z : tensor<f32>
    mlc_tile.yield %r : tensor<f32>
  }
  mlc_tile.store %t, %y[m, n] as "mn"
}
