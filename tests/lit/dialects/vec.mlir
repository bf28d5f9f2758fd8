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
  // CHECK: mlc_vec.store_fence
  mlc_vec.store_fence
  func.return
}

// CHECK-LABEL: func.func @products
func.func @products(%c: vector<16xf32>, %pair: vector<2xbf16>, %b: vector<32xbf16>, %x: memref<?x64xbf16>, %y: memref<?x16xf32>, %i: index) {
  // CHECK: %[[A:.*]] = mlc_vec.repeat %pair : vector<2xbf16> to vector<32xbf16>
  %a = mlc_vec.repeat %pair : vector<2xbf16> to vector<32xbf16>
  // CHECK: mlc_vec.dot "dot_bf16" %c, %[[A]], %b : vector<16xf32>, vector<32xbf16>, vector<32xbf16>
  %d = mlc_vec.dot "dot_bf16" %c, %a, %b : vector<16xf32>, vector<32xbf16>, vector<32xbf16>
  // CHECK: mlc_vec.round %c : vector<16xf32> to vector<16xbf16>
  %r = mlc_vec.round %c : vector<16xf32> to vector<16xbf16>
  // CHECK: mlc_vec.tile_zero : !mlc_vec.tile<16x16xf32>
  %z = mlc_vec.tile_zero : !mlc_vec.tile<16x16xf32>
  // CHECK: mlc_vec.tile_load %x[%i, %i] : memref<?x64xbf16>, !mlc_vec.tile<16x32xbf16>
  %t = mlc_vec.tile_load %x[%i, %i] : memref<?x64xbf16>, !mlc_vec.tile<16x32xbf16>
  // CHECK: mlc_vec.dot "amx_bf16"
  %s = mlc_vec.dot "amx_bf16" %z, %t, %t : !mlc_vec.tile<16x16xf32>, !mlc_vec.tile<16x32xbf16>, !mlc_vec.tile<16x32xbf16>
  // CHECK: mlc_vec.tile_store %{{.*}}, %y[%i, %i] : memref<?x16xf32>, !mlc_vec.tile<16x16xf32>
  mlc_vec.tile_store %s, %y[%i, %i] : memref<?x16xf32>, !mlc_vec.tile<16x16xf32>
  func.return
}
