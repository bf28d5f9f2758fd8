// One team for a call, whose workers wait only where one may touch what another has written.
// RUN: mlc opt %s --split-input-file --target=avx2 -p 'form-kernels{fusion="none"},schedule,plan-buffers,place-barriers' | filecheck %s
// RUN: mlc opt %s --split-input-file --target=avx2 -p 'form-kernels{fusion="none"},schedule,plan-buffers,place-barriers,plan-to-loops' | filecheck %s --check-prefix=LOOPS

// Two kernels that read the same and write apart; the third reads what the second has written.
// CHECK-LABEL: func.func @apart
// CHECK-SAME:    mlc.team
// CHECK:         mlc.exp
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.sqrt
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.log
// CHECK:         mlc.wait
func.func @apart(%x: tensor<2048x1024xf32>) -> (tensor<2048x1024xf32>, tensor<2048x1024xf32>) {
  %0 = mlc.exp %x : tensor<2048x1024xf32>
  %1 = mlc.sqrt %x : tensor<2048x1024xf32>
  %2 = mlc.log %1 : tensor<2048x1024xf32>
  func.return %0, %2 : tensor<2048x1024xf32>, tensor<2048x1024xf32>
}

// -----

// A single kernel has a team of its own, and what is small has none.
// CHECK-LABEL: func.func @one
// CHECK-NOT:     mlc.team
// CHECK:         func.return
func.func @one(%x: tensor<2048x1024xf32>, %y: tensor<8xf32>) -> (tensor<2048x1024xf32>, tensor<8xf32>) {
  %0 = mlc.exp %x : tensor<2048x1024xf32>
  %1 = mlc.log %y : tensor<8xf32>
  func.return %0, %1 : tensor<2048x1024xf32>, tensor<8xf32>
}

// -----

// What the first worker does one after the other needs no barrier; nobody reads it but itself.
// CHECK-LABEL: func.func @small
// CHECK-SAME:    mlc.team
// CHECK:         mlc.exp
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.sqrt
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.log %{{.*}} : tensor<8xf32>
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.neg
// CHECK-NOT:     mlc.wait
// CHECK:         func.return
func.func @small(%x: tensor<2048x1024xf32>, %y: tensor<8xf32>) -> (tensor<2048x1024xf32>, tensor<2048x1024xf32>, tensor<8xf32>) {
  %0 = mlc.exp %x : tensor<2048x1024xf32>
  %1 = mlc.sqrt %x : tensor<2048x1024xf32>
  %2 = mlc.log %y : tensor<8xf32>
  %3 = mlc.neg %2 : tensor<8xf32>
  func.return %0, %1, %3 : tensor<2048x1024xf32>, tensor<2048x1024xf32>, tensor<8xf32>
}

// -----

// In a loop the kernel reads what the trip before has written: one barrier a trip. One more is before
// what reads the result.
// CHECK-LABEL: func.func @loop
// CHECK-SAME:    mlc.team
// CHECK:         mlc.for
// CHECK:           mlc.mul
// CHECK:           mlc.wait
// CHECK:           mlc.yield
// CHECK:         mlc.kernel "copy"
// CHECK:         mlc.wait
// LOOPS-LABEL: func.func @loop
// LOOPS:         mlc_par.region
// LOOPS-NEXT:    ^bb0(%[[WORKER:.+]]: index, %[[WORKERS:.+]]: index):
// LOOPS:           scf.for
// LOOPS-NEXT:        %[[STOP:.+]] = mlc_par.barrier %{{.+}}, %[[WORKER]] of %[[WORKERS]] : i1
// LOOPS-NEXT:        mlc_par.leave %[[STOP]]
// LOOPS-NOT:         mlc_par.barrier
// LOOPS:             func.call @cell_{{.+}}(%{{.+}}, %[[WORKER]], %[[WORKERS]],
// LOOPS-NOT:         mlc_par.check
// LOOPS:           mlc_par.yield
// LOOPS:         mlc_par.check
func.func @loop(%x: tensor<2048x1024xf32>) -> tensor<2048x1024xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%c = %x) -> (tensor<2048x1024xf32>) {
    %1 = mlc.mul %c, %c : tensor<2048x1024xf32>
    mlc.yield %1 : tensor<2048x1024xf32>
  }
  func.return %0 : tensor<2048x1024xf32>
}

// -----

// The first worker combines the parts of a maximum and compares it: no barrier between the two. The
// condition is a number in memory: all wait before they read it. After that barrier the body needs none.
// CHECK-LABEL: func.func @until
// CHECK-SAME:    mlc.team
// CHECK:         mlc.reduce
// CHECK:         mlc.wait
// CHECK:         mlc.compare
// CHECK-NOT:     mlc.wait
// CHECK:         mlc.mul
// CHECK-NEXT:      mlc.yield
// CHECK-NEXT:    buffers = [#mlc.buffer<arena 0>]}
// CHECK:         } attributes {mlc.wait}
// LOOPS-LABEL: func.func @until
// LOOPS:         scf.while
// LOOPS:           func.call @cell_
// LOOPS:           mlc_par.barrier
// LOOPS-NEXT:      mlc_par.leave
// LOOPS-NEXT:      %{{.+}} = memref.load
// LOOPS:           scf.condition
func.func @until(%x: tensor<2048x1024xf32>) -> tensor<2048x1024xf32> {
  %most = mlc.constant dense<9.0> : tensor<f32>
  %0 = mlc.while iter(%c = %x) -> (tensor<2048x1024xf32>) {
    %1 = mlc.reduce "max" "ij->" %c : tensor<2048x1024xf32> -> tensor<f32>
    %2 = mlc.compare "lt" %1, %most : tensor<f32> -> tensor<i1>
    mlc.yield %2 : tensor<i1>
  } do {
  ^bb0(%b : tensor<2048x1024xf32>):
    %3 = mlc.mul %b, %b : tensor<2048x1024xf32>
    mlc.yield %3 : tensor<2048x1024xf32>
  }
  func.return %0 : tensor<2048x1024xf32>
}
