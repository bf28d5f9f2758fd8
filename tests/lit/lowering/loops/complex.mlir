// Complex numbers lie in pairs; arithmetic is on vectors of their parts.
// RUN: mlc opt %s --split-input-file --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         %[[X:.*]] = vector.load %{{.*}} : memref<64xcomplex<f32>>, vector<4xcomplex<f32>>
// CHECK-NEXT:    %[[RE:.*]] = mlc_vec.part real %[[X]] : vector<4xcomplex<f32>> to vector<4xf32>
// CHECK-NEXT:    %[[IM:.*]] = mlc_vec.part imag %[[X]]
// CHECK:         %[[SQUARES:.*]] = arith.subf %{{.*}} : vector<4xf32>
// CHECK:         %[[CROSSED:.*]] = arith.addf %{{.*}} : vector<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc_vec.pair %[[SQUARES]], %[[CROSSED]] : vector<4xf32> to vector<4xcomplex<f32>>
// CHECK-NEXT:    vector.store %[[Y]]
func.func @square(%x: tensor<64xcomplex<f32>>) -> tensor<64xcomplex<f32>> {
  %0 = mlc.mul %x, %x : tensor<64xcomplex<f32>>
  func.return %0 : tensor<64xcomplex<f32>>
}
