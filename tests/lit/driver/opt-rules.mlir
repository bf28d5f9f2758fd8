// Rules that a user writes are verified, and then applied before the passes, as numerics allow.
// RUN: mlc opt %s --rules %S/Inputs/mean.rules -p dce --remarks 2>&1 | filecheck %s
// RUN: mlc rules verify %S/Inputs/mean.rules | filecheck %s --check-prefix=VERDICT
// RUN: mlc rules table %S/Inputs/mean.rules | filecheck %s --check-prefix=TABLE
// RUN: not mlc opt %s --rules %S/Inputs/wrong.rules 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not mlc rules verify %S/Inputs/wrong.rules | filecheck %s --check-prefix=REFUTED

// CHECK:       mean_of_shifted (approximate): mean(x + c)  ->  mean(x) + c, of rows of one size
// CHECK-LABEL: @means
// CHECK-NEXT:    mlc.reduce "sum" "ab->a" %{{.*}} : tensor<8x4xf32>
// CHECK-NEXT:    mlc.constant dense<4.000000e+00>
// CHECK-NEXT:    mlc.div
// CHECK-NEXT:    mlc.constant dense<1.500000e+00> : tensor<8xf32>
// CHECK-NEXT:    mlc.add
// CHECK-NEXT:    func.return
// VERDICT:     mean_of_shifted: approximate, axiomatic by {{.*}} at {{.*}} instances, degree 1, wrong with
// TABLE:       | `mean_of_shifted` | `%s = add %x, const(c); div (reduce "sum" "mn->m" %s), const(4)` |
// WRONG:       wrong.rules:1: rule mean_of_shifted is refuted: left {{.*}} and right {{.*}} where %x is
// REFUTED:     mean_of_shifted: refuted:
module attributes {mlc.numerics = "fast"} {
  func.func @means(%x: tensor<8x4xf32>) -> tensor<8xf32> {
    %c = mlc.constant dense<1.5> : tensor<8x4xf32>
    %n = mlc.constant dense<4.0> : tensor<8xf32>
    %0 = mlc.add %x, %c : tensor<8x4xf32>
    %1 = mlc.reduce "sum" "ab->a" %0 : tensor<8x4xf32> -> tensor<8xf32>
    %2 = mlc.div %1, %n : tensor<8xf32>
    func.return %2 : tensor<8xf32>
  }
}
