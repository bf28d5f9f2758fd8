// Long rows: tiles are sorted in shared memory, then merged in rounds of a loop of the host.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @sort_{{.*}}_0
// CHECK:         mlc_gpu.shared : memref<1024xi32, 3 : i64>
// CHECK:         mlc_gpu.barrier
// CHECK-LABEL: func.func @sort_{{.*}}_1
// CHECK-LABEL: func.func @sort_{{.*}}_2
// CHECK-LABEL: func.func @rows
// CHECK:         mlc_gpu.launch @sort_{{.*}}_0
// CHECK:         scf.for
// CHECK:           mlc_gpu.launch @sort_{{.*}}_1
func.func @rows(%x: tensor<8x100000xf32>) -> tensor<8x100000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "sort" (%1 = %x) : (tensor<8x100000xf32>) -> (tensor<8x100000xf32>) {
    %2 = mlc.sort "ascending" %1 : tensor<8x100000xf32> -> tensor<8x100000xf32>
    mlc.yield %2 : tensor<8x100000xf32>
  } {schedule = #mlc.schedule<[vector(4), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8x100000xf32>
}
