// Indices that are known to lie in their axis are not checked, and parts that fit are not clamped.
// RUN: mlc opt %s -p prove-bounds | filecheck %s

// Two loops, the inner one up to the outer one's number: both, and their sums with what fits.
// CHECK-LABEL: @triangle
// CHECK-NOT:     mlc.within
// CHECK:         mlc.dynamic_slice %{{.*}}[%i, %j] {fits}
// CHECK:         mlc.dynamic_update %{{.*}}[%j, %i] {fits}
func.func @triangle(%a: tensor<9x9xf32>) -> tensor<9x9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%x = %a) -> (tensor<9x9xf32>) {
    %1 = mlc.for %j to %i iter(%y = %x) -> (tensor<9x9xf32>) {
      %i0 = mlc.within %i of <9> : tensor<i64>
      %j0 = mlc.within %j of <8> : tensor<i64>
      %2 = mlc.dynamic_slice %y[%i0, %j0] : tensor<9x9xf32>, tensor<i64>, tensor<i64> -> tensor<1x1xf32>
      %3 = mlc.dynamic_update %y, %2[%j0, %i0] : tensor<9x9xf32>, tensor<1x1xf32>, tensor<i64>, tensor<i64> -> tensor<9x9xf32>
      mlc.yield %3 : tensor<9x9xf32>
    }
    mlc.yield %1 : tensor<9x9xf32>
  }
  func.return %0 : tensor<9x9xf32>
}

// Of any size: n - 1 trips may read the next element, and the last but i.
// CHECK-LABEL: @sizes
// CHECK-NOT:     mlc.within
// CHECK-COUNT-2: {fits}
func.func @sizes(%a: tensor<?xf32, #mlc.dims<"N">>) -> tensor<1xf32> {
  %n = mlc.size <"N - 1"> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %zero = mlc.constant dense<0.0> : tensor<1xf32>
  %0 = mlc.for %i to %n iter(%x = %zero) -> (tensor<1xf32>) {
    %j = mlc.add %i, %one : tensor<i64>
    %next = mlc.within %j of <"N"> : tensor<i64>
    %k = mlc.sub %n, %i : tensor<i64>
    %back = mlc.within %k of <"N"> : tensor<i64>
    %1 = mlc.dynamic_slice %a[%next] : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
    %2 = mlc.dynamic_slice %a[%back] : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
    %3 = mlc.add %1, %2 : tensor<1xf32>
    mlc.yield %3 : tensor<1xf32>
  }
  func.return %0 : tensor<1xf32>
}

// One beyond the end, one before the start, and what data says stay checked; the result of a check
// fits.
// CHECK-LABEL: @unknown
// CHECK-COUNT-3: mlc.within
// CHECK:         mlc.dynamic_slice %{{.*}}[%{{.*}}] {fits}
func.func @unknown(%a: tensor<9xf32>, %data: tensor<i64>) -> tensor<1xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %zero = mlc.constant dense<0.0> : tensor<1xf32>
  %0 = mlc.for %i to %n iter(%x = %zero) -> (tensor<1xf32>) {
    %j = mlc.add %i, %one : tensor<i64>
    %next = mlc.within %j of <9> : tensor<i64>
    %k = mlc.sub %i, %one : tensor<i64>
    %back = mlc.within %k of <9> : tensor<i64>
    %given = mlc.within %data of <9> : tensor<i64>
    %sum = mlc.add %next, %back : tensor<i64>
    %1 = mlc.dynamic_slice %a[%given] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %2 = mlc.dynamic_slice %a[%sum] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %3 = mlc.add %1, %2 : tensor<1xf32>
    mlc.yield %3 : tensor<1xf32>
  }
  func.return %0 : tensor<1xf32>
}

// A place that a loop moves, between the bounds that its trips keep: below where it starts from, and
// at least 0 where the test says so. The op stays, and is known to hold; behind the loop one beyond is.
// CHECK-LABEL: @back
// CHECK:         mlc.while
// CHECK:         } do {
// CHECK:           mlc.within %{{.*}} of <9> {holds}
// CHECK:           mlc.within %{{.*}} of <9> {holds}
// CHECK:         mlc.within %{{.*}} of <9> {holds}
// CHECK:         mlc.within %{{.*}} of <9> : tensor<i64>
func.func @back(%a: tensor<9xf32>) -> tensor<1xf32> {
  %zero = mlc.constant dense<0> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %seven = mlc.constant dense<7> : tensor<i64>
  %0, %1 = mlc.while iter(%j = %seven, %x = %a) -> (tensor<i64>, tensor<9xf32>) {
    %2 = mlc.compare "ge" %j, %zero : tensor<i64> -> tensor<i1>
    mlc.yield %2 : tensor<i1>
  } do {
  ^bb0(%k: tensor<i64>, %y: tensor<9xf32>):
    %3 = mlc.within %k of <9> : tensor<i64>
    %4 = mlc.dynamic_slice %y[%3] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %5 = mlc.add %k, %one : tensor<i64>
    %6 = mlc.within %5 of <9> : tensor<i64>
    %7 = mlc.dynamic_update %y, %4[%6] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    %8 = mlc.sub %k, %one : tensor<i64>
    mlc.yield %8, %7 : tensor<i64>, tensor<9xf32>
  }
  %9 = mlc.add %0, %one : tensor<i64>
  %10 = mlc.within %9 of <9> : tensor<i64>
  %11 = mlc.dynamic_slice %1[%10] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
  %12 = mlc.within %0 of <9> : tensor<i64>
  %13 = mlc.dynamic_slice %1[%12] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
  %14 = mlc.add %11, %13 : tensor<1xf32>
  func.return %14 : tensor<1xf32>
}

// Divisors that are not 0: one above a trip's number, one that a loop counts to, one beside a test.
// CHECK-LABEL: @divisors
// CHECK-NOT:     mlc.divisor
// CHECK:         func.return
func.func @divisors(%n: tensor<i64>, %x: tensor<f64>) -> tensor<f64> {
  %zero = mlc.constant dense<0> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %none = mlc.constant dense<0.0> : tensor<f64>
  %sum = mlc.for %i to %n iter(%s = %zero) -> (tensor<i64>) {
    %j = mlc.add %i, %one : tensor<i64>
    %above = mlc.divisor %j of "int //" : tensor<i64>
    %count = mlc.divisor %n of "int %" : tensor<i64>
    %q = mlc.floor_div %s, %above : tensor<i64>
    %r = mlc.mod %q, %count : tensor<i64>
    mlc.yield %r : tensor<i64>
  }
  %some = mlc.compare "ne" %sum, %zero : tensor<i64> -> tensor<i1>
  %0 = mlc.if %some -> (tensor<f64>) {
    %tested = mlc.divisor %sum of "int //" : tensor<i64>
    %q = mlc.floor_div %n, %tested : tensor<i64>
    %f = mlc.convert %q : tensor<i64> -> tensor<f64>
    mlc.yield %f : tensor<f64>
  } else {
    %positive = mlc.compare "gt" %x, %none : tensor<f64> -> tensor<i1>
    %1 = mlc.if %positive -> (tensor<f64>) {
      %tested = mlc.divisor %x of "float /" : tensor<f64>
      %q = mlc.div %x, %tested : tensor<f64>
      mlc.yield %q : tensor<f64>
    } else {
      mlc.yield %none : tensor<f64>
    }
    mlc.yield %1 : tensor<f64>
  }
  func.return %0 : tensor<f64>
}

// A trip's number may be 0, and a test may say the other thing; a number that was asked about once
// is not asked about again, and what was asked for keeps its reader.
// CHECK-LABEL: @divisors_that_may_be_0
// CHECK:         %[[ASKED:.*]] = mlc.divisor %n of "int %" : tensor<i64>
// CHECK-NEXT:    %{{.*}} = mlc.mod %n, %[[ASKED]]
// CHECK-NEXT:    %{{.*}} = mlc.floor_div %n, %[[ASKED]]
// CHECK:         mlc.divisor %i of "int //" : tensor<i64>
// CHECK:         } else {
// CHECK:           mlc.divisor %{{.*}} of "int //" : tensor<i64>
func.func @divisors_that_may_be_0(%n: tensor<i64>) -> tensor<i64> {
  %zero = mlc.constant dense<0> : tensor<i64>
  %first = mlc.divisor %n of "int %" : tensor<i64>
  %r = mlc.mod %n, %first : tensor<i64>
  %second = mlc.divisor %n of "int //" : tensor<i64>
  %q = mlc.floor_div %n, %second : tensor<i64>
  %both = mlc.add %q, %r : tensor<i64>
  %sum = mlc.for %i to %both iter(%s = %zero) -> (tensor<i64>) {
    %d = mlc.divisor %i of "int //" : tensor<i64>
    %1 = mlc.floor_div %s, %d : tensor<i64>
    mlc.yield %1 : tensor<i64>
  }
  %some = mlc.compare "ne" %sum, %zero : tensor<i64> -> tensor<i1>
  %0 = mlc.if %some -> (tensor<i64>) {
    mlc.yield %sum : tensor<i64>
  } else {
    %tested = mlc.divisor %sum of "int //" : tensor<i64>
    %2 = mlc.floor_div %n, %tested : tensor<i64>
    mlc.yield %2 : tensor<i64>
  }
  func.return %0 : tensor<i64>
}

// As many trips as there are numbers from 1 to N - 2, or none: in a trip, all neighbours are there.
// CHECK-LABEL: @inside
// CHECK-NOT:     mlc.within
// CHECK-COUNT-2: {fits}
func.func @inside(%a: tensor<?xf32, #mlc.dims<"N">>) -> tensor<1xf32> {
  %none = mlc.constant dense<0> : tensor<i64>
  %two = mlc.constant dense<2> : tensor<i64>
  %size = mlc.size <"N - 2"> : tensor<i64>
  %n = mlc.max %none, %size : tensor<i64>
  %zero = mlc.constant dense<0.0> : tensor<1xf32>
  %0 = mlc.for %i to %n iter(%x = %zero) -> (tensor<1xf32>) {
    %before = mlc.within %i of <"N"> : tensor<i64>
    %j = mlc.add %i, %two : tensor<i64>
    %behind = mlc.within %j of <"N"> : tensor<i64>
    %1 = mlc.dynamic_slice %a[%before] : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
    %2 = mlc.dynamic_slice %a[%behind] : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
    %3 = mlc.add %1, %2 : tensor<1xf32>
    mlc.yield %3 : tensor<1xf32>
  }
  func.return %0 : tensor<1xf32>
}
