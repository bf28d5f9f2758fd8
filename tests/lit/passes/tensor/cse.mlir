// Equal ops on equal operands are computed once, in program order, whatever the names.
// RUN: mlc opt %s -p cse | filecheck %s

// The value numbering of the course: a = b + c; d = a; d = d - 1 … d = x redefines d. In SSA form each
// definition has its own name, so that b + c is known after d has changed, and a - d is not the old one.
// CHECK-LABEL: @value_numbering
// CHECK-SAME:    %[[B:[a-z]+]]: tensor<4xf32>, %[[C:[a-z]+]]: tensor<4xf32>, %[[X:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    %[[A:.*]] = mlc.add %[[B]], %[[C]]
// CHECK-NEXT:    %[[OLD:.*]] = mlc.sub %[[A]], %[[A]]
// CHECK-NEXT:    %[[NEW:.*]] = mlc.sub %[[A]], %[[X]]
// CHECK-NEXT:    func.return %[[A]], %[[OLD]], %[[NEW]]
func.func @value_numbering(%b: tensor<4xf32>, %c: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = mlc.add %b, %c : tensor<4xf32>            // a = b + c
  %d = mlc.add %b, %c : tensor<4xf32>            // d = b + c, which is a
  %old = mlc.sub %a, %d : tensor<4xf32>          // a - d: d is a
  // d = x: from here on, d is another value
  %e = mlc.add %c, %b : tensor<4xf32>            // c + b is a still
  %new = mlc.sub %e, %x : tensor<4xf32>          // a - d: d is x
  func.return %e, %old, %new : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// x + y is y + x, and x == y is y == x, bit for bit; x - y and x < y are not.
// CHECK-LABEL: @commutative
// CHECK-COUNT-1: mlc.add
// CHECK-COUNT-2: mlc.sub
// CHECK-COUNT-1: mlc.compare "eq"
// CHECK-COUNT-2: mlc.compare "lt"
func.func @commutative(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %0 = mlc.add %x, %y : tensor<4xf32>
  %1 = mlc.add %y, %x : tensor<4xf32>
  %2 = mlc.sub %x, %y : tensor<4xf32>
  %3 = mlc.sub %y, %x : tensor<4xf32>
  %4 = mlc.compare "eq" %x, %y : tensor<4xf32> -> tensor<4xi1>
  %5 = mlc.compare "eq" %y, %x : tensor<4xf32> -> tensor<4xi1>
  %6 = mlc.compare "lt" %x, %y : tensor<4xf32> -> tensor<4xi1>
  %7 = mlc.compare "lt" %y, %x : tensor<4xf32> -> tensor<4xi1>
  func.return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// 0.0 and -0.0 compare equal but are different constants; so are two letters, or two axes.
// CHECK-LABEL: @different
// CHECK-COUNT-2: mlc.constant
// CHECK-COUNT-2: mlc.reduce
func.func @different(%x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) {
  %0 = mlc.constant dense<0.0> : tensor<f32>
  %1 = mlc.constant dense<-0.0> : tensor<f32>
  %2 = mlc.reduce "sum" "mn->m" %x : tensor<4x4xf32> -> tensor<4xf32>
  %3 = mlc.reduce "sum" "mn->n" %x : tensor<4x4xf32> -> tensor<4xf32>
  func.return %2, %3, %0, %1 : tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>
}

// A loop's body sees what was computed before the loop, but what it computes stays inside.
// CHECK-LABEL: @regions
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>
// CHECK:         %[[BEFORE:.*]] = mlc.exp %[[X]]
// CHECK:         mlc.for
// CHECK-NOT:       mlc.exp
// CHECK:           mlc.log %[[X]]
// CHECK:         }
// CHECK:         mlc.log %[[X]]
func.func @regions(%x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %before = mlc.exp %x : tensor<4xf32>
  %r = mlc.for %i to %n iter(%a = %before) -> (tensor<4xf32>) {
    %e = mlc.exp %x : tensor<4xf32>
    %l = mlc.log %x : tensor<4xf32>
    %0 = mlc.add %a, %e : tensor<4xf32>
    %1 = mlc.add %0, %l : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  %l = mlc.log %x : tensor<4xf32>
  func.return %r, %l : tensor<4xf32>, tensor<4xf32>
}

// Either branch computes the product: it is computed before them, with what it is made of, and what
// follows them finds it there. The exponential of one branch alone stays.
// CHECK-LABEL: @branches
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4x4xf32>
// CHECK:         %[[T:.*]] = mlc.add %[[X]], %[[X]]
// CHECK-NEXT:    %[[P:.*]] = mlc.contract "mk,kn->mn" %[[T]], %[[X]]
// CHECK-NEXT:    mlc.if
// CHECK-NEXT:      mlc.exp %[[P]]
// CHECK:         } else {
// CHECK-NEXT:      mlc.yield %[[P]]
// CHECK-NOT:     mlc.contract
func.func @branches(%x: tensor<4x4xf32>, %c: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %r = mlc.if %c -> (tensor<4x4xf32>) {
    %0 = mlc.add %x, %x : tensor<4x4xf32>
    %1 = mlc.contract "mk,kn->mn" %0, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %2 = mlc.exp %1 : tensor<4x4xf32>
    mlc.yield %2 : tensor<4x4xf32>
  } else {
    %0 = mlc.add %x, %x : tensor<4x4xf32>
    %1 = mlc.contract "mk,kn->mn" %0, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    mlc.yield %1 : tensor<4x4xf32>
  }
  %3 = mlc.add %x, %x : tensor<4x4xf32>
  %4 = mlc.contract "mk,kn->mn" %3, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %r, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Cheap arithmetic is fused where it is read, and an index is checked only where it is used.
// CHECK-LABEL: @stay_in_branches
// CHECK-NEXT:    mlc.if
// CHECK-COUNT-2: mlc.gather
func.func @stay_in_branches(%x: tensor<4xf32>, %i: tensor<4xi64>, %c: tensor<i1>) -> tensor<4xf32> {
  %r = mlc.if %c -> (tensor<4xf32>) {
    %0 = mlc.add %x, %x : tensor<4xf32>
    %1 = mlc.gather "0,a->a" %0[%i] : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  } else {
    %0 = mlc.add %x, %x : tensor<4xf32>
    %1 = mlc.gather "0,a->a" %0[%i] : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// A value that both branches end with is the result.
// CHECK-LABEL: @same_end
// CHECK:         %[[E:.*]] = mlc.exp
// CHECK:         func.return %[[E]]
func.func @same_end(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %r = mlc.if %c -> (tensor<4xf32>) {
    %0 = mlc.exp %x : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  } else {
    %0 = mlc.exp %x : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Ops with ops of their own are not compared.
// CHECK-LABEL: @streams
// CHECK-COUNT-2: mlc.stream
func.func @streams(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = mlc.stream(%p = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %0 = mlc.exp %p : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  %b = mlc.stream(%p = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %0 = mlc.log %p : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
