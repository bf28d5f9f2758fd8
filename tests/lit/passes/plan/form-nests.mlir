// Loops of numbers and single elements are one kernel each.
// RUN: mlc opt %s -p form-kernels,form-nests | filecheck %s
// RUN: mlc opt %s -p form-nests | filecheck %s --check-prefix=BEFORE

// A table that is filled from a row above, with two loops: what it starts from is written by the
// nest, which has the result at once. The loops and all they compute stand in it.
// CHECK-LABEL: @table
// CHECK:         %[[NEST:.*]] = mlc.kernel "nest" (%[[A:.*]] = %a) : (tensor<8xf64>) -> (tensor<9x8xf64>) {
// CHECK:           %[[START:.*]] = mlc.constant dense<0.000000e+00> : tensor<9x8xf64>
// CHECK:           mlc.for %i to %{{.*}} iter(%{{.*}} = %[[START]])
// CHECK:             mlc.for %j
// CHECK-NOT:           mlc.kernel
// CHECK:               mlc.dynamic_update
// CHECK:         } {cost = #mlc.cost<flops 128, read 64, written 576>}
// CHECK-NEXT:    func.return %[[NEST]]
func.func @table(%a: tensor<8xf64>) -> tensor<9x8xf64> {
  %zero = mlc.constant dense<0.0> : tensor<9x8xf64>
  %n = mlc.constant dense<8> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %zero) -> (tensor<9x8xf64>) {
    %1 = mlc.for %j to %n iter(%y = %x) -> (tensor<9x8xf64>) {
      %2 = mlc.dynamic_slice %y[%i, %j] {fits} : tensor<9x8xf64>, tensor<i64>, tensor<i64> -> tensor<1x1xf64>
      %3 = mlc.dynamic_slice %a[%j] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
      %4 = mlc.reshape %3 : tensor<1xf64> -> tensor<1x1xf64>
      %5 = mlc.add %2, %4 : tensor<1x1xf64>
      %k = mlc.add %i, %one : tensor<i64>
      %6 = mlc.dynamic_update %y, %5[%k, %j] {fits} : tensor<9x8xf64>, tensor<1x1xf64>, tensor<i64>, tensor<i64> -> tensor<9x8xf64>
      mlc.yield %6 : tensor<9x8xf64>
    }
    mlc.yield %1 : tensor<9x8xf64>
  }
  func.return %0 : tensor<9x8xf64>
}

// Elements are exchanged: what is read first is kept, and both writes happen in place.
// The same before any kernel is formed.
// BEFORE-LABEL: @exchange
// BEFORE:        mlc.kernel "nest"
// BEFORE-NOT:    mlc.kernel
// CHECK-LABEL: @exchange
// CHECK:         mlc.kernel "nest"
// CHECK:           %[[OLD:.*]] = mlc.dynamic_slice %[[X:.*]][%i]
// CHECK:           %[[NEXT:.*]] = mlc.dynamic_update %[[X]], %{{.*}}[%i]
// CHECK:           mlc.dynamic_update %[[NEXT]], %[[OLD]][%{{.*}}]
// CHECK-NOT:     mlc.kernel
func.func @exchange(%a: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<7> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %a) -> (tensor<8xf64>) {
    %j = mlc.add %i, %one : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
    %2 = mlc.dynamic_slice %x[%j] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
    %3 = mlc.dynamic_update %x, %2[%i] {fits} : tensor<8xf64>, tensor<1xf64>, tensor<i64> -> tensor<8xf64>
    %4 = mlc.dynamic_update %3, %1[%j] {fits} : tensor<8xf64>, tensor<1xf64>, tensor<i64> -> tensor<8xf64>
    mlc.yield %4 : tensor<8xf64>
  }
  func.return %0 : tensor<8xf64>
}

// A loop of vectors is none; the loop over its elements is.
// BEFORE-LABEL: @vectors
// BEFORE:        mlc.exp
// BEFORE-NEXT:   mlc.kernel "nest"
// CHECK-LABEL: @vectors
// CHECK:         mlc.for
// CHECK:           mlc.kernel "cell"
// CHECK:           mlc.kernel "nest"
// CHECK:         func.return
func.func @vectors(%a: tensor<8xf64>, %s: tensor<f64>) -> tensor<f64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %0, %1 = mlc.for %i to %n iter(%x = %a, %t = %s) -> (tensor<8xf64>, tensor<f64>) {
    %2 = mlc.exp %x : tensor<8xf64>
    %3 = mlc.for %j to %n iter(%u = %t) -> (tensor<f64>) {
      %4 = mlc.dynamic_slice %2[%j] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
      %5 = mlc.reshape %4 : tensor<1xf64> -> tensor<f64>
      %6 = mlc.add %u, %5 : tensor<f64>
      mlc.yield %6 : tensor<f64>
    }
    mlc.yield %2, %3 : tensor<8xf64>, tensor<f64>
  }
  func.return %1 : tensor<f64>
}

// Two arrays that change places have none of their own.
// CHECK-LABEL: @change_places
// CHECK-NOT:     "nest"
// CHECK:         func.return
func.func @change_places(%a: tensor<8xf64>, %b: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %0, %1 = mlc.for %i to %n iter(%x = %a, %y = %b) -> (tensor<8xf64>, tensor<8xf64>) {
    %2 = mlc.dynamic_slice %y[%i] {fits} : tensor<8xf64>, tensor<i64> -> tensor<1xf64>
    %3 = mlc.dynamic_update %x, %2[%i] {fits} : tensor<8xf64>, tensor<1xf64>, tensor<i64> -> tensor<8xf64>
    mlc.yield %y, %3 : tensor<8xf64>, tensor<8xf64>
  }
  func.return %0 : tensor<8xf64>
}
