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
