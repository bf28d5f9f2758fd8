// Loops with slices whose sizes are numbers of trips are one kernel each, at the tensor level.
// RUN: mlc opt %s -p prove-bounds,form-slice-nests | filecheck %s

// Forward substitution: the slices are not stored, and their product is summed up where it stands.
// CHECK-LABEL: @substitute
// CHECK:         mlc.kernel "nest"
// CHECK:           mlc.for %i to
// CHECK-NEXT:        mlc.bind "i" = %i to <7>
// CHECK-NOT:         mlc.held
// CHECK:             mlc.dynamic_slice %{{.*}}[%i, %{{.*}}] {fits}
// CHECK:             mlc.contract
// CHECK:         } {cost =
// CHECK-NEXT:    func.return
func.func @substitute(%l: tensor<8x8xf64>, %b: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %zero = mlc.constant dense<0> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %b) -> (tensor<8xf64>) {
    mlc.bind "i" = %i to <7>
    %1 = mlc.dynamic_slice %l[%i, %zero] : tensor<8x8xf64>, tensor<i64>, tensor<i64> -> tensor<1x?xf64, #mlc.dims<1, "i">>
    %2 = mlc.reshape %1 : tensor<1x?xf64, #mlc.dims<1, "i">> -> tensor<?xf64, #mlc.dims<"i">>
    %3 = mlc.dynamic_slice %x[%zero] : tensor<8xf64>, tensor<i64> -> tensor<?xf64, #mlc.dims<"i">>
    %4 = mlc.contract "k,k->" %2, %3 : tensor<?xf64, #mlc.dims<"i">>, tensor<?xf64, #mlc.dims<"i">> -> tensor<f64>
    %5 = mlc.reshape %4 : tensor<f64> -> tensor<1xf64>
    %6 = mlc.dynamic_update %x, %5[%i] : tensor<8xf64>, tensor<1xf64>, tensor<i64> -> tensor<8xf64>
    mlc.yield %6 : tensor<8xf64>
  }
  func.return %0 : tensor<8xf64>
}

// What is written is read elsewhere for other elements, here backwards: it is held meanwhile.
// CHECK-LABEL: @backwards
// CHECK:         mlc.kernel "nest"
// CHECK:           mlc.dynamic_slice %{{.*}}[%{{.*}}] {mlc.held
func.func @backwards(%y: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %zero = mlc.constant dense<0> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %y) -> (tensor<8xf64>) {
    mlc.bind "i" = %i to <7>
    %1 = mlc.dynamic_slice %x[%zero] : tensor<8xf64>, tensor<i64> -> tensor<?xf64, #mlc.dims<"i">>
    %2 = mlc.slice %1[<"i - 1">, <-1>] : tensor<?xf64, #mlc.dims<"i">> -> tensor<?xf64, #mlc.dims<"i">>
    %3 = mlc.dynamic_update %x, %2[%zero] : tensor<8xf64>, tensor<?xf64, #mlc.dims<"i">>, tensor<i64> -> tensor<8xf64>
    mlc.yield %3 : tensor<8xf64>
  }
  func.return %0 : tensor<8xf64>
}

// An element is written where only it is read: nothing is held.
// CHECK-LABEL: @in_place
// CHECK:         mlc.kernel "nest"
// CHECK-NOT:       mlc.held
// CHECK:         func.return
func.func @in_place(%y: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %zero = mlc.constant dense<0> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %y) -> (tensor<8xf64>) {
    mlc.bind "i" = %i to <7>
    %1 = mlc.dynamic_slice %x[%zero] : tensor<8xf64>, tensor<i64> -> tensor<?xf64, #mlc.dims<"i">>
    %2 = mlc.mul %1, %1 : tensor<?xf64, #mlc.dims<"i">>
    %3 = mlc.dynamic_update %x, %2[%zero] : tensor<8xf64>, tensor<?xf64, #mlc.dims<"i">>, tensor<i64> -> tensor<8xf64>
    mlc.yield %3 : tensor<8xf64>
  }
  func.return %0 : tensor<8xf64>
}

// A loop whose sizes are those of arrays is left to other passes, and so is one with a sort.
// CHECK-LABEL: @others
// CHECK-NOT:     mlc.kernel
func.func @others(%y: tensor<8xf64>) -> tensor<8xf64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %zero = mlc.constant dense<0> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %y) -> (tensor<8xf64>) {
    %1 = mlc.mul %x, %x : tensor<8xf64>
    mlc.yield %1 : tensor<8xf64>
  }
  %2 = mlc.for %i to %n iter(%x = %0) -> (tensor<8xf64>) {
    mlc.bind "i" = %i to <7>
    %3 = mlc.dynamic_slice %x[%zero] : tensor<8xf64>, tensor<i64> -> tensor<?xf64, #mlc.dims<"i">>
    %4 = mlc.sort "ascending" %3 : tensor<?xf64, #mlc.dims<"i">> -> tensor<?xf64, #mlc.dims<"i">>
    %5 = mlc.dynamic_update %x, %4[%zero] : tensor<8xf64>, tensor<?xf64, #mlc.dims<"i">>, tensor<i64> -> tensor<8xf64>
    mlc.yield %5 : tensor<8xf64>
  }
  func.return %2 : tensor<8xf64>
}
