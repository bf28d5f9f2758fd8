// A kernel that changes a part of what another one has made writes that part, where nobody reads the
// old elements any more.
// RUN: mlc opt %s -p form-kernels,form-nests,write-parts-in-place,plan-buffers | filecheck %s

// The second column is made of the first one, which stands there already; all lies in the result.
// CHECK-LABEL: @columns
// CHECK-NOT:     mlc.arena = {"0"
// CHECK:         mlc.kernel "row"
// CHECK:         buffers = [#mlc.buffer<out 0>]
// CHECK:         cost = #mlc.cost<flops 4, read 0, written 32>, over = [0 : i64], buffers = [#mlc.buffer<input 0>]
// CHECK-NOT:     mlc.kernel
func.func @columns(%x: tensor<4x6x9xf64>) -> tensor<4x6xf64> {
  %0 = mlc.reduce "sum" "ijk->ij" %x : tensor<4x6x9xf64> -> tensor<4x6xf64>
  %1 = mlc.slice %0[<0, 0>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %2 = mlc.exp %1 : tensor<4x1xf64>
  %3 = mlc.slice %0[<0, 2>, <1, 1>] : tensor<4x6xf64> -> tensor<4x4xf64>
  %4 = mlc.concat 1 %1, %2, %3 : tensor<4x1xf64>, tensor<4x1xf64>, tensor<4x4xf64> -> tensor<4x6xf64>
  func.return %4 : tensor<4x6xf64>
}

// The new column is made of itself: each element is read before it is written.
// CHECK-LABEL: @same
// CHECK:         over = [0 : i64], buffers = [#mlc.buffer<input 0>]
func.func @same(%x: tensor<4x6x9xf64>) -> tensor<4x6xf64> {
  %0 = mlc.reduce "sum" "ijk->ij" %x : tensor<4x6x9xf64> -> tensor<4x6xf64>
  %1 = mlc.slice %0[<0, 0>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %2 = mlc.exp %1 : tensor<4x1xf64>
  %3 = mlc.slice %0[<0, 1>, <1, 1>] : tensor<4x6xf64> -> tensor<4x5xf64>
  %4 = mlc.concat 1 %2, %3 : tensor<4x1xf64>, tensor<4x5xf64> -> tensor<4x6xf64>
  func.return %4 : tensor<4x6xf64>
}

// Two columns change places: what one reads, the other one writes.
// CHECK-LABEL: @exchanged
// CHECK-NOT:     over
// CHECK:         func.return
func.func @exchanged(%x: tensor<4x6x9xf64>) -> tensor<4x6xf64> {
  %0 = mlc.reduce "sum" "ijk->ij" %x : tensor<4x6x9xf64> -> tensor<4x6xf64>
  %1 = mlc.slice %0[<0, 0>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %2 = mlc.slice %0[<0, 1>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %3 = mlc.slice %0[<0, 2>, <1, 1>] : tensor<4x6xf64> -> tensor<4x4xf64>
  %4 = mlc.concat 1 %2, %1, %3 : tensor<4x1xf64>, tensor<4x1xf64>, tensor<4x4xf64> -> tensor<4x6xf64>
  func.return %4 : tensor<4x6xf64>
}

// The old elements are returned too.
// CHECK-LABEL: @read_later
// CHECK-NOT:     over
// CHECK:         func.return
func.func @read_later(%x: tensor<4x6x9xf64>) -> (tensor<4x6xf64>, tensor<4x6xf64>) {
  %0 = mlc.reduce "sum" "ijk->ij" %x : tensor<4x6x9xf64> -> tensor<4x6xf64>
  %1 = mlc.slice %0[<0, 0>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %2 = mlc.exp %1 : tensor<4x1xf64>
  %3 = mlc.slice %0[<0, 1>, <1, 1>] : tensor<4x6xf64> -> tensor<4x5xf64>
  %4 = mlc.concat 1 %2, %3 : tensor<4x1xf64>, tensor<4x5xf64> -> tensor<4x6xf64>
  func.return %4, %0 : tensor<4x6xf64>, tensor<4x6xf64>
}

// An argument is the caller's.
// CHECK-LABEL: @argument
// CHECK-NOT:     over
// CHECK:         func.return
func.func @argument(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = mlc.slice %x[<0, 0>, <1, 1>] : tensor<4x6xf64> -> tensor<4x1xf64>
  %1 = mlc.exp %0 : tensor<4x1xf64>
  %2 = mlc.slice %x[<0, 1>, <1, 1>] : tensor<4x6xf64> -> tensor<4x5xf64>
  %3 = mlc.concat 1 %1, %2 : tensor<4x1xf64>, tensor<4x5xf64> -> tensor<4x6xf64>
  func.return %3 : tensor<4x6xf64>
}

// An array that a nest starts from and nobody else reads: the nest writes its elements there.
// CHECK-LABEL: @nest
// CHECK:         mlc.kernel "cell"
// CHECK:           buffers = [#mlc.buffer<out 0>]
// CHECK:         mlc.kernel "nest"
// CHECK:           over = [0 : i64], buffers = [#mlc.buffer<input 0>]
// CHECK-NOT:     mlc.kernel
func.func @nest(%x: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<7> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.exp %x : tensor<8xf64>
  %1 = mlc.for %i to %n iter(%y = %0) -> (tensor<8xf64>) {
    %2 = mlc.add %i, %one : tensor<i64>
    %3 = mlc.dynamic_slice %y[%i] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
    %4 = mlc.dynamic_slice %y[%2] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
    %5 = mlc.add %3, %4 : tensor<1xf64>
    %6 = mlc.dynamic_update %y, %5[%2] {fits} : tensor<8xf64>, tensor<1xf64>, tensor<i64> -> tensor<8xf64>
    mlc.yield %6 : tensor<8xf64>
  }
  func.return %1 : tensor<8xf64>
}
