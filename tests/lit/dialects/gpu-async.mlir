// Barriers, tiles that the copy engine moves, products of groups: their text reads back as it was.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// CHECK-LABEL: func.func @roles
func.func @roles(%m: !mlc_gpu.tensor_map, %parity: i32, %x: vector<128xf32>, %h: vector<2xbf16>) attributes {mlc_gpu.kernel = 384 : i64} {
  // CHECK: %s = mlc_gpu.dynamic_shared : i32
  %s = mlc_gpu.dynamic_shared : i32
  // CHECK-NEXT: %w = mlc_gpu.uniform %parity : i32
  %w = mlc_gpu.uniform %parity : i32
  // CHECK-NEXT: %one = mlc_gpu.elect : i1
  %one = mlc_gpu.elect : i1
  // CHECK-NEXT: mlc_gpu.barrier_init %s, 2
  mlc_gpu.barrier_init %s, 2
  // CHECK-NEXT: mlc_gpu.barrier_fence
  mlc_gpu.barrier_fence
  // CHECK-NEXT: mlc_gpu.prefetch_map %m : !mlc_gpu.tensor_map
  mlc_gpu.prefetch_map %m : !mlc_gpu.tensor_map
  // CHECK-NEXT: mlc_gpu.registers 40
  mlc_gpu.registers 40
  // CHECK-NEXT: mlc_gpu.barrier_wait %s, %parity
  mlc_gpu.barrier_wait %s, %parity
  // CHECK-NEXT: mlc_gpu.barrier_expect %s, 16384
  mlc_gpu.barrier_expect %s, 16384
  // CHECK-NEXT: mlc_gpu.bulk_load %m[%w, %parity] to %s, %s : !mlc_gpu.tensor_map
  mlc_gpu.bulk_load %m[%w, %parity] to %s, %s : !mlc_gpu.tensor_map
  // CHECK-NEXT: mlc_gpu.bulk_load %m[%w, %parity] to %s, %s cluster 2 : !mlc_gpu.tensor_map
  mlc_gpu.bulk_load %m[%w, %parity] to %s, %s cluster 2 : !mlc_gpu.tensor_map
  // CHECK-NEXT: mlc_gpu.registers more 232
  mlc_gpu.registers more 232
  // CHECK-NEXT: %a = mlc_gpu.descriptor %s leading 0 stride 1024 : i64
  %a = mlc_gpu.descriptor %s leading 0 stride 1024 : i64
  // CHECK-NEXT: %y = mlc_gpu.wgmma %a by 32, %a by 2048, %x columns 256 steps 4 of bf16 {rhs_turned} : i64, vector<128xf32> -> vector<128xf32>
  %y = mlc_gpu.wgmma %a by 32, %a by 2048, %x columns 256 steps 4 of bf16 {rhs_turned} : i64, vector<128xf32> -> vector<128xf32>
  // CHECK-NEXT: %z = mlc_gpu.wgmma_wait %y, 0 : vector<128xf32> -> vector<128xf32>
  %z = mlc_gpu.wgmma_wait %y, 0 : vector<128xf32> -> vector<128xf32>
  // CHECK-NEXT: mlc_gpu.barrier_arrive %s if %one
  mlc_gpu.barrier_arrive %s if %one
  // CHECK-NEXT: mlc_gpu.barrier_arrive %s of %w if %one
  mlc_gpu.barrier_arrive %s of %w if %one
  // CHECK-NEXT: mlc_gpu.bulk_wait 1
  mlc_gpu.bulk_wait 1
  // CHECK-NEXT: mlc_gpu.warp_barrier
  mlc_gpu.warp_barrier
  // CHECK-NEXT: mlc_gpu.store_matrix %s, %h, %h, %h, %h : vector<2xbf16>, vector<2xbf16>, vector<2xbf16>, vector<2xbf16>
  mlc_gpu.store_matrix %s, %h, %h, %h, %h : vector<2xbf16>, vector<2xbf16>, vector<2xbf16>, vector<2xbf16>
  // CHECK-NEXT: mlc_gpu.async_fence
  mlc_gpu.async_fence
  // CHECK-NEXT: mlc_gpu.bulk_store %s to %m[%w, %parity] if %one : !mlc_gpu.tensor_map
  mlc_gpu.bulk_store %s to %m[%w, %parity] if %one : !mlc_gpu.tensor_map
  func.return
}

// CHECK-LABEL: func.func @entry
func.func @entry(%ctx: !mlc_par.ctx, %n: index, %x: memref<?x4096xbf16>) {
  // CHECK: %m = mlc_gpu.map %x box [64 : i64, 64 : i64] : memref<?x4096xbf16> -> !mlc_gpu.tensor_map
  %m = mlc_gpu.map %x box [64 : i64, 64 : i64] : memref<?x4096xbf16> -> !mlc_gpu.tensor_map
  // CHECK-NEXT: mlc_gpu.launch @roles grid (%n, %n, %n) block (%n, %n, %n) args (%m) shared 197696 : !mlc_gpu.tensor_map
  mlc_gpu.launch @roles grid (%n, %n, %n) block (%n, %n, %n) args (%m) shared 197696 : !mlc_gpu.tensor_map
  func.return
}

// Products of a warp, of factors that are rounded to 11 bits if they are f32.
// CHECK-LABEL: func.func @warps
func.func @warps(%x: f32, %a: vector<8xbf16>, %b: vector<4xbf16>, %c: vector<4xf32>, %d: vector<1xf64>, %e: vector<2xf64>, %i: index) {
  // CHECK: %s = mlc_gpu.shared : memref<2x32x136xbf16, 3 : i64>
  %s = mlc_gpu.shared : memref<2x32x136xbf16, 3>
  // CHECK-NEXT: %u = mlc_gpu.load_matrix %s[%i, %i, %i] : memref<2x32x136xbf16, 3 : i64> -> vector<8xbf16>
  %u = mlc_gpu.load_matrix %s[%i, %i, %i] : memref<2x32x136xbf16, 3> -> vector<8xbf16>
  // CHECK-NEXT: %v = mlc_gpu.load_matrix %s[%i, %i, %i] turned : memref<2x32x136xbf16, 3 : i64> -> vector<4xbf16>
  %v = mlc_gpu.load_matrix %s[%i, %i, %i] turned : memref<2x32x136xbf16, 3> -> vector<4xbf16>
  // CHECK: %r = mlc_gpu.round_tf32 %x : f32
  %r = mlc_gpu.round_tf32 %x : f32
  // CHECK-NEXT: %y = mlc_gpu.mma %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32> -> vector<4xf32>
  %y = mlc_gpu.mma %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32> -> vector<4xf32>
  // CHECK-NEXT: %z = mlc_gpu.mma %d, %d, %e : vector<1xf64>, vector<1xf64>, vector<2xf64> -> vector<2xf64>
  %z = mlc_gpu.mma %d, %d, %e : vector<1xf64>, vector<1xf64>, vector<2xf64> -> vector<2xf64>
  func.return
}

// Copies that go on while their thread does other things.
// CHECK-LABEL: func.func @copies
func.func @copies(%x: memref<64x64xf32>, %i: index, %there: i1) {
  // CHECK: %tile = mlc_gpu.shared : memref<2x8x20xf32, 3 : i64>
  %tile = mlc_gpu.shared : memref<2x8x20xf32, 3 : i64>
  // CHECK-NEXT: mlc_gpu.copy_async %x[%i, %i] to %tile[%i, %i, %i] of 4 : memref<64x64xf32>, memref<2x8x20xf32, 3 : i64>
  mlc_gpu.copy_async %x[%i, %i] to %tile[%i, %i, %i] of 4 : memref<64x64xf32>, memref<2x8x20xf32, 3 : i64>
  // CHECK-NEXT: mlc_gpu.copy_async %x[%i, %i] to %tile[%i, %i, %i] of 4 where %there : memref<64x64xf32>, memref<2x8x20xf32, 3 : i64>
  mlc_gpu.copy_async %x[%i, %i] to %tile[%i, %i, %i] of 4 where %there : memref<64x64xf32>, memref<2x8x20xf32, 3 : i64>
  // CHECK-NEXT: mlc_gpu.copy_group
  mlc_gpu.copy_group
  // CHECK-NEXT: mlc_gpu.copy_wait 1
  mlc_gpu.copy_wait 1
  func.return
}
