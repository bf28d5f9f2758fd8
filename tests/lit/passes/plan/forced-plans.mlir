// Decisions from outside, and remarks with the cost of both ways.
// RUN: mlc opt %s -p form-kernels | filecheck %s
// RUN: mlc opt %s -p 'form-kernels{forced="store:3"}' | filecheck %s --check-prefix=STORED
// RUN: mlc opt %s -p form-kernels --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: mlc opt %s -p 'form-kernels{forced="store:3"}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=FORCED
// RUN: not mlc opt %s -p 'form-kernels{forced="store:99"}' 2>&1 | filecheck %s --check-prefix=NUMBER
// NUMBER: mlc: pass mlc-form-kernels: forced="store:99"; expected "store:N" or "inline:N", with the number below 11 of an op with a result

// The example of the course: C = A + s B is read by D = (C / 2)^(C - 1) and by E = exp(C - 1).
// CHECK-LABEL: @materialisation_points
// CHECK-NEXT:    mlc.kernel "cell" (%{{.*}} = %a, %{{.*}} = %b, %{{.*}} = %s)
// CHECK-NOT:     mlc.kernel
// CHECK:         func.return
// Stored, it is written beside them; computed again for each, A and B are read as often.
// STORED-LABEL: @materialisation_points
// STORED:          mlc.yield %e, %d, %c
// REMARK:      remark: mlc.add: computed where it is read: by cost: the plan takes {{[0-9.]+}} us, and {{[0-9.]+}} us with it stored
// FORCED:      remark: mlc.add: stored: as asked: the plan takes {{[0-9.]+}} us, and {{[0-9.]+}} us with it computed where it is read
func.func @materialisation_points(%a: tensor<1000000xf32>, %b: tensor<1000000xf32>, %s: tensor<f32>) -> (tensor<1000000xf32>, tensor<1000000xf32>) {
  %0 = mlc.broadcast "->n" %s : tensor<f32> -> tensor<1000000xf32>
  %1 = mlc.mul %0, %b : tensor<1000000xf32>
  %c = mlc.add %a, %1 : tensor<1000000xf32>
  %half = mlc.constant dense<5.0e-01> : tensor<1000000xf32>
  %one = mlc.constant dense<1.0> : tensor<1000000xf32>
  %2 = mlc.mul %c, %half : tensor<1000000xf32>
  %3 = mlc.sub %c, %one : tensor<1000000xf32>
  %d = mlc.pow %2, %3 : tensor<1000000xf32>
  %e = mlc.exp %3 : tensor<1000000xf32>
  func.return %d, %e : tensor<1000000xf32>, tensor<1000000xf32>
}
