// Transposed reads: squares of vectors are turned in registers, into a tile that the loop then reads.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         %[[TILE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<4096xf32>
// CHECK-COUNT-8: vector.load %{{.*}} : memref<256x256xf32>, vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store %{{.*}} : memref<64x64xf32>, vector<8xf32>
// CHECK:         vector.load %{{.*}} : memref<64x64xf32>, vector<8xf32>
// CHECK-NEXT:    arith.addf
func.func @turned(%x: tensor<256x256xf32>) -> tensor<256x256xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<256x256xf32>) -> (tensor<256x256xf32>) {
    %2 = mlc.transpose "ab->ba" %1 : tensor<256x256xf32> -> tensor<256x256xf32>
    %3 = mlc.constant dense<1.000000e+00> : tensor<256x256xf32>
    %4 = mlc.add %2, %3 : tensor<256x256xf32>
    mlc.yield %4 : tensor<256x256xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(30000), turn(0, rows 64, columns 64)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<256x256xf32>
}
