// Kernels become functions of loops, and the function around them the entry that calls them.
// RUN: mlc opt %s --target=avx2 -p plan-to-loops | filecheck %s

// One function per kernel, called by each worker with its number and their count.
// CHECK:       func.func @[[KERNEL:cell_[0-9a-f]+]](%{{.*}}: !mlc_par.ctx, %worker: index, %workers: index, %B: index
// CHECK-NOT:     mlc_par.region
// CHECK:         vector.load
// CHECK:       func.func @f(
// CHECK-SAME:    attributes {mlc.entry = {inputs = 1 : i64, outputs = 1 : i64}}
// CHECK:         mlc_par.region
// CHECK-NEXT:    ^bb0(%[[WORKER:.+]]: index, %[[WORKERS:.+]]: index):
// CHECK-NEXT:      func.call @[[KERNEL]](%{{.+}}, %[[WORKER]], %[[WORKERS]],
// CHECK-NEXT:      mlc_par.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    mlc_par.check
func.func @f(%x: tensor<?xf32, #mlc.dims<"B">>) -> tensor<?xf32, #mlc.dims<"B">> attributes {mlc.symbols = ["B"], mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<?xf32, #mlc.dims<"B">>) -> (tensor<?xf32, #mlc.dims<"B">>) {
    %2 = mlc.add %1, %1 : tensor<?xf32, #mlc.dims<"B">>
    mlc.yield %2 : tensor<?xf32, #mlc.dims<"B">>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<?xf32, #mlc.dims<"B">>
}
