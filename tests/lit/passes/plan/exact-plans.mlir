// The plan of least cost: what is stored, what is computed where it is read, and what the other way would cost.
// RUN: mlc opt %s -p form-kernels --split-input-file | filecheck %s

// Softmax: to repeat the exponential takes longer than to store it; the difference is repeated.
// CHECK-LABEL: @softmax
// CHECK-NEXT:    %[[MAX:.*]] = mlc.kernel "row" (%{{.*}} = %x)
// CHECK:         %[[E:.*]] = mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %[[MAX]])
// CHECK-NEXT:      mlc.broadcast
// CHECK-NEXT:      mlc.sub
// CHECK-NEXT:      mlc.exp
// CHECK:         %[[SUM:.*]] = mlc.kernel "row" (%{{.*}} = %[[E]])
// CHECK:         %[[Y:.*]] = mlc.kernel "cell" (%{{.*}} = %[[E]], %{{.*}} = %[[SUM]])
// CHECK:         func.return %[[Y]]
func.func @softmax(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<512x512xf32> -> tensor<512xf32>
  %1 = mlc.broadcast "m->mn" %0 : tensor<512xf32> -> tensor<512x512xf32>
  %2 = mlc.sub %x, %1 : tensor<512x512xf32>
  %3 = mlc.exp %2 : tensor<512x512xf32>
  %4 = mlc.reduce "sum" "mn->m" %3 : tensor<512x512xf32> -> tensor<512xf32>
  %5 = mlc.broadcast "m->mn" %4 : tensor<512xf32> -> tensor<512x512xf32>
  %6 = mlc.div %3, %5 : tensor<512x512xf32>
  func.return %6 : tensor<512x512xf32>
}

// -----

// Of few elements, another kernel takes longer than repeating the exponential.
// CHECK-LABEL: @small_softmax
// CHECK-NEXT:    %[[MAX:.*]] = mlc.kernel "row" (%{{.*}} = %x)
// CHECK:         %[[SUM:.*]] = mlc.kernel "row" (%{{.*}} = %x, %{{.*}} = %[[MAX]])
// CHECK:           mlc.exp
// CHECK-NEXT:      mlc.reduce
// CHECK:         %[[Y:.*]] = mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %[[MAX]], %{{.*}} = %[[SUM]])
// CHECK:           mlc.exp
// CHECK:         func.return %[[Y]]
func.func @small_softmax(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<8x4xf32> -> tensor<8xf32>
  %1 = mlc.broadcast "m->mn" %0 : tensor<8xf32> -> tensor<8x4xf32>
  %2 = mlc.sub %x, %1 : tensor<8x4xf32>
  %3 = mlc.exp %2 : tensor<8x4xf32>
  %4 = mlc.reduce "sum" "mn->m" %3 : tensor<8x4xf32> -> tensor<8xf32>
  %5 = mlc.broadcast "m->mn" %4 : tensor<8xf32> -> tensor<8x4xf32>
  %6 = mlc.div %3, %5 : tensor<8x4xf32>
  func.return %6 : tensor<8x4xf32>
}

// -----

// Through a broadcast a value is computed again for each row: what is dear is computed once before.
// CHECK-LABEL: @through_broadcast
// CHECK-NEXT:    %[[EXP:.*]] = mlc.kernel "cell" (%{{.*}} = %b) : (tensor<512xf32>)
// CHECK-NEXT:      mlc.exp
// CHECK:         mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %a, %{{.*}} = %[[EXP]])
// CHECK:         func.return
func.func @through_broadcast(%x: tensor<512x512xf32>, %a: tensor<512xf32>, %b: tensor<512xf32>) -> tensor<512x512xf32> {
  %cheap = mlc.add %a, %a : tensor<512xf32>
  %dear = mlc.exp %b : tensor<512xf32>
  %0 = mlc.broadcast "n->mn" %cheap : tensor<512xf32> -> tensor<512x512xf32>
  %1 = mlc.broadcast "n->mn" %dear : tensor<512xf32> -> tensor<512x512xf32>
  %2 = mlc.mul %x, %0 : tensor<512x512xf32>
  %3 = mlc.mul %2, %1 : tensor<512x512xf32>
  func.return %3 : tensor<512x512xf32>
}

// -----

// Of few rows, another kernel takes longer.
// CHECK-LABEL: @through_small_broadcast
// CHECK-NEXT:    mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %a, %{{.*}} = %b)
// CHECK-NEXT:      mlc.add %{{.*}} : tensor<4xf32>
// CHECK-NEXT:      mlc.exp %{{.*}} : tensor<4xf32>
// CHECK-NOT:     mlc.kernel
// CHECK:         func.return
func.func @through_small_broadcast(%x: tensor<8x4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %cheap = mlc.add %a, %a : tensor<4xf32>
  %dear = mlc.exp %b : tensor<4xf32>
  %0 = mlc.broadcast "n->mn" %cheap : tensor<4xf32> -> tensor<8x4xf32>
  %1 = mlc.broadcast "n->mn" %dear : tensor<4xf32> -> tensor<8x4xf32>
  %2 = mlc.mul %x, %0 : tensor<8x4xf32>
  %3 = mlc.mul %2, %1 : tensor<8x4xf32>
  func.return %3 : tensor<8x4xf32>
}
