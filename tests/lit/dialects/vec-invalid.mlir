// What the verifiers of mlc_vec say.
// RUN: mlc opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mlc_vec.cast changes the number of lanes: vector<8xi32> to vector<16xf32>
func.func @lanes(%i: vector<8xi32>) {
  %f = mlc_vec.cast sitofp %i : vector<8xi32> to vector<16xf32>
  func.return
}

// -----

// CHECK: mlc_vec.cast extsi: i64 to i32; extsi and extui need a wider integer result
func.func @narrower(%i: i64) {
  %f = mlc_vec.cast extsi %i : i64 to i32
  func.return
}

// -----

// CHECK: mlc_vec.cmpi compares integers, got vector<4xf32>; floats need mlc_vec.cmpf
func.func @kind(%a: vector<4xf32>) {
  %m = mlc_vec.cmpi eq, %a, %a : vector<4xf32>
  func.return
}

// -----

// CHECK: mlc_vec.gather: memref<?x?xf32> needs 2 indices, got 1
func.func @rank(%x: memref<?x?xf32>, %i: index, %at: vector<4xindex>, %m: vector<4xi1>, %v: vector<4xf32>) {
  %r = mlc_vec.gather %x[%i] at %at, %m, %v : memref<?x?xf32>, vector<4xf32>
  func.return
}

// -----

// CHECK: mlc_vec.prefetch: locality 4 is not in 0..3
func.func @locality(%x: memref<?xf32>, %i: index) {
  mlc_vec.prefetch %x[%i] locality 4 : memref<?xf32>
  func.return
}

// -----

// CHECK: vector<i32>: expected a vector of 1 to 4096 lanes
func.func @no_lanes(%i: vector<i32>) {
  %f = mlc_vec.cast sitofp %i : vector<i32> to vector<f32>
  func.return
}

// -----

// CHECK: vector<4x4xf32>: expected a vector of 1 to 4096 lanes
func.func @of_vectors(%a: vector<4x4xf32>) {
  %m = mlc_vec.cmpf olt, %a, %a : vector<4x4xf32>
  func.return
}

// -----

// CHECK: vector<[4]xf32>: expected a vector of 1 to 4096 lanes
func.func @scalable(%x: memref<?xf32>, %i: index, %v: vector<[4]xf32>) {
  mlc_vec.nontemporal_store %v, %x[%i] : memref<?xf32>, vector<[4]xf32>
  func.return
}

// -----

// CHECK: mlc_vec.dot: no instruction 'dot_f8'; expected amx_s8, amx_bf16, dot_bf16,
func.func @row(%c: vector<16xf32>, %a: vector<32xbf16>) {
  %d = mlc_vec.dot "dot_f8" %c, %a, %a : vector<16xf32>, vector<32xbf16>, vector<32xbf16>
  func.return
}

// -----

// CHECK: mlc_vec.dot dot_s8: vector<16xi8>, vector<8xi8>, vector<4xi32> for lhs, rhs and sums; expected vector<16xi8>, vector<16xi8>, vector<4xi32>
func.func @operands(%c: vector<4xi32>, %a: vector<16xi8>, %b: vector<8xi8>) {
  %d = mlc_vec.dot "dot_s8" %c, %a, %b : vector<4xi32>, vector<16xi8>, vector<8xi8>
  func.return
}

// -----

// CHECK: expected tile<MxKxbf16>, tile<K/2 x N*2 xbf16>, tile<MxNxf32>
func.func @tiles(%c: !mlc_vec.tile<16x16xf32>, %a: !mlc_vec.tile<16x32xbf16>, %b: !mlc_vec.tile<8x32xbf16>) {
  %d = mlc_vec.dot "amx_bf16" %c, %a, %b : !mlc_vec.tile<16x16xf32>, !mlc_vec.tile<16x32xbf16>, !mlc_vec.tile<8x32xbf16>
  func.return
}

// -----

// CHECK: tile of 16 rows of 128 bytes; expected 1 to 16 rows of 4 to 64 bytes
func.func @large(%c: !mlc_vec.tile<16x32xf32>) {
  func.return
}

// -----

// CHECK: mlc_vec.tile_load: memref<?xf32> has 1 dims for 1 indices; 2 or more
func.func @flat(%x: memref<?xf32>, %i: index) {
  %t = mlc_vec.tile_load %x[%i] : memref<?xf32>, !mlc_vec.tile<16x16xf32>
  func.return
}

// -----

// CHECK: mlc_vec.round: vector<4xf32> to vector<4xbf16>; expected 8 or 16 lanes of f32, and as many of bf16
func.func @round(%v: vector<4xf32>) {
  %r = mlc_vec.round %v : vector<4xf32> to vector<4xbf16>
  func.return
}

// -----

// CHECK: mlc_vec.repeat: vector<3xf32> to vector<16xf32>; expected the same element and a multiple of the lanes
func.func @repeat(%v: vector<3xf32>) {
  %r = mlc_vec.repeat %v : vector<3xf32> to vector<16xf32>
  func.return
}

// -----

// CHECK: tile of f80; expected i8 or i32 or bf16 or f32
func.func @no_dtype(%x: !mlc_vec.tile<16x16xf80>) {
  func.return
}
