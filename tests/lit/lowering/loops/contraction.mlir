// Contractions cut by numbers: narrow ones in place, large ones from a packed rhs, through a tile of registers.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-buffers,plan-to-loops | filecheck %s

// The rhs is one panel of 24 columns: nothing is packed, its rows are read where they lie, and each
// meets as many elements of the lhs as the tile has rows.
// CHECK-LABEL: func.func @contraction_
// CHECK-NOT:     scratch
// CHECK-NOT:     mlc_par.barrier
// CHECK:         scf.for %[[K:[^ ]*]] = {{.*}} iter_args
// CHECK-COUNT-3:   vector.load %y[%[[K]]
// CHECK:           %[[LHS:.*]] = memref.load %x[%{{.*}}, %[[K]]]
// CHECK-NEXT:      %[[SPREAD:.*]] = vector.broadcast %[[LHS]] : f32 to vector<8xf32>
// CHECK-COUNT-12:  math.fma
// CHECK:         func.return
func.func @small(%x: tensor<8x16xf32>, %y: tensor<16x24xf32>) -> tensor<8x24xf32> {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<8x16xf32>, tensor<16x24xf32>) -> (tensor<8x24xf32>) {
    %3 = mlc.contract "mk,kn->mn" %1, %2 : tensor<8x16xf32>, tensor<16x24xf32> -> tensor<8x24xf32>
    mlc.yield %3 : tensor<8x24xf32>
  } {schedule = #mlc.schedule<lanes = 8, vector_axis = 1, unroll = 8, grain = 1200000, tile_m = 4, tile_n = 24>}
  func.return %0 : tensor<8x24xf32>
}

// -----

// 4 x 24 accumulators are 12 of AVX2's 16 registers; with three rhs vectors and one lhs element all.
// All threads pack together between two barriers, then multiply apart; the bias is added to the tile.
// CHECK-LABEL: func.func @contraction_
// CHECK-SAME:    %[[SCRATCH:scratch]]: memref<122400xf32> {mlc.noalias}
// CHECK:           mlc_par.barrier
// CHECK:           vector.store %{{.*}}, %[[SCRATCH]]
// CHECK:           mlc_par.barrier
// CHECK-NOT:       vector.store
// CHECK:           scf.for {{.*}} iter_args
// CHECK-COUNT-3:     vector.load %[[SCRATCH]]
// CHECK-COUNT-12:    math.fma
// CHECK:           } {mlc.no_unroll}
// CHECK:           %[[BIAS:.*]] = vector.maskedload %b
// CHECK-NEXT:      %[[OUT:.*]] = arith.addf %{{.*}}, %[[BIAS]]
// CHECK-NEXT:      vector.maskedstore %out{{.*}}, %[[OUT]]
func.func @packed(%x: tensor<200x300xf32>, %y: tensor<300x400xf32>, %b: tensor<400xf32>) -> tensor<200x400xf32> {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y, %3 = %b) : (tensor<200x300xf32>, tensor<300x400xf32>, tensor<400xf32>) -> (tensor<200x400xf32>) {
    %4 = mlc.contract "mk,kn->mn" %1, %2 : tensor<200x300xf32>, tensor<300x400xf32> -> tensor<200x400xf32>
    %5 = mlc.broadcast "n->mn" %3 : tensor<400xf32> -> tensor<200x400xf32>
    %6 = mlc.add %4, %5 : tensor<200x400xf32>
    mlc.yield %6 : tensor<200x400xf32>
  } {schedule = #mlc.schedule<lanes = 8, vector_axis = 1, unroll = 8, grain = 1200000, tile_m = 4, tile_n = 24, block_m = 100, block_n = 3264, block_k = 320>}
  func.return %0 : tensor<200x400xf32>
}

// -----

// A batch size known only when it runs: both ways are there, and the size decides.
// CHECK-LABEL: func.func @contraction_
// CHECK-SAME:    %[[B:B]]: index
// CHECK:         %[[WORK:.*]] = arith.muli
// CHECK:         %[[LARGE:.*]] = arith.cmpi sge
// CHECK:         scf.if
// CHECK:           mlc_par.barrier
// CHECK:           mlc_par.barrier
// CHECK:         } else {
// CHECK-NOT:       mlc_par.barrier
// CHECK:         func.return
func.func @batch(%x: tensor<?x300xf32, #mlc.dims<"B", 300>>, %y: tensor<300x400xf32>) -> tensor<?x400xf32, #mlc.dims<"B", 400>> attributes {mlc.symbols = ["B"]} {
  %0 = mlc.kernel "contraction" (%1 = %x, %2 = %y) : (tensor<?x300xf32, #mlc.dims<"B", 300>>, tensor<300x400xf32>) -> (tensor<?x400xf32, #mlc.dims<"B", 400>>) {
    %3 = mlc.contract "mk,kn->mn" %1, %2 : tensor<?x300xf32, #mlc.dims<"B", 300>>, tensor<300x400xf32> -> tensor<?x400xf32, #mlc.dims<"B", 400>>
    mlc.yield %3 : tensor<?x400xf32, #mlc.dims<"B", 400>>
  } {schedule = #mlc.schedule<lanes = 8, vector_axis = 1, unroll = 8, grain = 1200000, tile_m = 4, tile_n = 24, block_m = 100, block_n = 3264, block_k = 320>}
  func.return %0 : tensor<?x400xf32, #mlc.dims<"B", 400>>
}
