// A long scan: sums of chunks, their own scan by one block, and each chunk once more with what lies before it.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @scan_{{.*}}_0
// CHECK:         mlc_gpu.shuffle up %{{.*}} by 1 : f32 to f32
// CHECK:         mlc_gpu.shuffle up %{{.*}} by 16 : f32 to f32
// CHECK:         mlc_gpu.shared : memref<8xf32, 3 : i64>
// CHECK-LABEL: func.func @scan_{{.*}}_1
// CHECK-LABEL: func.func @scan_{{.*}}_2
// CHECK:         vector.store %{{.*}}, %out
// CHECK-LABEL: func.func @sums
// CHECK:         mlc_gpu.launch @scan_{{.*}}_0
// CHECK:         mlc_gpu.launch @scan_{{.*}}_1
// CHECK:         mlc_gpu.launch @scan_{{.*}}_2
func.func @sums(%x: tensor<100000xf32>) -> tensor<100000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "scan" (%1 = %x) : (tensor<100000xf32>) -> (tensor<100000xf32>) {
    %2 = mlc.scan "sum" "forward" "inclusive" 0 %1 : tensor<100000xf32> -> tensor<100000xf32>
    mlc.yield %2 : tensor<100000xf32>
  } {schedule = #mlc.schedule<[vector(4), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100000xf32>
}
