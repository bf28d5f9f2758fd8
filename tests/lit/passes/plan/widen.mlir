// Values of 16 bits that stay in a kernel are f32: sums of products, what follows them, constants.
// RUN: mlc opt %s -p form-kernels,widen --fusion all --target=cuda:h200 --split-input-file | filecheck %s

// CHECK-LABEL: func.func @epilogue
// CHECK-NEXT:    mlc.kernel "contraction"
// CHECK-NEXT:      %[[A:.*]] = mlc.convert %{{.*}} : tensor<64x64xbf16> -> tensor<64x64xf32>
// CHECK-NEXT:      %[[B:.*]] = mlc.convert %{{.*}} : tensor<64x64xbf16> -> tensor<64x64xf32>
// CHECK-NEXT:      %{{.*}} = mlc.contract "mk,kn->mn" %[[A]], %[[B]] : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
// CHECK:           mlc.add %{{.*}} : tensor<64x64xf32>
// CHECK:           mlc.tanh %{{.*}} : tensor<64x64xf32>
// CHECK-NEXT:      %[[Y:.*]] = mlc.convert %{{.*}} : tensor<64x64xf32> -> tensor<64x64xbf16>
// CHECK-NEXT:      mlc.yield %[[Y]] : tensor<64x64xbf16>
func.func @epilogue(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>, %c: tensor<64xbf16>) -> tensor<64x64xbf16> {
  %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %1 = mlc.broadcast "n->mn" %c : tensor<64xbf16> -> tensor<64x64xbf16>
  %2 = mlc.add %0, %1 : tensor<64x64xbf16>
  %3 = mlc.tanh %2 : tensor<64x64xbf16>
  func.return %3 : tensor<64x64xbf16>
}

// -----

// What is stored is rounded, for its other reader too; what the program rounds stays rounded, and so
// does what is asked whether it is finite.
// CHECK-LABEL: func.func @rounded
// CHECK:         %[[S:.*]] = mlc.add %{{.*}} : tensor<64xf32>
// CHECK-NEXT:    %[[STORED:.*]] = mlc.convert %[[S]] : tensor<64xf32> -> tensor<64xf16>
// CHECK-NEXT:    %[[AGAIN:.*]] = mlc.convert %[[STORED]] : tensor<64xf16> -> tensor<64xf32>
// CHECK-NEXT:    %[[E:.*]] = mlc.exp %[[AGAIN]] : tensor<64xf32>
// CHECK-NEXT:    %[[H:.*]] = mlc.convert %[[E]] : tensor<64xf32> -> tensor<64xf16>
// CHECK-NEXT:    mlc.isfinite %[[H]]
// CHECK:         mlc.convert %{{.*}} : tensor<64xf32> -> tensor<64xbf16>
// CHECK-NEXT:    mlc.convert %{{.*}} : tensor<64xbf16> -> tensor<64xf32>
func.func @rounded(%a: tensor<64xf16>, %b: tensor<64xf32>) -> (tensor<64xf16>, tensor<64xi1>, tensor<64xf32>) {
  %0 = mlc.add %a, %a : tensor<64xf16>
  %1 = mlc.exp %0 : tensor<64xf16>
  %2 = mlc.isfinite %1 : tensor<64xf16> -> tensor<64xi1>
  %3 = mlc.convert %b : tensor<64xf32> -> tensor<64xbf16>
  %4 = mlc.convert %3 : tensor<64xbf16> -> tensor<64xf32>
  func.return %0, %2, %4 : tensor<64xf16>, tensor<64xi1>, tensor<64xf32>
}

// -----

// So is what is compared with infinity, as NumPy's isfinite and isinf are written.
// CHECK-LABEL: func.func @overflows
// CHECK:         %[[E:.*]] = mlc.exp %{{.*}} : tensor<64xf32>
// CHECK:         %[[H:.*]] = mlc.convert %[[E]] : tensor<64xf32> -> tensor<64xf16>
// CHECK:         mlc.compare "lt" %[[H]], %{{.*}} : tensor<64xf16> -> tensor<64xi1>
func.func @overflows(%a: tensor<64xf16>) -> tensor<64xi1> {
  %0 = mlc.add %a, %a : tensor<64xf16>
  %1 = mlc.exp %0 : tensor<64xf16>
  %2 = mlc.constant dense<0x7C00> : tensor<64xf16>
  %3 = mlc.compare "lt" %1, %2 : tensor<64xf16> -> tensor<64xi1>
  func.return %3 : tensor<64xi1>
}

// -----

// What is padded or joined is f32 as it was computed; an op that writes memory is given what it stores.
// CHECK-LABEL: func.func @moved
// CHECK:         %[[A:.*]] = mlc.add %{{.*}} : tensor<64xf32>
// CHECK:         %[[P:.*]] = mlc.pad %[[A]], %{{.*}}[<1>, <1>] : tensor<64xf32>, tensor<f32> -> tensor<66xf32>
// CHECK-NEXT:    %[[J:.*]] = mlc.join 0 %[[P]], %{{.*}} : tensor<66xf32>, tensor<64xf32> -> tensor<130xf32>
// CHECK-NEXT:    mlc.exp %[[J]] : tensor<130xf32>
// CHECK-LABEL: func.func @written
// CHECK:         %[[A:.*]] = mlc.add %{{.*}} : tensor<64xf32>
// CHECK:         %[[E:.*]] = mlc.exp %[[A]] : tensor<64xf32>
// CHECK-NEXT:    %[[H:.*]] = mlc.convert %[[E]] : tensor<64xf32> -> tensor<64xf16>
// CHECK-NEXT:    mlc.concat 0 %[[H]], %{{.*}} : tensor<64xf16>, tensor<64xf16> -> tensor<128xf16>
func.func @moved(%a: tensor<64xf16>) -> tensor<130xf16> {
  %0 = mlc.add %a, %a : tensor<64xf16>
  %1 = mlc.constant dense<1.0> : tensor<f16>
  %2 = mlc.pad %0, %1[<1>, <1>] : tensor<64xf16>, tensor<f16> -> tensor<66xf16>
  %3 = mlc.join 0 %2, %a : tensor<66xf16>, tensor<64xf16> -> tensor<130xf16>
  %4 = mlc.exp %3 : tensor<130xf16>
  func.return %4 : tensor<130xf16>
}
func.func @written(%a: tensor<64xf16>) -> tensor<128xf16> {
  %0 = mlc.add %a, %a : tensor<64xf16>
  %1 = mlc.exp %0 : tensor<64xf16>
  %2 = mlc.concat 0 %1, %a : tensor<64xf16>, tensor<64xf16> -> tensor<128xf16>
  func.return %2 : tensor<128xf16>
}

// -----

// Nothing stays in a kernel of one op, and strict numerics round every op.
// CHECK-LABEL: func.func @one
// CHECK-NOT:     xf32>
func.func @one(%a: tensor<64xbf16>) -> tensor<64xbf16> {
  %0 = mlc.exp %a : tensor<64xbf16>
  func.return %0 : tensor<64xbf16>
}

// -----

// CHECK:       module attributes {mlc.numerics = "strict"
// CHECK-NOT:     xf32>
builtin.module attributes {mlc.numerics = "strict"} {
  func.func @strict(%a: tensor<64xbf16>) -> tensor<64xbf16> {
    %0 = mlc.exp %a : tensor<64xbf16>
    %1 = mlc.tanh %0 : tensor<64xbf16>
    func.return %1 : tensor<64xbf16>
  }
}
