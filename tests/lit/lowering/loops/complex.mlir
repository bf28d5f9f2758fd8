// Complex numbers lie in pairs; arithmetic is on vectors of their parts.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         %[[X:.*]] = vector.load %{{.*}} : memref<64xcomplex<f32>>, vector<4xcomplex<f32>>
// CHECK-NEXT:    %[[RE:.*]] = mlc_vec.part real %[[X]] : vector<4xcomplex<f32>> to vector<4xf32>
// CHECK-NEXT:    %[[IM:.*]] = mlc_vec.part imag %[[X]]
// CHECK:         %[[SQUARES:.*]] = arith.subf %{{.*}} : vector<4xf32>
// CHECK:         %[[CROSSED:.*]] = arith.addf %{{.*}} : vector<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc_vec.pair %[[SQUARES]], %[[CROSSED]] : vector<4xf32> to vector<4xcomplex<f32>>
// CHECK-NEXT:    vector.store %[[Y]]
func.func @square(%x: tensor<64xcomplex<f32>>) -> tensor<64xcomplex<f32>> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<64xcomplex<f32>>) -> (tensor<64xcomplex<f32>>) {
    %2 = mlc.mul %1, %1 : tensor<64xcomplex<f32>>
    mlc.yield %2 : tensor<64xcomplex<f32>>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<64xcomplex<f32>>
}
