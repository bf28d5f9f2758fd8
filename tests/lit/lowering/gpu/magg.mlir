// A full reduction: states of blocks, then one block.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// One result from much: partial states of many blocks, then one block.
// CHECK-LABEL: func.func @magg_{{.*}}_0
// CHECK-LABEL: func.func @magg_{{.*}}_1
// CHECK-LABEL: func.func @all
// CHECK: mlc_gpu.launch @magg_{{.*}}_0
// CHECK: mlc_gpu.launch @magg_{{.*}}_1
func.func @all(%x: tensor<1000000xf32>) -> tensor<f32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "magg" (%1 = %x) : (tensor<1000000xf32>) -> (tensor<f32>) {
    %y = mlc.reduce "sum" "n->" %1 : tensor<1000000xf32> -> tensor<f32>
    mlc.yield %y : tensor<f32>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(4), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<f32>
}
