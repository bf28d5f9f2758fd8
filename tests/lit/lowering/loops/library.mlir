// Routines of the runtime take memory, dtype and sizes, and say which matrix had no answer.
// RUN: mlc opt %s --split-input-file --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @library_
// CHECK:         %[[DONE:.*]] = mlc_par.library %[[CTX:.*]] routine 0 dtype 11(
// CHECK:         %[[FAILED:.*]] = arith.cmpi ne, %[[DONE]], %{{.*}} : index
// CHECK-NEXT:    scf.if %[[FAILED]] {
// CHECK-NEXT:      mlc_par.fail %[[CTX]] site 1 value %[[DONE]]
func.func @root(%x: tensor<64x64xf32>) -> tensor<4096xf32> {
  %0 = mlc.library "cholesky" %x : tensor<64x64xf32> -> tensor<4096xf32>
  func.return %0 : tensor<4096xf32>
}
