// Each mistake gets file, line, caret, what was found and what was expected, and never a traceback.
// RUN: not mlc opt %s --split-input-file 2>&1 | filecheck %s

// A type that does not fit the one the value has.
// CHECK:      {{^.*}}opt-errors.mlir:9:16: error: operand is used with type tensor<3xf64>, but has been previously used or defined with type tensor<3xf32>
// CHECK-NEXT:   %y = mlc.add %x, %x : tensor<3xf64>
// CHECK-NEXT:                ^
func.func @type(%x: tensor<3xf32>) -> tensor<3xf64> {
  %y = mlc.add %x, %x : tensor<3xf64>
  func.return %y : tensor<3xf64>
}

// -----

// Shapes that do not multiply.
// CHECK:      {{^.*}}opt-errors.mlir:20:3: error: mlc.contract {{.*}}: {{.*}} is 4 in one operand and 5 in operand 1 (5, 6); expected equal sizes
// CHECK-NEXT:   %z = mlc.contract
// CHECK-NEXT:   ^
func.func @letters(%x: tensor<3x4xf32>, %y: tensor<5x6xf32>) -> tensor<3x6xf32> {
  %z = mlc.contract "mk,kn->mn" %x, %y : tensor<3x4xf32>, tensor<5x6xf32> -> tensor<3x6xf32>
  func.return %z : tensor<3x6xf32>
}

// -----

// A value that is defined after its use, which xDSL's own verifier accepts.
// CHECK:      {{^.*}}opt-errors.mlir:31:3: error: mlc.add uses %z, which is defined later or elsewhere by 'mlc.neg'; expected every value to be defined before its uses
// CHECK-NEXT:   %y = mlc.add
// CHECK-NEXT:   ^
func.func @dominance(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = mlc.add %z, %x : tensor<3xf32>
  %z = mlc.neg %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// An op that does not exist.
// CHECK:      {{^.*}}opt-errors.mlir:41:18: error: no op is called mlc.reduc; did you mean mlc.reduce?
func.func @unknown(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = mlc.reduc %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
