// What lowering relies on: each broken once. The first program is whole.
// RUN: mlc opt %s --target avx2 -p check-tiles --split-input-file --verify-diagnostics | filecheck %s

// CHECK: mlc_tile.kernel @whole
// CHECK: mlc_tile.barrier
mlc_tile.kernel @whole(%a: !mlc_tile.view<"M"x64xf32>, %b: !mlc_tile.view<64x64xf32>) -> (%c: !mlc_tile.view<"M"x64xf32>) workers("M" by 1) {
  %bp = mlc_tile.alloc team : !mlc_tile.view<4x32x16xf32>
  mlc_tile.for %p in 64 step 32 {
    mlc_tile.barrier
    mlc_tile.copy %b[%p] -> %bp "k (J n) -> J k n" deal(team, J)
    mlc_tile.barrier
    mlc_tile.for %i in "M" step 4 deal(team) {
      mlc_tile.for %j in 64 step 16 {
        %s = mlc_tile.dot "mk,kn->mn" %a[%i, %p], %bp[%j floordiv 16] over (k 32) via fma : !mlc_tile.frag<4x16xf32>
        mlc_tile.if first(%p) {
          mlc_tile.store %s, %c[%i, %j]
        } else {
          %e = mlc_tile.load %c[%i, %j] : !mlc_tile.frag<4x16xf32>
          %t = mlc_tile.map(%x = %s, %y = %e) -> (!mlc_tile.frag<4x16xf32>) {
            %z = mlc.add %x, %y : tensor<f32>
            mlc_tile.yield %z : tensor<f32>
          }
          mlc_tile.store %t, %c[%i, %j]
        }
      }
    }
  }
}

// -----

mlc_tile.kernel @row(%a: !mlc_tile.view<4x8xbf16>, %b: !mlc_tile.view<8x8xbf16>) -> () {
  // CHECK: check-tiles.mlir:[[# @LINE + 1]]:3: error: mlc-check-tiles: mlc_tile.dot: avx2 has no instruction amx_bf16 for bf16, bf16, f32; expected one of
  %s = mlc_tile.dot "mk,kn->mn" %a, %b over (k 8) via amx_bf16 : !mlc_tile.frag<16x16xf32>
}

// -----

mlc_tile.kernel @part_of_a_vector(%a: !mlc_tile.view<4x8xf32>, %b: !mlc_tile.view<8x8xf32>) -> () {
  // CHECK: mlc_tile.dot: a tile of 4x12 by fma, which makes 1x8 at a time: expected a multiple of 8 along n
  %s = mlc_tile.dot "mk,kn->mn" %a, %b over (k 8) via fma : !mlc_tile.frag<4x12xf32>
}

// -----

mlc_tile.kernel @registers(%a: !mlc_tile.view<8x8xf32>, %b: !mlc_tile.view<8x16xf32>) -> () {
  // CHECK: mlc_tile.dot: a tile of 8x16 by fma does not fit into the registers; expected a smaller one
  %s = mlc_tile.dot "mk,kn->mn" %a, %b over (k 8) via fma : !mlc_tile.frag<8x16xf32>
}

// -----

mlc_tile.kernel @pairs(%a: !mlc_tile.view<4x8xi16>, %b: !mlc_tile.view<8x8xi16>) -> () {
  // CHECK: mlc_tile.dot: madd_i16 takes summed elements by 2; expected a last letter of that size, found k of 8
  %s = mlc_tile.dot "mk,kn->mn" %a, %b over (k 8) via madd_i16 : !mlc_tile.frag<4x8xi32>
}

// -----

mlc_tile.kernel @scratch() -> () {
  %0 = mlc_tile.alloc worker : !mlc_tile.view<1024xf32>
  // CHECK: mlc_tile.alloc: {{.*}} bytes of scratch of a worker; avx2 has {{.*}} in the cache for them
  %1 = mlc_tile.alloc worker : !mlc_tile.view<4096x4096xf32>
}

// -----

mlc_tile.kernel @letters(%a: !mlc_tile.view<8x8xf32>) -> () {
  %0 = mlc_tile.alloc worker : !mlc_tile.view<16xf32>
  // CHECK: mlc_tile.copy: 'x y -> (xy)' puts several elements into one place of !mlc_tile.view<16xf32>
  mlc_tile.copy %a -> %0[x + y] "x y -> (xy)" over (x 8, y 8)
}

// -----

mlc_tile.kernel @read(%b: !mlc_tile.view<64xf32>) -> (%c: !mlc_tile.view<64xf32>) workers(64 by 1) {
  %s = mlc_tile.alloc team : !mlc_tile.view<64xf32>
  mlc_tile.copy %b -> %s "a -> a" deal(team, a)
  mlc_tile.for %i in 64 step 8 deal(team) {
    // CHECK: mlc_tile.load: reads what another worker writes in mlc_tile.copy at line [[# @LINE - 2]]; expected an mlc_tile.barrier between
    %x = mlc_tile.load %s[%i] : !mlc_tile.frag<8xf32>
    mlc_tile.store %x, %c[%i]
  }
}

// -----

mlc_tile.kernel @overwrite(%b: !mlc_tile.view<4x64xf32>) -> (%c: !mlc_tile.view<4x64xf32>) workers(64 by 1) {
  %s = mlc_tile.alloc team : !mlc_tile.view<64xf32>
  mlc_tile.for %p in 4 {
    // CHECK: mlc_tile.copy: writes what another worker reads in mlc_tile.load
    mlc_tile.copy %b[%p] -> %s "a -> a" deal(team, a)
    mlc_tile.barrier
    mlc_tile.for %i in 64 step 8 deal(team) {
      %x = mlc_tile.load %s[%i] : !mlc_tile.frag<8xf32>
      mlc_tile.store %x, %c[%p, %i]
    }
  }
}

// -----

mlc_tile.kernel @computed(%b: !mlc_tile.view<8x8xf32>) -> (%c: !mlc_tile.view<8x8xf32>) workers(64 by 1) {
  %s = mlc_tile.alloc team : !mlc_tile.view<8x8xf32>
  %e = mlc_tile.elements at(%m, %k) : !mlc_tile.view<8x8xf32> {
    %f = mlc_tile.read %s[%m, %k] : tensor<f32>
    mlc_tile.yield %f : tensor<f32>
  }
  mlc_tile.copy %b -> %s "a b -> a b" deal(team, a)
  mlc_tile.for %i in 8 step 4 deal(team) {
    // CHECK: mlc_tile.dot: reads what another worker writes in mlc_tile.copy
    %x = mlc_tile.dot "mk,kn->mn" %e[%i], %b over (k 8) via fma : !mlc_tile.frag<4x8xf32>
    mlc_tile.store %x, %c[%i]
  }
}

// -----

mlc_tile.kernel @uniform() -> () workers(64 by 1) {
  mlc_tile.for %i in 64 step 8 deal(team when 8 >= workers) {
    // CHECK: mlc_tile.barrier: stands in a loop whose trips differ from worker to worker
    mlc_tile.barrier
  }
}

// -----

mlc_tile.kernel @in_a_share() -> () workers(64 by 1) {
  mlc_tile.for %i in 64 step 8 deal(team) {
    // CHECK: mlc_tile.alloc: memory of a team in a loop that is dealt
    %s = mlc_tile.alloc team : !mlc_tile.view<64xf32>
  }
}

// -----

mlc_tile.kernel @everybody(%b: !mlc_tile.view<64xf32>) -> (%c: !mlc_tile.view<64xf32>) workers(64 by 1) {
  %x = mlc_tile.load %b : !mlc_tile.frag<8xf32>
  // CHECK: mlc_tile.store: every worker stores to a result; expected a loop around it that is dealt
  mlc_tile.store %x, %c
}

// -----

mlc_tile.kernel @same(%b: !mlc_tile.view<64x8xf32>) -> (%c: !mlc_tile.view<8xf32>) workers(64 by 1) {
  mlc_tile.for %i in 64 deal(team) {
    %x = mlc_tile.load %b[%i] : !mlc_tile.frag<8xf32>
    // CHECK: mlc_tile.store: workers store to the same elements: no subscript has %i, whose trips are dealt
    mlc_tile.store %x, %c
  }
}

// -----

mlc_tile.kernel @again(%b: !mlc_tile.view<64x8xf32>) -> (%c: !mlc_tile.view<8xf32>) {
  mlc_tile.for %p in 64 {
    %x = mlc_tile.load %b[%p] : !mlc_tile.frag<8xf32>
    // CHECK: mlc_tile.store: each trip of %p stores to the same elements; expected sums that begin with what is there, or a condition first or last(%p)
    mlc_tile.store %x, %c
  }
}

// -----

mlc_tile.kernel @epilogue(%b: !mlc_tile.view<64x8xf32>) -> (%c: !mlc_tile.view<8xf32>) {
  mlc_tile.for %p in 64 {
    %x = mlc_tile.load %b[%p] : !mlc_tile.frag<8xf32>
    %y = mlc_tile.load %c : !mlc_tile.frag<8xf32>
    %z = mlc_tile.map(%a = %x, %e = %y) -> (!mlc_tile.frag<8xf32>) {
      %s = mlc.add %a, %e : tensor<f32>
      %t = mlc.exp %s : tensor<f32>
      mlc_tile.yield %t : tensor<f32>
    }
    // CHECK: mlc_tile.store: what is done to sums stands in each trip of %p; expected it under last(%p)
    mlc_tile.store %z, %c
  }
}

// -----

mlc_tile.kernel @strided(%b: !mlc_tile.view<8xf32, strided>) -> (%c: !mlc_tile.view<8xf32>) {
  %x = mlc_tile.load %b : !mlc_tile.frag<8xf32>
  mlc_tile.store %x, %c
}
func.func @main(%b: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mlc_tile.call: argument 0 lies in one piece, its view in @strided strided; expected the same layout
  %c = mlc_tile.call @strided(%b) : (tensor<8xf32>) -> tensor<8xf32> {buffers = [#mlc.buffer<out 0>]}
  func.return %c : tensor<8xf32>
}

// -----

mlc_tile.kernel @dense(%b: !mlc_tile.view<8xf32>) -> (%c: !mlc_tile.view<8xf32>) {
  %x = mlc_tile.load %b : !mlc_tile.frag<8xf32>
  mlc_tile.store %x, %c
}
func.func @main(%b: tensor<8xf32> {mlc.layout = "general"}) -> tensor<8xf32> {
  // CHECK: mlc_tile.call: argument 0 lies strided, its view in @dense in one piece; expected the same layout
  %c = mlc_tile.call @dense(%b) : (tensor<8xf32>) -> tensor<8xf32> {buffers = [#mlc.buffer<out 0>]}
  func.return %c : tensor<8xf32>
}
