// if, while and for: their text reads back as it was, nested in one another.
// RUN: mlc opt %s | filecheck %s
// RUN: mlc opt %s | mlc opt | filecheck %s

// CHECK-LABEL: @nested
// CHECK:         %[[LAST:[a-z]+]] = mlc.while iter(%[[TESTED:[a-z]+]] = %{{[a-z]+}}) -> (tensor<4xf32>) {
// CHECK:           %[[GO:[a-z]+]] = mlc.compare "lt"
// CHECK-NEXT:      mlc.yield %[[GO]] : tensor<i1>
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^bb0(%[[NOW:[a-z]+]]: tensor<4xf32>):
// CHECK-NEXT:      %[[INNER:[a-z]+]] = mlc.for %[[I:[a-z]+]] to %{{[a-z]+}} iter(%[[A:[a-z]+]] = %[[NOW]]) -> (tensor<4xf32>) {
// CHECK:             mlc.yield
// CHECK:           mlc.yield %[[INNER]]
// CHECK:         %{{[a-z]+}} = mlc.if %{{[a-z]+}} -> (tensor<4xf32>) {
// CHECK-NEXT:      mlc.yield %[[LAST]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      mlc.yield
// CHECK-NEXT:    }
func.func @nested(%x: tensor<4xf32>, %n: tensor<i64>, %c: tensor<i1>) -> tensor<4xf32> {
  %r = mlc.while iter(%a = %x) -> (tensor<4xf32>) {
    %s = mlc.reduce "max" "a->" %a : tensor<4xf32> -> tensor<f32>
    %limit = mlc.constant dense<100.0> : tensor<f32>
    %go = mlc.compare "lt" %s, %limit : tensor<f32> -> tensor<i1>
    mlc.yield %go : tensor<i1>
  } do {
  ^bb0(%b : tensor<4xf32>):
    %f = mlc.for %i to %n iter(%d = %b) -> (tensor<4xf32>) {
      %e = mlc.add %d, %b : tensor<4xf32>
      mlc.yield %e : tensor<4xf32>
    }
    mlc.yield %f : tensor<4xf32>
  }
  %q = mlc.if %c -> (tensor<4xf32>) {
    mlc.yield %r : tensor<4xf32>
  } else {
    mlc.yield %x : tensor<4xf32>
  }
  func.return %q : tensor<4xf32>
}

// CHECK-LABEL: @nothing_carried
// CHECK:         mlc.for %{{[a-z]+}} to %{{[a-z]+}} iter() -> () {
// CHECK:         mlc.if %{{[a-z]+}} -> () {
func.func @nothing_carried(%n: tensor<i64>, %c: tensor<i1>) {
  mlc.for %i to %n iter() -> () {
    mlc.yield
  }
  mlc.if %c -> () {
    mlc.yield
  } else {
    mlc.yield
  }
  func.return
}
