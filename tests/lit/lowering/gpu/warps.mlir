// A product that warps multiply on tensor cores.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_80 -p plan-to-loops | filecheck %s

// Both factors come by asynchronous copies, 16 bytes at once, into rows that are padded by as many, a
// step ahead. A warp has 32 x 16 results: 2 x 2 instructions for each of two halves of a step, whose
// second factor is turned as it is read.
// CHECK-LABEL: func.func @contraction_
// CHECK: [[A:%.+]] = mlc_gpu.shared : memref<2x64x40xbf16, 3 : i64>
// CHECK: [[B:%.+]] = mlc_gpu.shared : memref<2x32x72xbf16, 3 : i64>
// CHECK: mlc_gpu.copy_async %x[{{.+}}] to [[A]][{{.+}}] of 8
// CHECK: mlc_gpu.copy_async %y[{{.+}}] to [[B]][{{.+}}] of 8
// CHECK: mlc_gpu.copy_group
// CHECK: scf.for {{.+}} -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>,
// CHECK: mlc_gpu.copy_wait 0
// CHECK-NEXT: mlc_gpu.barrier
// CHECK: mlc_gpu.copy_async %x
// CHECK: [[LEFT:%.+]] = mlc_gpu.load_matrix [[A]][{{.+}}] : {{.+}} -> vector<8xbf16>
// CHECK: [[RIGHT:%.+]] = mlc_gpu.load_matrix [[B]][{{.+}}] turned : {{.+}} -> vector<4xbf16>
// CHECK: [[SUM:%.+]] = mlc_gpu.mma [[LEFT]], [[RIGHT]], %{{.+}} : vector<8xbf16>, vector<4xbf16>, vector<4xf32> -> vector<4xf32>
// CHECK-COUNT-3: mlc_gpu.mma
// CHECK: mlc_gpu.mma %{{.+}}, %{{.+}}, [[SUM]] :
// CHECK-COUNT-3: mlc_gpu.mma
// CHECK-NOT: mlc_gpu.mma
// CHECK-LABEL: func.func @bf16
func.func @bf16(%x: tensor<1024x512xbf16>, %y: tensor<512x1024xbf16>) -> tensor<1024x1024xbf16> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<1024x512xbf16>, tensor<512x1024xbf16>) -> (tensor<1024x1024xbf16>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<1024x512xbf16>, tensor<512x1024xbf16> -> tensor<1024x1024xbf16>
    mlc.yield %z : tensor<1024x1024xbf16>
  } {schedule = #mlc.schedule<[vector(2), threads(256), stage(m 64, n 64, k 32, rows 32, columns 16, slots 2, resident 2, mma_bf16)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1024x1024xbf16>
}
