// Elementwise code: vectors of a thread.
// RUN: mlc opt %s --split-input-file --target=cuda:sm_90a -p plan-to-loops | filecheck %s

// Four elements of 4 bytes for each thread, in one access of 16 bytes; single ones at the end.
// They begin while the kernel before ends, and wait for it.
// CHECK-LABEL: func.func @cell_
// CHECK-NEXT: mlc_gpu.lead
// CHECK-NEXT: mlc_gpu.follow
// CHECK: [[FIRST:%.+]] = arith.muli %{{.+}}, %{{.+}} : index
// CHECK: vector.load %{{.+}}[%{{.+}}] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
// CHECK: vector.store %{{.+}} {alignment = 16 : i64}
// CHECK: scf.for
// CHECK: memref.store
// CHECK-LABEL: func.func @elementwise
// CHECK: mlc_gpu.launch @cell_
func.func @elementwise(%x: tensor<?xf32, #mlc.dims<"n">>) -> tensor<?xf32, #mlc.dims<"n">> attributes {mlc.symbols = ["n"], mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<?xf32, #mlc.dims<"n">>) -> (tensor<?xf32, #mlc.dims<"n">>) {
    %y = mlc.add %1, %1 : tensor<?xf32, #mlc.dims<"n">>
    mlc.yield %y : tensor<?xf32, #mlc.dims<"n">>
  } {schedule = #mlc.schedule<[vector(4, axis 0), threads(256)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<?xf32, #mlc.dims<"n">>
}
