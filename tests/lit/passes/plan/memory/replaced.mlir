// What a loop carries is written over one of several values, which is read only where it is written.
// RUN: mlc opt %s -p form-kernels,plan-buffers | filecheck %s

// A step writes over the values before the last: of them it reads the frame alone, where it writes it.
// CHECK-LABEL: @frame
// CHECK-SAME:    mlc.arena = {"0" = #mlc.dims<32>, "1" = #mlc.dims<32>}
// CHECK:         mlc.for
// CHECK:           over = [1 : i64], buffers = [#mlc.buffer<arena 0, 1>]
func.func @frame(%x: tensor<8xf32>, %y: tensor<8xf32>, %n: tensor<i64>) -> tensor<8xf32> {
  %p, %q = mlc.for %i to %n iter(%a = %x, %b = %y) -> (tensor<8xf32>, tensor<8xf32>) {
    %l = mlc.slice %a[<0>, <1>] : tensor<8xf32> -> tensor<6xf32>
    %r = mlc.slice %a[<2>, <1>] : tensor<8xf32> -> tensor<6xf32>
    %s = mlc.add %l, %r : tensor<6xf32>
    %f = mlc.slice %b[<0>, <1>] : tensor<8xf32> -> tensor<1xf32>
    %g = mlc.slice %b[<7>, <1>] : tensor<8xf32> -> tensor<1xf32>
    %c = mlc.concat 0 %f, %s, %g : tensor<1xf32>, tensor<6xf32>, tensor<1xf32> -> tensor<8xf32>
    mlc.yield %c, %a : tensor<8xf32>, tensor<8xf32>
  }
  func.return %p : tensor<8xf32>
}

// The frame is read on the other side: a third slot.
// CHECK-LABEL: @turned_frame
// CHECK:         mlc.for
// CHECK:           buffers = [#mlc.buffer<arena 0, 1, 2>]
func.func @turned_frame(%x: tensor<8xf32>, %y: tensor<8xf32>, %n: tensor<i64>) -> tensor<8xf32> {
  %p, %q = mlc.for %i to %n iter(%a = %x, %b = %y) -> (tensor<8xf32>, tensor<8xf32>) {
    %l = mlc.slice %a[<0>, <1>] : tensor<8xf32> -> tensor<6xf32>
    %r = mlc.slice %a[<2>, <1>] : tensor<8xf32> -> tensor<6xf32>
    %s = mlc.add %l, %r : tensor<6xf32>
    %f = mlc.slice %b[<7>, <1>] : tensor<8xf32> -> tensor<1xf32>
    %g = mlc.slice %b[<0>, <1>] : tensor<8xf32> -> tensor<1xf32>
    %c = mlc.concat 0 %f, %s, %g : tensor<1xf32>, tensor<6xf32>, tensor<1xf32> -> tensor<8xf32>
    mlc.yield %c, %a : tensor<8xf32>, tensor<8xf32>
  }
  func.return %p : tensor<8xf32>
}
