// Functions of a module that use others: text to IR and back.
// RUN: mlc opt %s | mlc opt - | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt - | filecheck %s

// CHECK-LABEL: func.func private @energy
func.func private @energy(%w: tensor<f32>, %x: tensor<?xf32, #mlc.dims<"N">>) -> (tensor<f32>, tensor<i64>) {
  %y = mlc.mul %x, %x : tensor<?xf32, #mlc.dims<"N">>
  %s = mlc.reduce "sum" "a->" %y : tensor<?xf32, #mlc.dims<"N">> -> tensor<f32>
  %e = mlc.mul %w, %s : tensor<f32>
  %n = mlc.size <"N"> : tensor<i64>
  func.return %e, %n : tensor<f32>, tensor<i64>
}

// CHECK-LABEL: func.func @main
func.func @main(%w: tensor<f32>, %x: tensor<8xf32>, %xs: tensor<?x?xf32, #mlc.dims<"2*M", "B">>)
    -> (tensor<f32>, tensor<8xf32>, tensor<f32>, tensor<?xf32, #mlc.dims<"B">>)
    attributes {mlc.symbols = ["B", "M"]} {
  // CHECK: mlc.call @energy(%w, %x) sizes [8] : (tensor<f32>, tensor<8xf32>) -> (tensor<f32>, tensor<i64>)
  %e, %n = mlc.call @energy(%w, %x) sizes [8] : (tensor<f32>, tensor<8xf32>) -> (tensor<f32>, tensor<i64>)
  // CHECK: mlc.pull_back @energy(%w, %x, %{{.*}}) wrt [1] of [0] sizes [8] : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> (tensor<f32>, tensor<i64>, tensor<8xf32>)
  %e_1, %n_1, %g = mlc.pull_back @energy(%w, %x, %e) wrt [1] of [0] sizes [8] : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> (tensor<f32>, tensor<i64>, tensor<8xf32>)
  // CHECK: mlc.push_forward @energy(%w, %x, %w, %{{.*}}) wrt [0, 1] of [0] sizes [8]
  %e_2, %n_2, %de = mlc.push_forward @energy(%w, %x, %w, %g) wrt [0, 1] of [0] sizes [8] : (tensor<f32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>) -> (tensor<f32>, tensor<i64>, tensor<f32>)
  // CHECK: mlc.batch @energy(%w, %xs) in [none, 1] out [0, none] size ["B"] sizes ["2*M"]
  %es, %ns = mlc.batch @energy(%w, %xs) in [none, 1] out [0, none] size ["B"] sizes ["2*M"] : (tensor<f32>, tensor<?x?xf32, #mlc.dims<"2*M", "B">>) -> (tensor<?xf32, #mlc.dims<"B">>, tensor<i64>) attributes {note = "kept"}
  func.return %e, %g, %de, %es : tensor<f32>, tensor<8xf32>, tensor<f32>, tensor<?xf32, #mlc.dims<"B">>
}
