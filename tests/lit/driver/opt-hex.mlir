// 0x… in a dense constant is the bits of a float: -inf and NaN survive reading, passes and printing.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s -p canonicalize | mlc opt | filecheck %s --check-prefix=FOLDED

// CHECK-LABEL:  @bits
// CHECK-NEXT:     mlc.constant dense<0xff800000> : tensor<2xf32>
// CHECK-NEXT:     mlc.constant dense<[1.000000e+00, 0x7fc00000]> : tensor<2xf32>
// CHECK-NEXT:     mlc.constant dense<0xfff0000000000000> : tensor<f64>
// CHECK-NEXT:     mlc.constant dense<255> : tensor<i32>
// FOLDED-LABEL: @bits
// FOLDED:         mlc.constant dense<0x7f800000> : tensor<2xf32>
func.func @bits() -> (tensor<2xf32>, tensor<2xf32>, tensor<f64>, tensor<i32>) {
  %0 = mlc.constant dense<0xFF800000> : tensor<2xf32>
  %1 = mlc.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32>
  %2 = mlc.constant dense<0xFFF0000000000000> : tensor<f64>
  %3 = mlc.constant dense<0xFF> : tensor<i32>
  %4 = mlc.neg %0 : tensor<2xf32>
  func.return %4, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<f64>, tensor<i32>
}
