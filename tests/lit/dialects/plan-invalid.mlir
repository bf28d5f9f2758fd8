// What the verifier of mlc.kernel and its attributes say.
// RUN: mlc opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mlc.kernel: template 'gemm'; expected one of cell, row, rows, magg,
func.func @template(%x: tensor<4xf32>) {
  %0 = mlc.kernel "gemm" (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>) {
    %1 = mlc.neg %a : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: mlc.kernel: yielded values and results have different types
func.func @results(%x: tensor<4xf32>) {
  %0 = mlc.kernel "cell" (%a = %x) : (tensor<4xf32>) -> (tensor<4xf64>) {
    mlc.yield %a : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: mlc.kernel: 2 buffers for 1 results
func.func @buffers(%x: tensor<4xf32>) {
  %0 = mlc.kernel "cell" (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>) {
    %1 = mlc.neg %a : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  } {buffers = [#mlc.buffer<arena 0>, #mlc.buffer<arena 1>]}
  func.return
}

// -----

// A kernel sees nothing of its surroundings but its inputs.
// CHECK: mlc.kernel: Operation using value defined out of its IsolatedFromAbove parent
func.func @isolated(%x: tensor<4xf32>) {
  %0 = mlc.kernel "cell" () : () -> (tensor<4xf32>) {
    %1 = mlc.neg %x : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: buffer place 'stack'; expected arena or out
"test.op"() {b = #mlc.buffer<stack 0>} : () -> ()

// -----

// CHECK: schedule: vector(12): lanes = 12; expected a power of two
"test.op"() {s = #mlc.schedule<[vector(12)]>} : () -> ()

// -----

// CHECK: schedule: found 'width'; expected a list of words, such as [vector(16, axis 1), unroll(4)]
"test.op"() {s = #mlc.schedule<width = 4>} : () -> ()

// -----

// CHECK: schedule has no word 'slab'; expected one of block, case, cluster, edge,
"test.op"() {s = #mlc.schedule<[slab(m, 4)]>} : () -> ()

// -----

// CHECK: schedule: block(… 12 …); expected block(axis, STEP, [team], [dynamic])
"test.op"() {s = #mlc.schedule<[block(12, m)]>} : () -> ()

// -----

// CHECK: schedule: pack lacks panels; expected pack(a|b, panels N, [group N], [depth N], [f32|bf16|
"test.op"() {s = #mlc.schedule<[pack(b, team)]>} : () -> ()

// -----

// CHECK: schedule: pack(c, panels 12): operand = c; expected a or b
"test.op"() {s = #mlc.schedule<[pack(c, panels 12)]>} : () -> ()

// -----

// CHECK: schedule: block(m, 0): step = 0; expected a number from 1 to 2147483647
"test.op"() {s = #mlc.schedule<[block(m, 0)]>} : () -> ()

// -----

// CHECK: schedule: edge(m, wrap): how = wrap; expected clamp or mask or pack
"test.op"() {s = #mlc.schedule<[edge(m, wrap)]>} : () -> ()

// -----

// CHECK: mlc.kernel: a nest: expected one loop, whose results are those of the kernel
func.func @no_loop(%x: tensor<4xf32>) {
  %0 = mlc.kernel "nest" (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>) {
    mlc.yield %a : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: mlc.kernel: a nest: mlc.yield reads what has been written over
func.func @old(%x: tensor<4xf32>, %n: tensor<i64>) {
  %0 = mlc.kernel "nest" (%a = %x, %m = %n) : (tensor<4xf32>, tensor<i64>) -> (tensor<4xf32>) {
    %r = mlc.for %i to %m iter(%b = %a) -> (tensor<4xf32>) {
      %one = mlc.constant dense<1.0> : tensor<1xf32>
      %1 = mlc.dynamic_update %b, %one[%i] : tensor<4xf32>, tensor<1xf32>, tensor<i64> -> tensor<4xf32>
      mlc.yield %b : tensor<4xf32>
    }
    mlc.yield %r : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: mlc.kernel: a nest: mlc.dynamic_update reads what it writes
func.func @backwards(%x: tensor<4xf32>, %n: tensor<i64>) {
  %0 = mlc.kernel "nest" (%a = %x, %m = %n) : (tensor<4xf32>, tensor<i64>) -> (tensor<4xf32>) {
    %r = mlc.for %i to %m iter(%b = %a) -> (tensor<4xf32>) {
      %zero = mlc.constant dense<0> : tensor<i64>
      %1 = mlc.slice %b[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
      %2 = mlc.dynamic_update %b, %1[%zero] : tensor<4xf32>, tensor<4xf32>, tensor<i64> -> tensor<4xf32>
      mlc.yield %2 : tensor<4xf32>
    }
    mlc.yield %r : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: mlc.kernel: a nest: holds mlc.reduce over 3 axes
func.func @held(%x: tensor<4x4x4xf32>, %y: tensor<4x4xf32>, %n: tensor<i64>) {
  %0 = mlc.kernel "nest" (%a = %x, %b = %y, %m = %n) : (tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<i64>) -> (tensor<4x4xf32>) {
    %r = mlc.for %i to %m iter(%c = %b) -> (tensor<4x4xf32>) {
      %1 = mlc.reduce "sum" "ijk->ij" %a {mlc.held} : tensor<4x4x4xf32> -> tensor<4x4xf32>
      mlc.yield %1 : tensor<4x4xf32>
    }
    mlc.yield %r : tensor<4x4xf32>
  }
  func.return
}
