// What a tile program may not say, and what is said about it.
// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: mlc_tile.kernel: argument f32; expected a !mlc_tile.view
mlc_tile.kernel @argument(%x: f32) -> () {
}

// -----

// CHECK: mlc_tile.view: layout 'columns'; expected rows, strided or none
mlc_tile.kernel @layout(%x: !mlc_tile.view<4xf32, columns>) -> () {
}

// -----

mlc_tile.kernel @frag(%x: !mlc_tile.view<0xf32>) -> () {
  // CHECK: mlc_tile.frag: size 0; expected at least 1
  %t = mlc_tile.load %x : !mlc_tile.frag<0xf32>
}

// -----

mlc_tile.kernel @grain(%x: !mlc_tile.view<4xf32>) -> () workers(4 by 0) {
  // CHECK: mlc_tile.kernel: grain 0; expected 1 or more
}

// -----

mlc_tile.kernel @k(%x: !mlc_tile.view<4xf32>) -> (%y: !mlc_tile.view<4xf32>) {
}
func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
  // CHECK: mlc_tile.call: operand tensor<8xf32>; @k takes !mlc_tile.view<4xf32>
  %y = mlc_tile.call @k(%x) : (tensor<8xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mlc_tile.call: no mlc_tile.kernel is called @k
  %y = mlc_tile.call @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

mlc_tile.kernel @scope(%x: !mlc_tile.view<4xf32>) -> () {
  // CHECK: mlc_tile.alloc: of 'cluster'; expected one of team, worker
  %p = mlc_tile.alloc cluster : !mlc_tile.view<4xf32>
}

// -----

mlc_tile.kernel @step(%x: !mlc_tile.view<4xf32>) -> () {
  // CHECK: mlc_tile.for: step 0; expected at least 1
  mlc_tile.for %i in 4 step 0 {
  }
}

// -----

mlc_tile.kernel @unit(%x: !mlc_tile.view<"M"xf32>) -> () {
  // CHECK: mlc_tile.for: dealt in units of 5; expected a divisor of the step 12
  mlc_tile.for %i in "M" step 12 deal(team 5) {
  }
}

// -----

mlc_tile.kernel @several(%x: !mlc_tile.view<"M"xf32>) -> () {
  // CHECK: mlc_tile.for: several axes are dealt trip by trip
  mlc_tile.for %i in "M" step 12, %j in 4 deal(team 4) {
  }
}

// -----

mlc_tile.kernel @twice(%x: !mlc_tile.view<"M"xf32>) -> () {
  mlc_tile.for %i in "M" deal(team) {
    // CHECK: mlc_tile.for: a dealt loop stands in a dealt loop
    mlc_tile.for %j in 4 deal(team) {
    }
  }
}

// -----

mlc_tile.kernel @fold(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.for: what a dealt loop carries needs a fold
  %s = mlc_tile.for %i in 4 deal(team) carry(%c = %t) -> (!mlc_tile.frag<4xf32>) {
    mlc_tile.yield %c : !mlc_tile.frag<4xf32>
  }
}

// -----

mlc_tile.kernel @carried(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.for: the region yields (); expected (!mlc_tile.frag<4xf32>)
  %s = mlc_tile.for %i in 4 carry(%c = %t) -> (!mlc_tile.frag<4xf32>) {
  }
}

// -----

mlc_tile.kernel @barrier(%x: !mlc_tile.view<"M"xf32>) -> () {
  mlc_tile.for %i in "M" deal(team) {
    // CHECK: mlc_tile.barrier: stands in a dealt loop, whose trips differ from worker to worker
    mlc_tile.barrier
  }
}

// -----

mlc_tile.kernel @first(%x: !mlc_tile.view<4xf32>) -> () {
  mlc_tile.for %i in 4 {
    // CHECK: error: letter 'many'; expected one character, or a size in quotes
    mlc_tile.if %i < many {
    }
  }
}

// -----

mlc_tile.kernel @results(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  mlc_tile.for %i in 4 {
    // CHECK: mlc_tile.if: results need an else
    %u = mlc_tile.if first(%i) -> (!mlc_tile.frag<4xf32>) {
      mlc_tile.yield %t : !mlc_tile.frag<4xf32>
    }
  }
}

// -----

mlc_tile.kernel @case(%x: !mlc_tile.view<4xf32>) -> () {
  // CHECK: mlc_tile.case: expected conditions, and a region without any
  mlc_tile.case "M" == 0 {
  }
}

// -----

mlc_tile.kernel @part(%x: !mlc_tile.view<4x4xf32>) -> () {
  %p = mlc_tile.alloc worker : !mlc_tile.view<8x4xf32>
  // CHECK: mlc_tile.copy: part of !mlc_tile.view<8x4xf32>; expected a slot
  mlc_tile.copy %x -> %p "a b -> a b" over (a 4) part
}

// -----

mlc_tile.kernel @letters(%x: !mlc_tile.view<4x4xf32>) -> () {
  %p = mlc_tile.alloc worker : !mlc_tile.view<4x4xf32>
  // CHECK: mlc_tile.copy: 'a b -> a c': b, c on one side alone; expected each letter on both
  mlc_tile.copy %x -> %p "a b -> a c"
}

// -----

mlc_tile.kernel @malformed(%x: !mlc_tile.view<4x4xf32>) -> () {
  %p = mlc_tile.alloc worker : !mlc_tile.view<4x4xf32>
  // CHECK: letters 'a (b -> a b': expected such as 'k (J n) -> J k n', no letter twice on one side
  mlc_tile.copy %x -> %p "a (b -> a b"
}

// -----

mlc_tile.kernel @sizes(%x: !mlc_tile.view<4x4xf32>) -> () {
  %p = mlc_tile.alloc worker : !mlc_tile.view<16xf32>
  // CHECK: mlc_tile.copy: letter a has no size; say it after over
  mlc_tile.copy %x -> %p "a b -> (a b)"
}

// -----

mlc_tile.kernel @moving(%x: !mlc_tile.view<4x"N"xf32>) -> () {
  %p = mlc_tile.alloc worker : !mlc_tile.view<16xf32>
  // CHECK: mlc_tile.copy: letter b, which does not begin its axis, has no number as its size
  mlc_tile.copy %x -> %p "a b -> (a b)" over (a 4, b "N")
}

// -----

mlc_tile.kernel @rank(%x: !mlc_tile.view<4xf32>) -> () {
  // CHECK: mlc_tile.load: a tile of 2 axes (ab); what it is part of has 1
  %t = mlc_tile.load %x : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @elements(%x: !mlc_tile.view<4xf64>) -> () {
  // CHECK: mlc_tile.load: !mlc_tile.frag<4xf32> of !mlc_tile.view<4xf64>; expected equal elements
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
}

// -----

mlc_tile.kernel @named(%x: !mlc_tile.view<4x4xf32>) -> () {
  // CHECK: mlc_tile.load: the subscripts name the letters k, m; expected m, n
  %t = mlc_tile.load %x[m, k] as "mn" : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @where(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.store: conditions name letters that `as` says
  mlc_tile.store %t, %x where v < 3
}

// -----

mlc_tile.kernel @over(%x: !mlc_tile.view<4x8xf32>, %y: !mlc_tile.view<8x4xf32>) -> () {
  // CHECK: mlc_tile.dot: over j; expected sizes of k, which the result does not have
  %s = mlc_tile.dot "mk,kn->mn" %x, %y over (j 8) : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @init(%x: !mlc_tile.view<4x8xf32>, %y: !mlc_tile.view<8x4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
  // CHECK: mlc_tile.dot: sums begin with !mlc_tile.frag<4x8xf32>; expected !mlc_tile.frag<4x4xf32>
  %s = mlc_tile.dot "mk,kn->mn" %x, %y over (k 8) init %t : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @clamp(%x: !mlc_tile.view<4x8xf32>, %y: !mlc_tile.view<8x4xf32>) -> () {
  // CHECK: mlc_tile.dot: clamp k; expected letters of the result
  %s = mlc_tile.dot "mk,kn->mn" %x, %y over (k 8) clamp(k) : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @zero(%x: !mlc_tile.view<4x8xf32>, %y: !mlc_tile.view<8x4xf32>) -> () {
  // CHECK: mlc_tile.dot: zero(128) of !mlc_tile.view<4x8xf32>; expected integers
  %s = mlc_tile.dot "mk,kn->mn" %x, %y over (k 8) zero(128) : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @alone(%x: !mlc_tile.view<4x8xf32>, %y: !mlc_tile.view<8xf32>) -> () {
  // CHECK: mlc_tile.dot: letter n stands in the result alone
  %s = mlc_tile.dot "mk,k->mn" %x, %y over (k 8) : !mlc_tile.frag<4x4xf32>
}

// -----

mlc_tile.kernel @shapes(%x: !mlc_tile.view<4x8xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
  // CHECK: expected fragments of one shape
  %s = mlc_tile.map(%e = %t) -> (!mlc_tile.frag<4xf32>) {
    mlc_tile.yield %e : tensor<f32>
  }
}

// -----

mlc_tile.kernel @region(%x: !mlc_tile.view<4x8xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
  // CHECK: mlc_tile.map: mlc_tile.load in a region of elements; expected ops that compute one element from others, mlc_tile.read and mlc_tile.position
  %s = mlc_tile.map(%e = %t) -> (!mlc_tile.frag<4x8xf32>) {
    %u = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
    mlc_tile.yield %e : tensor<f32>
  }
}

// -----

mlc_tile.kernel @axes(%x: !mlc_tile.view<4x8xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
  // CHECK: mlc_tile.map: mlc.broadcast on tensor<4xf32>; expected tensors without axes
  %s = mlc_tile.map(%e = %t) -> (!mlc_tile.frag<4x8xf32>) {
    %u = mlc.broadcast "->a" %e : tensor<f32> -> tensor<4xf32>
    mlc_tile.yield %e : tensor<f32>
  }
}

// -----

mlc_tile.kernel @coordinates(%x: !mlc_tile.view<4x8xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4x8xf32>
  // CHECK: mlc_tile.map: 1 coordinates of !mlc_tile.frag<4x8xf32>; expected one an axis
  %s = mlc_tile.map(%e = %t) at(%m) -> (!mlc_tile.frag<4x8xf32>) {
    mlc_tile.yield %e : tensor<f32>
  }
}

// -----

mlc_tile.kernel @monoid(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.reduce: monoid "mean"; expected one of
  %s = mlc_tile.reduce "mean" %t along 0 : !mlc_tile.frag<f32>
}

// -----

mlc_tile.kernel @along(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.scan: axis 1 of !mlc_tile.frag<4xf32>
  %s = mlc_tile.scan "sum" %t along 1 : !mlc_tile.frag<4xf32>
}

// -----

mlc_tile.kernel @extract(%x: !mlc_tile.view<4xf32>) -> () {
  %t = mlc_tile.load %x : !mlc_tile.frag<4xf32>
  // CHECK: mlc_tile.extract: 2:5 of an axis of 4
  %s = mlc_tile.extract %t[2:5] : !mlc_tile.frag<3xf32>
}

// -----

mlc_tile.kernel @nest(%x: !mlc_tile.view<4xf32>) -> (%y: !mlc_tile.view<8xf32>) {
  // CHECK: mlc_tile.nest: the region yields (tensor<4xf32>); expected (tensor<8xf32>)
  mlc_tile.nest "cell" (%a = %x) -> (%y) {
    mlc.yield %a : tensor<4xf32>
  }
}
