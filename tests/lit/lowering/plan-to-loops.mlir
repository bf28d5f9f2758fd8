// Kernels become functions of loops, and the function around them the entry that calls them.
// RUN: mlc opt %s --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// One function per kernel, one call each; the intermediate lies in the arena.
// CHECK:       func.func @[[KERNEL:cell_[0-9a-f]+]](%{{.*}}: !mlc_par.ctx, %{{.*}}: index
// CHECK:         vector.load
// CHECK:       func.func @f(
// CHECK-SAME:    attributes {mlc.entry = {inputs = 1 : i64, outputs = 1 : i64}}
// CHECK:         func.call @[[KERNEL]]
// CHECK-NEXT:    mlc_par.check
func.func @f(%x: tensor<?xf32, #mlc.dims<"B">>) -> tensor<?xf32, #mlc.dims<"B">> {
  %0 = mlc.add %x, %x : tensor<?xf32, #mlc.dims<"B">>
  func.return %0 : tensor<?xf32, #mlc.dims<"B">>
}
