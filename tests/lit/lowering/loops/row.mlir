// Reductions that keep an axis.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// Along rows: four independent sums of vectors, the masked end joins the first, then a fixed tree.
// CHECK-LABEL: func.func @row_
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           mlc_par.cancelled
// CHECK:           %[[A:.*]], %[[B:.*]], %[[C:.*]], %[[D:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[ZERO]], %{{.*}} = %[[ZERO]], %{{.*}} = %[[ZERO]], %{{.*}} = %[[ZERO]])
// CHECK:           %[[END:.*]] = vector.maskedload
// CHECK:           %[[A2:.*]] = arith.addf %[[A]]
// CHECK-NEXT:      %[[AB:.*]] = arith.addf %[[A2]], %[[B]]
// CHECK-NEXT:      %[[CD:.*]] = arith.addf %[[C]], %[[D]]
// CHECK-NEXT:      arith.addf %[[AB]], %[[CD]] : vector<8xf32>
// CHECK:           arith.addf {{.*}} : vector<4xf32>
// CHECK:           arith.addf {{.*}} : vector<2xf32>
// CHECK:           %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK-NEXT:      memref.store %[[SUM]], %{{.*}}[%[[ROW]]]
func.func @rows(%x: tensor<9x100xf32>) -> tensor<9xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<9x100xf32>) -> (tensor<9xf32>) {
    %2 = mlc.reduce "sum" "mn->m" %1 : tensor<9x100xf32> -> tensor<9xf32>
    mlc.yield %2 : tensor<9xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(4), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<9xf32>
}

// -----

// Down columns: each lane sums its own column, so memory is read in order and no lanes are folded;
// vectors behind the last whole block stand side by side in one walk.
// CHECK-LABEL: func.func @row_
// CHECK:         scf.for %[[ROW:[^ ]*]] = {{.*}} iter_args
// CHECK-COUNT-3:   vector.load %{{.*}}[%[[ROW]], %{{.*}}] : memref<9x24xf32>, vector<8xf32>
// CHECK:           scf.yield
// CHECK-NOT:     vector.shuffle
// CHECK-NOT:     scf.for
// CHECK:         func.return
func.func @columns(%x: tensor<9x24xf32>) -> tensor<24xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<9x24xf32>) -> (tensor<24xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<9x24xf32> -> tensor<24xf32>
    mlc.yield %2 : tensor<24xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<24xf32>
}

// -----

// An epilogue is applied to the sum while it is in a register.
// CHECK-LABEL: func.func @row_
// CHECK:         %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK-NEXT:    %[[ROOT:.*]] = math.sqrt %[[SUM]]
// CHECK-NEXT:    memref.store %[[ROOT]]
// CHECK-NOT:   func.func @cell
func.func @epilogue(%x: tensor<9x16xf32>) -> tensor<9xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<9x16xf32>) -> (tensor<9xf32>) {
    %2 = mlc.mul %1, %1 : tensor<9x16xf32>
    %3 = mlc.reduce "sum" "mn->m" %2 : tensor<9x16xf32> -> tensor<9xf32>
    %4 = mlc.sqrt %3 : tensor<9xf32>
    mlc.yield %4 : tensor<9xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(4), grain(14814)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<9xf32>
}

// -----

// Down a few columns lanes run on to the next row: vectors of whole rows, here of three columns in
// three registers, whose lanes are combined behind the loop, a column after the other.
// CHECK-LABEL: func.func @row_
// CHECK:         scf.for %[[PLACE:[^ ]*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK:           vector.load %{{.*}}[%{{.*}}, %[[PLACE]]] : memref<1000x3xf32>, vector<8xf32>
// CHECK-COUNT-3: vector.maskedload {{.*}} : memref<1000x3xf32>
// CHECK:         %[[LANES:.*]] = memref.alloca() {{.*}} : memref<24xf32>
// CHECK:         scf.for %[[COLUMN:[^ ]*]] =
// CHECK-COUNT-8:   memref.load %[[LANES]]
// CHECK:           memref.store %{{.*}}[%[[COLUMN]]]
func.func @narrow(%x: tensor<1000x3xf32>) -> tensor<3xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<1000x3xf32>) -> (tensor<3xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<1000x3xf32> -> tensor<3xf32>
    mlc.yield %2 : tensor<3xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(60000), flat(6)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3xf32>
}

// -----

// Down many columns, of more rows than level 2 holds: states of a block of columns wait in memory,
// while eight rows at a time are combined into them, in order.
// CHECK-LABEL: func.func @row_
// CHECK:         %[[STATES:.*]] = memref.alloca() {{.*}} : memref<1008xf32>
// CHECK:         scf.for
// CHECK:           vector.store %{{.*}}, %[[STATES]]
// CHECK:           vector.create_mask
// CHECK:         scf.for %[[ROW:[^ ]*]] =
// CHECK:           scf.for %[[COLUMN:[^ ]*]] =
// CHECK:             %[[STATE:.*]] = vector.load %[[STATES]]
// CHECK:             vector.load %{{.*}}[%[[ROW]], %[[COLUMN]]] : memref<2000x1000xf32>, vector<8xf32>
// CHECK-NEXT:        arith.addf %[[STATE]]
// CHECK-COUNT-7:     vector.load {{.*}} : memref<2000x1000xf32>, vector<8xf32>
// CHECK:             vector.store %{{.*}}, %[[STATES]]
// CHECK:         scf.for
// CHECK:           vector.store %{{.*}} : memref<1000xf32>
func.func @streamed(%x: tensor<2000x1000xf32>) -> tensor<1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<2000x1000xf32>) -> (tensor<1000xf32>) {
    %2 = mlc.reduce "sum" "mn->n" %1 : tensor<2000x1000xf32> -> tensor<1000xf32>
    mlc.yield %2 : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(60000), rows(8)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}

// -----

// Along many rows: four at once with two vectors each, whose halves are combined, of two rows in one
// vector, then of all four; four sums are stored at once. A row that is left goes alone.
// CHECK-LABEL: func.func @row_
// CHECK:         scf.for %[[ROW:[^ ]*]] =
// CHECK:           scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-4:   vector.maskedload
// CHECK:           vector.shuffle {{.*}} [0, 1, 2, 3, 8, 9, 10, 11] : vector<8xf32>, vector<8xf32>
// CHECK-NEXT:      vector.shuffle {{.*}} [4, 5, 6, 7, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK:           vector.shuffle {{.*}} [0, 1, 4, 5, 8, 9, 12, 13] : vector<8xf32>, vector<8xf32>
// CHECK:           vector.shuffle {{.*}} [0, 2, 4, 6]
// CHECK:           vector.store %{{.*}}[%[[ROW]]] : memref<70xf32>, vector<4xf32>
// CHECK:         scf.for
// CHECK:           memref.store
func.func @at_once(%x: tensor<70x100xf32>) -> tensor<70xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<70x100xf32>) -> (tensor<70xf32>) {
    %2 = mlc.reduce "sum" "mn->m" %1 : tensor<70x100xf32> -> tensor<70xf32>
    mlc.yield %2 : tensor<70xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), grain(60000), unroll(2), rows(4)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<70xf32>
}

// -----

// The largest of an axis that may be empty: the entry asks before the kernel runs.
// CHECK:       mlc.sites = [{kind = "empty max"
// CHECK:       func.func @largest(
// CHECK:         %[[EMPTY:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK:         scf.if
// CHECK-NEXT:      mlc_par.fail %{{.*}} site 1
// CHECK:         mlc_par.check
// CHECK:         func.call @row_
func.func @largest(%x: tensor<4x?xf32, #mlc.dims<4, "N">>) -> tensor<4xf32> attributes {mlc.symbols = ["N"], mlc.arena = {}} {
  %0 = mlc.kernel "row" (%1 = %x) : (tensor<4x?xf32, #mlc.dims<4, "N">>) -> (tensor<4xf32>) {
    %2 = mlc.reduce "max" "mn->m" %1 : tensor<4x?xf32, #mlc.dims<4, "N">> -> tensor<4xf32>
    mlc.yield %2 : tensor<4xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(4), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<4xf32>
}
