// Sums whose summands have several factors in common multiply these once.
// RUN: mlc opt %s -p share-factors,dce --split-input-file | filecheck %s

// Whatever their order, and whoever repeats a vector: the second sum finds the product of the first.
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
  %1 = mlc.broadcast "b->ab" %v : tensor<96xf32> -> tensor<64x96xf32>
  %2 = mlc.mul %0, %1 : tensor<64x96xf32>
  %3 = mlc.reduce "sum" "ab->a" %2 : tensor<64x96xf32> -> tensor<64xf32>
  %4 = mlc.broadcast "b->ab" %v : tensor<96xf32> -> tensor<64x96xf32>
  %5 = mlc.mul %q, %4 : tensor<64x96xf32>
  %6 = mlc.mul %5, %y : tensor<64x96xf32>
  %7 = mlc.reduce "sum" "ab->a" %6 : tensor<64x96xf32> -> tensor<64xf32>
  func.return %3, %7 : tensor<64xf32>, tensor<64xf32>
}

// -----

// A reciprocal that nobody else reads is a division of the rest.
// CHECK-LABEL: @quotient
// CHECK-NEXT:    %[[F:.*]] = mlc.div %v, %y
// CHECK-NEXT:    mlc.mul %x, %[[F]]
// CHECK:         mlc.mul %z, %[[F]]
// CHECK-NOT:     mlc.div
func.func @quotient(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %z: tensor<64x96xf32>, %v: tensor<64x96xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %one = mlc.constant dense<1.0> : tensor<64x96xf32>
  %q = mlc.div %one, %y : tensor<64x96xf32>
  %0 = mlc.mul %x, %q : tensor<64x96xf32>
  %1 = mlc.mul %0, %v : tensor<64x96xf32>
  %2 = mlc.reduce "sum" "ab->a" %1 : tensor<64x96xf32> -> tensor<64xf32>
  %3 = mlc.mul %z, %q : tensor<64x96xf32>
  %4 = mlc.mul %3, %v : tensor<64x96xf32>
  %5 = mlc.reduce "sum" "ab->a" %4 : tensor<64x96xf32> -> tensor<64xf32>
  func.return %2, %5 : tensor<64xf32>, tensor<64xf32>
}

// -----

// One that somebody else reads is not: there would be two divisions.
// CHECK-LABEL: @read_elsewhere
// CHECK:         %[[Q:.*]] = mlc.div
// CHECK-NEXT:    %[[F:.*]] = mlc.mul %v, %[[Q]]
// CHECK-NOT:     mlc.div
func.func @read_elsewhere(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %z: tensor<64x96xf32>, %v: tensor<64x96xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x96xf32>) {
  %one = mlc.constant dense<1.0> : tensor<64x96xf32>
  %q = mlc.div %one, %y : tensor<64x96xf32>
  %0 = mlc.mul %x, %q : tensor<64x96xf32>
  %1 = mlc.mul %0, %v : tensor<64x96xf32>
  %2 = mlc.reduce "sum" "ab->a" %1 : tensor<64x96xf32> -> tensor<64xf32>
  %3 = mlc.mul %z, %q : tensor<64x96xf32>
  %4 = mlc.mul %3, %v : tensor<64x96xf32>
  %5 = mlc.reduce "sum" "ab->a" %4 : tensor<64x96xf32> -> tensor<64xf32>
  func.return %2, %5, %q : tensor<64xf32>, tensor<64xf32>, tensor<64x96xf32>
}

// -----

// One factor in common, a constant beside it, another axis, a maximum: the order is as it was written.
// CHECK-LABEL: @apart
// CHECK:         mlc.mul %x, %y
// CHECK-NEXT:    mlc.mul
// CHECK-NEXT:    mlc.reduce
// CHECK:         mlc.mul %z, %y
// CHECK-NEXT:    mlc.mul
// CHECK-NEXT:    mlc.reduce
// CHECK:         mlc.mul %z, %x
// CHECK-NEXT:    mlc.mul
// CHECK-NEXT:    mlc.reduce "sum" "ab->b"
func.func @apart(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %two = mlc.constant dense<2.5> : tensor<64x64xf32>
  %0 = mlc.mul %x, %y : tensor<64x64xf32>
  %1 = mlc.mul %0, %two : tensor<64x64xf32>
  %2 = mlc.reduce "sum" "ab->a" %1 : tensor<64x64xf32> -> tensor<64xf32>
  %3 = mlc.mul %z, %y : tensor<64x64xf32>
  %4 = mlc.mul %3, %two : tensor<64x64xf32>
  %5 = mlc.reduce "sum" "ab->a" %4 : tensor<64x64xf32> -> tensor<64xf32>
  %6 = mlc.mul %z, %x : tensor<64x64xf32>
  %7 = mlc.mul %6, %y : tensor<64x64xf32>
  %8 = mlc.reduce "sum" "ab->b" %7 : tensor<64x64xf32> -> tensor<64xf32>
  func.return %2, %5, %8 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// A sum has other factors in common with each of two: it shares those with one, and does not change again.
// CHECK-LABEL: @either
// CHECK:       %[[F:.*]] = mlc.mul %a, %e
// CHECK:       mlc.mul %x, %[[F]]
// CHECK:       %[[G:.*]] = mlc.mul %b, %e
// CHECK:       mlc.mul %y, %[[G]]
// CHECK:       mlc.mul %b, %[[F]]
func.func @either(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %a: tensor<64x96xf32>, %b: tensor<64x96xf32>, %e: tensor<64x96xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %1 = mlc.mul %a, %e : tensor<64x96xf32>
  %2 = mlc.mul %x, %1 : tensor<64x96xf32>
  %s = mlc.reduce "sum" "ab->a" %2 : tensor<64x96xf32> -> tensor<64xf32>
  %3 = mlc.mul %b, %e : tensor<64x96xf32>
  %4 = mlc.mul %y, %3 : tensor<64x96xf32>
  %t = mlc.reduce "sum" "ab->a" %4 : tensor<64x96xf32> -> tensor<64xf32>
  %5 = mlc.mul %a, %b : tensor<64x96xf32>
  %6 = mlc.mul %5, %e : tensor<64x96xf32>
  %u = mlc.reduce "sum" "ab->a" %6 : tensor<64x96xf32> -> tensor<64xf32>
  func.return %s, %t, %u : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
