// Lanes moved by a mask: an instruction of AVX-512, a table of lane numbers with AVX2.
// RUN: %python -m mlc.lowering.emit %s avx2 | filecheck %s
// RUN: %python -m mlc.lowering.emit %s avx512 | filecheck %s --check-prefix=WIDE

// A row for each mask, here 8 of 0b0000 to 0b0010: the parts of a register, the others backwards.
// CHECK: @lanes_by_mask_4 = private unnamed_addr constant [16 x <8 x i8>]
// CHECK-SAME: [<8 x i8> <i8 6, i8 7, i8 4, i8 5, i8 2, i8 3, i8 0, i8 1>,
// CHECK-SAME: <8 x i8> <i8 0, i8 1, i8 6, i8 7, i8 4, i8 5, i8 2, i8 3>,
// CHECK-SAME: <8 x i8> <i8 2, i8 3, i8 6, i8 7, i8 4, i8 5, i8 0, i8 1>
// CHECK-LABEL: define void @split(
// CHECK:       bitcast <4 x i1> %{{.*}} to i4
// CHECK:       load <8 x i8>, ptr %{{.*}}, align 8
// CHECK:       call <8 x i32> @llvm.x86.avx2.permd(
// CHECK-NOT:   vector.compress

// WIDE-NOT:    @lanes_by_mask
// WIDE-LABEL:  define void @split(
// WIDE:        %[[OTHERS:.*]] = xor <4 x i1>
// WIDE:        %[[LAST:.*]] = call <4 x i64> @llvm.experimental.vector.compress.v4i64(<4 x i64> %[[V:.*]], <4 x i1> %[[OTHERS]], <4 x i64> poison)
// WIDE:        %[[BACK:.*]] = shufflevector <4 x i64> %[[LAST]], {{.*}} <4 x i32> <i32 3, i32 2, i32 1, i32 0>
// WIDE:        call <4 x i64> @llvm.experimental.vector.compress.v4i64(<4 x i64> %[[V]], <4 x i1> %{{.*}}, <4 x i64> %[[BACK]])
func.func @split(%x: memref<?xi64> {mlc.readonly}, %out: memref<?xi64> {mlc.noalias}) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0> : vector<4xi64>
  %v = vector.load %x[%c0] : memref<?xi64>, vector<4xi64>
  %kept = mlc_vec.cmpi slt, %v, %zero : vector<4xi64>
  %both = mlc_vec.split %v, %kept : vector<4xi64>
  vector.store %both, %out[%c0] : memref<?xi64>, vector<4xi64>
  func.return
}
