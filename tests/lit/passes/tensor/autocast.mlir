// Products that round their factors: those of f32 that are not widened from that dtype are rounded
// before, each once; sums stay in f32.
// RUN: mlc opt %s -p autocast | filecheck %s

// CHECK-LABEL: @product
// CHECK-NEXT:    %[[A:.*]] = mlc.convert %a : tensor<3x3xf32> -> tensor<3x3xbf16>
// CHECK-NEXT:    %[[B:.*]] = mlc.convert %[[A]] : tensor<3x3xbf16> -> tensor<3x3xf32>
// CHECK-NEXT:    %[[C:.*]] = mlc.contract "mk,kn->mn" %[[B]], %[[B]] : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
// CHECK-NEXT:    func.return %[[C]]
func.func @product(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = mlc.contract "mk,kn->mn" %a, %a rounds "bf16" : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  func.return %0 : tensor<3x3xf32>
}

// CHECK-LABEL: @widened
// CHECK-NEXT:    %x = mlc.convert %a : tensor<8xf16> -> tensor<8xf32>
// CHECK-NEXT:    mlc.convert %w : tensor<3xf32> -> tensor<3xf16>
// CHECK-NEXT:    %[[W:.*]] = mlc.convert
// CHECK-NEXT:    mlc.conv "(u+i),i->u" %x, %[[W]] :
func.func @widened(%a: tensor<8xf16>, %w: tensor<3xf32>) -> tensor<6xf32> {
  %x = mlc.convert %a : tensor<8xf16> -> tensor<8xf32>
  %0 = mlc.conv "(u+i),i->u" %x, %w rounds "f16" : tensor<8xf32>, tensor<3xf32> -> tensor<6xf32>
  func.return %0 : tensor<6xf32>
}
