// Pointwise kernels: whole vectors two at a time, and a masked vector for what is left.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// 37 = 2 * 16 + 5: the end is one masked vector, not a loop over single elements.
// CHECK-LABEL: func.func @cell_
// CHECK-DAG:     %[[TWO_VECTORS:.*]] = arith.constant 16 : index
// CHECK-DAG:     %[[WHOLE:.*]] = arith.constant 32 : index
// CHECK-DAG:     %[[REST:.*]] = arith.constant 5 : index
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[WHOLE]] step %[[TWO_VECTORS]] {
// CHECK-COUNT-4:   vector.load
// CHECK:         }
// CHECK-NEXT:    %[[MASK:.*]] = vector.create_mask %[[REST]] : vector<8xi1>
// CHECK:         vector.maskedload %{{.*}}[%[[WHOLE]]], %[[MASK]]
// CHECK:         vector.maskedstore %{{.*}}[%[[WHOLE]]], %[[MASK]]
// CHECK-NOT:     scf.for
// CHECK:         func.return
func.func @masked_end(%x: tensor<37xf32>, %y: tensor<37xf32>) -> tensor<37xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x, %2 = %y) : (tensor<37xf32>, tensor<37xf32>) -> (tensor<37xf32>) {
    %3 = mlc.mul %1, %2 : tensor<37xf32>
    %4 = mlc.add %3, %2 : tensor<37xf32>
    mlc.yield %4 : tensor<37xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(20000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<37xf32>
}

// -----

// More bytes than the word names: past the caches where the result begins at a whole vector, else as ever. The end is
// masked in both.
// CHECK-LABEL: func.func @cell_
// CHECK-DAG:     %[[VECTOR:.*]] = arith.constant 32 : index
// CHECK:         %[[ADDRESS:.*]] = "memref.extract_aligned_pointer_as_index"(%out)
// CHECK:         arith.divui %[[ADDRESS]], %[[VECTOR]]
// CHECK:         %[[ALIGNED:.*]] = arith.cmpi eq, %{{.*}}, %[[ADDRESS]]
// CHECK-NEXT:    scf.if %[[ALIGNED]] {
// CHECK-COUNT-2:   mlc_vec.nontemporal_store
// CHECK:           vector.maskedstore
// CHECK-NEXT:      mlc_vec.store_fence
// CHECK-NEXT:    } else {
// CHECK-NOT:       nontemporal
// CHECK:           vector.store
// CHECK:           vector.maskedstore
// CHECK:         func.return
func.func @past_the_caches(%x: tensor<37xf32>) -> tensor<37xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<37xf32>) -> (tensor<37xf32>) {
    %2 = mlc.mul %1, %1 : tensor<37xf32>
    mlc.yield %2 : tensor<37xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(2), grain(20000), nontemporal(295)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<37xf32>
}

// -----

// One element left is a plain store: LLVM 22 would store too many bytes of a truncated vector.
// CHECK-LABEL: func.func @cell_
// CHECK:         %[[LAST:.*]] = arith.constant 16 : index
// CHECK:         %[[ELEMENT:.*]] = vector.extract %{{.*}}[0] : i32 from vector<4xi32>
// CHECK-NEXT:    memref.store %[[ELEMENT]], %{{.*}}[%[[LAST]]] : memref<17xi32>
// CHECK-NOT:     vector.maskedstore
// CHECK:         func.return
func.func @one_over(%x: tensor<17xi64>) -> tensor<17xi32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<17xi64>) -> (tensor<17xi32>) {
    %2 = mlc.convert %1 : tensor<17xi64> -> tensor<17xi32>
    mlc.yield %2 : tensor<17xi32>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<17xi32>
}

// -----

// Axes that every access walks as one are one loop; a broadcast row keeps them apart.
// CHECK-LABEL: func.func @cell_
// CHECK-SAME:    memref<?x?xf32> {mlc.readonly}, %{{.*}}: memref<?xf32> {mlc.readonly}
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           scf.for %[[COLUMN:[^ ]*]] =
// CHECK:             vector.load %{{.*}}[%[[ROW]], %[[COLUMN]]]
// CHECK:             vector.load %{{.*}}[%[[COLUMN]]]
func.func @row_broadcast(%x: tensor<?x?xf32, #mlc.dims<"M", "N">>, %b: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?x?xf32, #mlc.dims<"M", "N">> attributes {mlc.symbols = ["M", "N"], mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x, %2 = %b) : (tensor<?x?xf32, #mlc.dims<"M", "N">>, tensor<?xf32, #mlc.dims<"N">>) -> (tensor<?x?xf32, #mlc.dims<"M", "N">>) {
    %3 = mlc.broadcast "n->mn" %2 : tensor<?xf32, #mlc.dims<"N">> -> tensor<?x?xf32, #mlc.dims<"M", "N">>
    %4 = mlc.add %1, %3 : tensor<?x?xf32, #mlc.dims<"M", "N">>
    mlc.yield %4 : tensor<?x?xf32, #mlc.dims<"M", "N">>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<?x?xf32, #mlc.dims<"M", "N">>
}

// -----

// CHECK-LABEL: func.func @cell_
// CHECK-SAME:    memref<?xf32> {mlc.readonly}, %{{.*}}: memref<?xf32> {mlc.noalias}
func.func @joined(%x: tensor<?x?xf32, #mlc.dims<"M", "N">>) -> tensor<?x?xf32, #mlc.dims<"M", "N">> attributes {mlc.symbols = ["M", "N"], mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<?x?xf32, #mlc.dims<"M", "N">>) -> (tensor<?x?xf32, #mlc.dims<"M", "N">>) {
    %2 = mlc.neg %1 : tensor<?x?xf32, #mlc.dims<"M", "N">>
    mlc.yield %2 : tensor<?x?xf32, #mlc.dims<"M", "N">>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<?x?xf32, #mlc.dims<"M", "N">>
}

// -----

// Any strides: they are arguments, and lanes are gathered; the result is written in whole vectors.
// CHECK-LABEL: func.func @cell_
// CHECK-SAME:    index, %[[INNER:.*]]: index, %[[X:.*]]: memref<6x20xf32, strided<[?, ?]>>
// CHECK:         %[[LANE:.*]] = mlc_vec.step : vector<8xindex>
// CHECK:         %[[STRIDES:.*]] = vector.broadcast %[[INNER]] : index to vector<8xindex>
// CHECK:         %[[OFFSETS:.*]] = arith.muli %[[LANE]], %[[STRIDES]]
// CHECK:         mlc_vec.gather %[[X]][{{.*}}] at %[[OFFSETS]]
// CHECK:         vector.store
func.func @strided(%x: tensor<6x20xf32> {mlc.layout = "general"}) -> tensor<6x20xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<6x20xf32>) -> (tensor<6x20xf32>) {
    %2 = mlc.neg %1 : tensor<6x20xf32>
    mlc.yield %2 : tensor<6x20xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(30000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<6x20xf32>
}

// -----

// Squares of eight rows are turned by three steps of eight shuffles, kept in a tile on the stack, and
// read from there; the last tile of an axis begins before what is computed from it.
// CHECK-LABEL: func.func @cell_
// CHECK-SAME:      memref<100x200xf32> {mlc.readonly}
// CHECK:         %[[TILE:.*]] = memref.reinterpret_cast %{{.*}} : memref<4096xf32> to memref<64x64xf32>
// CHECK:         arith.minsi
// CHECK-COUNT-8: vector.load %{{.*}} : memref<100x200xf32>, vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store %{{.*}}, %[[TILE]]
// CHECK:         vector.load %[[TILE]]
// CHECK-NOT:     mlc_vec.gather
// CHECK:         func.return
func.func @turned(%x: tensor<100x200xf32>) -> tensor<200x100xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "cell" (%1 = %x) : (tensor<100x200xf32>) -> (tensor<200x100xf32>) {
    %2 = mlc.transpose "mn->nm" %1 : tensor<100x200xf32> -> tensor<200x100xf32>
    %3 = mlc.neg %2 : tensor<200x100xf32>
    mlc.yield %3 : tensor<200x100xf32>
  } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(30000), turn(0, rows 64, columns 64)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<200x100xf32>
}
