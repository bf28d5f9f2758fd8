// A product that threads multiply.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// A matrix product stages both operands in shared memory.
// CHECK-LABEL: func.func @contraction_
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK: math.fma
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<100x50xf64>, %y: tensor<50x70xf64>) -> tensor<100x70xf64> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<100x50xf64>, tensor<50x70xf64>) -> (tensor<100x70xf64>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<100x50xf64>, tensor<50x70xf64> -> tensor<100x70xf64>
    mlc.yield %z : tensor<100x70xf64>
  } {schedule = #mlc.schedule<[vector(4, axis 1), threads(256), stage(m 64, n 64, k 16, rows 4, columns 4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<100x70xf64>
}

// -----

// Tiles of a large one come by asynchronous copies, one step ahead: elements of rows along the summed
// axis, 16 bytes of rows along the result's.
// CHECK-LABEL: func.func @contraction_
// CHECK-SAME: mlc_gpu.resident = 2
// CHECK: [[A:%.+]] = mlc_gpu.shared : memref<2x16x132xf32, 3 : i64>
// CHECK: [[B:%.+]] = mlc_gpu.shared : memref<2x16x132xf32, 3 : i64>
// CHECK: mlc_gpu.copy_async %{{.+}} to [[A]][%{{.+}}] of 1
// CHECK: mlc_gpu.copy_async %{{.+}} to [[B]][%{{.+}}] of 4
// CHECK: mlc_gpu.copy_group
// CHECK: scf.for
// CHECK: mlc_gpu.copy_wait 0
// CHECK: mlc_gpu.barrier
// CHECK: mlc_gpu.copy_async
// CHECK: math.fma
// CHECK-LABEL: func.func @staged
func.func @staged(%x: tensor<1024x512xf32>, %y: tensor<512x1024xf32>) -> tensor<1024x1024xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<1024x512xf32>, tensor<512x1024xf32>) -> (tensor<1024x1024xf32>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<1024x512xf32>, tensor<512x1024xf32> -> tensor<1024x1024xf32>
    mlc.yield %z : tensor<1024x1024xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 1), threads(256), stage(m 128, n 128, k 16, rows 8, columns 8, slots 2, resident 2)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1024x1024xf32>
}

// -----

// Of few results a tile is small: 16 parts of the threads multiply each 16th summed element, and a
// thread adds up one result's parts.
// CHECK-LABEL: func.func @contraction_
// CHECK: [[A:%.+]] = mlc_gpu.shared : memref<64x20xf32, 3 : i64>
// CHECK: [[B:%.+]] = mlc_gpu.shared : memref<64x20xf32, 3 : i64>
// CHECK: [[SUMS:%.+]] = mlc_gpu.shared : memref<16x16x16xf32, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK: scf.for
// CHECK: math.fma
// CHECK: vector.store %{{.+}}, [[SUMS]]
// CHECK: mlc_gpu.barrier
// CHECK-COUNT-16: memref.load [[SUMS]]
// CHECK-NOT: memref.load [[SUMS]]
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<64x64xf32>, %y: tensor<64x256xf32>) -> tensor<64x256xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<64x64xf32>, tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<64x64xf32>, tensor<64x256xf32> -> tensor<64x256xf32>
    mlc.yield %z : tensor<64x256xf32>
  } {schedule = #mlc.schedule<[vector(1, axis 1), threads(256), stage(m 16, n 16, k 64, rows 4, columns 4, parts 16)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<64x256xf32>
}

// -----

// Where there are too few tiles, blocks have shares of the summed elements too: a second function adds
// them, and computes what follows.
// CHECK-LABEL: func.func @contraction_{{.+}}_0
// CHECK-NOT: math.absf
// CHECK-LABEL: func.func @contraction_{{.+}}_1
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: math.absf
// CHECK-LABEL: func.func @shares
func.func @shares(%x: tensor<16x4096xf32>, %y: tensor<4096x16xf32>) -> tensor<16x16xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<16x4096xf32>, tensor<4096x16xf32>) -> (tensor<16x16xf32>) {
    %z = mlc.contract "mk,kn->mn" %1, %2 : tensor<16x4096xf32>, tensor<4096x16xf32> -> tensor<16x16xf32>
    %w = mlc.abs %z : tensor<16x16xf32>
    mlc.yield %w : tensor<16x16xf32>
  } {schedule = #mlc.schedule<[vector(1, axis 1), share(512), threads(256), stage(m 16, n 16, k 64, rows 4, columns 4, parts 16)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<16x16xf32>
}

// -----

// A convolution is such a product, whose places are computed where it is staged.
// CHECK-LABEL: func.func @window_
// CHECK: mlc_gpu.shared : memref<16x68xf32, 3 : i64>
// CHECK: mlc_gpu.shared : memref<16x68xf32, 3 : i64>
// CHECK: math.fma
// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<32x64x58x58xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<32x64x56x56xf32> attributes {mlc.symbols = [], mlc.arena = {}} {
  %0 = mlc.kernel "window" (%1 = %x, %2 = %w) : (tensor<32x64x58x58xf32>, tensor<64x64x3x3xf32>) -> (tensor<32x64x56x56xf32>) {
    %z = mlc.conv "ac(u+i)(v+j),fcij->afuv" %1, %2 : tensor<32x64x58x58xf32>, tensor<64x64x3x3xf32> -> tensor<32x64x56x56xf32>
    mlc.yield %z : tensor<32x64x56x56xf32>
  } {schedule = #mlc.schedule<[vector(1, axis 3), threads(256), stage(m 64, n 64, k 16, rows 4, columns 4, parts 1)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<32x64x56x56xf32>
}
