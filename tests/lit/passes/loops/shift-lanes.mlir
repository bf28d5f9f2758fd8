// Vectors of one row that overlap come from vectors side by side, where each fills a cache line.
// RUN: mlc opt %s -p mlc-shift-lanes | filecheck %s

builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  // A trip reads one vector of the row, which begins at a line, and hands two on.
  // CHECK-LABEL: @known_end
  // CHECK:         %[[ONE:.*]] = arith.constant 1 : index
  // CHECK:         %[[FIRST:.*]] = vector.load %x[%c0, %{{.*}}]
  // CHECK-NEXT:    %{{.*}} = arith.constant 1 : index
  // CHECK-NEXT:    arith.addi
  // CHECK-NEXT:    %[[SECOND:.*]] = vector.load %x[%c0, %{{.*}}]
  // CHECK-NEXT:    scf.for {{.*}} iter_args(%[[LEFT:.*]] = %[[FIRST]], %[[MIDDLE:.*]] = %[[SECOND]])
  // CHECK-COUNT-1:   vector.load
  // CHECK-NOT:       vector.load
  // CHECK:           vector.shuffle %[[LEFT]], %[[MIDDLE]] [15, 16, 17
  // CHECK-NOT:       vector.load
  // CHECK:           vector.shuffle %[[MIDDLE]], %{{.*}} [1, 2, 3
  // CHECK-NOT:       vector.load
  // CHECK:           scf.yield %[[MIDDLE]], %
  func.func @known_end(%x: memref<4x96xf32> {mlc.noalias, mlc.readonly}, %out: memref<4x96xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %c79 = arith.constant 79 : index
    scf.for %i = %c15 to %c79 step %c16 {
      %middle = arith.addi %i, %c1 : index
      %right = arith.addi %i, %c2 : index
      %a = vector.load %x[%c0, %i] : memref<4x96xf32>, vector<16xf32>
      %b = vector.load %x[%c0, %middle] : memref<4x96xf32>, vector<16xf32>
      %c = vector.load %x[%c0, %right] : memref<4x96xf32>, vector<16xf32>
      %d = arith.addf %a, %b : vector<16xf32>
      %e = arith.addf %d, %c : vector<16xf32>
      vector.store %e, %out[%c0, %middle] : memref<4x96xf32>, vector<16xf32>
    }
    func.return
  }

  // Nothing is read behind the last element: the last trip stays as it is, and so does none at all.
  // CHECK-LABEL: @unknown_end
  // CHECK:         %[[END:.*]] = arith.maxsi
  // CHECK:         arith.cmpi slt, %{{.*}}, %[[END]]
  // CHECK-NEXT:    scf.if
  // CHECK:           scf.for {{.*}} to %[[END]] step {{.*}} iter_args
  // CHECK:             vector.shuffle
  // CHECK:         scf.for
  // CHECK-COUNT-3:   vector.load
  // CHECK-NOT:     vector.shuffle
  func.func @unknown_end(%x: memref<?xf32> {mlc.noalias, mlc.readonly}, %out: memref<?xf32>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    scf.for %i = %c0 to %n step %c16 {
      %middle = arith.addi %i, %c1 : index
      %right = arith.addi %i, %c2 : index
      %a = vector.load %x[%i] : memref<?xf32>, vector<16xf32>
      %b = vector.load %x[%middle] : memref<?xf32>, vector<16xf32>
      %c = vector.load %x[%right] : memref<?xf32>, vector<16xf32>
      %d = arith.addf %a, %b : vector<16xf32>
      %e = arith.addf %d, %c : vector<16xf32>
      vector.store %e, %out[%i] : memref<?xf32>, vector<16xf32>
    }
    func.return
  }

  // What the trips may write to is read when it is.
  // CHECK-LABEL: @written
  // CHECK-NOT:     vector.shuffle
  func.func @written(%x: memref<96xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    scf.for %i = %c0 to %c64 step %c16 {
      %middle = arith.addi %i, %c1 : index
      %right = arith.addi %i, %c2 : index
      %a = vector.load %x[%i] : memref<96xf32>, vector<16xf32>
      %b = vector.load %x[%middle] : memref<96xf32>, vector<16xf32>
      %c = vector.load %x[%right] : memref<96xf32>, vector<16xf32>
      %d = arith.addf %a, %b : vector<16xf32>
      %e = arith.addf %d, %c : vector<16xf32>
      vector.store %e, %x[%i] : memref<96xf32>, vector<16xf32>
    }
    func.return
  }

  // Lanes that are left out stay what they were; vectors side by side are read as they stand.
  // CHECK-LABEL: @masked
  // CHECK:         %[[LINE:.*]] = vector.load
  // CHECK:         %[[SHIFTED:.*]] = vector.shuffle %[[LINE]], %[[LINE]] [1, 2
  // CHECK:         mlc_vec.select %mask, %[[SHIFTED]], %fill
  // CHECK:         vector.load %x[%c16]
  // CHECK-NEXT:    vector.load %x[%c32]
  func.func @masked(%x: memref<64xf32>, %fill: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %mask = vector.create_mask %c15 : vector<16xi1>
    %a = vector.maskedload %x[%c0], %mask, %fill : memref<64xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %b = vector.maskedload %x[%c1], %mask, %fill : memref<64xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    vector.store %fill, %x[%c0] : memref<64xf32>, vector<16xf32>
    %c = vector.load %x[%c16] : memref<64xf32>, vector<16xf32>
    %d = vector.load %x[%c32] : memref<64xf32>, vector<16xf32>
    func.return %a, %b, %c, %d : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
  }
}
