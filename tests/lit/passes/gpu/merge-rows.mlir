// Kernels that walk the same rows become one, which reads them once.
// RUN: mlc opt %s --target h200 -p form-kernels,merge-rows | filecheck %s

// CHECK-LABEL: @softmax
// CHECK:         mlc.kernel "rows" (%{{.*}} = %x) : (tensor<512x1000xf32>) -> (tensor<512x1000xf32>)
// CHECK:           mlc.reduce "max"
// CHECK:           mlc.exp
// CHECK-NOT:       mlc.exp
// CHECK:           mlc.reduce "sum"
// CHECK:           mlc.div
// CHECK-NOT:     mlc.kernel
func.func @softmax(%x: tensor<512x1000xf32>) -> tensor<512x1000xf32> {
  %0 = mlc.reduce "max" "ab->a" %x : tensor<512x1000xf32> -> tensor<512xf32>
  %1 = mlc.broadcast "a->ab" %0 : tensor<512xf32> -> tensor<512x1000xf32>
  %2 = mlc.sub %x, %1 : tensor<512x1000xf32>
  %3 = mlc.exp %2 : tensor<512x1000xf32>
  %4 = mlc.reduce "sum" "ab->a" %3 : tensor<512x1000xf32> -> tensor<512xf32>
  %5 = mlc.broadcast "a->ab" %4 : tensor<512xf32> -> tensor<512x1000xf32>
  %6 = mlc.div %3, %5 : tensor<512x1000xf32>
  func.return %6 : tensor<512x1000xf32>
}

// What walks columns stands apart.
// CHECK-LABEL: @both_ways
// CHECK:         mlc.kernel "row"
// CHECK:         mlc.kernel "row"
// CHECK-NOT:     mlc.kernel "rows"
func.func @both_ways(%x: tensor<512x1000xf32>) -> (tensor<512xf32>, tensor<1000xf32>) {
  %0 = mlc.reduce "max" "ab->a" %x : tensor<512x1000xf32> -> tensor<512xf32>
  %1 = mlc.reduce "max" "ab->b" %x : tensor<512x1000xf32> -> tensor<1000xf32>
  func.return %0, %1 : tensor<512xf32>, tensor<1000xf32>
}

// What one product gives is read along the other's sums: no row of either has it.
// CHECK-LABEL: @products_of_a_vector
// CHECK:         mlc.kernel "contraction"
// CHECK:         mlc.kernel "contraction"
// CHECK-NOT:     mlc.kernel "rows"
func.func @products_of_a_vector(%b: tensor<512x512xui64>, %c: tensor<512x512xui64>, %v: tensor<512xui64>) -> tensor<512xui64> {
  %0 = mlc.contract "mk,k->m" %c, %v : tensor<512x512xui64>, tensor<512xui64> -> tensor<512xui64>
  %1 = mlc.contract "mk,k->m" %b, %0 : tensor<512x512xui64>, tensor<512xui64> -> tensor<512xui64>
  func.return %1 : tensor<512xui64>
}
