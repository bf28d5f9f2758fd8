// The word `split`: parts of a summed axis that workers take one by one, and sums of the parts as a tree; and blocks
// that they take so.
// RUN: mlc opt %s -p plan-to-tiles,apply-words --split-input-file --verify-diagnostics | filecheck %s

// CHECK:         %parts = mlc_tile.alloc team : !mlc_tile.view<3x9x40xf32>
// CHECK-NEXT:    mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.for %k in 8000 step 2667 as %k_left deal(dynamic) {
// CHECK-NEXT:      mlc_tile.for %n in 40 step 48 {
// CHECK-NEXT:        mlc_tile.for %m in 9 step 3 {
// CHECK-NEXT:          %0 = mlc_tile.dot "mk,kn->mn" %a[%m + m, %k + k], %b[%k + k, %n + n] over (k %k_left) via fma : !mlc_tile.frag<3x48xf32>
// CHECK-NEXT:          mlc_tile.store %0, %parts[%k floordiv 2667, %m + m, %n + n] as "mn"
// CHECK:         mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.for %m_1 in 9, %n_1 in 40 step 32 deal(team) {
// CHECK-NEXT:      %1 = mlc_tile.load %parts[0, %m_1 + m, %n_1 + n] as "mn" : !mlc_tile.frag<1x32xf32>
// CHECK-NEXT:      %2 = mlc_tile.load %parts[1, %m_1 + m, %n_1 + n] as "mn" : !mlc_tile.frag<1x32xf32>
// CHECK-NEXT:      %3 = mlc_tile.load %parts[2, %m_1 + m, %n_1 + n] as "mn" : !mlc_tile.frag<1x32xf32>
// CHECK-NEXT:      %4 = mlc_tile.map(%5 = %1, %6 = %2)
// CHECK:           %8 = mlc_tile.map(%9 = %4, %10 = %3)
// CHECK:           %12 = mlc_tile.map(%13 = %8) at(%14 = %m_1, %15 = %n_1)
// CHECK:           mlc_tile.store %12, %y[%m_1 + m, %n_1 + n] as "mn"
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @first(%a: tensor<9x8000xf32>, %b: tensor<8000x40xf32>, %c: tensor<40xf32>) -> tensor<9x40xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "contraction" (%x = %a, %w = %b, %z = %c) : (tensor<9x8000xf32>, tensor<8000x40xf32>, tensor<40xf32>) -> (tensor<9x40xf32>) {
      %s = mlc.contract "mk,kn->mn" %x, %w : tensor<9x8000xf32>, tensor<8000x40xf32> -> tensor<9x40xf32>
      %t = mlc.broadcast "n->mn" %z : tensor<40xf32> -> tensor<9x40xf32>
      %u = mlc.add %s, %t : tensor<9x40xf32>
      mlc.yield %u : tensor<9x40xf32>
    } {schedule = #mlc.schedule<[split(k, 3), register(m 3, n 48), via(fma), edge(n, mask), grain(20000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<9x40xf32>
  }
}
// -----

// CHECK:         mlc_tile.barrier
// CHECK-NEXT:    mlc_tile.for %n in 300 step 64 as %n_left, %m in 100 step 24 as %m_left deal(dynamic) {
// CHECK-NEXT:      mlc_tile.copy %b[k, %n + 64*J + n] -> %packed_b "k(Jn) -> Jkn" over (J (%n_left + 63) floordiv 64, k 200)
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @second(%a: tensor<100x200xf32>, %b: tensor<200x300xf32>) -> tensor<100x300xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "contraction" (%x = %a, %w = %b) : (tensor<100x200xf32>, tensor<200x300xf32>) -> (tensor<100x300xf32>) {
      %s = mlc.contract "mk,kn->mn" %x, %w : tensor<100x200xf32>, tensor<200x300xf32> -> tensor<100x300xf32>
      mlc.yield %s : tensor<100x300xf32>
    } {schedule = #mlc.schedule<[block(n, 64, team, dynamic), block(m, 24, team, dynamic), pack(b, panels 64), register(m 6, n 64), via(fma), edge(m, clamp), edge(n, mask), grain(20000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<100x300xf32>
  }
}

// -----

// CHECK: split(m, 4): m is not summed; expected k
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @rows(%a: tensor<100x200xf32>, %b: tensor<200x300xf32>) -> tensor<100x300xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "contraction" (%x = %a, %w = %b) : (tensor<100x200xf32>, tensor<200x300xf32>) -> (tensor<100x300xf32>) {
      %s = mlc.contract "mk,kn->mn" %x, %w : tensor<100x200xf32>, tensor<200x300xf32> -> tensor<100x300xf32>
      mlc.yield %s : tensor<100x300xf32>
    } {schedule = #mlc.schedule<[split(m, 4), register(m 6, n 64), via(fma)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<100x300xf32>
  }
}

// -----

// CHECK: split(k, 4): stands behind other words; expected it before them
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @late(%a: tensor<100x200xf32>, %b: tensor<200x300xf32>) -> tensor<100x300xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "contraction" (%x = %a, %w = %b) : (tensor<100x200xf32>, tensor<200x300xf32>) -> (tensor<100x300xf32>) {
      %s = mlc.contract "mk,kn->mn" %x, %w : tensor<100x200xf32>, tensor<200x300xf32> -> tensor<100x300xf32>
      mlc.yield %s : tensor<100x300xf32>
    } {schedule = #mlc.schedule<[register(m 6, n 64), split(k, 4), via(fma)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<100x300xf32>
  }
}
