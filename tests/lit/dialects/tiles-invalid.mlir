// What a tile loop may not be, and what is said about it.
// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @divides(%x: tensor<9xf32>) -> tensor<9xf32> {
  // CHECK: mlc.tiles: step 4 does not divide 9; name the tile's size with `as`
  %y = mlc.tiles (%i in 9 step 4) -> (tensor<9xf32> at (0)) {
    %t = mlc.tile %x[%i] at (0) : tensor<9xf32> -> tensor<4xf32>
    mlc.yield %t : tensor<4xf32>
  }
  func.return %y : tensor<9xf32>
}

// -----

func.func @where(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  // CHECK: mlc.tiles: result tensor<8x2xf32> at (1,); expected one axis of it for each loop axis, of extent 8
  %y = mlc.tiles (%i in 8 step 4) -> (tensor<8x2xf32> at (1)) {
    %t = mlc.tile %x[%i] at (0) : tensor<8x2xf32> -> tensor<4x2xf32>
    mlc.yield %t : tensor<4x2xf32>
  }
  func.return %y : tensor<8x2xf32>
}

// -----

func.func @yielded(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  // CHECK: mlc.tiles: the region yields (tensor<8x2xf32>); expected (tensor<4x2xf32>)
  %y = mlc.tiles (%i in 8 step 4) -> (tensor<8x2xf32> at (0)) {
    mlc.yield %x : tensor<8x2xf32>
  }
  func.return %y : tensor<8x2xf32>
}

// -----

func.func @symbols(%x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  // CHECK: mlc.tiles: symbol N has no value outside the region
  %y = mlc.tiles (%i in "N" step 4 as "N") -> (tensor<?xf32, #mlc.dims<"N">> at (0)) {
    mlc.yield %x : tensor<?xf32, #mlc.dims<"N">>
  }
  func.return %y : tensor<?xf32, #mlc.dims<"N">>
}

// -----

func.func @product(%x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  // CHECK: mlc.tiles: a symbol is a name such as 'B', found 'B*B'
  %y = mlc.tiles (%i in "N" step 4 as "B*B") -> (tensor<?xf32, #mlc.dims<"N">> at (0)) {
    mlc.yield %x : tensor<?xf32, #mlc.dims<"N">>
  }
  func.return %y : tensor<?xf32, #mlc.dims<"N">>
}

// -----

func.func @again(%x: tensor<9xf32>, %c: tensor<f32>) {
  // CHECK: mlc.tiles: each symbol names one loop axis, not again inside
  mlc.tiles (%i in 9 step 4 as "T") -> () {
    mlc.tiles (%j in 9 step 4 as "T") -> () {
      mlc.yield
    }
    mlc.yield
  }
  func.return
}

// -----

func.func @fold(%c: tensor<f32>) -> tensor<f32> {
  // CHECK: mlc.tiles: fold "mean"; expected one of sum, prod, max, min
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) fold("mean") -> (tensor<f32>) {
    mlc.yield %a : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

func.func @kind(%c: tensor<complex<f32>>) -> tensor<complex<f32>> {
  // CHECK: mlc.tiles: fold "max" is not defined for c64
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) fold("max") -> (tensor<complex<f32>>) {
    mlc.yield %a : tensor<complex<f32>>
  }
  func.return %y : tensor<complex<f32>>
}

// -----

func.func @part(%x: tensor<8x4xf32>, %i: tensor<i64>) -> tensor<4x2xf32> {
  // CHECK: mlc.tile: tensor<4x2xf32> is not a part of tensor<8x4xf32> at
  %y = mlc.tile %x[%i] at (0) : tensor<8x4xf32> -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

// -----

func.func @positions(%x: tensor<8x4xf32>, %i: tensor<i64>) -> tensor<4x4xf32> {
  // CHECK: mlc.tile: 1 positions at
  %y = mlc.tile %x[%i] at (0, 1) : tensor<8x4xf32> -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

func.func @extent(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: error: '8 +' is not a dim; expected an integer polynomial
  %y = mlc.tiles (%i in "8 +" step 4) -> (tensor<8x4xf32> at (0)) {
    mlc.yield %x : tensor<8x4xf32>
  }
  func.return %y : tensor<8x4xf32>
}

// -----

func.func @parts_that_fold(%c: tensor<f32>) -> tensor<2xf32> {
  // CHECK: mlc.tiles: 2 parts; expected at least 1, of an outermost loop that combines nothing
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) fold("sum") parts 2 -> (tensor<2xf32>) {
    mlc.yield %a : tensor<f32>
  }
  func.return %y : tensor<2xf32>
}

// -----

func.func @too_many(%c: tensor<f32>) -> tensor<3xf32> {
  // CHECK: each carried result holds 2 states along a first axis
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) parts 2 -> (tensor<3xf32>) {
    mlc.yield %a : tensor<f32>
  }
  func.return %y : tensor<3xf32>
}

// -----

func.func @half_a_state(%c: tensor<f32>) -> tensor<f32> {
  // CHECK: mlc.tiles: combine: region arguments must be tensor<f32>, tensor<f32>
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) -> (tensor<f32>) {
    mlc.yield %a : tensor<f32>
  } combine {
  ^bb0(%l: tensor<f32>):
    mlc.yield %l : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

func.func @twice(%c: tensor<f32>) -> tensor<f32> {
  // CHECK: mlc.tiles: a fold beside a region that combines all
  %y = mlc.tiles (%i in 8 step 4) iter(%a = %c) fold("sum") -> (tensor<f32>) {
    mlc.yield %a : tensor<f32>
  } combine {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    mlc.yield %l : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// Trips along %j meet at the tiles of %r.
func.func @meets_nowhere(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  // CHECK: mlc.tiles: result tensor<8x6xf32> "sum" at (0, 1); expected -1 for a loop axis whose trips meet
  %r = mlc.tiles (%i in 8 step 4, %j in 6 step 3) onto(%a) -> (tensor<8x6xf32> "sum" at (0, 1)) {
    mlc.yield %a : tensor<4x3xf32>
  }
  func.return %r : tensor<8x6xf32>
}

// -----

func.func @without_a_monoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mlc.tiles: result tensor<8xf32> at (0, -1); expected one axis of it for each loop axis, of extent 8, 6
  %r = mlc.tiles (%i in 8 step 4, %j in 6 step 3) -> (tensor<8xf32> at (0, -1)) {
    %t = mlc.tile %x[%i] at (0) : tensor<8xf32> -> tensor<4xf32>
    mlc.yield %t : tensor<4xf32>
  }
  func.return %r : tensor<8xf32>
}

// -----

func.func @no_such_monoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mlc.tiles: fold "mean"; expected one of sum, prod, max, min
  %r = mlc.tiles (%i in 8 step 4, %j in 6 step 3) onto(%a) -> (tensor<8xf32> "mean" at (0, -1)) {
    mlc.yield %a : tensor<4xf32>
  }
  func.return %r : tensor<8xf32>
}

// -----

func.func @carries_too(%x: tensor<8xf32>, %s: tensor<f32>) -> (tensor<8xf32>, tensor<f32>) {
  // CHECK: mlc.tiles: carried values beside results with a monoid; expected either
  %r, %t = mlc.tiles (%i in 8 step 4, %j in 6 step 3) onto(%a) iter(%c = %s) -> (tensor<8xf32> "sum" at (0, -1), tensor<f32>) {
    mlc.yield %a, %c : tensor<4xf32>, tensor<f32>
  }
  func.return %r, %t : tensor<8xf32>, tensor<f32>
}

// -----

func.func @names(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: 0 values of onto for 1 results with a monoid
  %r = mlc.tiles (%i in 8 step 4, %j in 6 step 3) -> (tensor<8xf32> "sum" at (0, -1)) {
    mlc.yield %x : tensor<8xf32>
  }
  func.return %r : tensor<8xf32>
}
