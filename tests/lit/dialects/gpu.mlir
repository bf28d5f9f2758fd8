// RUN: mlc opt %s | mlc opt | filecheck %s

// Where a thread stands, what its block shares, what its warp exchanges.
// CHECK-LABEL: func.func @places
func.func @places(%x: f32, %n: index) attributes {mlc_gpu.kernel = 256 : i64} {
  // CHECK: mlc_gpu.thread_id x : index
  %thread = mlc_gpu.thread_id x : index
  // CHECK: mlc_gpu.block_id y : index
  %block = mlc_gpu.block_id y : index
  // CHECK: mlc_gpu.block_dim x : index
  %threads = mlc_gpu.block_dim x : index
  // CHECK: mlc_gpu.grid_dim z : index
  %blocks = mlc_gpu.grid_dim z : index
  // CHECK: [[TILE:%.+]] = mlc_gpu.shared : memref<16x68xf32, 3 : i64>
  %tile = mlc_gpu.shared : memref<16x68xf32, 3 : i64>
  memref.store %x, %tile[%thread, %block] : memref<16x68xf32, 3 : i64>
  // CHECK: mlc_gpu.barrier
  mlc_gpu.barrier
  // CHECK: mlc_gpu.shuffle xor %{{.*}} by 16 : f32 to f32
  %other = mlc_gpu.shuffle xor %x by 16 : f32 to f32
  // CHECK: mlc_gpu.shuffle down %{{.*}} by 1 : index to index
  %next = mlc_gpu.shuffle down %n by 1 : index to index
  // CHECK: mlc_gpu.shuffle up %{{.*}} by 1 : index to index
  %last = mlc_gpu.shuffle up %n by 1 : index to index
  func.return
}

// Blocks of a grid wait for what others have written.
// CHECK-LABEL: func.func @signals
func.func @signals(%flags: memref<8xi32>, %i: index, %p: i1) attributes {mlc_gpu.kernel = 256 : i64} {
  // CHECK-NEXT: mlc_gpu.signal %flags[%i] if %p : memref<8xi32>
  mlc_gpu.signal %flags[%i] if %p : memref<8xi32>
  // CHECK-NEXT: mlc_gpu.await %flags[%i] : memref<8xi32>
  mlc_gpu.await %flags[%i] : memref<8xi32>
  func.return
}

// Blocks of a cluster write to each other's memory, and wait for each other.
// CHECK-LABEL: func.func @together
func.func @together(%x: f32, %i: index) attributes {mlc_gpu.kernel = 256 : i64, mlc_gpu.cluster = 8 : i64} {
  %cell = mlc_gpu.shared : memref<8xf32, 3 : i64>
  // CHECK: mlc_gpu.send %x to %{{.+}}[%i] of %i : f32, memref<8xf32, 3 : i64>
  mlc_gpu.send %x to %cell[%i] of %i : f32, memref<8xf32, 3 : i64>
  // CHECK: mlc_gpu.cluster_barrier
  mlc_gpu.cluster_barrier
  // CHECK: mlc_gpu.follow
  mlc_gpu.follow
  // CHECK: mlc_gpu.lead
  mlc_gpu.lead
  func.return
}

// The entry starts kernels and writes numbers for them.
// CHECK-LABEL: func.func @entry
func.func @entry(%ctx: !mlc_par.ctx, %n: index, %x: memref<?xf32>, %cell: memref<1xi64>) {
  // CHECK: mlc_gpu.write_index %n, %cell : memref<1xi64>
  mlc_gpu.write_index %n, %cell : memref<1xi64>
  // CHECK: mlc_gpu.launch @places grid (%n, %n, %n) block (%n, %n, %n) args (%ctx, %x) : !mlc_par.ctx, memref<?xf32>
  mlc_gpu.launch @places grid (%n, %n, %n) block (%n, %n, %n) args (%ctx, %x) : !mlc_par.ctx, memref<?xf32>
  func.return
}
