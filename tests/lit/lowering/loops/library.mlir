// LAPACK works on copies by columns; where there is none, NumPy takes memory, dtype and sizes, and says
// which matrix had no answer.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @library_
// CHECK:         %[[FOUND:.*]] = mlc_par.lapack_found "dpotrf"
// CHECK-NEXT:    scf.if %[[FOUND]] {
// CHECK:           arith.extf
// CHECK:           %[[INFO:.*]] = mlc_par.lapack "dpotrf" "L"(%[[N:.*]], %{{.*}}, %[[N]])
// CHECK:           %[[BAD:.*]] = arith.cmpi ne, %[[INFO]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[BAD]] {
// CHECK-NEXT:        mlc_par.fail %[[CTX:.*]] site 1 value
// CHECK:           arith.truncf
// CHECK:         } else {
// CHECK:           %[[DONE:.*]] = mlc_par.library %[[CTX]] routine 0 dtype 11(
// CHECK:           %[[FAILED:.*]] = arith.cmpi ne, %[[DONE]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[FAILED]] {
// CHECK-NEXT:        mlc_par.fail %[[CTX]] site 1 value %[[DONE]]
func.func @root(%x: tensor<64x64xf32>) -> tensor<4096xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "library" (%1 = %x) : (tensor<64x64xf32>) -> (tensor<4096xf32>) {
    %2 = mlc.library "cholesky" %1 : tensor<64x64xf32> -> tensor<4096xf32>
    mlc.yield %2 : tensor<4096xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(19047)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<4096xf32>
}
