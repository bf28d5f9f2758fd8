// Regions in the entry: scf around the calls of kernels; addresses go round, and slot numbers where
// kernels choose among slots.
// RUN: mlc opt %s --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @doubling
// CHECK:         mlc_par.reserve
// CHECK:         %[[LAST:.+]], %{{.+}} = scf.while (%[[NOW:.+]] = %{{.+}}, %[[SLOT:.+]] = %{{.+}}) : (memref<4xf32>, index)
// CHECK:           func.call @magg_{{[0-9a-f]+}}(%{{.+}}, %[[NOW]], %{{.+}})
// CHECK-NEXT:      mlc_par.check
// CHECK-NEXT:      %[[BYTE:.+]] = memref.load
// CHECK-NEXT:      %[[GO:.+]] = arith.cmpi ne, %[[BYTE]]
// CHECK-NEXT:      scf.condition(%[[GO]]) %[[NOW]], %[[SLOT]]
// CHECK:         ^bb0(%[[READ:.+]]: memref<4xf32>, %[[IN:.+]]: index):
// CHECK-NEXT:      %[[FREE:.+]] = arith.cmpi ne, %[[IN]]
// CHECK-NEXT:      %[[NEXT:.+]] = arith.select %[[FREE]]
// CHECK-NEXT:      %[[OFFSET:.+]] = arith.select %[[FREE]]
// CHECK-NEXT:      %[[WRITTEN:.+]] = mlc_par.arena %{{.+}}, %[[OFFSET]]
// CHECK-NEXT:      func.call @cell_{{[0-9a-f]+}}(%{{.+}}, %[[READ]], %[[WRITTEN]])
// CHECK-NEXT:      mlc_par.check
// CHECK-NEXT:      scf.yield %[[WRITTEN]], %[[NEXT]]
// CHECK:         func.call @copy_{{[0-9a-f]+}}(%{{.+}}, %[[LAST]], %{{.+}})
func.func @doubling(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mlc.arena = {"0" = #mlc.dims<16>, "1" = #mlc.dims<16>, "2" = #mlc.dims<1>}} {
  %r = mlc.while iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.kernel "magg" (%1 = %a) : (tensor<4xf32>) -> (tensor<i1>) {
      %s = mlc.reduce "max" "a->" %1 : tensor<4xf32> -> tensor<f32>
      %limit = mlc.constant dense<1.000000e+02> : tensor<f32>
      %go = mlc.compare "lt" %s, %limit : tensor<f32> -> tensor<i1>
      mlc.yield %go : tensor<i1>
    } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(4), grain(30000)]>, buffers = [#mlc.buffer<arena 2>]}
    mlc.yield %0 : tensor<i1>
  } do {
  ^bb0(%b: tensor<4xf32>):
    %1 = mlc.kernel "cell" (%2 = %b) : (tensor<4xf32>) -> (tensor<4xf32>) {
      %c = mlc.slice %2[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
      %d = mlc.add %2, %c : tensor<4xf32>
      mlc.yield %d : tensor<4xf32>
    } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<arena 0, 1>]}
    mlc.yield %1 : tensor<4xf32>
  }
  %2 = mlc.kernel "copy" (%3 = %r) : (tensor<4xf32>) -> (tensor<4xf32>) {
    mlc.yield %3 : tensor<4xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %2 : tensor<4xf32>
}
