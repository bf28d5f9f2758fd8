// Conversions are of vectors with the lanes of the wider side's kernel.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @cell_
// CHECK:         scf.for
// CHECK:           %[[X:.*]] = vector.load %{{.*}} : memref<100xf32>, vector<8xf32>
// CHECK-NEXT:      %[[Y:.*]] = mlc_vec.cast fptosi %[[X]] : vector<8xf32> to vector<8xi8>
// CHECK-NEXT:      vector.store %[[Y]], %{{.*}} : memref<100xi8>, vector<8xi8>
// CHECK:         vector.maskedstore %{{.*}} : memref<100xi8>, vector<8xi1>, vector<8xi8>
func.func @bytes(%x: tensor<100xf32>) -> tensor<100xi8> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<100xf32>) -> (tensor<100xi8>) {
    %2 = mlc.convert %1 : tensor<100xf32> -> tensor<100xi8>
    mlc.yield %2 : tensor<100xi8>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100xi8>
}
