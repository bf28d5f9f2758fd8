// Down columns: threads side by side have a column each, rows of threads add up shares, which a second kernel adds.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_{{.*}}_0
// CHECK:         %[[STATES:.*]] = mlc_gpu.shared : memref<8x128xf32, 3 : i64>
// CHECK:         mlc_gpu.block_id z
// CHECK:         vector.store %{{.*}}, %[[STATES]]
// CHECK:         mlc_gpu.barrier
// CHECK-LABEL: func.func @row_{{.*}}_1
// CHECK-NOT:     mlc_gpu.shared
// CHECK-LABEL: func.func @totals
// CHECK:         mlc_gpu.launch @row_{{.*}}_0
// CHECK-NEXT:    mlc_gpu.launch @row_{{.*}}_1
func.func @totals(%x: tensor<4096x1000xf32>) -> tensor<1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<4096x1000xf32>) -> (tensor<1000xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<4096x1000xf32> -> tensor<1000xf32>
    mlc.yield %2 : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(4), threads(256), share(128)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}
