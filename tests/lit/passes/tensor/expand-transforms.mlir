// Functions made of functions: derivatives, and many examples at once.
// RUN: mlc opt %s --split-input-file --verify-diagnostics -p expand-transforms | filecheck %s
// RUN: mlc opt %s --split-input-file --verify-diagnostics -p expand-transforms,inline-calls,inline-rules,fold-views,cse,dce | filecheck %s --check-prefix=ONE

// One function for two ops that say the same, whatever their sizes; another one for another `wrt`.
// CHECK-LABEL: builtin.module
// CHECK:         func.func private @scaled(
// CHECK:         func.func private @scaled_pull_back_2(%w: tensor<f32>, %x: tensor<?xf32, #mlc.dims<"N">>, %{{.*}}: tensor<?xf32, #mlc.dims<"N">>) -> (tensor<?xf32, #mlc.dims<"N">>, tensor<f32>)
// CHECK:         func.func private @scaled_pull_back(%w: tensor<f32>, %x: tensor<?xf32, #mlc.dims<"N">>, %{{.*}}: tensor<?xf32, #mlc.dims<"N">>) -> (tensor<?xf32, #mlc.dims<"N">>, tensor<?xf32, #mlc.dims<"N">>)
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mlc.call @scaled_pull_back(%w, %x, %x) sizes [3]
// CHECK-NEXT:    mlc.call @scaled_pull_back(%w, %y, %y) sizes [5]
// CHECK-NEXT:    mlc.call @scaled_pull_back_2(%w, %y, %y) sizes [5]
// ONE-LABEL:   func.func @main
// ONE:           mlc.broadcast "->a" %w
func.func private @scaled(%w: tensor<f32>, %x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  %b = mlc.broadcast "->a" %w : tensor<f32> -> tensor<?xf32, #mlc.dims<"N">>
  %y = mlc.mul %b, %x : tensor<?xf32, #mlc.dims<"N">>
  func.return %y : tensor<?xf32, #mlc.dims<"N">>
}
func.func @main(%w: tensor<f32>, %x: tensor<3xf32>, %y: tensor<5xf32>) -> (tensor<3xf32>, tensor<5xf32>, tensor<f32>) {
  %a, %g = mlc.pull_back @scaled(%w, %x, %x) wrt [1] of [0] sizes [3] : (tensor<f32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %b, %h = mlc.pull_back @scaled(%w, %y, %y) wrt [1] of [0] sizes [5] : (tensor<f32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  %c, %d = mlc.pull_back @scaled(%w, %y, %y) wrt [0] of [0] sizes [5] : (tensor<f32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>)
  func.return %g, %h, %d : tensor<3xf32>, tensor<5xf32>, tensor<f32>
}

// -----

// d(x^3) is 3 x^2, and d(3 x^2) = 6 x: innermost first, through a call.
// CHECK-LABEL: func.func private @slope_push_forward
// CHECK-NOT:     mlc.call
// CHECK-LABEL: func.func @second
// ONE-LABEL:   func.func @second(%x: tensor<f64>, %dx: tensor<f64>)
// ONE-NOT:       mlc.call
// ONE:           func.return %{{.*}} : tensor<f64>
func.func private @cube(%x: tensor<f64>) -> tensor<f64> {
  %a = mlc.mul %x, %x : tensor<f64>
  %b = mlc.mul %a, %x : tensor<f64>
  func.return %b : tensor<f64>
}
func.func private @again(%x: tensor<f64>) -> tensor<f64> {
  %y = mlc.call @cube(%x) : (tensor<f64>) -> (tensor<f64>)
  func.return %y : tensor<f64>
}
func.func private @slope(%x: tensor<f64>) -> tensor<f64> {
  %one = mlc.constant dense<1.0> : tensor<f64>
  %y, %g = mlc.pull_back @again(%x, %one) wrt [0] of [0] : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  func.return %g : tensor<f64>
}
func.func @second(%x: tensor<f64>, %dx: tensor<f64>) -> tensor<f64> {
  %g, %h = mlc.push_forward @slope(%x, %dx) wrt [0] of [0] : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  func.return %h : tensor<f64>
}

// -----

// Many gradients at once: what is the same for all examples stays one value. The number of examples
// is called as something in the function is: it gets another name there.
// CHECK-LABEL: func.func private @gradient_batch
// CHECK-SAME:    %x: tensor<?x?xf32, #mlc.dims<"N_2", "N">>
// CHECK-SAME:    mlc.symbols = ["N", "N_2"]
// CHECK:         mlc.call @gradient_batch(%w, %xs) sizes [4, "N"]
// ONE-LABEL:   func.func @each(%w: tensor<4xf32>, %xs: tensor<?x4xf32, #mlc.dims<"N", 4>>)
// ONE:           mlc.contract
func.func private @loss(%w: tensor<?xf32, #mlc.dims<"N">>, %x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<f32> {
  %p = mlc.contract "a,a->" %w, %x : tensor<?xf32, #mlc.dims<"N">>, tensor<?xf32, #mlc.dims<"N">> -> tensor<f32>
  %y = mlc.mul %p, %p : tensor<f32>
  func.return %y : tensor<f32>
}
func.func private @gradient(%w: tensor<?xf32, #mlc.dims<"N">>, %x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  %one = mlc.constant dense<1.0> : tensor<f32>
  %y, %g = mlc.pull_back @loss(%w, %x, %one) wrt [0] of [0] sizes ["N"] : (tensor<?xf32, #mlc.dims<"N">>, tensor<?xf32, #mlc.dims<"N">>, tensor<f32>) -> (tensor<f32>, tensor<?xf32, #mlc.dims<"N">>)
  func.return %g : tensor<?xf32, #mlc.dims<"N">>
}
func.func @each(%w: tensor<4xf32>, %xs: tensor<?x4xf32, #mlc.dims<"N", 4>>) -> tensor<?x4xf32, #mlc.dims<"N", 4>> {
  %g = mlc.batch @gradient(%w, %xs) in [none, 0] out [0] size ["N"] sizes [4] : (tensor<4xf32>, tensor<?x4xf32, #mlc.dims<"N", 4>>) -> (tensor<?x4xf32, #mlc.dims<"N", 4>>)
  func.return %g : tensor<?x4xf32, #mlc.dims<"N", 4>>
}

// -----

// No axis for a result that differs, and a function that uses itself.
// CHECK: result 0 depends on batched arguments; expected an axis for it
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %y = mlc.exp %x : tensor<f32>
  func.return %y : tensor<f32>
}
func.func @main(%x: tensor<3xf32>) -> tensor<f32> {
  %y = mlc.batch @f(%x) in [0] out [none] size [3] : (tensor<3xf32>) -> (tensor<f32>)
  func.return %y : tensor<f32>
}

// -----

// CHECK: a function uses itself: @f -> @g -> @f; expected mlc.for or mlc.while
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %y = mlc.call @g(%x) : (tensor<f32>) -> (tensor<f32>)
  func.return %y : tensor<f32>
}
func.func private @g(%x: tensor<f32>) -> tensor<f32> {
  %y, %g = mlc.pull_back @f(%x, %x) wrt [0] of [0] : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  func.return %g : tensor<f32>
}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = mlc.call @f(%x) : (tensor<f32>) -> (tensor<f32>)
  func.return %y : tensor<f32>
}
