// Every op of mlc_vec prints what it reads.
// RUN: mlc opt %s | mlc opt | filecheck %s

// CHECK-LABEL: func.func @lanes
func.func @lanes(%mask: vector<16xi1>, %bit: i1, %a: vector<16xf32>, %i: vector<16xi32>, %s: f32) {
  // CHECK: mlc_vec.select %mask, %a, %a : vector<16xf32>
  %chosen = mlc_vec.select %mask, %a, %a : vector<16xf32>
  // CHECK: mlc_vec.select %bit, %s, %s : f32
  %scalar = mlc_vec.select %bit, %s, %s : f32
  // CHECK: mlc_vec.cast sitofp %i : vector<16xi32> to vector<16xf32>
  %float = mlc_vec.cast sitofp %i : vector<16xi32> to vector<16xf32>
  // CHECK: mlc_vec.cast index_cast %i : vector<16xi32> to vector<16xindex>
  %index = mlc_vec.cast index_cast %i : vector<16xi32> to vector<16xindex>
  // CHECK: mlc_vec.cmpi slt, %i, %i : vector<16xi32>
  %less = mlc_vec.cmpi slt, %i, %i : vector<16xi32>
  // CHECK: mlc_vec.cmpf uno, %a, %a : vector<16xf32>
  %nan = mlc_vec.cmpf uno, %a, %a : vector<16xf32>
  // CHECK: mlc_vec.step : vector<16xindex>
  %lane = mlc_vec.step : vector<16xindex>
  func.return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%x: memref<?x64xf32>, %i: index, %v: vector<16xf32>, %mask: vector<16xi1>,
                  %at: vector<16xindex>) {
  // CHECK: mlc_vec.gather %x[%i, %i] at %at, %mask, %v : memref<?x64xf32>, vector<16xf32>
  %r = mlc_vec.gather %x[%i, %i] at %at, %mask, %v : memref<?x64xf32>, vector<16xf32>
  // CHECK: mlc_vec.scatter %v, %x[%i, %i] at %at, %mask : memref<?x64xf32>, vector<16xf32>
  mlc_vec.scatter %v, %x[%i, %i] at %at, %mask : memref<?x64xf32>, vector<16xf32>
  // CHECK: mlc_vec.prefetch %x[%i, %i] locality 3 write : memref<?x64xf32>
  mlc_vec.prefetch %x[%i, %i] locality 3 write : memref<?x64xf32>
  // CHECK: mlc_vec.nontemporal_store %v, %x[%i, %i] : memref<?x64xf32>, vector<16xf32>
  mlc_vec.nontemporal_store %v, %x[%i, %i] : memref<?x64xf32>, vector<16xf32>
  func.return
}
