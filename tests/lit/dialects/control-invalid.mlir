// What regions may not do, and what is said about it.
// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @branches(%x: tensor<4xf32>, %y: tensor<2xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  // CHECK: mlc.if: the else region yields (tensor<2xf32>); expected (tensor<4xf32>)
  %r = mlc.if %c -> (tensor<4xf32>) {
    mlc.yield %x : tensor<4xf32>
  } else {
    mlc.yield %y : tensor<2xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

func.func @condition(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.while: the condition yields (tensor<4xf32>); expected (tensor<i1>)
  %r = mlc.while iter(%a = %x) -> (tensor<4xf32>) {
    mlc.yield %a : tensor<4xf32>
  } do {
  ^bb0(%b : tensor<4xf32>):
    mlc.yield %b : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

func.func @arguments(%x: tensor<4xf32>, %go: tensor<i1>) -> tensor<4xf32> {
  // CHECK: mlc.while: region arguments must be tensor<4xf32>
  %r = mlc.while iter(%a = %x) -> (tensor<4xf32>) {
    mlc.yield %go : tensor<i1>
  } do {
  ^bb0(%b : tensor<2xf32>):
    mlc.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

func.func @carried(%x: tensor<4xf32>, %y: tensor<2xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  // CHECK: mlc.for: carried value 0 starts as tensor<4xf32> and continues as tensor<2xf32>; expected one type
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    mlc.yield %y : tensor<2xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

func.func @count(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  // CHECK: mlc.for: 1 carried values but 2 yielded
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    mlc.yield %a, %a : tensor<4xf32>, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
