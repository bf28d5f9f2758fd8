// Ops that can run as one loop nest share a kernel; each kernel states its template and its cost.
// RUN: mlc opt %s -p 'form-kernels{fusion="greedy"}' --split-input-file | filecheck %s
// RUN: mlc opt %s -p 'form-kernels{fusion="none"}' --split-input-file | filecheck %s --check-prefix=NONE

// E = D + (A + B) * C, the example of the course: 3 operations, 4 reads and 1 write per element in one
// kernel (intensity 3/5 per access), against 1/3 in each of three.
// CHECK-LABEL: @fused
// CHECK-NEXT:    %[[E:.*]] = mlc.kernel "cell" (
// CHECK-NEXT:      mlc.add
// CHECK-NEXT:      mlc.mul
// CHECK-NEXT:      mlc.add
// CHECK-NEXT:      mlc.yield
// CHECK-NEXT:    } {cost = #mlc.cost<flops 12, read 64, written 16>}
// CHECK-NEXT:    func.return %[[E]]
// NONE-LABEL:  @fused
// NONE-COUNT-3:  cost = #mlc.cost<flops 4, read 32, written 16>
func.func @fused(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.add %a, %b : tensor<4xf32>
  %1 = mlc.mul %0, %c : tensor<4xf32>
  %2 = mlc.add %d, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// A dense layer: bias and activation are computed where the product still is in registers.
// CHECK-LABEL: @epilogue
// CHECK-NEXT:    mlc.kernel "contraction"
// CHECK-DAG:       mlc.contract
// CHECK-DAG:       mlc.broadcast
// CHECK:           mlc.add
// CHECK-NEXT:      mlc.tanh
// CHECK-NEXT:      mlc.yield
// CHECK-NEXT:    } {cost = #mlc.cost<flops "4224*B", read "128*B + 8448", written "256*B">}
// CHECK-NEXT:    func.return
func.func @epilogue(%x: tensor<?x32xf32, #mlc.dims<"B", 32>>, %w: tensor<32x64xf32>, %b: tensor<64xf32>) -> tensor<?x64xf32, #mlc.dims<"B", 64>> {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<?x32xf32, #mlc.dims<"B", 32>>, tensor<32x64xf32> -> tensor<?x64xf32, #mlc.dims<"B", 64>>
  %1 = mlc.broadcast "n->mn" %b : tensor<64xf32> -> tensor<?x64xf32, #mlc.dims<"B", 64>>
  %2 = mlc.add %0, %1 : tensor<?x64xf32, #mlc.dims<"B", 64>>
  %3 = mlc.tanh %2 : tensor<?x64xf32, #mlc.dims<"B", 64>>
  func.return %3 : tensor<?x64xf32, #mlc.dims<"B", 64>>
}

// Into the factors of a contraction go index maps and conversions; arithmetic is done before.
// CHECK-LABEL: @prologue
// CHECK-NEXT:    %[[E:.*]] = mlc.kernel "cell"
// CHECK-NEXT:      mlc.exp
// CHECK:         mlc.kernel "contraction" (%{{.*}} = %w, %{{.*}} = %[[E]])
// CHECK-NEXT:      mlc.convert
// CHECK-NEXT:      mlc.contract
func.func @prologue(%x: tensor<8x4xf64>, %w: tensor<4x8xf32>) -> tensor<8x8xf64> {
  %0 = mlc.exp %x : tensor<8x4xf64>
  %1 = mlc.convert %w : tensor<4x8xf32> -> tensor<4x8xf64>
  %2 = mlc.contract "mk,kn->mn" %0, %1 : tensor<8x4xf64>, tensor<4x8xf64> -> tensor<8x8xf64>
  func.return %2 : tensor<8x8xf64>
}

// -----

// A row-wise sum takes what feeds it alone, and what follows on its own points: sqrt(sum(x * x)).
// CHECK-LABEL: @norm
// CHECK-NEXT:    mlc.kernel "row"
// CHECK-NEXT:      mlc.mul
// CHECK-NEXT:      mlc.reduce
// CHECK-NEXT:      mlc.sqrt
// CHECK-NEXT:      mlc.yield
// CHECK:         func.return
func.func @norm(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %0 = mlc.mul %x, %x : tensor<8x4xf32>
  %1 = mlc.reduce "sum" "mn->m" %0 : tensor<8x4xf32> -> tensor<8xf32>
  %2 = mlc.sqrt %1 : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// Softmax: the exponential has two readers and is dear, so it is stored; the difference is not.
// CHECK-LABEL: @softmax
// CHECK-NEXT:    %[[MAX:.*]] = mlc.kernel "row" (%{{.*}} = %x)
// CHECK:         %[[E:.*]] = mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %[[MAX]])
// CHECK-NEXT:      mlc.broadcast
// CHECK-NEXT:      mlc.sub
// CHECK-NEXT:      mlc.exp
// CHECK:         %[[SUM:.*]] = mlc.kernel "row" (%{{.*}} = %[[E]])
// CHECK:         %[[Y:.*]] = mlc.kernel "cell" (%{{.*}} = %[[E]], %{{.*}} = %[[SUM]])
// CHECK:         func.return %[[Y]]
func.func @softmax(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<8x4xf32> -> tensor<8xf32>
  %1 = mlc.broadcast "m->mn" %0 : tensor<8xf32> -> tensor<8x4xf32>
  %2 = mlc.sub %x, %1 : tensor<8x4xf32>
  %3 = mlc.exp %2 : tensor<8x4xf32>
  %4 = mlc.reduce "sum" "mn->m" %3 : tensor<8x4xf32> -> tensor<8xf32>
  %5 = mlc.broadcast "m->mn" %4 : tensor<8xf32> -> tensor<8x4xf32>
  %6 = mlc.div %3, %5 : tensor<8x4xf32>
  func.return %6 : tensor<8x4xf32>
}

// -----

// Through a broadcast a cheap value is computed again for each row; a dear one is computed once.
// CHECK-LABEL: @through_broadcast
// CHECK-NEXT:    %[[DEAR:.*]] = mlc.kernel "cell" (%{{.*}} = %b) : (tensor<4xf32>)
// CHECK-NEXT:      mlc.exp
// CHECK:         mlc.kernel "cell" (%{{.*}} = %x, %{{.*}} = %a, %{{.*}} = %[[DEAR]])
// CHECK-NEXT:      mlc.add %{{.*}} : tensor<4xf32>
// CHECK:         func.return
func.func @through_broadcast(%x: tensor<8x4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %cheap = mlc.add %a, %a : tensor<4xf32>
  %dear = mlc.exp %b : tensor<4xf32>
  %0 = mlc.broadcast "n->mn" %cheap : tensor<4xf32> -> tensor<8x4xf32>
  %1 = mlc.broadcast "n->mn" %dear : tensor<4xf32> -> tensor<8x4xf32>
  %2 = mlc.mul %x, %0 : tensor<8x4xf32>
  %3 = mlc.mul %2, %1 : tensor<8x4xf32>
  func.return %3 : tensor<8x4xf32>
}

// Two results over one shape that read one array are written by one kernel; over two shapes by two.
// CHECK-LABEL: @siblings
// CHECK-NEXT:    %[[S:.*]], %[[E:.*]] = mlc.kernel "cell" (%{{.*}} = %x)
// CHECK:         %[[L:.*]] = mlc.kernel "cell" (%{{.*}} = %y)
// CHECK:         func.return %[[E]], %[[S]], %[[L]]
func.func @siblings(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) {
  %0 = mlc.exp %x : tensor<8xf32>
  %1 = mlc.sqrt %x : tensor<8xf32>
  %2 = mlc.log %y : tensor<4xf32>
  func.return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>
}

// A value that another kernel needs first cannot be written by a later one, which would read it through
// that kernel: y = exp(x); z = y + sum(y).
// CHECK-LABEL: @no_cycle
// CHECK-NEXT:    %[[Y:.*]] = mlc.kernel "cell" (%{{.*}} = %x)
// CHECK:         %[[SUM:.*]] = mlc.kernel "magg" (%{{.*}} = %[[Y]])
// CHECK:         mlc.kernel "cell" (%{{.*}} = %[[Y]], %{{.*}} = %[[SUM]])
func.func @no_cycle(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = mlc.exp %x : tensor<8xf32>
  %0 = mlc.reduce "sum" "n->" %y : tensor<8xf32> -> tensor<f32>
  %1 = mlc.broadcast "->n" %0 : tensor<f32> -> tensor<8xf32>
  %2 = mlc.add %y, %1 : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// -----

// Results are new arrays: an argument, a constant and a value returned twice each get memory of their own.
// CHECK-LABEL: @results
// CHECK-NEXT:    %[[FIRST:.*]], %[[SECOND:.*]] = mlc.kernel "cell"
// CHECK:           mlc.yield %[[Y:.*]], %[[Y]]
// CHECK:         %[[X:.*]] = mlc.kernel "copy" (%{{.*}} = %x)
// CHECK:         %[[FLAT:.*]] = mlc.reshape %[[SECOND]]
// CHECK:         func.return %[[X]], %[[FIRST]], %[[FLAT]]
func.func @results(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>) {
  %0 = mlc.exp %x : tensor<2x2xf32>
  %1 = mlc.reshape %0 : tensor<2x2xf32> -> tensor<4xf32>
  func.return %x, %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>
}

// A reshape is a view of a buffer; of an argument with any strides it is a view of a copy.
// CHECK-LABEL: @reshapes
// CHECK-NEXT:    %[[VIEW:.*]] = mlc.reshape %x
// CHECK-NEXT:    %[[COPY:.*]] = mlc.kernel "copy" (%{{.*}} = %y)
// CHECK:         %[[VIEW_Y:.*]] = mlc.reshape %[[COPY]]
// CHECK-NEXT:    mlc.kernel "cell" (%{{.*}} = %[[VIEW]], %{{.*}} = %[[VIEW_Y]])
func.func @reshapes(%x: tensor<2x2xf32>, %y: tensor<2x2xf32> {mlc.layout = "general"}) -> tensor<4xf32> {
  %0 = mlc.reshape %x : tensor<2x2xf32> -> tensor<4xf32>
  %1 = mlc.reshape %y : tensor<2x2xf32> -> tensor<4xf32>
  %2 = mlc.add %0, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// A concatenation is written piece by piece; what feeds one piece alone is computed on the way.
// CHECK-LABEL: @concat
// CHECK-NEXT:    mlc.kernel "copy" (%{{.*}} = %x, %{{.*}} = %y)
// CHECK-NEXT:      mlc.exp
// CHECK-NEXT:      mlc.concat
// CHECK:         func.return
func.func @concat(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<5xf32> {
  %0 = mlc.exp %x : tensor<2xf32>
  %1 = mlc.concat 0 %0, %y : tensor<2xf32>, tensor<3xf32> -> tensor<5xf32>
  func.return %1 : tensor<5xf32>
}

// A gather reads a buffer; what its source is computed from runs before.
// CHECK-LABEL: @gather
// CHECK-NEXT:    %[[TABLE:.*]] = mlc.kernel "cell" (%{{.*}} = %table)
// CHECK:         mlc.kernel "gather" (%{{.*}} = %rows, %{{.*}} = %[[TABLE]])
// CHECK-NEXT:      mlc.gather
// CHECK-NEXT:      mlc.neg
func.func @gather(%table: tensor<9x4xf32>, %rows: tensor<5xi64>) -> tensor<5x4xf32> {
  %0 = mlc.add %table, %table : tensor<9x4xf32>
  %1 = mlc.gather "0n,b->bn" %0[%rows] : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  %2 = mlc.neg %1 : tensor<5x4xf32>
  func.return %2 : tensor<5x4xf32>
}

// -----

// What a loop's body reads from outside is computed once, before the loop; scalars are copied inside.
// CHECK-LABEL: @loop
// CHECK-NEXT:    %[[E:.*]] = mlc.kernel "cell" (%{{.*}} = %x)
// CHECK:         mlc.for %{{.*}} to %n iter(%[[A:.*]] = %x)
// CHECK-NEXT:      %[[NEXT:.*]] = mlc.kernel "cell" (%{{.*}} = %[[A]], %{{.*}} = %[[E]])
// CHECK-NEXT:        mlc.constant dense<5.000000e-01>
// CHECK:           mlc.yield %[[NEXT]]
func.func @loop(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %half = mlc.constant dense<0.5> : tensor<4xf32>
  %e = mlc.exp %x : tensor<4xf32>
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.mul %a, %half : tensor<4xf32>
    %1 = mlc.add %0, %e : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
