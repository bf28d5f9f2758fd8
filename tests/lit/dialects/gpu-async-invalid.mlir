// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

// Rows of a box are 128 bytes.
func.func @wide(%x: memref<?x4096xbf16>) {
  // CHECK: mlc_gpu.map: rows of 128 elements of bf16; expected 128 bytes
  %m = mlc_gpu.map %x box [64 : i64, 128 : i64] : memref<?x4096xbf16> -> !mlc_gpu.tensor_map
  func.return
}

// -----

func.func @long(%x: memref<?x4096xf32>) {
  // CHECK: mlc_gpu.map: 512 rows; expected 1 to 256
  %m = mlc_gpu.map %x box [512 : i64, 32 : i64] : memref<?x4096xf32> -> !mlc_gpu.tensor_map
  func.return
}

// -----

// CHECK: mlc_gpu.registers: 100 registers; expected a multiple of 8 from 24 to 256
mlc_gpu.registers 100

// -----

func.func @sums(%a: i64, %x: vector<64xf32>) {
  // CHECK: mlc_gpu.wgmma: vector<64xf32> to vector<64xf32>; expected vector<128xf32>
  %y = mlc_gpu.wgmma %a by 32, %a by 32, %x columns 256 steps 4 of bf16 : i64, vector<64xf32> -> vector<64xf32>
  func.return
}

// -----

func.func @steps(%a: i64, %x: vector<64xf32>) {
  // CHECK: mlc_gpu.wgmma: 4 steps by (32, 40); expected multiples of 16
  %y = mlc_gpu.wgmma %a by 32, %a by 40, %x columns 128 steps 4 of bf16 : i64, vector<64xf32> -> vector<64xf32>
  func.return
}

// -----

func.func @bytes(%a: i64, %x: vector<64xf32>) {
  // CHECK: mlc_gpu.wgmma: a factor of f8E4M3FN whose summed axis moves slowest; expected 16 bits
  %y = mlc_gpu.wgmma %a by 32, %a by 32, %x columns 128 steps 4 of f8E4M3FN {rhs_turned} : i64, vector<64xf32> -> vector<64xf32>
  func.return
}

// -----

func.func @warps(%a: vector<8xbf16>, %c: vector<4xf32>) {
  // CHECK: mlc_gpu.mma: vector<8xbf16>, vector<8xbf16>, vector<4xf32>; expected vector<8xbf16>, vector<4xbf16>, vector<4xf32>
  %y = mlc_gpu.mma %a, %a, %c : vector<8xbf16>, vector<8xbf16>, vector<4xf32> -> vector<4xf32>
  func.return
}

// -----

func.func @descriptor(%s: i32) {
  // CHECK: mlc_gpu.descriptor: stride 1000; expected a multiple of 16 below 2^18
  %d = mlc_gpu.descriptor %s leading 0 stride 1000 : i64
  func.return
}

// -----

func.func @matrices(%s: i32, %x: vector<2xf32>) {
  // CHECK: mlc_gpu.store_matrix: vector<2xf32>; expected pairs of bf16 or f16
  mlc_gpu.store_matrix %s, %x, %x, %x, %x : vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>
  func.return
}

// -----

func.func @read(%s: memref<32x136xf32>, %i: index) {
  // CHECK: mlc_gpu.load_matrix: vector<8xf32> of memref<32x136xf32>; expected 4 or 8 elements of bf16 or f16, and an index for each axis
  %x = mlc_gpu.load_matrix %s[%i, %i] : memref<32x136xf32> -> vector<8xf32>
  func.return
}

// -----

// CHECK: mlc_tile.drain: stands in no role
mlc_tile.drain 1

// -----

func.func @copies(%x: memref<64xf32>, %t: memref<64xf32, 3 : i64>, %i: index) {
  // CHECK: mlc_gpu.copy_async: 12 bytes; expected 4, 8 or 16
  mlc_gpu.copy_async %x[%i] to %t[%i] of 3 : memref<64xf32>, memref<64xf32, 3 : i64>
  func.return
}
