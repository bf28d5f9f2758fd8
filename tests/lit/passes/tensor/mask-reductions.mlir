// What a mask picks and is only reduced is not gathered; a size is the number that binds it.
// RUN: mlc opt %s -p mask-reductions,dce | filecheck %s

// CHECK-LABEL: @mean
// CHECK:         %n = mlc.reduce "sum" "a->" %{{.*}} : tensor<9xi64> -> tensor<i64>
// CHECK-NEXT:    %[[EXP:.*]] = mlc.exp %x : tensor<9xf32>
// CHECK:         %[[KEPT:.*]] = mlc.select %m, %[[EXP]], %{{.*}} : tensor<9xi1>, tensor<9xf32>
// CHECK-NEXT:    %[[SUM:.*]] = mlc.reduce "sum" "a->" %[[KEPT]]
// CHECK-NEXT:    %[[COUNT:.*]] = mlc.convert %n
// CHECK-NEXT:    mlc.div %[[SUM]], %[[COUNT]]
func.func @mean(%x: tensor<9xf32>, %m: tensor<9xi1>) -> tensor<f32> {
  %0 = mlc.convert %m : tensor<9xi1> -> tensor<9xi64>
  %n = mlc.reduce "sum" "a->" %0 : tensor<9xi64> -> tensor<i64>
  mlc.bind "k" = %n to <9>
  %p = mlc.positions %m : tensor<9xi1> -> tensor<?xi64, #mlc.dims<"k">>
  %y = mlc.gather "0,a->a" %x[%p] : tensor<9xf32>, tensor<?xi64, #mlc.dims<"k">> -> tensor<?xf32, #mlc.dims<"k">>
  %z = mlc.exp %y : tensor<?xf32, #mlc.dims<"k">>
  %s = mlc.reduce "sum" "a->" %z : tensor<?xf32, #mlc.dims<"k">> -> tensor<f32>
  %k = mlc.size <"k"> : tensor<i64>
  %c = mlc.convert %k : tensor<i64> -> tensor<f32>
  %r = mlc.div %s, %c : tensor<f32>
  func.return %r : tensor<f32>
}

// Rows of a matrix; of no row there is no maximum.
// CHECK-LABEL: @rows
// CHECK:         mlc.broadcast "a->ab" %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?x3xi1, #mlc.dims<"N", 3>>
// CHECK:         mlc.reduce "max" "ab->b"
// CHECK-NEXT:    mlc.some %n of "max" : tensor<i64>
// CHECK:         mlc.select
func.func @rows(%x: tensor<?x3xf32, #mlc.dims<"N", 3>>, %m: tensor<?xi1, #mlc.dims<"N">>) -> tensor<3xf32> {
  %0 = mlc.convert %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"N">>
  %n = mlc.reduce "sum" "a->" %0 : tensor<?xi64, #mlc.dims<"N">> -> tensor<i64>
  mlc.bind "k" = %n to <"N">
  %p = mlc.positions %m : tensor<?xi1, #mlc.dims<"N">> -> tensor<?xi64, #mlc.dims<"k">>
  %y = mlc.gather "0b,a->ab" %x[%p] : tensor<?x3xf32, #mlc.dims<"N", 3>>, tensor<?xi64, #mlc.dims<"k">> -> tensor<?x3xf32, #mlc.dims<"k", 3>>
  %s = mlc.reduce "max" "ab->b" %y : tensor<?x3xf32, #mlc.dims<"k", 3>> -> tensor<3xf32>
  func.return %s : tensor<3xf32>
}

// Elements that a mask picks, written back where they were: a select.
// CHECK-LABEL: @written
// CHECK:         %[[NEW:.*]] = mlc.neg %x : tensor<9xf32>
// CHECK-NEXT:    %[[R:.*]] = mlc.select %m, %[[NEW]], %x : tensor<9xi1>, tensor<9xf32>
// CHECK-NEXT:    func.return %[[R]]
func.func @written(%x: tensor<9xf32>, %m: tensor<9xi1>) -> tensor<9xf32> {
  %0 = mlc.convert %m : tensor<9xi1> -> tensor<9xi64>
  %n = mlc.reduce "sum" "a->" %0 : tensor<9xi64> -> tensor<i64>
  mlc.bind "k" = %n to <9>
  %p = mlc.positions %m : tensor<9xi1> -> tensor<?xi64, #mlc.dims<"k">>
  %y = mlc.gather "0,a->a" %x[%p] : tensor<9xf32>, tensor<?xi64, #mlc.dims<"k">> -> tensor<?xf32, #mlc.dims<"k">>
  %z = mlc.neg %y : tensor<?xf32, #mlc.dims<"k">>
  %r = mlc.scatter "set" "0,a->a" %x[%p], %z : tensor<9xf32>, tensor<?xf32, #mlc.dims<"k">>, tensor<?xi64, #mlc.dims<"k">> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}

// What is sorted must be there.
// CHECK-LABEL: @sorted
// CHECK:         mlc.bind "k" = %n to <9>
// CHECK:         mlc.gather
func.func @sorted(%x: tensor<9xf32>, %m: tensor<9xi1>) -> tensor<?xf32, #mlc.dims<"k">> {
  %0 = mlc.convert %m : tensor<9xi1> -> tensor<9xi64>
  %n = mlc.reduce "sum" "a->" %0 : tensor<9xi64> -> tensor<i64>
  mlc.bind "k" = %n to <9>
  %p = mlc.positions %m : tensor<9xi1> -> tensor<?xi64, #mlc.dims<"k">>
  %y = mlc.gather "0,a->a" %x[%p] : tensor<9xf32>, tensor<?xi64, #mlc.dims<"k">> -> tensor<?xf32, #mlc.dims<"k">>
  %z = mlc.sort "ascending" %y : tensor<?xf32, #mlc.dims<"k">> -> tensor<?xf32, #mlc.dims<"k">>
  func.return %z : tensor<?xf32, #mlc.dims<"k">>
}
