// A sum of one thin product per trip is one product of all trips' factors, after the loop.
// RUN: mlc opt %s -p sum-after-loops,dce | filecheck %s

// One factor is a row of a tensor already; the other one is kept, in rows of the same numbers.
// CHECK-LABEL: @weights
// CHECK:         %[[LOOP:.*]] = mlc.for {{.*}} -> (tensor<9x4x8xf32>) {
// CHECK:           %[[AT:.*]] = mlc.sub
// CHECK:           %[[Y:.*]] = mlc.exp
// CHECK:           %[[ROW:.*]] = mlc.reshape %[[Y]]
// CHECK:           mlc.dynamic_update %{{.*}}, %[[ROW]][%[[AT]],
// CHECK-NOT:       mlc.contract
// CHECK:         }
// CHECK-NEXT:    %[[SUM:.*]] = mlc.contract "atm,atn->mn" %x, %[[LOOP]]
// CHECK-NEXT:    mlc.add %w, %[[SUM]]
func.func @weights(%x: tensor<9x4x32xf32>, %z: tensor<9x4x8xf32>, %w: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %w) -> (tensor<32x8xf32>) {
    %last = mlc.constant dense<8> : tensor<i64>
    %at = mlc.sub %last, %i : tensor<i64>
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%at, %o, %o] : tensor<9x4x32xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x4x32xf32>
    %2 = mlc.reshape %1 : tensor<1x4x32xf32> -> tensor<4x32xf32>
    %3 = mlc.dynamic_slice %z[%at, %o, %o] : tensor<9x4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x4x8xf32>
    %4 = mlc.reshape %3 : tensor<1x4x8xf32> -> tensor<4x8xf32>
    %5 = mlc.exp %4 : tensor<4x8xf32>
    %6 = mlc.contract "tm,tn->mn" %2, %5 : tensor<4x32xf32>, tensor<4x8xf32> -> tensor<32x8xf32>
    %7 = mlc.add %s, %6 : tensor<32x8xf32>
    mlc.yield %7 : tensor<32x8xf32>
  }
  func.return %0 : tensor<32x8xf32>
}

// The factor has more bytes than the sum: it stays.
// CHECK-LABEL: @long_factor
// CHECK:         mlc.for
// CHECK:           mlc.contract
// CHECK:           mlc.yield
func.func @long_factor(%x: tensor<9x64x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %w) -> (tensor<4x4xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o, %o] : tensor<9x64x4xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x64x4xf32>
    %2 = mlc.reshape %1 : tensor<1x64x4xf32> -> tensor<64x4xf32>
    %3 = mlc.exp %2 : tensor<64x4xf32>
    %4 = mlc.contract "tm,tn->mn" %2, %3 : tensor<64x4xf32>, tensor<64x4xf32> -> tensor<4x4xf32>
    %5 = mlc.add %s, %4 : tensor<4x4xf32>
    mlc.yield %5 : tensor<4x4xf32>
  }
  func.return %0 : tensor<4x4xf32>
}

// A trip reads the sum: what it is then cannot wait for the end.
// CHECK-LABEL: @read_on_the_way
// CHECK:         mlc.for
// CHECK:           mlc.contract
// CHECK:           mlc.yield
func.func @read_on_the_way(%x: tensor<9x2x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%s = %w) -> (tensor<8x8xf32>) {
    %o = mlc.constant dense<0> : tensor<i64>
    %1 = mlc.dynamic_slice %x[%i, %o, %o] : tensor<9x2x8xf32>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<1x2x8xf32>
    %2 = mlc.reshape %1 : tensor<1x2x8xf32> -> tensor<2x8xf32>
    %3 = mlc.contract "tm,mn->tn" %2, %s : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
    %4 = mlc.contract "tm,tn->mn" %2, %3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<8x8xf32>
    %5 = mlc.add %s, %4 : tensor<8x8xf32>
    mlc.yield %5 : tensor<8x8xf32>
  }
  func.return %0 : tensor<8x8xf32>
}
