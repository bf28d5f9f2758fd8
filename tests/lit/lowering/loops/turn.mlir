// Transposed reads: squares of vectors are turned in registers, into a tile that the loop then reads.
// RUN: mlc opt %s --split-input-file --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         %[[TILE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<4096xf32>
// CHECK-COUNT-8: vector.load %{{.*}} : memref<256x256xf32>, vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store %{{.*}} : memref<64x64xf32>, vector<8xf32>
// CHECK:         vector.load %{{.*}} : memref<64x64xf32>, vector<8xf32>
// CHECK-NEXT:    arith.addf
func.func @turned(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = mlc.transpose "ab->ba" %x : tensor<256x256xf32> -> tensor<256x256xf32>
  %1 = mlc.constant dense<1.0> : tensor<256x256xf32>
  %2 = mlc.add %0, %1 : tensor<256x256xf32>
  func.return %2 : tensor<256x256xf32>
}
