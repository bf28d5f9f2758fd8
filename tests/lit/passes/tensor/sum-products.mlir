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

// Sums with one vector whose matrices have a factor in common: that is multiplied by the vector once. If it is a
// reciprocal for them alone, the vector is divided.
// CHECK-LABEL: @shared
// CHECK:         %[[Q:.*]] = mlc.exp %y
// CHECK:         %[[V:.*]] = mlc.broadcast "b->ab" %v
// CHECK-NEXT:    %[[F:.*]] = mlc.mul %[[Q]], %[[V]]
// CHECK-NEXT:    %[[P:.*]] = mlc.mul %x, %[[F]]
// CHECK-NEXT:    mlc.reduce "sum" "ab->a" %[[P]]
// CHECK-NEXT:    %[[R:.*]] = mlc.mul %y, %[[F]]
// CHECK-NEXT:    mlc.reduce "sum" "ab->a" %[[R]]
func.func @shared(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %v: tensor<96xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %q = mlc.exp %y : tensor<64x96xf32>
  %0 = mlc.mul %x, %q : tensor<64x96xf32>
  %1 = mlc.contract "ab,b->a" %0, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  %2 = mlc.mul %q, %y : tensor<64x96xf32>
  %3 = mlc.contract "ab,b->a" %2, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  func.return %1, %3 : tensor<64xf32>, tensor<64xf32>
}

// -----

// CHECK-LABEL: @quotient
// CHECK:         %[[V:.*]] = mlc.broadcast "b->ab" %v
// CHECK-NEXT:    %[[F:.*]] = mlc.div %[[V]], %y
// CHECK-NEXT:    mlc.mul %x, %[[F]]
// CHECK:         mlc.mul %z, %[[F]]
// CHECK-NOT:     mlc.div
func.func @quotient(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %z: tensor<64x96xf32>, %v: tensor<96xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %one = mlc.constant dense<1.0> : tensor<64x96xf32>
  %q = mlc.div %one, %y : tensor<64x96xf32>
  %0 = mlc.mul %x, %q : tensor<64x96xf32>
  %1 = mlc.contract "ab,b->a" %0, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  %2 = mlc.mul %z, %q : tensor<64x96xf32>
  %3 = mlc.contract "ab,b->a" %2, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  func.return %1, %3 : tensor<64xf32>, tensor<64xf32>
}

// -----

// Another vector, or one sum alone: the order is as it was written.
// CHECK-LABEL: @apart
// CHECK:         %[[A:.*]] = mlc.mul %x, %[[Q:.*]] :
// CHECK:         mlc.mul %[[A]], %
// CHECK:         %[[B:.*]] = mlc.mul %y, %[[Q]] :
// CHECK:         mlc.mul %[[B]], %
func.func @apart(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %v: tensor<96xf32>, %w: tensor<96xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %q = mlc.exp %y : tensor<64x96xf32>
  %0 = mlc.mul %x, %q : tensor<64x96xf32>
  %1 = mlc.contract "ab,b->a" %0, %v : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  %2 = mlc.mul %y, %q : tensor<64x96xf32>
  %3 = mlc.contract "ab,b->a" %2, %w : tensor<64x96xf32>, tensor<96xf32> -> tensor<64xf32>
  func.return %1, %3 : tensor<64xf32>, tensor<64xf32>
}
