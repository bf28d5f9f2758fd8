// Regions in the entry: scf around the calls of kernels; addresses go round, and slot numbers where
// kernels choose among slots.
// RUN: mlc opt %s --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

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
func.func @doubling(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mlc.while iter(%a = %x) -> (tensor<4xf32>) {
    %s = mlc.reduce "max" "a->" %a : tensor<4xf32> -> tensor<f32>
    %limit = mlc.constant dense<100.0> : tensor<f32>
    %go = mlc.compare "lt" %s, %limit : tensor<f32> -> tensor<i1>
    mlc.yield %go : tensor<i1>
  } do {
  ^bb0(%b : tensor<4xf32>):
    %c = mlc.slice %b[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
    %d = mlc.add %b, %c : tensor<4xf32>
    mlc.yield %d : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
