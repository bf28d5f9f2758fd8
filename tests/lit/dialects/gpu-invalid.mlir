// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

// A block's shared memory is known before the block runs.
// CHECK: mlc_gpu.shared: memref<?xf32, 3 : i64>; expected static sizes and memory space 3
%dynamic = mlc_gpu.shared : memref<?xf32, 3 : i64>

// -----

// CHECK: mlc_gpu.shared: memref<4xf32>; expected static sizes and memory space 3
%elsewhere = mlc_gpu.shared : memref<4xf32>

// -----

// A warp has 32 threads.
func.func @far(%x: f32) {
  // CHECK: mlc_gpu.shuffle: offset 32 is not in 1..31
  %y = mlc_gpu.shuffle xor %x by 32 : f32 to f32
  func.return
}

// -----

func.func @wide(%x: vector<4xf32>) {
  // CHECK: mlc_gpu.shuffle moves scalars, not vector<4xf32>
  %y = mlc_gpu.shuffle xor %x by 1 : vector<4xf32> to vector<4xf32>
  func.return
}
