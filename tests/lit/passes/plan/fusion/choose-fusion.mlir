// What becomes of each value is an attribute of its op, which forming kernels consumes: another one,
// written by hand, makes other kernels.
// RUN: mlc opt %s -p choose-fusion --split-input-file | filecheck %s
// RUN: mlc opt %s -p 'choose-fusion{fusion="none"}' --split-input-file | filecheck %s --check-prefix=NONE
// RUN: mlc opt %s -p 'choose-fusion{forced="store:1"}' --split-input-file | filecheck %s --check-prefix=FORCED
// RUN: not mlc opt %s -p form-kernels --split-input-file 2>/dev/null | filecheck %s --check-prefix=FORMED
// RUN: not mlc opt %s -p form-kernels --split-input-file 2>&1 | filecheck %s --check-prefix=WRONG

// CHECK-LABEL: @between
// CHECK-NEXT:    mlc.mul {{.*}} {mlc.state = "inline"}
// CHECK-NEXT:    mlc.add {{.*}} {mlc.state = "buffer"}
// NONE-LABEL:  @between
// NONE-NEXT:     mlc.mul {{.*}} {mlc.state = "apart"}
// NONE-NEXT:     mlc.add {{.*}} {mlc.state = "apart"}
// FORCED-LABEL: @between
// FORCED-NEXT:   mlc.mul {{.*}} {mlc.state = "buffer"}
func.func @between(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mlc.mul %a, %b : tensor<64xf32>
  %1 = mlc.add %0, %b : tensor<64xf32>
  func.return %1 : tensor<64xf32>
}

// -----

// The product is stored on the way, though nobody asks for it but the attribute.
// FORMED-LABEL: @stored
// FORMED-NEXT:   mlc.kernel "cell"
// FORMED-NEXT:     %[[M:.*]] = mlc.mul %{{.*}}, %{{.*}} : tensor<64xf32>
// FORMED-NEXT:     %[[S:.*]] = mlc.add %[[M]], %{{.*}} : tensor<64xf32>
// FORMED-NEXT:     mlc.yield %[[S]], %[[M]]
func.func @stored(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mlc.mul %a, %b {mlc.state = "buffer"} : tensor<64xf32>
  %1 = mlc.add %0, %b {mlc.state = "buffer"} : tensor<64xf32>
  func.return %1 : tensor<64xf32>
}

// -----

// The product has a kernel of its own.
// FORMED-LABEL: @apart
// FORMED-NEXT:   mlc.kernel "cell"
// FORMED-NEXT:     %[[M:.*]] = mlc.mul
// FORMED-NEXT:     mlc.yield %[[M]]
// FORMED:        mlc.kernel "cell"
// FORMED-NEXT:     mlc.add
func.func @apart(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mlc.mul %a, %b {mlc.state = "apart"} : tensor<64xf32>
  %1 = mlc.add %0, %b {mlc.state = "buffer"} : tensor<64xf32>
  func.return %1 : tensor<64xf32>
}

// -----

// WRONG: mlc.state = "elsewhere" of mlc.mul; expected one of "inline", "buffer", "apart"
func.func @wrong(%a: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mlc.mul %a, %a {mlc.state = "elsewhere"} : tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
