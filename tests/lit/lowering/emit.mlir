// A masked, vectorised loop nest as LLVM IR text.
// RUN: %python -m mlc.lowering.emit %s avx512 | filecheck %s

// Row-major arguments travel as a pointer and the sizes of dims >= 1.
// CHECK-LABEL: define void @scale(i64 %a0, i64 %a1, ptr readonly %a2, i64 %a2.1, ptr noalias %a3, i64 %a3.1)
func.func @scale(%n: index, %m: index, %x: memref<?x?xf32> {mlc.readonly},
                 %out: memref<?x?xf32> {mlc.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %half = arith.constant dense<0.5> : vector<16xf32>
  // CHECK:      [[ROWS:for[0-9]+]]:
  // CHECK-NEXT:   %[[I:.*]] = phi i64 [ 0, %entry ], [ %[[I_NEXT:.*]], %{{.*}} ]
  // The address of the row is computed once per row.
  // CHECK:        %[[ROW:.*]] = mul i64 %[[I]], %a2.1
  scf.for %i = %c0 to %n step %c1 {
    // CHECK:      [[COLUMNS:for[0-9]+]]:
    // CHECK-NEXT:   %[[J:.*]] = phi i64
    scf.for %j = %c0 to %m step %c16 {
      %left = arith.subi %m, %j : index
      // CHECK:    %[[OFF:.*]] = shl i64 -1, %{{.*}}
      // CHECK:    %[[ON:.*]] = xor i64 %[[OFF]], -1
      // CHECK:    %[[BITS:.*]] = trunc i64 %[[ON]] to i16
      // CHECK:    %[[MASK:.*]] = bitcast i16 %[[BITS]] to <16 x i1>
      %mask = vector.create_mask %left : vector<16xi1>
      // CHECK:    %[[WHERE:.*]] = add i64 %[[ROW]], %[[J]]
      // CHECK:    %[[P:.*]] = getelementptr float, ptr %a2, i64 %[[WHERE]]
      // CHECK:    @llvm.masked.load.v16f32.p0(ptr align 4 %[[P]], <16 x i1> %[[MASK]], <16 x float> splat (float 0x3FE0000000000000))
      %v = vector.maskedload %x[%i, %j], %mask, %half : memref<?x?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      // CHECK:    %[[W:.*]] = fmul contract <16 x float>
      %w = arith.mulf %v, %half fastmath<contract> : vector<16xf32>
      // CHECK:    call void @llvm.masked.store.v16f32.p0(<16 x float> %[[W]]
      vector.maskedstore %out[%i, %j], %mask, %w : memref<?x?xf32>, vector<16xi1>, vector<16xf32>
    // CHECK:      br label %[[COLUMNS]], !llvm.loop ![[LOOP:[0-9]+]]
    } {mlc.no_unroll}
  }
  return
}
// CHECK: attributes #0 = { nofree nounwind "target-cpu"="x86-64-v4" {{.*}}"min-legal-vector-width"="512"
// CHECK: ![[LOOP]] = distinct !{![[LOOP]], {{.*}}}
