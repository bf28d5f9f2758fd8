// Concatenation: one loop nest per piece, each written where it belongs.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @copy_
// CHECK:         %[[FIRST:.*]] = arith.constant 3 : index
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK-NEXT:      vector.load %x[%[[ROW]]
// CHECK-NEXT:      vector.store %{{.*}}, %out[%[[ROW]]
// CHECK:         scf.for %[[ROW2:.*]] =
// CHECK-NEXT:      vector.load %y[%[[ROW2]]
// CHECK-NEXT:      %[[BELOW:.*]] = arith.addi %[[ROW2]], %[[FIRST]]
// CHECK-NEXT:      vector.store %{{.*}}, %out[%[[BELOW]]
func.func @below(%x: tensor<3x8xf32>, %y: tensor<2x8xf32>) -> tensor<5x8xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %y) : (tensor<3x8xf32>, tensor<2x8xf32>) -> (tensor<5x8xf32>) {
    %3 = mlc.concat 0 %1, %2 : tensor<3x8xf32>, tensor<2x8xf32> -> tensor<5x8xf32>
    mlc.yield %3 : tensor<5x8xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<5x8xf32>
}

// -----

// Returned twice: what the first kernel has written, a second one copies.
// CHECK-LABEL: func.func @copy_
// CHECK:         vector.load %x[
// CHECK:         vector.load %y[
// CHECK-NOT:     vector.load
// CHECK:       func.func @copy_{{.*}}, %[[WHOLE:.*]]: memref<16xf32> {mlc.readonly}, %out
// CHECK:         %[[PART:.*]] = vector.load %[[WHOLE]][
// CHECK-NEXT:    vector.store %[[PART]], %out[
// CHECK:       func.func @twice(%{{.*}}, %[[FIRST:[0-9]+]]: memref<16xf32>, %[[SECOND:[0-9]+]]: memref<16xf32>)
// CHECK:         func.call @copy_{{.*}}, %[[FIRST]]) :
// CHECK:         func.call @copy_{{.*}}, %[[FIRST]], %[[SECOND]]) :
func.func @twice(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %y) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<16xf32>) {
    %3 = mlc.concat 0 %1, %2 : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
    mlc.yield %3 : tensor<16xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  %1 = mlc.kernel "copy" (%2 = %0) : (tensor<16xf32>) -> (tensor<16xf32>) {
    mlc.yield %2 : tensor<16xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 1>]}
  func.return %0, %1 : tensor<16xf32>, tensor<16xf32>
}

// -----

// A concatenation within one: its pieces are written into the outer one's memory.
// CHECK-LABEL: func.func @copy_{{.*}}%x: memref<2x8xf32> {mlc.readonly}, %y: memref<1x16xf32>
// CHECK:         %[[LEFT:.*]] = vector.load %x[%[[ROW:.*]], %{{.*}}]
// CHECK-NEXT:    vector.store %[[LEFT]], %out[%[[ROW]], %{{.*}}]
// CHECK:         %[[RIGHT:.*]] = vector.load %x[
// CHECK-NEXT:    vector.store %[[RIGHT]], %out[
// CHECK:         vector.load %y[
// CHECK-NOT:     vector.load
// CHECK:       func.func @within(
func.func @within(%x: tensor<2x8xf32>, %y: tensor<1x16xf32>) -> tensor<3x16xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %y) : (tensor<2x8xf32>, tensor<1x16xf32>) -> (tensor<3x16xf32>) {
    %3 = mlc.concat 1 %1, %1 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x16xf32>
    %4 = mlc.concat 0 %3, %2 : tensor<2x16xf32>, tensor<1x16xf32> -> tensor<3x16xf32>
    mlc.yield %4 : tensor<3x16xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<3x16xf32>
}

// -----

// Rows of the result hold whole vectors of 8, and the piece begins at 1: the last seven lanes of the first
// vector, whole vectors from there on, then what is left of the row.
// CHECK-LABEL: func.func @copy_
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[BEFORE:.*]] = arith.constant -1 : index
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[LEAD:.*]] = arith.constant 7 : index
// CHECK-DAG:     %[[MASK:.*]] = arith.constant dense<[false, true, true, true, true, true, true, true]>
// CHECK:         vector.maskedload %x[%[[ROW:.*]], %[[BEFORE]]], %[[MASK]]
// CHECK-NEXT:    vector.maskedstore %out[%[[ROW]], %[[NONE]]], %[[MASK]]
// CHECK-NEXT:    scf.for %[[AT:.*]] = %[[LEAD]] to
// CHECK-NEXT:      vector.load %x[%[[ROW]], %[[AT]]]
// CHECK-NEXT:      %[[PLACE:.*]] = arith.addi %[[AT]], %[[ONE]]
// CHECK-NEXT:      vector.store %{{.*}}, %out[%[[ROW]], %[[PLACE]]]
// A short row has no loop.
// CHECK-LABEL: func.func @aligned(
// CHECK-LABEL: func.func @copy_
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           vector.maskedstore %out[%[[ROW]]
// CHECK-NOT:       scf.for
// CHECK-COUNT-4:   vector.store %{{.*}}, %out[%[[ROW]]
// CHECK:           vector.maskedstore %out[%[[ROW]]
// CHECK-LABEL: func.func @short(
func.func @aligned(%x: tensor<9x62xf32>, %y: tensor<9x1xf32>) -> tensor<9x64xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %y) : (tensor<9x62xf32>, tensor<9x1xf32>) -> (tensor<9x64xf32>) {
    %3 = mlc.concat 1 %2, %1, %2 : tensor<9x1xf32>, tensor<9x62xf32>, tensor<9x1xf32> -> tensor<9x64xf32>
    mlc.yield %3 : tensor<9x64xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<9x64xf32>
}

// -----

func.func @short(%x: tensor<9x46xf32>, %y: tensor<9x1xf32>) -> tensor<9x48xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %y) : (tensor<9x46xf32>, tensor<9x1xf32>) -> (tensor<9x48xf32>) {
    %3 = mlc.concat 1 %2, %1, %2 : tensor<9x1xf32>, tensor<9x46xf32>, tensor<9x1xf32> -> tensor<9x48xf32>
    mlc.yield %3 : tensor<9x48xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<9x48xf32>
}

// -----

// A pad: the value before and behind, the tensor between them; no position is compared.
// CHECK-LABEL: func.func @copy_{{.*}}%v: memref<f32>
// CHECK-NOT:     cmpi
// CHECK:         %[[VALUE:.*]] = memref.load %v[]
// CHECK:         vector.broadcast %[[VALUE]]
// CHECK:         vector.store %{{.*}}, %out[
// CHECK:         %[[INNER:.*]] = vector.load %x[%{{.*}}]
// CHECK-NEXT:    vector.store %[[INNER]], %out[
// CHECK-NOT:     cmpi
// CHECK:         func.return
func.func @padded(%x: tensor<16xf32>, %v: tensor<f32>) -> tensor<32xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "copy" (%1 = %x, %2 = %v) : (tensor<16xf32>, tensor<f32>) -> (tensor<32xf32>) {
    %3 = mlc.pad %1, %2[<8>, <8>] : tensor<16xf32>, tensor<f32> -> tensor<32xf32>
    mlc.yield %3 : tensor<32xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<32xf32>
}

// -----

// What a loop reads in one place is read before it.
// CHECK-LABEL: func.func @gather_
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK-NEXT:      memref.load %i[%[[ROW]]]
// CHECK:           scf.for
// CHECK-NOT:         memref.load %i
// CHECK:           func.return
func.func @rows(%x: tensor<9x800xf32>, %i: tensor<7xi64>) -> tensor<7x800xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "gather" (%1 = %x, %2 = %i) : (tensor<9x800xf32>, tensor<7xi64>) -> (tensor<7x800xf32>) {
    %3 = mlc.gather "0b,a->ab" %1[%2] : tensor<9x800xf32>, tensor<7xi64> -> tensor<7x800xf32>
    mlc.yield %3 : tensor<7x800xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<7x800xf32>
}
