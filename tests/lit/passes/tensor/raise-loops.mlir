// Loops whose trips are independent become ops on whole arrays; those of which trips meet in one
// trip are cut there, and others stay.
// RUN: mlc opt %s --split-input-file -p 'prove-bounds,raise-loops{always=true},canonicalize,dce' | filecheck %s

// Each trip has an element of its own.
// CHECK-LABEL: @each
// CHECK-SAME:    %[[A:[a-z]+]]: tensor<9xf32>, %[[X:[a-z]+]]: tensor<9xf32>
// CHECK-DAG:     %[[ELEMENTS:.*]] = mlc.reshape %[[X]] : tensor<9xf32> -> tensor<9x1xf32>
// CHECK-DAG:     %[[EXP:.*]] = mlc.exp %[[ELEMENTS]]
// CHECK-DAG:     %[[OLD:.*]] = mlc.reshape %[[A]] : tensor<9xf32> -> tensor<9x1xf32>
// CHECK:         %[[SUM:.*]] = mlc.add %[[EXP]], %[[OLD]]
// CHECK-NEXT:    %[[ALL:.*]] = mlc.reshape %[[SUM]] : tensor<9x1xf32> -> tensor<9xf32>
// CHECK-NEXT:    func.return %[[ALL]]
func.func @each(%a: tensor<9xf32>, %x: tensor<9xf32>) -> tensor<9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<9xf32>) {
    %e = mlc.dynamic_slice %x[%i] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %exp = mlc.exp %e : tensor<1xf32>
    %old = mlc.dynamic_slice %y[%i] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %sum = mlc.add %exp, %old : tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %sum[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %y0 : tensor<9xf32>
  }
  func.return %0 : tensor<9xf32>
}

// -----

// Two loops, of a size: rows, and then the array.
// CHECK-LABEL: @rows
// CHECK-SAME:    %[[A:[a-z]+]]: tensor<?x4xf32, #mlc.dims<"n", 4>>
// CHECK-NEXT:    %[[ELEMENTS:.*]] = mlc.reshape %[[A]]
// CHECK-NEXT:    %[[ALL:.*]] = mlc.neg %[[ELEMENTS]] : tensor<?x4x1x1xf32, #mlc.dims<"n", 4, 1, 1>>
// CHECK-NEXT:    %[[RESULT:.*]] = mlc.reshape %[[ALL]]
// CHECK-NEXT:    func.return %[[RESULT]]
func.func @rows(%a: tensor<?x4xf32, #mlc.dims<"n", 4>>) -> tensor<?x4xf32, #mlc.dims<"n", 4>> {
  %n = mlc.size <"n"> : tensor<i64>
  %m = mlc.constant dense<4> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<?x4xf32, #mlc.dims<"n", 4>>) {
    %1 = mlc.for %j to %m iter(%z = %y) -> (tensor<?x4xf32, #mlc.dims<"n", 4>>) {
      %e = mlc.dynamic_slice %z[%i, %j] : tensor<?x4xf32, #mlc.dims<"n", 4>>, tensor<i64>, tensor<i64> -> tensor<1x1xf32>
      %x = mlc.neg %e : tensor<1x1xf32>
      %z0 = mlc.dynamic_update %z, %x[%i, %j] : tensor<?x4xf32, #mlc.dims<"n", 4>>, tensor<1x1xf32>, tensor<i64>, tensor<i64> -> tensor<?x4xf32, #mlc.dims<"n", 4>>
      mlc.yield %z0 : tensor<?x4xf32, #mlc.dims<"n", 4>>
    }
    mlc.yield %1 : tensor<?x4xf32, #mlc.dims<"n", 4>>
  }
  func.return %0 : tensor<?x4xf32, #mlc.dims<"n", 4>>
}

// -----

// A trip reads what a later one writes: all read before any writes.
// CHECK-LABEL: @earlier
// CHECK-SAME:    %[[A:[a-z]+]]: tensor<10xf32>
// CHECK-NEXT:    %[[READ:.*]] = mlc.slice %[[A]][<1>, <1>] : tensor<10xf32> -> tensor<9xf32>
// CHECK-NEXT:    %[[REST:.*]] = mlc.slice %[[A]][<9>, <1>] : tensor<10xf32> -> tensor<1xf32>
// CHECK-NEXT:    mlc.concat 0 %[[READ]], %[[REST]]
func.func @earlier(%a: tensor<10xf32>) -> tensor<10xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<10xf32>) {
    %k = mlc.add %i, %one : tensor<i64>
    %e = mlc.dynamic_slice %y[%k] : tensor<10xf32>, tensor<i64> -> tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %e[%i] : tensor<10xf32>, tensor<1xf32>, tensor<i64> -> tensor<10xf32>
    mlc.yield %y0 : tensor<10xf32>
  }
  func.return %0 : tensor<10xf32>
}

// -----

// A trip reads what the one before it writes: it stays a loop.
// CHECK-LABEL: @later
// CHECK:         mlc.for
func.func @later(%a: tensor<10xf32>) -> tensor<10xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %one = mlc.constant dense<1> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<10xf32>) {
    %k = mlc.add %i, %one : tensor<i64>
    %e = mlc.dynamic_slice %y[%i] : tensor<10xf32>, tensor<i64> -> tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %e[%k] : tensor<10xf32>, tensor<1xf32>, tensor<i64> -> tensor<10xf32>
    mlc.yield %y0 : tensor<10xf32>
  }
  func.return %0 : tensor<10xf32>
}

// -----

// Trip 3 writes what all trips read: those behind it read what it has written.
// CHECK-LABEL: @one_place
// CHECK-NOT:     mlc.for
// CHECK:         %[[NEW:.*]] = mlc.neg %{{.*}} : tensor<1xf32>
// CHECK:         %[[OLD:.*]] = mlc.slice %{{.*}}[<3>, <1>] : tensor<9xf32> -> tensor<1xf32>
// CHECK:         mlc.compare "gt"
// CHECK-DAG:     %[[BEHIND:.*]] = mlc.broadcast "b->ab" %[[NEW]]
// CHECK-DAG:     %[[BEFORE:.*]] = mlc.broadcast "b->ab" %[[OLD]]
// CHECK:         mlc.select %{{.*}}, %[[BEHIND]], %[[BEFORE]]
// CHECK-NOT:     mlc.for
func.func @one_place(%a: tensor<9xf32>) -> tensor<9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %k = mlc.constant dense<3> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<9xf32>) {
    %e = mlc.dynamic_slice %y[%k] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %x = mlc.neg %e : tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %x[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %y0 : tensor<9xf32>
  }
  func.return %0 : tensor<9xf32>
}

// -----

// Trips 0 to 3 read what nobody has written yet, those from 5 on what these have written.
// CHECK-LABEL: @turned
// CHECK-SAME:    %[[A:[a-z]+]]: tensor<9xf32>
// CHECK-NEXT:    %[[END:.*]] = mlc.slice %[[A]][<8>, <-1>] : tensor<9xf32> -> tensor<4xf32>
// CHECK:         %[[HALF:.*]] = mlc.concat 0 %[[END]], %{{.*}} : tensor<4xf32>, tensor<5xf32> -> tensor<9xf32>
// CHECK:         mlc.slice %{{.*}}[<3>, <-1>] : tensor<9xf32> -> tensor<4xf32>
// CHECK:         mlc.concat 0
func.func @turned(%a: tensor<9xf32>) -> tensor<9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %last = mlc.constant dense<8> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<9xf32>) {
    %k = mlc.sub %last, %i : tensor<i64>
    %e = mlc.dynamic_slice %y[%k] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %e[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %y0 : tensor<9xf32>
  }
  func.return %0 : tensor<9xf32>
}

// -----

// A store under a condition keeps what is there for the other trips; whole numbers are added up.
// CHECK-LABEL: @counted
// CHECK-NOT:     mlc.for
// CHECK:         %[[TEST:.*]] = mlc.compare "lt"
// CHECK-NEXT:    mlc.select %[[TEST]], %x, %a : tensor<9xi1>, tensor<9xf32>
// CHECK:         mlc.reduce "sum"
func.func @counted(%a: tensor<9xf32>, %x: tensor<9xf32>, %s: tensor<i64>) -> (tensor<9xf32>, tensor<i64>) {
  %n = mlc.constant dense<9> : tensor<i64>
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %0, %1 = mlc.for %i to %n iter(%y = %a, %t = %s) -> (tensor<9xf32>, tensor<i64>) {
    %e = mlc.dynamic_slice %x[%i] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %v = mlc.reshape %e : tensor<1xf32> -> tensor<f32>
    %c = mlc.compare "lt" %v, %zero : tensor<f32> -> tensor<i1>
    %y0 = mlc.if %c -> (tensor<9xf32>) {
      %y1 = mlc.dynamic_update %y, %e[%i] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
      mlc.yield %y1 : tensor<9xf32>
    } else {
      mlc.yield %y : tensor<9xf32>
    }
    %one = mlc.convert %c : tensor<i1> -> tensor<i64>
    %t0 = mlc.add %t, %one : tensor<i64>
    mlc.yield %y0, %t0 : tensor<9xf32>, tensor<i64>
  }
  func.return %0, %1 : tensor<9xf32>, tensor<i64>
}

// -----

// Floats are added up in their order.
// CHECK-LABEL: @added
// CHECK:         mlc.for
func.func @added(%x: tensor<9xf32>, %s: tensor<1xf32>) -> tensor<1xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%t = %s) -> (tensor<1xf32>) {
    %e = mlc.dynamic_slice %x[%i] : tensor<9xf32>, tensor<i64> -> tensor<1xf32>
    %t0 = mlc.add %t, %e : tensor<1xf32>
    mlc.yield %t0 : tensor<1xf32>
  }
  func.return %0 : tensor<1xf32>
}

// -----

// An index that nobody has proven is asked in each trip, and what earlier trips store stays.
// CHECK-LABEL: @asked
// CHECK:         mlc.for
func.func @asked(%a: tensor<9xf32>, %x: tensor<9xi64>) -> tensor<9xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %a) -> (tensor<9xf32>) {
    %e = mlc.dynamic_slice %x[%i] : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
    %v = mlc.reshape %e : tensor<1xi64> -> tensor<i64>
    %k = mlc.within %v of <9> : tensor<i64>
    %u = mlc.convert %e : tensor<1xi64> -> tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %u[%k] : tensor<9xf32>, tensor<1xf32>, tensor<i64> -> tensor<9xf32>
    mlc.yield %y0 : tensor<9xf32>
  }
  func.return %0 : tensor<9xf32>
}

// -----

// What trips add at places that data say is a scatter, which adds in their order and checks itself.
// CHECK-LABEL: @placed
// CHECK-SAME:    %[[H:[a-z]+]]: tensor<5x3xf32>, %[[K:[a-z]+]]: tensor<9xi64>, %[[X:[a-z]+]]: tensor<9x3xf32>
// CHECK-NOT:     mlc.for
// CHECK:         %[[S:.*]] = mlc.scatter "add" "0c,a->ac" %[[H]][%[[K]]], %[[X]]
// CHECK-NEXT:    func.return %[[S]]
func.func @placed(%h: tensor<5x3xf32>, %k: tensor<9xi64>, %x: tensor<9x3xf32>) -> tensor<5x3xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %z = mlc.constant dense<0> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %h) -> (tensor<5x3xf32>) {
    %e = mlc.dynamic_slice %k[%i] : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
    %p = mlc.reshape %e : tensor<1xi64> -> tensor<i64>
    %w = mlc.within %p of <5> : tensor<i64>
    %old = mlc.dynamic_slice %y[%w, %z] {fits} : tensor<5x3xf32>, tensor<i64>, tensor<i64> -> tensor<1x3xf32>
    %row = mlc.dynamic_slice %x[%i, %z] : tensor<9x3xf32>, tensor<i64>, tensor<i64> -> tensor<1x3xf32>
    %sum = mlc.add %old, %row : tensor<1x3xf32>
    %v = mlc.within %p of <5> : tensor<i64>
    %y0 = mlc.dynamic_update %y, %sum[%v, %z] {fits} : tensor<5x3xf32>, tensor<1x3xf32>, tensor<i64>, tensor<i64> -> tensor<5x3xf32>
    mlc.yield %y0 : tensor<5x3xf32>
  }
  func.return %0 : tensor<5x3xf32>
}

// -----

// What it adds is of the array itself, or it adds twice what was there: a trip needs the one before.
// CHECK-LABEL: @again
// CHECK:         mlc.for
// CHECK-NOT:     mlc.scatter
func.func @again(%h: tensor<5xf32>, %k: tensor<9xi64>) -> tensor<5xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %0 = mlc.for %i to %n iter(%y = %h) -> (tensor<5xf32>) {
    %e = mlc.dynamic_slice %k[%i] : tensor<9xi64>, tensor<i64> -> tensor<1xi64>
    %p = mlc.reshape %e : tensor<1xi64> -> tensor<i64>
    %w = mlc.within %p of <5> : tensor<i64>
    %old = mlc.dynamic_slice %y[%w] {fits} : tensor<5xf32>, tensor<i64> -> tensor<1xf32>
    %sum = mlc.add %old, %old : tensor<1xf32>
    %y0 = mlc.dynamic_update %y, %sum[%w] {fits} : tensor<5xf32>, tensor<1xf32>, tensor<i64> -> tensor<5xf32>
    mlc.yield %y0 : tensor<5xf32>
  }
  func.return %0 : tensor<5xf32>
}
