// What does not change from trip to trip is computed before the loop, where that moves no more bytes.
// RUN: mlc opt %s -p hoist-invariants | filecheck %s

// CHECK-LABEL: @pagerank
// CHECK:         %[[Q:.*]] = mlc.div %p, %{{.*}} : tensor<100x100xf32>
// CHECK-NEXT:    mlc.for
// CHECK-NEXT:      mlc.contract "mn,n->m" %[[Q]]
func.func @pagerank(%p: tensor<100x100xf32>, %d: tensor<100xf32>, %r: tensor<100xf32>, %n: tensor<i64>) -> tensor<100xf32> {
  %0 = mlc.for %i to %n iter(%x = %r) -> (tensor<100xf32>) {
    %1 = mlc.broadcast "n->mn" %d : tensor<100xf32> -> tensor<100x100xf32>
    %2 = mlc.div %p, %1 : tensor<100x100xf32>
    %3 = mlc.contract "mn,n->m" %2, %x : tensor<100x100xf32>, tensor<100xf32> -> tensor<100xf32>
    mlc.yield %3 : tensor<100xf32>
  }
  func.return %0 : tensor<100xf32>
}

// A sum of two vectors over all pairs is larger than what it is computed from: it stays.
// CHECK-LABEL: @outer_sum
// CHECK:         mlc.for
// CHECK:           mlc.add {{.*}} : tensor<100x100xf32>
// CHECK:           mlc.contract
func.func @outer_sum(%a: tensor<100xf32>, %r: tensor<100xf32>, %n: tensor<i64>) -> tensor<100xf32> {
  %0 = mlc.for %i to %n iter(%x = %r) -> (tensor<100xf32>) {
    %1 = mlc.broadcast "n->mn" %a : tensor<100xf32> -> tensor<100x100xf32>
    %2 = mlc.broadcast "m->mn" %a : tensor<100xf32> -> tensor<100x100xf32>
    %3 = mlc.add %1, %2 : tensor<100x100xf32>
    %4 = mlc.contract "mn,n->m" %3, %x : tensor<100x100xf32>, tensor<100xf32> -> tensor<100xf32>
    mlc.yield %4 : tensor<100xf32>
  }
  func.return %0 : tensor<100xf32>
}

// An op that may report an error stays: the loop may not run.
// CHECK-LABEL: @may_fail
// CHECK:         mlc.for
// CHECK:           mlc.gather
func.func @may_fail(%a: tensor<100xf32>, %k: tensor<5xi64>, %r: tensor<5xf32>, %n: tensor<i64>) -> tensor<5xf32> {
  %0 = mlc.for %i to %n iter(%x = %r) -> (tensor<5xf32>) {
    %1 = mlc.gather "0,m->m" %a[%k] : tensor<100xf32>, tensor<5xi64> -> tensor<5xf32>
    %2 = mlc.add %1, %x : tensor<5xf32>
    mlc.yield %2 : tensor<5xf32>
  }
  func.return %0 : tensor<5xf32>
}

// A number leaves the loop though what reads it is a broadcast, which stands where it is read.
// CHECK-LABEL: @through_a_broadcast
// CHECK:         %[[REST:.*]] = mlc.sub %{{.*}}, %alpha
// CHECK-NEXT:    mlc.for
// CHECK-NEXT:      mlc.broadcast "->a" %[[REST]]
func.func @through_a_broadcast(%x: tensor<100xf32>, %alpha: tensor<f32>, %n: tensor<i64>) -> tensor<100xf32> {
  %0 = mlc.for %i to %n iter(%y = %x) -> (tensor<100xf32>) {
    %one = mlc.constant dense<1.0> : tensor<f32>
    %1 = mlc.sub %one, %alpha : tensor<f32>
    %2 = mlc.broadcast "->a" %1 : tensor<f32> -> tensor<100xf32>
    %3 = mlc.mul %y, %2 : tensor<100xf32>
    mlc.yield %3 : tensor<100xf32>
  }
  func.return %0 : tensor<100xf32>
}
