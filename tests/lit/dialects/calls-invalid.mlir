// What a use of a function may not say, and what is said about it.
// RUN: mlc opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: the module has no function @f
  %y = mlc.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: @f is not private; expected func.func private with a body
  %y = mlc.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: @f has no body; expected func.func private with a body
  %y = mlc.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: operands (tensor<2xf32>); @f gives (tensor<4xf32>)
  %y = mlc.call @f(%x) : (tensor<2xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  func.return %x : tensor<?xf32, #mlc.dims<"N">>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: 0 sizes; @f has the symbols (N), and expected one for each
  %y = mlc.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  // CHECK: mlc.pull_back: wrt has 1, and argument 1 is tensor<i64>, which has no derivative
  %y, %g = mlc.pull_back @f(%x, %n, %x) wrt [1] of [0] : (tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.push_forward: of has 1; expected numbers below 1, each once
  %y, %g = mlc.push_forward @f(%x, %x) wrt [0] of [1] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.pull_back: wrt names one twice; expected numbers below 1, each once
  %y, %g, %h = mlc.pull_back @f(%x, %x) wrt [0, 0] of [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  func.return %y : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // CHECK: mlc.batch: out has 2 for tensor<4xf32>; expected none, or an axis from 0 to 1
  %y = mlc.batch @f(%x) in [0] out [2] size [3] : (tensor<3x4xf32>) -> (tensor<3x4xf32>)
  func.return %y : tensor<3x4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // CHECK: mlc.batch: expected one size of examples: size ["B"]
  %y = mlc.batch @f(%x) in [0] out [0] size [3, 4] : (tensor<3x4xf32>) -> (tensor<3x4xf32>)
  func.return %y : tensor<3x4xf32>
}

// -----

func.func private @f(%x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  func.return %x : tensor<?xf32, #mlc.dims<"N">>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mlc.call: sizes [-4]; expected 0 or more
  %y = mlc.call @f(%x) sizes [-4] : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>
}
