// The tile loop: its text reads back as it was, and passes leave its regions whole.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s -p mlc-canonicalize,mlc-cse,mlc-dce,mlc-hoist-invariants | filecheck %s

// CHECK-LABEL: @placed_and_folded
// CHECK:         %y, %s = mlc.tiles (%i in 8 step 1, %j in "N" step 64 as "T") iter(%c = %init) fold("sum") -> (tensor<8x?xf32, #mlc.dims<8, "N">> at (0, 1), tensor<f32>) {
// CHECK-NEXT:      %t = mlc.tile %x[%i, %j] at (0, 1) : tensor<8x?xf32, #mlc.dims<8, "N">> -> tensor<1x?xf32, #mlc.dims<1, "T">>
// CHECK-NEXT:      %e = mlc.exp
// CHECK-NEXT:      %r = mlc.reduce
// CHECK-NEXT:      %next = mlc.add %c, %r
// CHECK-NEXT:      mlc.yield %e, %next
// CHECK-NEXT:    } attributes {template = "row"}
func.func @placed_and_folded(%x: tensor<8x?xf32, #mlc.dims<8, "N">>, %init: tensor<f32>) -> (tensor<8x?xf32, #mlc.dims<8, "N">>, tensor<f32>) {
  %y, %s = mlc.tiles (%i in 8 step 1, %j in "N" step 64 as "T") iter(%c = %init) fold("sum") -> (tensor<8x?xf32, #mlc.dims<8, "N">> at (0, 1), tensor<f32>) {
    %t = mlc.tile %x[%i, %j] at (0, 1) : tensor<8x?xf32, #mlc.dims<8, "N">> -> tensor<1x?xf32, #mlc.dims<1, "T">>
    %e = mlc.exp %t : tensor<1x?xf32, #mlc.dims<1, "T">>
    %r = mlc.reduce "sum" "ab->" %e : tensor<1x?xf32, #mlc.dims<1, "T">> -> tensor<f32>
    %next = mlc.add %c, %r : tensor<f32>
    mlc.yield %e, %next : tensor<1x?xf32, #mlc.dims<1, "T">>, tensor<f32>
  } attributes {template = "row"}
  func.return %y, %s : tensor<8x?xf32, #mlc.dims<8, "N">>, tensor<f32>
}

// A result that nobody reads keeps the loop as it is; what is invariant and of the region's size stays.
// CHECK-LABEL: @nested
// CHECK:         %y, %t = mlc.tiles (%i in 32 step 8) iter(%c = %init) -> (tensor<32x9xf32> at (0), tensor<9xf32>) {
// CHECK-NEXT:      %a = mlc.tile
// CHECK-NEXT:      %z = mlc.tiles (%j in 9 step 4 as "U") -> (tensor<8x9xf32> at (1)) {
// CHECK-NEXT:        %b = mlc.tile %a[%j] at (1) : tensor<8x9xf32> -> tensor<8x?xf32, #mlc.dims<8, "U">>
// CHECK-NEXT:        %k = mlc.broadcast
func.func @nested(%x: tensor<32x9xf32>, %init: tensor<9xf32>, %u: tensor<f32>) -> tensor<32x9xf32> {
  %y, %t = mlc.tiles (%i in 32 step 8) iter(%c = %init) -> (tensor<32x9xf32> at (0), tensor<9xf32>) {
    %a = mlc.tile %x[%i] at (0) : tensor<32x9xf32> -> tensor<8x9xf32>
    %z = mlc.tiles (%j in 9 step 4 as "U") -> (tensor<8x9xf32> at (1)) {
      %b = mlc.tile %a[%j] at (1) : tensor<8x9xf32> -> tensor<8x?xf32, #mlc.dims<8, "U">>
      %k = mlc.broadcast "->ab" %u : tensor<f32> -> tensor<8x?xf32, #mlc.dims<8, "U">>
      %e = mlc.mul %b, %k : tensor<8x?xf32, #mlc.dims<8, "U">>
      mlc.yield %e : tensor<8x?xf32, #mlc.dims<8, "U">>
    }
    %s = mlc.reduce "max" "ab->b" %z : tensor<8x9xf32> -> tensor<9xf32>
    %n = mlc.add %s, %c : tensor<9xf32>
    mlc.yield %z, %n : tensor<8x9xf32>, tensor<9xf32>
  }
  func.return %y : tensor<32x9xf32>
}

// Two carried values are one state, which a region combines; in parts, each result holds theirs.
// CHECK-LABEL: @combined
// CHECK:         %m, %s = mlc.tiles (%j in 64 step 8) iter(%a = %lowest, %b = %zero) -> (tensor<f32>, tensor<f32>) {
// CHECK:         } combine {
// CHECK-NEXT:    ^bb0(%m1: tensor<f32>, %s1: tensor<f32>, %m2: tensor<f32>, %s2: tensor<f32>):
// CHECK-NEXT:      %m3 = mlc.max %m1, %m2
// CHECK-NEXT:      %s3 = mlc.add %s1, %s2
// CHECK-NEXT:      mlc.yield %m3, %s3
// CHECK-NEXT:    }
// CHECK:         %{{.*}} = mlc.tiles (%{{.*}} in 64 step 8) iter(%{{.*}} = %zero) parts 4 -> (tensor<4xf32>) {
func.func @combined(%x: tensor<64xf32>, %lowest: tensor<f32>, %zero: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %m, %s = mlc.tiles (%j in 64 step 8) iter(%a = %lowest, %b = %zero) -> (tensor<f32>, tensor<f32>) {
    %t = mlc.tile %x[%j] at (0) : tensor<64xf32> -> tensor<8xf32>
    %u = mlc.reduce "max" "a->" %t : tensor<8xf32> -> tensor<f32>
    %v = mlc.reduce "sum" "a->" %t : tensor<8xf32> -> tensor<f32>
    %c = mlc.max %a, %u : tensor<f32>
    %d = mlc.add %b, %v : tensor<f32>
    mlc.yield %c, %d : tensor<f32>, tensor<f32>
  } combine {
  ^bb0(%m1: tensor<f32>, %s1: tensor<f32>, %m2: tensor<f32>, %s2: tensor<f32>):
    %m3 = mlc.max %m1, %m2 : tensor<f32>
    %s3 = mlc.add %s1, %s2 : tensor<f32>
    mlc.yield %m3, %s3 : tensor<f32>, tensor<f32>
  }
  %p = mlc.tiles (%j in 64 step 8) iter(%b = %zero) parts 4 -> (tensor<4xf32>) {
    %t = mlc.tile %x[%j] at (0) : tensor<64xf32> -> tensor<8xf32>
    %v = mlc.reduce "sum" "a->" %t : tensor<8xf32> -> tensor<f32>
    %d = mlc.add %b, %v : tensor<f32>
    mlc.yield %d : tensor<f32>
  }
  func.return %m, %s, %p : tensor<f32>, tensor<f32>, tensor<4xf32>
}

// Trips along an axis that a result does not have meet at its tiles.
// CHECK-LABEL: @meeting
// CHECK:         %r, %c = mlc.tiles (%i in "N" step 4 as "T", %j in 6 step 3) onto(%a, %b) -> (tensor<?xf32, #mlc.dims<"N">> "sum" at (0, -1), tensor<6xf32> "max" at (-1, 0)) {
func.func @meeting(%x: tensor<?x6xf32, #mlc.dims<"N", 6>>) -> (tensor<?xf32, #mlc.dims<"N">>, tensor<6xf32>) {
  %r, %c = mlc.tiles (%i in "N" step 4 as "T", %j in 6 step 3) onto(%a, %b) -> (tensor<?xf32, #mlc.dims<"N">> "sum" at (0, -1), tensor<6xf32> "max" at (-1, 0)) {
    %t = mlc.tile %x[%i, %j] at (0, 1) : tensor<?x6xf32, #mlc.dims<"N", 6>> -> tensor<?x3xf32, #mlc.dims<"T", 3>>
    %s = mlc.reduce "sum" "ab->a" %t : tensor<?x3xf32, #mlc.dims<"T", 3>> -> tensor<?xf32, #mlc.dims<"T">>
    %m = mlc.reduce "max" "ab->b" %t : tensor<?x3xf32, #mlc.dims<"T", 3>> -> tensor<3xf32>
    %s1 = mlc.add %a, %s : tensor<?xf32, #mlc.dims<"T">>
    %m1 = mlc.max %b, %m : tensor<3xf32>
    mlc.yield %s1, %m1 : tensor<?xf32, #mlc.dims<"T">>, tensor<3xf32>
  }
  func.return %r, %c : tensor<?xf32, #mlc.dims<"N">>, tensor<6xf32>
}
