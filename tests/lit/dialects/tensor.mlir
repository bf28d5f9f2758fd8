// Every tensor op reads back as it is printed, in pretty and in generic form.
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// Sizes are names or polynomials over names, next to the type they belong to.
// CHECK-LABEL: func.func @made(
// CHECK-SAME:    %{{.*}}: tensor<?x3xf32, #mlc.dims<"B", 3>>
// CHECK-NEXT:    mlc.constant dense<[1.000000e+00, -0.000000e+00, 0x7fc00000]> : tensor<3xf32>
// CHECK-NEXT:    mlc.constant dense<true> : tensor<2xi1>
// CHECK-NEXT:    mlc.iota 1 : tensor<2x3xi64>
// CHECK-NEXT:    mlc.size <"2*B + 1"> : tensor<i64>
// CHECK-NEXT:    mlc.reshape %{{.*}} : tensor<?x3xf32, #mlc.dims<"B", 3>> -> tensor<?xf32, #mlc.dims<"3*B">>
func.func @made(%x: tensor<?x3xf32, #mlc.dims<"B", 3>>) {
  %0 = mlc.constant dense<[1.0, -0.0, 0x7fc00000]> : tensor<3xf32>
  %1 = mlc.constant dense<true> : tensor<2xi1>
  %2 = mlc.iota 1 : tensor<2x3xi64>
  %3 = mlc.size <"B + 1 + B"> : tensor<i64>
  %4 = mlc.reshape %x : tensor<?x3xf32, #mlc.dims<"B", 3>> -> tensor<?xf32, #mlc.dims<"B*3">>
  func.return
}

// CHECK-LABEL: func.func @elementwise(
// CHECK-NEXT:    mlc.neg %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    mlc.exp
// CHECK-NEXT:    mlc.add %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    mlc.compare "lt" %{{.*}}, %{{.*}} : tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    mlc.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf32>
// CHECK-NEXT:    mlc.convert %{{.*}} : tensor<4xf32> -> tensor<4xi64>
func.func @elementwise(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %0 = mlc.neg %x : tensor<4xf32>
  %1 = mlc.exp %0 : tensor<4xf32>
  %2 = mlc.add %1, %y : tensor<4xf32>
  %3 = mlc.compare "lt" %x, %y : tensor<4xf32> -> tensor<4xi1>
  %4 = mlc.select %3, %x, %2 : tensor<4xi1>, tensor<4xf32>
  %5 = mlc.convert %4 : tensor<4xf32> -> tensor<4xi64>
  func.return
}

// Letters say how axes move.
// CHECK-LABEL: func.func @moved(
// CHECK-NEXT:    mlc.broadcast "n->mn" %{{.*}} : tensor<4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    mlc.transpose "mn->nm" %{{.*}} : tensor<3x4xf32> -> tensor<4x3xf32>
// CHECK-NEXT:    mlc.slice %{{.*}}[<3, 0>, <-1, 2>] : tensor<4x3xf32> -> tensor<4x2xf32>
// CHECK-NEXT:    mlc.concat 1 %{{.*}}, %{{.*}} : tensor<4x2xf32>, tensor<4x3xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    mlc.gather "n0,b->nb" %{{.*}}[%{{.*}}] : tensor<4x5xf32>, tensor<7xi64> -> tensor<4x7xf32>
func.func @moved(%x: tensor<4xf32>, %i: tensor<7xi64>) {
  %0 = mlc.broadcast "n->mn" %x : tensor<4xf32> -> tensor<3x4xf32>
  %1 = mlc.transpose "mn->nm" %0 : tensor<3x4xf32> -> tensor<4x3xf32>
  %2 = mlc.slice %1[<3, 0>, <-1, 2>] : tensor<4x3xf32> -> tensor<4x2xf32>
  %3 = mlc.concat 1 %2, %1 : tensor<4x2xf32>, tensor<4x3xf32> -> tensor<4x5xf32>
  %4 = mlc.gather "n0,b->nb" %3[%i] : tensor<4x5xf32>, tensor<7xi64> -> tensor<4x7xf32>
  func.return
}

// CHECK-LABEL: func.func @combined(
// CHECK-NEXT:    mlc.contract "mk,kn->mn" %{{.*}}, %{{.*}} : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    mlc.contract "mk,kn->mn" %{{.*}}, %{{.*}} rounds "bf16" : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    mlc.reduce "argmax" "mn->m" %{{.*}} : tensor<3x5xf32> -> tensor<3xi64>
func.func @combined(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) {
  %0 = mlc.contract "mk,kn->mn" %x, %y : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %rounded = mlc.contract "mk,kn->mn" %x, %y rounds "bf16" : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %1 = mlc.reduce "argmax" "mn->m" %0 : tensor<3x5xf32> -> tensor<3xi64>
  func.return
}

// A loop carries values from trip to trip; the trip number and values from outside may be used.
// CHECK-LABEL: func.func @loop(
// CHECK:         %{{.*}}, %{{.*}} = mlc.for %[[TRIP:.*]] to %{{.*}} iter(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) -> (tensor<4xf32>, tensor<i64>) {
// CHECK-NEXT:      %[[C:.*]] = mlc.add %[[A]], %{{.*}} : tensor<4xf32>
// CHECK-NEXT:      %[[D:.*]] = mlc.add %[[B]], %[[TRIP]] : tensor<i64>
// CHECK-NEXT:      mlc.yield %[[C]], %[[D]] : tensor<4xf32>, tensor<i64>
// CHECK-NEXT:    }
func.func @loop(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r, %s = mlc.for %i to %n iter(%a = %x, %b = %n) -> (tensor<4xf32>, tensor<i64>) {
    %c = mlc.add %a, %x : tensor<4xf32>
    %d = mlc.add %b, %i : tensor<i64>
    mlc.yield %c, %d : tensor<4xf32>, tensor<i64>
  }
  func.return %r : tensor<4xf32>
}

// An index that is a value, checked against an axis, and parts that begin at values.
// CHECK-LABEL: func.func @indices(
// CHECK-NEXT:    %[[I:.*]] = mlc.within %i of <"N"> : tensor<i64>
// CHECK-NEXT:    %[[PART:.*]] = mlc.dynamic_slice %x[%[[I]]] {fits} : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
// CHECK-NEXT:    mlc.dynamic_update %x, %[[PART]][%i] : tensor<?xf32, #mlc.dims<"N">>, tensor<1xf32>, tensor<i64> -> tensor<?xf32, #mlc.dims<"N">>
func.func @indices(%x: tensor<?xf32, #mlc.dims<"N">>, %i: tensor<i64>) -> tensor<?xf32, #mlc.dims<"N">> {
  %0 = mlc.within %i of <"N"> : tensor<i64>
  %1 = mlc.dynamic_slice %x[%0] {fits} : tensor<?xf32, #mlc.dims<"N">>, tensor<i64> -> tensor<1xf32>
  %2 = mlc.dynamic_update %x, %1[%i] : tensor<?xf32, #mlc.dims<"N">>, tensor<1xf32>, tensor<i64> -> tensor<?xf32, #mlc.dims<"N">>
  func.return %2 : tensor<?xf32, #mlc.dims<"N">>
}

// A number that becomes a size: types after it say its symbol.
// CHECK-LABEL: func.func @picked(
// CHECK:         mlc.bind "k" = %[[COUNT:.*]] to <"N">
// CHECK-NEXT:    mlc.positions %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"k">>
// CHECK-NEXT:    mlc.some %[[COUNT]] of "max" : tensor<i64>
// CHECK-NEXT:    mlc.room "repeat" %[[COUNT]] of <"N"> : tensor<i64>
// CHECK-NEXT:    mlc.divisor %[[COUNT]] of "int //" : tensor<i64>
func.func @picked(%m: tensor<?xi1, #mlc.dims<"N">>) -> tensor<?xi64, #mlc.dims<"k">> {
  %0 = mlc.convert %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"N">>
  %n = mlc.reduce "sum" "a->" %0 : tensor<?xi64, #mlc.dims<"N">> -> tensor<i64>
  mlc.bind "k" = %n to <"N">
  %p = mlc.positions %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"k">>
  %s = mlc.some %n of "max" : tensor<i64>
  %r = mlc.room "repeat" %n of <"N"> : tensor<i64>
  %d = mlc.divisor %n of "int //" : tensor<i64>
  func.return %p : tensor<?xi64, #mlc.dims<"k">>
}
