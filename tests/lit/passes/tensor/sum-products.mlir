// A product of a computed factor with what each of its elements meets once is a sum of elements.
// RUN: mlc opt %s -p sum-products,dce --split-input-file | filecheck %s

// CHECK-LABEL: @vector
// CHECK:         %[[D:.*]] = mlc.sub %x, %y
// CHECK-NEXT:    %[[V:.*]] = mlc.broadcast "b->ab" %v
// CHECK-NEXT:    %[[P:.*]] = mlc.mul %[[D]], %[[V]]
// CHECK-NEXT:    %{{.*}} = mlc.reduce "sum" "ab->a" %[[P]]
// CHECK:         mlc.mul %[[D]], %[[D]]
// CHECK:         mlc.reduce "sum" "ab->"
// CHECK-NOT:     mlc.contract
func.func @vector(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %v: tensor<96xf32>) -> (tensor<64xf32>, tensor<f32>) {
  %d = mlc.sub %x, %y : tensor<64x96xf32>
  %0 = mlc.contract "ab,b->a" %d, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  %1 = mlc.contract "ab,ab->" %d, %d : tensor<64x96xf32>, tensor<64x96xf32> -> tensor<f32>
  func.return %0, %1 : tensor<64xf32>, tensor<f32>
}

// -----

// What is at hand, what a product of matrices stores, a result whose axes have another order, narrow numbers: products.
// CHECK-LABEL: @stays
// CHECK-COUNT-5: mlc.contract
// CHECK-NOT:     mlc.reduce
func.func @stays(%x: tensor<64x64xf32>, %v: tensor<64xf32>, %h: tensor<64x64xf16>, %w: tensor<64xf16>, %t: tensor<8x9x10xf32>, %u: tensor<10xf32>)
    -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64xf16>, tensor<9x8xf32>) {
  %0 = mlc.contract "ab,b->a" %x, %v : tensor<64x64xf32>, tensor<64xf32> -> tensor<64xf32>
  %e = mlc.exp %x : tensor<64x64xf32>
  %1 = mlc.contract "ab,b->a" %e, %v : tensor<64x64xf32>, tensor<64xf32> -> tensor<64xf32>
  %2 = mlc.contract "ab,bc->ac" %e, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %g = mlc.exp %h : tensor<64x64xf16>
  %3 = mlc.contract "ab,b->a" %g, %w : tensor<64x64xf16>, tensor<64xf16> -> tensor<64xf16>
  %s = mlc.exp %t : tensor<8x9x10xf32>
  %4 = mlc.contract "abc,c->ba" %s, %u : tensor<8x9x10xf32>, tensor<10xf32> -> tensor<9x8xf32>
  func.return %0, %1, %2, %3, %4 : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64xf16>, tensor<9x8xf32>
}

// -----

// A column is a vector.
// CHECK-LABEL: @column
// CHECK:         %[[D:.*]] = mlc.sub %x, %y
// CHECK-NEXT:    %[[C:.*]] = mlc.reshape %v : tensor<96x1xf32> -> tensor<96xf32>
// CHECK-NEXT:    %[[V:.*]] = mlc.broadcast "b->ab" %[[C]]
// CHECK-NEXT:    %[[P:.*]] = mlc.mul %[[D]], %[[V]]
// CHECK-NEXT:    %[[S:.*]] = mlc.reduce "sum" "ab->a" %[[P]]
// CHECK-NEXT:    mlc.reshape %[[S]] : tensor<64xf32> -> tensor<64x1xf32>
func.func @column(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %v: tensor<96x1xf32>) -> tensor<64x1xf32> {
  %d = mlc.sub %x, %y : tensor<64x96xf32>
  %0 = mlc.contract "ab,bc->ac" %d, %v : tensor<64x96xf32>, tensor<96x1xf32> -> tensor<64x1xf32>
  func.return %0 : tensor<64x1xf32>
}
