// The word `strip`: what a block of rows of positions reads lies row behind row in memory of its worker, so that positions
// are one axis; windows are steps along it, and what lies between rows is computed and not stored.
// RUN: mlc opt %s -p plan-to-tiles,apply-words --split-input-file --verify-diagnostics | filecheck %s

// Channels first: positions are columns. What follows the product sees rows and places in them.
// CHECK:         %strip = mlc_tile.alloc worker : !mlc_tile.view<16x398xf32>
// CHECK-NEXT:    mlc_tile.fill %strip = 0.0
// CHECK:         mlc_tile.for %g in 2, %y_1 in 28 step 10 as %y_left deal(team) {
// CHECK-NEXT:      mlc_tile.copy %x[%g, k, %y_1 + Y, X] -> %strip "kYX -> k(YX)" over (Y %y_left + 2, X 30, k 16)
// CHECK-NEXT:      mlc_tile.for %n in 336 step 48 {
// CHECK-NEXT:        mlc_tile.for %m in 24 step 8 {
// CHECK-NEXT:          %0 = mlc_tile.dot "mkij,kijn->mn" %packed_a[%m floordiv 8, k, i, j, m], %strip[k, %n + 30*i + j + n] over (k 16, i 3, j 3) via fma : !mlc_tile.frag<8x48xf32>
// CHECK-NEXT:          %1 = mlc_tile.map(%2 = %0) at(%3 = %m, %4 = %n) -> (!mlc_tile.frag<8x48xf32>) {
// CHECK-NEXT:            %5 = mlc_tile.read %z[%g, %3, %y_1 + %4 floordiv 30, (%4) mod 30] : tensor<f32>
// CHECK:               mlc_tile.store %1, %y[%g, %m + m, %y_1 + (%n + n) floordiv 30, (%n + n) mod 30] as "mn" where (%n + n) mod 30 < 28 and %n + n < 300
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @first(%x: tensor<2x16x30x30xf32>, %w: tensor<24x16x3x3xf32>, %z: tensor<2x24x28x28xf32>) -> tensor<2x24x28x28xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "window" (%a = %x, %b = %w, %c = %z) : (tensor<2x16x30x30xf32>, tensor<24x16x3x3xf32>, tensor<2x24x28x28xf32>) -> (tensor<2x24x28x28xf32>) {
      %s = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %a, %b : tensor<2x16x30x30xf32>, tensor<24x16x3x3xf32> -> tensor<2x24x28x28xf32>
      %t = mlc.add %s, %c : tensor<2x24x28x28xf32>
      mlc.yield %t : tensor<2x24x28x28xf32>
    } {schedule = #mlc.schedule<[pack(a, panels 8, team), strip(b, rows 10, unit 48), register(m 8, n 48), via(fma), grain(2080000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<2x24x28x28xf32>
  }
}
// -----

// Channels last, in steps of two: what windows read at one of their places lies together.
// CHECK:         %strip = mlc_tile.alloc worker : !mlc_tile.view<2x2x101x16xf32>
// CHECK:           mlc_tile.copy %x[%g, 2*%y_1 + P + 2*Y, Q + 2*X, j] -> %strip "jPQYX -> PQ(YX)j" over (Y %y_left + 1, X 16, P 2, Q 2, j 16)
// CHECK:               %0 = mlc_tile.dot "mkij,kijn->mn" %strip[(k) mod 2, (i) mod 2, %m + i floordiv 2 + 16*(k floordiv 2) + m, j], %packed_b[%n floordiv 32, k, i, j, n] over (k 3, i 3, j 16) via fma : !mlc_tile.frag<14x32xf32>
// CHECK-NEXT:          mlc_tile.store %0, %y[%g, %y_1 + (%m + m) floordiv 16, (%m + m) mod 16, %n + n] as "mn" where (%m + m) mod 16 < 15 and %m + m < 80
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @last(%x: tensor<2x31x31x16xf32>, %w: tensor<3x3x16x32xf32>) -> tensor<2x15x15x32xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "window" (%a = %x, %b = %w) : (tensor<2x31x31x16xf32>, tensor<3x3x16x32xf32>) -> (tensor<2x15x15x32xf32>) {
      %s = mlc.conv "n(2y+i)(2x+j)c,ijcf->nyxf" %a, %b : tensor<2x31x31x16xf32>, tensor<3x3x16x32xf32> -> tensor<2x15x15x32xf32>
      mlc.yield %s : tensor<2x15x15x32xf32>
    } {schedule = #mlc.schedule<[pack(b, panels 32, team), strip(a, rows 5, unit 14), register(m 14, n 32), via(fma), grain(2080000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<2x15x15x32xf32>
  }
}

// -----

// CHECK: strip(b, rows 4): the product has no batches or rows; expected some to share
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @no_window(%a: tensor<100x200xf32>, %b: tensor<200x300xf32>) -> tensor<100x300xf32> attributes {mlc.arena = {}} {
    %y = mlc.kernel "contraction" (%x = %a, %w = %b) : (tensor<100x200xf32>, tensor<200x300xf32>) -> (tensor<100x300xf32>) {
      %s = mlc.contract "mk,kn->mn" %x, %w : tensor<100x200xf32>, tensor<200x300xf32> -> tensor<100x300xf32>
      mlc.yield %s : tensor<100x300xf32>
    } {schedule = #mlc.schedule<[strip(b, rows 4), register(m 6, n 64), via(fma)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<100x300xf32>
  }
}

// -----

// Of a padded tensor the elements that are there are copied, and zeros around them; each once, whatever windows share it.
// CHECK:         %strip = mlc_tile.alloc worker : !mlc_tile.view<16x398xf32>
// CHECK:         %[[X:.*]] = mlc_tile.elements at(%[[G:.*]], %[[K:.*]], %[[Y:.*]], %[[PLACE:.*]]) : !mlc_tile.view<2x16x30x30xf32> {
// CHECK:           mlc_tile.read %x[%[[G]], %[[K]], %[[Y]] - 1, %[[PLACE]] - 1] where
// CHECK:           mlc_tile.copy %[[X]][%g, k, %y + Y, X] -> %strip "kYX -> k(YX)" over (Y %y_left + 2, X 30, k 16)
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @main(%x: tensor<2x16x28x28xf32>, %w: tensor<24x16x3x3xf32>) -> tensor<2x24x28x28xf32> attributes {mlc.arena = {}} {
    %r = mlc.kernel "window" (%a = %x, %b = %w) : (tensor<2x16x28x28xf32>, tensor<24x16x3x3xf32>) -> (tensor<2x24x28x28xf32>) {
      %z = mlc.constant dense<0.000000e+00> : tensor<f32>
      %p = mlc.pad %a, %z[<0, 0, 1, 1>, <0, 0, 1, 1>] : tensor<2x16x28x28xf32>, tensor<f32> -> tensor<2x16x30x30xf32>
      %s = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %p, %b : tensor<2x16x30x30xf32>, tensor<24x16x3x3xf32> -> tensor<2x24x28x28xf32>
      mlc.yield %s : tensor<2x24x28x28xf32>
    } {schedule = #mlc.schedule<[pack(a, panels 8, team), strip(b, rows 10, unit 48), register(m 8, n 48), via(fma), grain(2080000)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %r : tensor<2x24x28x28xf32>
  }
}
