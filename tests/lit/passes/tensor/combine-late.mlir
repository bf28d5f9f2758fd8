// What the trip before has made is combined last, where whole numbers are combined in any order.
// RUN: mlc opt %s -p combine-late | filecheck %s

// The element on the left is what the trip before has stored: the next trip waits for one op.
// CHECK-LABEL: @table
// CHECK-DAG:       %[[UP:.*]] = mlc.reshape %u
// CHECK-DAG:       %[[LEFT:.*]] = mlc.reshape %l
// CHECK-DAG:       %[[CORNER:.*]] = mlc.reshape %k
// CHECK:           %[[FIRST:.*]] = mlc.min %[[CORNER]], %[[UP]]
// CHECK-NEXT:      %[[LAST:.*]] = mlc.min %[[FIRST]], %[[LEFT]]
// CHECK-NEXT:      mlc.reshape %[[LAST]]
func.func @table(%a: tensor<9x9xi64>, %i: tensor<i64>) -> tensor<9x9xi64> {
  %n = mlc.constant dense<8> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %i1 = mlc.add %i, %one : tensor<i64>
  %0 = mlc.for %j to %n iter(%x = %a) -> (tensor<9x9xi64>) {
    %j1 = mlc.add %j, %one : tensor<i64>
    %u = mlc.dynamic_slice %x[%i, %j1] : tensor<9x9xi64>, tensor<i64>, tensor<i64> -> tensor<1x1xi64>
    %up = mlc.reshape %u : tensor<1x1xi64> -> tensor<i64>
    %l = mlc.dynamic_slice %x[%i1, %j] : tensor<9x9xi64>, tensor<i64>, tensor<i64> -> tensor<1x1xi64>
    %left = mlc.reshape %l : tensor<1x1xi64> -> tensor<i64>
    %k = mlc.dynamic_slice %x[%i, %j] : tensor<9x9xi64>, tensor<i64>, tensor<i64> -> tensor<1x1xi64>
    %corner = mlc.reshape %k : tensor<1x1xi64> -> tensor<i64>
    %m = mlc.min %up, %left : tensor<i64>
    %least = mlc.min %m, %corner : tensor<i64>
    %new = mlc.reshape %least : tensor<i64> -> tensor<1x1xi64>
    %y = mlc.dynamic_update %x, %new[%i1, %j1] : tensor<9x9xi64>, tensor<1x1xi64>, tensor<i64>, tensor<i64> -> tensor<9x9xi64>
    mlc.yield %y : tensor<9x9xi64>
  }
  func.return %0 : tensor<9x9xi64>
}

// A number that the loop carries; of floats the order is the program's, and so it is where somebody
// else reads what has been combined.
// CHECK-LABEL: @sums
// CHECK:           %[[XY:.*]] = mlc.add %y, %x : tensor<i64>
// CHECK-NEXT:      %[[SUM:.*]] = mlc.add %[[XY]], %s
// CHECK:           %[[F:.*]] = mlc.add %f, %g : tensor<f64>
// CHECK-NEXT:      %[[FLOAT:.*]] = mlc.add %[[F]], %g
// CHECK:           %[[T:.*]] = mlc.add %t, %x : tensor<i64>
// CHECK-NEXT:      %[[OTHER:.*]] = mlc.add %[[T]], %y
// CHECK:           mlc.yield %[[SUM]], %[[FLOAT]], %[[OTHER]], %[[T]]
func.func @sums(%a: tensor<i64>, %x: tensor<i64>, %y: tensor<i64>, %b: tensor<f64>, %g: tensor<f64>) -> (tensor<i64>, tensor<f64>, tensor<i64>, tensor<i64>) {
  %n = mlc.constant dense<8> : tensor<i64>
  %0, %1, %2, %3 = mlc.for %j to %n iter(%s = %a, %f = %b, %t = %a, %w = %a) -> (tensor<i64>, tensor<f64>, tensor<i64>, tensor<i64>) {
    %s0 = mlc.add %s, %x : tensor<i64>
    %s1 = mlc.add %s0, %y : tensor<i64>
    %f0 = mlc.add %f, %g : tensor<f64>
    %f1 = mlc.add %f0, %g : tensor<f64>
    %t0 = mlc.add %t, %x : tensor<i64>
    %t1 = mlc.add %t0, %y : tensor<i64>
    mlc.yield %s1, %f1, %t1, %t0 : tensor<i64>, tensor<f64>, tensor<i64>, tensor<i64>
  }
  func.return %0, %1, %2, %3 : tensor<i64>, tensor<f64>, tensor<i64>, tensor<i64>
}
