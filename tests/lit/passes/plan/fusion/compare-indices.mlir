// A row's element at an index is the one whose position compares equal: large values that nobody
// stores are read and written so.
// RUN: mlc opt %s -p 'mlc-compare-indices{above=10000}' --split-input-file | filecheck %s
// RUN: mlc opt %s -p 'mlc-compare-indices{above=1000000}' --split-input-file | filecheck %s --check-prefix=SMALL

// The label's logit. What is computed from it and from row values is computed of what was found.
// CHECK-LABEL: @label
// CHECK: %[[Z:.*]] = mlc.contract
// CHECK: %[[ALL:.*]] = mlc.iota 1 : tensor<1x500xi64>
// CHECK: mlc.gather "a0,c->ac" %[[ALL]][%y] : tensor<1x500xi64>, tensor<40xi64> -> tensor<1x40xi64>
// CHECK: %[[HIT:.*]] = mlc.compare "eq" %{{.*}}, %{{.*}} : tensor<40x500xi32> -> tensor<40x500xi1>
// CHECK: %[[ONE:.*]] = mlc.select %[[HIT]], %[[Z]], %{{.*}} : tensor<40x500xi1>, tensor<40x500xf32>
// CHECK: %[[FOUND:.*]] = mlc.reduce "max" "ab->a" %[[ONE]] : tensor<40x500xf32> -> tensor<40xf32>
// CHECK: %[[BIAS:.*]] = mlc.gather "0,a->a" %b
// CHECK: %[[SUM:.*]] = mlc.add %[[FOUND]], %[[BIAS]] : tensor<40xf32>
// CHECK: mlc.sub %[[SUM]], %m : tensor<40xf32>
// SMALL-LABEL: @label
// SMALL: mlc.gather "01,a,a->a"
func.func @label(%x: tensor<40x8xf32>, %w: tensor<8x500xf32>, %b: tensor<500xf32>, %m: tensor<40xf32>, %y: tensor<40xi64>) -> tensor<40xf32> {
  %0 = mlc.contract "ab,bc->ac" %x, %w : tensor<40x8xf32>, tensor<8x500xf32> -> tensor<40x500xf32>
  %1 = mlc.broadcast "b->ab" %b : tensor<500xf32> -> tensor<40x500xf32>
  %2 = mlc.add %0, %1 : tensor<40x500xf32>
  %3 = mlc.broadcast "a->ab" %m : tensor<40xf32> -> tensor<40x500xf32>
  %4 = mlc.sub %2, %3 : tensor<40x500xf32>
  %5 = mlc.iota 0 : tensor<40xi64>
  %6 = mlc.gather "01,a,a->a" %4[%5, %y] : tensor<40x500xf32>, tensor<40xi64>, tensor<40xi64> -> tensor<40xf32>
  func.return %6 : tensor<40xf32>
}

// -----

// Its gradient, as take_along_axis has it.
// CHECK-LABEL: @gradient
// CHECK: %[[E:.*]] = mlc.exp %z
// CHECK: %[[SUM:.*]] = mlc.add %[[E]], %{{.*}} : tensor<40x500xf32>
// CHECK: %[[HIT:.*]] = mlc.compare "eq"
// CHECK: mlc.select %[[HIT]], %[[SUM]], %[[E]] : tensor<40x500xi1>, tensor<40x500xf32>
func.func @gradient(%z: tensor<40x500xf32>, %g: tensor<40x1xf32>, %y: tensor<40x1xi64>) -> tensor<40x500xf32> {
  %0 = mlc.exp %z : tensor<40x500xf32>
  %1 = mlc.scatter "add" "a0,ab->ab" %0[%y], %g : tensor<40x500xf32>, tensor<40x1xf32>, tensor<40x1xi64> -> tensor<40x500xf32>
  func.return %1 : tensor<40x500xf32>
}

// -----

// Several of a row, or rows in another order, stay as they are; so do arguments.
// CHECK-LABEL: @others
// CHECK: mlc.gather "a0,b->ab"
// CHECK: mlc.gather "0b,a->ab"
// CHECK: mlc.gather "01,a,a->a"
func.func @others(%z: tensor<40x500xf32>, %i: tensor<40xi64>, %j: tensor<40xi64>) -> (tensor<40x40xf32>, tensor<40x500xf32>, tensor<40xf32>) {
  %0 = mlc.exp %z : tensor<40x500xf32>
  %1 = mlc.gather "a0,b->ab" %0[%i] : tensor<40x500xf32>, tensor<40xi64> -> tensor<40x40xf32>
  %2 = mlc.gather "0b,a->ab" %0[%i] : tensor<40x500xf32>, tensor<40xi64> -> tensor<40x500xf32>
  %3 = mlc.gather "01,a,a->a" %0[%i, %j] : tensor<40x500xf32>, tensor<40xi64>, tensor<40xi64> -> tensor<40xf32>
  func.return %1, %2, %3 : tensor<40x40xf32>, tensor<40x500xf32>, tensor<40xf32>
}
