// Loops that count the bits of a number have no trips.
// RUN: mlc opt %s -p count-bits,canonicalize,dce | filecheck %s

// The lowest bit is cleared in each trip. Two counters, one of which falls by another number.
// CHECK-LABEL: @cleared
// CHECK-NOT:     mlc.while
// CHECK:         %[[BITS:.*]] = mlc.popcount %v : tensor<ui64>
// CHECK:         %[[COUNT:.*]] = mlc.convert %[[BITS]] : tensor<ui64> -> tensor<i64>
// CHECK:         %[[C:.*]] = mlc.add %c, %[[COUNT]]
// CHECK:         %[[PART:.*]] = mlc.mul %{{.*}}, %k : tensor<i32>
// CHECK:         %[[D:.*]] = mlc.sub %d, %[[PART]]
// CHECK:         func.return %[[C]], %[[D]], %{{.*}}
func.func @cleared(%v: tensor<ui64>, %c: tensor<i64>, %d: tensor<i32>, %k: tensor<i32>) -> (tensor<i64>, tensor<i32>, tensor<ui64>) {
  %0, %1, %2 = mlc.while iter(%w = %v, %a = %c, %b = %d) -> (tensor<ui64>, tensor<i64>, tensor<i32>) {
    %zero = mlc.constant dense<0> : tensor<ui64>
    %more = mlc.compare "ne" %w, %zero : tensor<ui64> -> tensor<i1>
    mlc.yield %more : tensor<i1>
  } do {
  ^bb0(%w: tensor<ui64>, %a: tensor<i64>, %b: tensor<i32>):
    %one = mlc.constant dense<1> : tensor<ui64>
    %less = mlc.sub %w, %one : tensor<ui64>
    %next = mlc.and %less, %w : tensor<ui64>
    %1 = mlc.constant dense<1> : tensor<i64>
    %more = mlc.add %1, %a : tensor<i64>
    %fewer = mlc.sub %b, %k : tensor<i32>
    mlc.yield %next, %more, %fewer : tensor<ui64>, tensor<i64>, tensor<i32>
  }
  func.return %1, %2, %0 : tensor<i64>, tensor<i32>, tensor<ui64>
}

// Bits are taken one after another: one value counts trips, the other one the bits. Of a number
// with a sign only where it is greater than 0.
// CHECK-LABEL: @shifted
// CHECK-NOT:     mlc.while
// CHECK:         %[[ABOVE:.*]] = mlc.compare "gt" %v, %{{.*}} : tensor<i16> -> tensor<i1>
// CHECK:         %[[BITS:.*]] = mlc.select %[[ABOVE]], %v, %{{.*}} : tensor<i1>, tensor<i16>
// CHECK:         %[[LEFT:.*]] = mlc.select %[[ABOVE]], %{{.*}}, %v : tensor<i1>, tensor<i16>
// CHECK-COUNT-4: mlc.or
// CHECK:         mlc.popcount %{{.*}} : tensor<i16>
// CHECK:         mlc.popcount %[[BITS]] : tensor<i16>
// CHECK:         func.return %[[LEFT]]
func.func @shifted(%v: tensor<i16>, %c: tensor<i64>, %d: tensor<i64>) -> (tensor<i16>, tensor<i64>, tensor<i64>) {
  %0, %1, %2 = mlc.while iter(%w = %v, %a = %c, %b = %d) -> (tensor<i16>, tensor<i64>, tensor<i64>) {
    %zero = mlc.constant dense<0> : tensor<i16>
    %more = mlc.compare "gt" %w, %zero : tensor<i16> -> tensor<i1>
    mlc.yield %more : tensor<i1>
  } do {
  ^bb0(%w: tensor<i16>, %a: tensor<i64>, %b: tensor<i64>):
    %one = mlc.constant dense<1> : tensor<i16>
    %trip = mlc.constant dense<1> : tensor<i64>
    %bit = mlc.and %w, %one : tensor<i16>
    %wide = mlc.convert %bit : tensor<i16> -> tensor<i64>
    %next = mlc.shr %w, %one : tensor<i16>
    %length = mlc.add %a, %trip : tensor<i64>
    %count = mlc.add %b, %wide : tensor<i64>
    mlc.yield %next, %length, %count : tensor<i16>, tensor<i64>, tensor<i64>
  }
  func.return %0, %1, %2 : tensor<i16>, tensor<i64>, tensor<i64>
}

// -1 >> 1 is -1: such a loop has no end, and stays.
// CHECK-LABEL: @endless
// CHECK:         mlc.while
func.func @endless(%v: tensor<i64>) -> tensor<i64> {
  %0 = mlc.while iter(%w = %v) -> (tensor<i64>) {
    %zero = mlc.constant dense<0> : tensor<i64>
    %more = mlc.compare "ne" %w, %zero : tensor<i64> -> tensor<i1>
    mlc.yield %more : tensor<i1>
  } do {
  ^bb0(%w: tensor<i64>):
    %one = mlc.constant dense<1> : tensor<i64>
    %next = mlc.shr %w, %one : tensor<i64>
    mlc.yield %next : tensor<i64>
  }
  func.return %0 : tensor<i64>
}

// A value that doubles in each trip is no sum of equal numbers.
// CHECK-LABEL: @doubled
// CHECK:         mlc.while
func.func @doubled(%v: tensor<ui8>, %c: tensor<i64>) -> tensor<i64> {
  %0, %1 = mlc.while iter(%w = %v, %a = %c) -> (tensor<ui8>, tensor<i64>) {
    %zero = mlc.constant dense<0> : tensor<ui8>
    %more = mlc.compare "ne" %w, %zero : tensor<ui8> -> tensor<i1>
    mlc.yield %more : tensor<i1>
  } do {
  ^bb0(%w: tensor<ui8>, %a: tensor<i64>):
    %one = mlc.constant dense<1> : tensor<ui8>
    %next = mlc.shr %w, %one : tensor<ui8>
    %twice = mlc.add %a, %a : tensor<i64>
    mlc.yield %next, %twice : tensor<ui8>, tensor<i64>
  }
  func.return %1 : tensor<i64>
}
