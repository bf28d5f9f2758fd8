// Transposes and broadcasts disappear into the index letters of the ops that read them.
// RUN: mlc opt %s -p fold-views,dce | filecheck %s

// x @ w.T: the transposed operand is read in its own order.
// CHECK-LABEL: @transposed_factor
// CHECK-NEXT:    %[[Y:.*]] = mlc.contract "mk,nk->mn" %{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
// CHECK-NEXT:    func.return %[[Y]]
func.func @transposed_factor(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %t = mlc.transpose "nk->kn" %w : tensor<4x3xf32> -> tensor<3x4xf32>
  %y = mlc.contract "mk,kn->mn" %x, %t : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// (x @ w).T writes in the other order; where x @ w is wanted too, it does not.
// CHECK-LABEL: @transposed_product
// CHECK-NEXT:    mlc.contract "mk,kn->nm"
// CHECK-NEXT:    mlc.contract "mk,kn->mn" %{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<3x5xf32>
// CHECK-NEXT:    mlc.transpose
func.func @transposed_product(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %v: tensor<3x5xf32>) -> (tensor<4x2xf32>, tensor<2x5xf32>, tensor<5x2xf32>) {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %1 = mlc.transpose "mn->nm" %0 : tensor<2x4xf32> -> tensor<4x2xf32>
  %2 = mlc.contract "mk,kn->mn" %x, %v : tensor<2x3xf32>, tensor<3x5xf32> -> tensor<2x5xf32>
  %3 = mlc.transpose "mn->nm" %2 : tensor<2x5xf32> -> tensor<5x2xf32>
  func.return %1, %2, %3 : tensor<4x2xf32>, tensor<2x5xf32>, tensor<5x2xf32>
}

// A factor that repeats a row is multiplied once and the product repeated.
// CHECK-LABEL: @repeated_factor
// CHECK-NEXT:    %[[ROW:.*]] = mlc.contract "k,kn->n" %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3x4xf32> -> tensor<4xf32>
// CHECK-NEXT:    mlc.broadcast "n->mn" %[[ROW]] : tensor<4xf32> -> tensor<2x4xf32>
func.func @repeated_factor(%x: tensor<3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %rows = mlc.broadcast "k->mk" %x : tensor<3xf32> -> tensor<2x3xf32>
  %y = mlc.contract "mk,kn->mn" %rows, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// Where the sum runs over the repeated axis, which the other factor lacks, it counts: left alone.
// CHECK-LABEL: @counted_axis
// CHECK-NEXT:    mlc.broadcast
// CHECK-NEXT:    mlc.contract "mk,n->mn"
func.func @counted_axis(%x: tensor<2xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %columns = mlc.broadcast "m->mk" %x : tensor<2xf32> -> tensor<2x3xf32>
  %y = mlc.contract "mk,n->mn" %columns, %w : tensor<2x3xf32>, tensor<4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// x[None, :] @ w is a vector times a matrix.
// CHECK-LABEL: @new_axis
// CHECK-NEXT:    %[[Y:.*]] = mlc.contract "k,kn->n"
// CHECK-NEXT:    mlc.reshape %[[Y]] : tensor<4xf32> -> tensor<1x4xf32>
func.func @new_axis(%x: tensor<3xf32>, %w: tensor<3x4xf32>) -> tensor<1x4xf32> {
  %row = mlc.reshape %x : tensor<3xf32> -> tensor<1x3xf32>
  %y = mlc.contract "mk,kn->mn" %row, %w : tensor<1x3xf32>, tensor<3x4xf32> -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}

// A reduction reads its operand in the operand's order, and reduces before it repeats.
// CHECK-LABEL: @reductions
// CHECK-NEXT:    mlc.reduce "max" "mn->m" %{{.*}} : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT:    %[[ROW:.*]] = mlc.reduce "sum" "n->" %{{.*}} : tensor<3xf32> -> tensor<f32>
// CHECK-NEXT:    mlc.broadcast "->m" %[[ROW]]
// CHECK-NEXT:    mlc.reduce "sum" "abc->b"
// CHECK-NEXT:    func.return
func.func @reductions(%x: tensor<2x3xf32>, %row: tensor<3xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) {
  %0 = mlc.transpose "mn->nm" %x : tensor<2x3xf32> -> tensor<3x2xf32>
  %1 = mlc.reduce "max" "nm->m" %0 : tensor<3x2xf32> -> tensor<2xf32>
  %2 = mlc.broadcast "n->mn" %row : tensor<3xf32> -> tensor<2x3xf32>
  %3 = mlc.reduce "sum" "mn->m" %2 : tensor<2x3xf32> -> tensor<2xf32>
  %4 = mlc.reduce "sum" "abc->ab" %y : tensor<2x3x4xf32> -> tensor<2x3xf32>
  %5 = mlc.reduce "sum" "xy->y" %4 : tensor<2x3xf32> -> tensor<3xf32>
  func.return %1, %3, %5 : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}

// A sum over a repeated axis counts it, and a sum of maxima is no sum: left alone.
// CHECK-LABEL: @not_reductions
// CHECK-NEXT:    mlc.broadcast
// CHECK-NEXT:    mlc.reduce "sum"
// CHECK-NEXT:    mlc.reduce "max"
// CHECK-NEXT:    mlc.reduce "sum"
func.func @not_reductions(%row: tensor<3xf32>, %x: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %0 = mlc.broadcast "n->mn" %row : tensor<3xf32> -> tensor<2x3xf32>
  %1 = mlc.reduce "sum" "mn->n" %0 : tensor<2x3xf32> -> tensor<3xf32>
  %2 = mlc.reduce "max" "mn->m" %x : tensor<2x3xf32> -> tensor<2xf32>
  %3 = mlc.reduce "sum" "m->" %2 : tensor<2xf32> -> tensor<f32>
  func.return %1, %3 : tensor<3xf32>, tensor<f32>
}

// An axis of size 1 that is summed with others is none, so that blocks cut the one that is left.
// CHECK-LABEL: @unit_depth
// CHECK-NEXT:    %[[X:.*]] = mlc.reshape %{{.*}} : tensor<1x5x3xf32> -> tensor<5x3xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc.reshape %{{.*}} : tensor<1x5x4xf32> -> tensor<5x4xf32>
// CHECK-NEXT:    mlc.contract "bc,bd->cd" %[[X]], %[[Y]] : tensor<5x3xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    mlc.contract "mk,kn->mn" %{{.*}}, %{{.*}} : tensor<5x1xf32>, tensor<1x4xf32> -> tensor<5x4xf32>
// CHECK-NEXT:    func.return
func.func @unit_depth(%x: tensor<1x5x3xf32>, %y: tensor<1x5x4xf32>, %column: tensor<5x1xf32>, %row: tensor<1x4xf32>) -> (tensor<3x4xf32>, tensor<5x4xf32>) {
  %0 = mlc.contract "abc,abd->cd" %x, %y : tensor<1x5x3xf32>, tensor<1x5x4xf32> -> tensor<3x4xf32>
  %1 = mlc.contract "mk,kn->mn" %column, %row : tensor<5x1xf32>, tensor<1x4xf32> -> tensor<5x4xf32>
  func.return %0, %1 : tensor<3x4xf32>, tensor<5x4xf32>
}

// A gather reads the table in its own order.
// CHECK-LABEL: @gather
// CHECK-NEXT:    mlc.gather "n0,b->bn" %{{.*}}[%{{.*}}] : tensor<4x9xf32>, tensor<5xi64> -> tensor<5x4xf32>
func.func @gather(%table: tensor<4x9xf32>, %rows: tensor<5xi64>) -> tensor<5x4xf32> {
  %t = mlc.transpose "nm->mn" %table : tensor<4x9xf32> -> tensor<9x4xf32>
  %y = mlc.gather "0n,b->bn" %t[%rows] : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %y : tensor<5x4xf32>
}
