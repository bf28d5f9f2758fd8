// A function of one example becomes a function of a batch; what is the same for all is computed once.
// RUN: mlc opt %s --split-input-file -p batch,fold-views,dce | filecheck %s

// A sum of squares: elementwise ops take any shape, letters get one more.
// CHECK-LABEL: @squares
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<?x4xf32, #mlc.dims<"B", 4>>
// CHECK-SAME:    mlc.symbols = ["B"]
// CHECK-NEXT:    %[[SQUARE:.*]] = mlc.mul %[[X]], %[[X]] : tensor<?x4xf32, #mlc.dims<"B", 4>>
// CHECK-NEXT:    %[[SUM:.*]] = mlc.reduce "sum" "ba->b" %[[SQUARE]]
// CHECK-NEXT:    func.return %[[SUM]]
func.func @squares(%x: tensor<4xf32>) -> tensor<f32> {
  %square = mlc.mul %x, %x : tensor<4xf32>
  %sum = mlc.reduce "sum" "a->" %square : tensor<4xf32> -> tensor<f32>
  func.return %sum : tensor<f32>
}

// -----

// Nothing of what starts from a constant depends on the example: it keeps its shape.
// CHECK-LABEL: @table
// CHECK:         %[[TABLE:.*]] = mlc.exp %{{.*}} : tensor<3xf32>
// CHECK:         mlc.gather "0,a->a" %[[TABLE]][%{{.*}}] : tensor<3xf32>, tensor<?xi64, #mlc.dims<"B">>
func.func @table(%place: tensor<i64>) -> tensor<f32> {
  %powers = mlc.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf32>
  %table = mlc.exp %powers : tensor<3xf32>
  %entry = mlc.gather "0,->" %table[%place] : tensor<3xf32>, tensor<i64> -> tensor<f32>
  func.return %entry : tensor<f32>
}

// -----

// The count is the same for all examples, so the loop stays as it is, with a batched carry; the
// other carried value counts for all of them.
// CHECK-LABEL: @same_count
// CHECK:         mlc.for %{{.*}} to %{{.*}} iter(%{{.*}} = %x, %{{.*}} = %{{.*}}) -> (tensor<?xf32, #mlc.dims<"B">>, tensor<i64>)
// CHECK-NOT:     mlc.select
func.func @same_count(%x: tensor<f32>) -> (tensor<f32>, tensor<i64>) {
  %count = mlc.constant dense<5> : tensor<i64>
  %zero = mlc.constant dense<0> : tensor<i64>
  %power, %last = mlc.for %i to %count iter(%p = %x, %l = %zero) -> (tensor<f32>, tensor<i64>) {
    %next = mlc.mul %p, %p : tensor<f32>
    mlc.yield %next, %i : tensor<f32>, tensor<i64>
  }
  func.return %power, %last : tensor<f32>, tensor<i64>
}

// -----

// Each example has a count: the loop runs to the largest, and who is done keeps its value.
// CHECK-LABEL: @own_count
// CHECK:         %[[LAST:.*]] = mlc.reduce "max" "a->"
// CHECK:         mlc.for %[[I:.*]] to %[[LAST]]
// CHECK:           %[[GOING:.*]] = mlc.compare "lt" %{{.*}}, %n
// CHECK:           %[[NEXT:.*]] = mlc.add %[[OLD:.*]], %[[OLD]]
// CHECK:           mlc.select %[[GOING]], %[[NEXT]], %[[OLD]]
func.func @own_count(%n: tensor<i64>) -> tensor<i64> {
  %one = mlc.constant dense<1> : tensor<i64>
  %power = mlc.for %i to %n iter(%p = %one) -> (tensor<i64>) {
    %next = mlc.add %p, %p : tensor<i64>
    mlc.yield %next : tensor<i64>
  }
  func.return %power : tensor<i64>
}

// -----

// The loop goes on while any example does. One that has reached the end of the table must not read
// beyond it: its index becomes 0.
// CHECK-LABEL: @search
// CHECK:         mlc.while iter(%[[GOING:.*]] = %{{.*}}, %{{.*}} = %start) -> (tensor<?xi1, #mlc.dims<"B">>, tensor<?xi64, #mlc.dims<"B">>)
// CHECK-NEXT:      %[[ANY:.*]] = mlc.reduce "sum" "a->" %[[GOING]]
// CHECK-NEXT:      mlc.yield %[[ANY]]
// CHECK:         } do {
// CHECK:           %[[PLACE:.*]] = mlc.select
// CHECK:           mlc.gather "0,a->a" %{{.*}}[%[[PLACE]]]
func.func @search(%start: tensor<i64>) -> tensor<i64> {
  %table = mlc.constant dense<[1, 3, 0, 4]> : tensor<4xi64>
  %end = mlc.constant dense<4> : tensor<i64>
  %found = mlc.while iter(%a = %start) -> (tensor<i64>) {
    %inside = mlc.compare "lt" %a, %end : tensor<i64> -> tensor<i1>
    mlc.yield %inside : tensor<i1>
  } do {
  ^bb0(%at : tensor<i64>):
    %next = mlc.gather "0,->" %table[%at] : tensor<4xi64>, tensor<i64> -> tensor<i64>
    mlc.yield %next : tensor<i64>
  }
  func.return %found : tensor<i64>
}

// -----

// Both branches run, and each example takes its own.
// CHECK-LABEL: @sign
// CHECK-NOT:     mlc.if
// CHECK-DAG:     %[[EXP:.*]] = mlc.exp %x
// CHECK-DAG:     %[[NEG:.*]] = mlc.neg %x
// CHECK:         mlc.select %{{.*}}, %[[EXP]], %[[NEG]]
func.func @sign(%x: tensor<f32>) -> tensor<f32> {
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %positive = mlc.compare "gt" %x, %zero : tensor<f32> -> tensor<i1>
  %y = mlc.if %positive -> (tensor<f32>) {
    %exp = mlc.exp %x : tensor<f32>
    mlc.yield %exp : tensor<f32>
  } else {
    %neg = mlc.neg %x : tensor<f32>
    mlc.yield %neg : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// A branch that may fail runs only if some example takes it.
// CHECK-LABEL: @checked
// CHECK:         %[[SOME:.*]] = mlc.reduce "sum" "a->"
// CHECK-NEXT:    mlc.if %[[SOME]]
// CHECK:           mlc.gather
func.func @checked(%i: tensor<i64>) -> tensor<i64> {
  %table = mlc.constant dense<[1, 3, 0, 4]> : tensor<4xi64>
  %end = mlc.constant dense<4> : tensor<i64>
  %inside = mlc.compare "lt" %i, %end : tensor<i64> -> tensor<i1>
  %y = mlc.if %inside -> (tensor<i64>) {
    %entry = mlc.gather "0,->" %table[%i] : tensor<4xi64>, tensor<i64> -> tensor<i64>
    mlc.yield %entry : tensor<i64>
  } else {
    mlc.yield %end : tensor<i64>
  }
  func.return %y : tensor<i64>
}
