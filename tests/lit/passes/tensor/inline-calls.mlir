// Programs become one function: what is called stands where it is called.
// RUN: mlc opt %s --split-input-file -p inline-calls | filecheck %s
// RUN: mlc opt %s --split-input-file --verify-diagnostics -p cse | filecheck %s --check-prefix=OTHERS

// Every pass but two reads one function at a time.
// OTHERS: error: mlc-cse cannot run: mlc.call: names @square; the passes expand-transforms and inline-calls come first

// Sizes take the place of symbols, at each call its own; the functions are gone.
// CHECK-LABEL: builtin.module
// CHECK-NEXT:    func.func @twice(%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<?xf32, #mlc.dims<"2*M">>)
// CHECK-NEXT:    %{{.*}} = mlc.mul %[[X]], %[[X]] : tensor<3xf32>
// CHECK-NEXT:    mlc.size <3> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = mlc.mul %[[Y]], %[[Y]] : tensor<?xf32, #mlc.dims<"2*M">>
// CHECK-NEXT:    mlc.size <"2*M"> : tensor<i64>
// CHECK-NEXT:    func.return
// CHECK-NOT:     func.func
func.func private @square(%x: tensor<?xf32, #mlc.dims<"N">>) -> (tensor<?xf32, #mlc.dims<"N">>, tensor<i64>) {
  %y = mlc.mul %x, %x : tensor<?xf32, #mlc.dims<"N">>
  %n = mlc.size <"N"> : tensor<i64>
  func.return %y, %n : tensor<?xf32, #mlc.dims<"N">>, tensor<i64>
}
func.func @twice(%x: tensor<3xf32>, %y: tensor<?xf32, #mlc.dims<"2*M">>) -> (tensor<3xf32>, tensor<i64>, tensor<?xf32, #mlc.dims<"2*M">>, tensor<i64>) {
  %a, %n = mlc.call @square(%x) sizes [3] : (tensor<3xf32>) -> (tensor<3xf32>, tensor<i64>)
  %b, %m = mlc.call @square(%y) sizes ["2*M"] : (tensor<?xf32, #mlc.dims<"2*M">>) -> (tensor<?xf32, #mlc.dims<"2*M">>, tensor<i64>)
  func.return %a, %n, %b, %m : tensor<3xf32>, tensor<i64>, tensor<?xf32, #mlc.dims<"2*M">>, tensor<i64>
}

// -----

// A call in a loop, of a function that calls another one; who is called by nobody is gone, too.
// CHECK-LABEL: func.func @steps
// CHECK:         mlc.for
// CHECK-NEXT:      mlc.sin
// CHECK-NEXT:      mlc.cos
// CHECK-NEXT:      mlc.yield
// CHECK-NOT:     func.func
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mlc.sin %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mlc.call @inner(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  %z = mlc.cos %y : tensor<4xf32>
  func.return %z : tensor<4xf32>
}
func.func private @nobody(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mlc.call @inner(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}
func.func @steps(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%c = %x) -> (tensor<4xf32>) {
    %y = mlc.call @outer(%c) : (tensor<4xf32>) -> (tensor<4xf32>)
    mlc.yield %y : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

// What the function takes to be 0 or more, the caller does; a size that a block computes has a name
// of its own at each call.
// CHECK-LABEL: func.func @assumes
// CHECK-SAME:    mlc.assume = #mlc.dims<"M - 4">
// CHECK:         mlc.bind "k" = %{{.*}} to <"M">
// CHECK:         mlc.bind "k_1" = %{{.*}} to <"M">
// CHECK:         mlc.positions %{{.*}} -> tensor<?xi64, #mlc.dims<"k_1">>
func.func private @some(%x: tensor<?xi1, #mlc.dims<"N">>, %n: tensor<i64>) -> tensor<i64> attributes {mlc.assume = #mlc.dims<"N - 4">} {
  mlc.bind "k" = %n to <"N">
  %p = mlc.positions %x : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"k">>
  %s = mlc.reduce "sum" "a->" %p : tensor<?xi64, #mlc.dims<"k">> -> tensor<i64>
  func.return %s : tensor<i64>
}
func.func @assumes(%x: tensor<?xi1, #mlc.dims<"M">>, %n: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
  %a = mlc.call @some(%x, %n) sizes ["M"] : (tensor<?xi1, #mlc.dims<"M">>, tensor<i64>) -> (tensor<i64>)
  %b = mlc.call @some(%x, %n) sizes ["M"] : (tensor<?xi1, #mlc.dims<"M">>, tensor<i64>) -> (tensor<i64>)
  func.return %a, %b : tensor<i64>, tensor<i64>
}
