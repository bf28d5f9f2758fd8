// A nest: numbers go round in registers, elements are read and written where they lie.
// RUN: mlc opt %s --target=avx512 -p plan-to-loops --split-input-file | filecheck %s

// A running sum. The array is filled first, then every trip stores one element; the sum is a value
// of the loop, stored once behind it.
// CHECK-LABEL: func.func @nest_
// CHECK-SAME:    (%ctx: !mlc_par.ctx, %[[X:.*]]: memref<64xf64> {mlc.readonly}, %[[Y:.*]]: memref<64xf64> {mlc.noalias}, %[[S:.*]]: memref<f64> {mlc.noalias})
// CHECK:         vector.store %{{.*}}, %[[Y]]
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %{{.*}} iter_args(%[[T:.*]] = %{{.*}}) -> (f64) {
// CHECK:           %[[V:.*]] = memref.load %[[X]][
// CHECK-NEXT:      %[[N:.*]] = arith.addf %[[T]], %[[V]]
// CHECK:           memref.store %[[N]], %[[Y]][
// CHECK-NEXT:      scf.yield %[[N]]
// CHECK:         memref.store %[[SUM]], %[[S]]
func.func @sums(%x: tensor<64xf64>) -> (tensor<64xf64>, tensor<f64>) attributes {mlc.arena = {}} {
  %0, %1 = mlc.kernel "nest" (%a = %x) : (tensor<64xf64>) -> (tensor<64xf64>, tensor<f64>) {
    %n = mlc.constant dense<64> : tensor<i64>
    %start = mlc.constant dense<0.0> : tensor<64xf64>
    %zero = mlc.constant dense<0.0> : tensor<f64>
    %2, %3 = mlc.for %i to %n iter(%y = %start, %t = %zero) -> (tensor<64xf64>, tensor<f64>) {
      %4 = mlc.dynamic_slice %a[%i] {fits} : tensor<64xf64>, tensor<i64> -> tensor<1xf64>
      %5 = mlc.reshape %4 : tensor<1xf64> -> tensor<f64>
      %6 = mlc.add %t, %5 : tensor<f64>
      %7 = mlc.reshape %6 : tensor<f64> -> tensor<1xf64>
      %8 = mlc.dynamic_update %y, %7[%i] {fits} : tensor<64xf64>, tensor<1xf64>, tensor<i64> -> tensor<64xf64>
      mlc.yield %8, %6 : tensor<64xf64>, tensor<f64>
    }
    mlc.yield %2, %3 : tensor<64xf64>, tensor<f64>
  } {schedule = #mlc.schedule<[vector(8)]>, buffers = [#mlc.buffer<out 0>, #mlc.buffer<out 1>]}
  func.return %0, %1 : tensor<64xf64>, tensor<f64>
}

// -----

// A loop that data ends stands in one that looks, after so many trips, whether the call must stop; the
// test is a value, and a trip stands behind it.
// CHECK-LABEL: func.func @nest_
// CHECK:         scf.while
// CHECK:           scf.while
// CHECK:             %[[GOES:.*]] = arith.cmpf
// CHECK:             scf.if %[[GOES]]
// CHECK:               arith.mulf
// CHECK:             scf.condition
// CHECK:           } do {
// CHECK:           scf.if
// CHECK:             mlc_par.stopped %ctx : i1
// CHECK:           mlc.rarely
// CHECK:           scf.condition
// CHECK:         memref.store
func.func @halves(%x: tensor<f64>) -> tensor<f64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "nest" (%a = %x) : (tensor<f64>) -> (tensor<f64>) {
    %1 = mlc.while iter(%y = %a) -> (tensor<f64>) {
      %one = mlc.constant dense<1.0> : tensor<f64>
      %c = mlc.compare "gt" %y, %one : tensor<f64> -> tensor<i1>
      mlc.yield %c : tensor<i1>
    } do {
    ^bb0(%z: tensor<f64>):
      %half = mlc.constant dense<0.5> : tensor<f64>
      %2 = mlc.mul %z, %half : tensor<f64>
      mlc.yield %2 : tensor<f64>
    }
    mlc.yield %1 : tensor<f64>
  } {buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<f64>
}

// -----

// A search: its trips are counted to a constant, so that nobody looks; that it has ended is asked where
// a trip says so.
// CHECK-LABEL: func.func @nest_
// CHECK-NOT:     mlc_par.stopped
// CHECK:         scf.while
// CHECK:           scf.if
// CHECK:             %[[V:.*]] = memref.load
// CHECK:             arith.cmpf
// CHECK:             %[[CODE:.*]] = arith.select
// CHECK:             %[[GOES:.*]] = arith.cmpi eq, %[[CODE]]
// CHECK:             scf.yield %[[GOES]]
// CHECK:           scf.condition
// CHECK-NOT:     mlc_par.stopped
// CHECK:         return
func.func @search(%x: tensor<9xf64>) -> (tensor<i64>, tensor<i64>) attributes {mlc.arena = {}} {
  %0, %last = mlc.kernel "nest" (%a = %x) : (tensor<9xf64>) -> (tensor<i64>, tensor<i64>) {
    %zero = mlc.constant dense<0> : tensor<i64>
    %one = mlc.constant dense<1> : tensor<i64>
    %n = mlc.constant dense<9> : tensor<i64>
    %1, %2 = mlc.while iter(%k = %zero, %code = %zero) -> (tensor<i64>, tensor<i64>) {
      %3 = mlc.compare "eq" %code, %zero : tensor<i64> -> tensor<i1>
      %4 = mlc.compare "lt" %k, %n : tensor<i64> -> tensor<i1>
      %no = mlc.constant dense<false> : tensor<i1>
      %5 = mlc.select %3, %4, %no : tensor<i1>, tensor<i1>
      mlc.yield %5 : tensor<i1>
    } do {
    ^bb0(%i: tensor<i64>, %c: tensor<i64>):
      %6 = mlc.dynamic_slice %a[%i] {fits} : tensor<9xf64>, tensor<i64> -> tensor<1xf64>
      %7 = mlc.reshape %6 : tensor<1xf64> -> tensor<f64>
      %half = mlc.constant dense<0.5> : tensor<f64>
      %8 = mlc.compare "gt" %7, %half : tensor<f64> -> tensor<i1>
      %9 = mlc.select %8, %one, %zero : tensor<i1>, tensor<i64>
      %10 = mlc.add %i, %one : tensor<i64>
      mlc.yield %10, %9 : tensor<i64>, tensor<i64>
    }
    mlc.yield %1, %2 : tensor<i64>, tensor<i64>
  } {buffers = [#mlc.buffer<out 0>, #mlc.buffer<out 1>]}
  func.return %0, %last : tensor<i64>, tensor<i64>
}

// -----

// A place that data say, of a loop whose trips data count: the function gets all of LLVM's passes; one
// comparison says whether the place is in the axis, and what it is otherwise is asked beyond. Trips
// run in blocks, and only between two of them the nest may end.
// CHECK-LABEL: func.func @nest_
// CHECK-SAME:    attributes {mlc.all_passes}
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK-NOT:         mlc_par.stopped
// CHECK:             %[[P:.*]] = memref.load
// CHECK-NEXT:        %[[BEYOND:.*]] = arith.cmpi uge, %[[P]], %{{.*}} : i64
// CHECK-NEXT:        scf.if %[[BEYOND]] -> (i64) {
// CHECK:               mlc_par.fail %ctx
// CHECK:             } else {
// CHECK-NEXT:          scf.yield %[[P]] : i64
// CHECK-NEXT:        mlc.rarely
// CHECK:           mlc_par.stopped %ctx : i1
// CHECK:           scf.condition
func.func @counts(%x: tensor<?xi64, #mlc.dims<"n">>) -> tensor<8xi64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "nest" (%a = %x) : (tensor<?xi64, #mlc.dims<"n">>) -> (tensor<8xi64>) {
    %n = mlc.size <"n"> : tensor<i64>
    %start = mlc.constant dense<0> : tensor<8xi64>
    %1 = mlc.for %i to %n iter(%y = %start) -> (tensor<8xi64>) {
      %2 = mlc.dynamic_slice %a[%i] {fits} : tensor<?xi64, #mlc.dims<"n">>, tensor<i64> -> tensor<1xi64>
      %3 = mlc.reshape %2 : tensor<1xi64> -> tensor<i64>
      %4 = mlc.within %3 of <8> : tensor<i64>
      %5 = mlc.dynamic_slice %y[%4] {fits} : tensor<8xi64>, tensor<i64> -> tensor<1xi64>
      %one = mlc.constant dense<1> : tensor<1xi64>
      %6 = mlc.add %5, %one : tensor<1xi64>
      %7 = mlc.dynamic_update %y, %6[%4] {fits} : tensor<8xi64>, tensor<1xi64>, tensor<i64> -> tensor<8xi64>
      mlc.yield %7 : tensor<8xi64>
    }
    mlc.yield %1 : tensor<8xi64>
  } {buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8xi64>
}

// -----

// A best value, and whether it is one of Python's numbers: what only a better one asks is computed where
// there is one.
// CHECK-LABEL: func.func @nest_
// CHECK:         scf.for
// CHECK-COUNT-3:   arith.cmpf
// CHECK:           %[[BETTER:.*]] = arith.cmpf
// CHECK-NEXT:      scf.if %[[BETTER]] -> (i1) {
// CHECK-COUNT-3:     arith.select
// CHECK:           } else {
// CHECK-NEXT:        scf.yield
// CHECK:           mlc.rarely
func.func @best(%x: tensor<9xf64>) -> (tensor<f64>, tensor<i1>) attributes {mlc.arena = {}} {
  %0, %1 = mlc.kernel "nest" (%a = %x) : (tensor<9xf64>) -> (tensor<f64>, tensor<i1>) {
    %n = mlc.constant dense<9> : tensor<i64>
    %start = mlc.constant dense<0.0> : tensor<f64>
    %one = mlc.constant dense<1.0> : tensor<f64>
    %two = mlc.constant dense<2.0> : tensor<f64>
    %yes = mlc.constant dense<true> : tensor<i1>
    %no = mlc.constant dense<false> : tensor<i1>
    %2, %3 = mlc.for %i to %n iter(%best = %start, %python = %yes) -> (tensor<f64>, tensor<i1>) {
      %4 = mlc.dynamic_slice %a[%i] {fits} : tensor<9xf64>, tensor<i64> -> tensor<1xf64>
      %5 = mlc.reshape %4 : tensor<1xf64> -> tensor<f64>
      %6 = mlc.compare "gt" %5, %start : tensor<f64> -> tensor<i1>
      %7 = mlc.select %6, %5, %start : tensor<i1>, tensor<f64>
      %8 = mlc.select %6, %no, %yes : tensor<i1>, tensor<i1>
      %9 = mlc.compare "gt" %7, %one : tensor<f64> -> tensor<i1>
      %10 = mlc.select %9, %7, %one : tensor<i1>, tensor<f64>
      %11 = mlc.select %9, %8, %yes : tensor<i1>, tensor<i1>
      %12 = mlc.compare "gt" %10, %two : tensor<f64> -> tensor<i1>
      %13 = mlc.select %12, %10, %two : tensor<i1>, tensor<f64>
      %14 = mlc.select %12, %11, %yes : tensor<i1>, tensor<i1>
      %15 = mlc.compare "gt" %13, %best : tensor<f64> -> tensor<i1>
      %16 = mlc.select %15, %14, %python : tensor<i1>, tensor<i1>
      %17 = mlc.select %15, %13, %best : tensor<i1>, tensor<f64>
      mlc.yield %17, %16 : tensor<f64>, tensor<i1>
    }
    mlc.yield %2, %3 : tensor<f64>, tensor<i1>
  } {buffers = [#mlc.buffer<out 0>, #mlc.buffer<out 1>]}
  func.return %0, %1 : tensor<f64>, tensor<i1>
}
