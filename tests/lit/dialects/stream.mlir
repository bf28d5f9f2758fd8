// Ops that are computed together: their text reads back as it was.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s
// RUN: mlc opt %s -p form-kernels | filecheck %s --check-prefix=KERNEL

// CHECK-LABEL: func.func @largest
// CHECK-NEXT:    %o = mlc.stream(%a = %q, %b = %k) : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %s = mlc.contract "md,nd->mn" %a, %b : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
// CHECK-NEXT:      %m = mlc.reduce "max" "mn->m" %s : tensor<4x6xf32> -> tensor<4xf32>
// CHECK-NEXT:      mlc.yield %m : tensor<4xf32>
// CHECK-NEXT:    }
// KERNEL:         mlc.kernel "stream"
// KERNEL-NEXT:      mlc.stream(
func.func @largest(%q: tensor<4x8xf32>, %k: tensor<6x8xf32>) -> tensor<4xf32> {
  %o = mlc.stream(%a = %q, %b = %k) : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4xf32> {
    %s = mlc.contract "md,nd->mn" %a, %b : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    %m = mlc.reduce "max" "mn->m" %s : tensor<4x6xf32> -> tensor<4xf32>
    mlc.yield %m : tensor<4xf32>
  }
  func.return %o : tensor<4xf32>
}
