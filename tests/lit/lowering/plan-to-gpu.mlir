// RUN: mlc opt %s --target=cuda:sm_90a -p mlc-form-kernels,mlc-schedule,mlc-plan-buffers,mlc-plan-to-loops --split-input-file | filecheck %s

// Four elements of 4 bytes for each thread, in one access of 16 bytes; single ones at the end.
// CHECK-LABEL: func.func @cell_
// CHECK: [[FIRST:%.+]] = arith.muli %{{.+}}, %{{.+}} : index
// CHECK: vector.load %{{.+}}[%{{.+}}] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
// CHECK: vector.store %{{.+}} {alignment = 16 : i64}
// CHECK: scf.for
// CHECK: memref.store
// CHECK-LABEL: func.func @elementwise
// CHECK: mlc_gpu.launch @cell_
func.func @elementwise(%x: tensor<?xf32, #mlc.dims<"n">>) -> tensor<?xf32, #mlc.dims<"n">> attributes {mlc.symbols = ["n"]} {
  %y = mlc.add %x, %x : tensor<?xf32, #mlc.dims<"n">>
  func.return %y : tensor<?xf32, #mlc.dims<"n">>
}

// -----

// Eight threads share a row of 64: three exchanges, no shared memory.
// CHECK-LABEL: func.func @row_
// CHECK-NOT: mlc_gpu.shared
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 4
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 2
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 1
// CHECK-NOT: mlc_gpu.barrier
// CHECK-LABEL: func.func @short_rows
func.func @short_rows(%x: tensor<1000x64xf32>) -> tensor<1000xf32> attributes {mlc.symbols = []} {
  %y = mlc.reduce "sum" "mn->m" %x : tensor<1000x64xf32> -> tensor<1000xf32>
  func.return %y : tensor<1000xf32>
}

// -----

// A block for each long row: warps exchange, then meet in shared memory.
// CHECK-LABEL: func.func @row_
// CHECK: mlc_gpu.shuffle xor %{{.+}} by 16
// CHECK: mlc_gpu.shared : memref<32xf32, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK-LABEL: func.func @long_rows
func.func @long_rows(%x: tensor<10x4096xf32>) -> tensor<10xf32> attributes {mlc.symbols = []} {
  %y = mlc.reduce "max" "mn->m" %x : tensor<10x4096xf32> -> tensor<10xf32>
  func.return %y : tensor<10xf32>
}

// -----

// One result from much: partial states of many blocks, then one block.
// CHECK-LABEL: func.func @magg_{{.*}}_0
// CHECK-LABEL: func.func @magg_{{.*}}_1
// CHECK-LABEL: func.func @all
// CHECK: mlc_gpu.launch @magg_{{.*}}_0
// CHECK: mlc_gpu.launch @magg_{{.*}}_1
func.func @all(%x: tensor<1000000xf32>) -> tensor<f32> attributes {mlc.symbols = []} {
  %y = mlc.reduce "sum" "n->" %x : tensor<1000000xf32> -> tensor<f32>
  func.return %y : tensor<f32>
}

// -----

// A matrix product stages both operands in shared memory.
// CHECK-LABEL: func.func @contraction_
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.shared : memref<16x68xf64, 3 : i64>
// CHECK: mlc_gpu.barrier
// CHECK: math.fma
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<100x50xf64>, %y: tensor<50x70xf64>) -> tensor<100x70xf64> attributes {mlc.symbols = []} {
  %z = mlc.contract "mk,kn->mn" %x, %y : tensor<100x50xf64>, tensor<50x70xf64> -> tensor<100x70xf64>
  func.return %z : tensor<100x70xf64>
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
func.func @staged(%x: tensor<1024x512xf32>, %y: tensor<512x1024xf32>) -> tensor<1024x1024xf32> attributes {mlc.symbols = []} {
  %z = mlc.contract "mk,kn->mn" %x, %y : tensor<1024x512xf32>, tensor<512x1024xf32> -> tensor<1024x1024xf32>
  func.return %z : tensor<1024x1024xf32>
}

// -----

// What is read along one axis and written along another is turned in shared memory.
// CHECK-LABEL: func.func @copy_
// CHECK: [[TILE:%.+]] = mlc_gpu.shared : memref<32x33xi8, 3 : i64>
// CHECK: memref.store %{{.+}}, [[TILE]]
// CHECK: mlc_gpu.barrier
// CHECK: memref.load [[TILE]]
// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<100x50xi1>) -> tensor<50x100xi1> attributes {mlc.symbols = []} {
  %y = mlc.transpose "mn->nm" %x : tensor<100x50xi1> -> tensor<50x100xi1>
  func.return %y : tensor<50x100xi1>
}

// -----

// Few columns would leave a tile mostly empty.
// CHECK-LABEL: func.func @copy_
// CHECK-NOT: mlc_gpu.shared
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<100x3xf32>) -> tensor<3x100xf32> attributes {mlc.symbols = []} {
  %y = mlc.transpose "mn->nm" %x : tensor<100x3xf32> -> tensor<3x100xf32>
  func.return %y : tensor<3x100xf32>
}
