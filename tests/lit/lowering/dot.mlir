// Each row of the table of instructions that multiply, as LLVM's intrinsic.
// RUN: %python -m mlc.lowering.emit %s amx | filecheck %s

// CHECK-LABEL: define void @fma(
// CHECK: call <16 x float> @llvm.fma.v16f32(<16 x float> %{{.*}}, <16 x float> %{{.*}}, <16 x float> %{{.*}})
func.func @fma(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xf32>, vector<16xf32>
  %d = mlc_vec.dot "fma" %v, %v, %v : vector<16xf32>, vector<16xf32>, vector<16xf32>
  vector.store %d, %x[%c0] : memref<?xf32>, vector<16xf32>
  return
}

// Parts of complex numbers lie apart: four fused operations on halves.
// CHECK-LABEL: define void @complex(
// CHECK: fneg <8 x float>
// CHECK-COUNT-4: call <8 x float> @llvm.fma.v8f32(
func.func @complex(%x: memref<?xcomplex<f32>>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xcomplex<f32>>, vector<8xcomplex<f32>>
  %d = mlc_vec.dot "fma" %v, %v, %v : vector<8xcomplex<f32>>, vector<8xcomplex<f32>>, vector<8xcomplex<f32>>
  vector.store %d, %x[%c0] : memref<?xcomplex<f32>>, vector<8xcomplex<f32>>
  return
}

// CHECK-LABEL: define void @mul_add(
// CHECK: %[[P:.*]] = mul <16 x i32>
// CHECK: add <16 x i32> %[[P]],
func.func @mul_add(%x: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xi32>, vector<16xi32>
  %d = mlc_vec.dot "mul_add" %v, %v, %v : vector<16xi32>, vector<16xi32>, vector<16xi32>
  vector.store %d, %x[%c0] : memref<?xi32>, vector<16xi32>
  return
}

// A pair of bf16, repeated as one integer of 32 bits.
// CHECK-LABEL: define void @dot_bf16(
// CHECK: %[[PAIR:.*]] = bitcast <2 x i16> %{{.*}} to i32
// CHECK: shufflevector <16 x i32> %{{.*}}, <16 x i32> poison, <16 x i32> zeroinitializer
// CHECK: call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %{{.*}}, <32 x bfloat> %{{.*}}, <32 x bfloat> %{{.*}})
func.func @dot_bf16(%x: memref<?xbf16>, %c: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %pair = vector.load %x[%c0] : memref<?xbf16>, vector<2xbf16>
  %a = mlc_vec.repeat %pair : vector<2xbf16> to vector<32xbf16>
  %b = vector.load %x[%c0] : memref<?xbf16>, vector<32xbf16>
  %s = vector.load %c[%c0] : memref<?xf32>, vector<16xf32>
  %d = mlc_vec.dot "dot_bf16" %s, %a, %b : vector<16xf32>, vector<32xbf16>, vector<32xbf16>
  vector.store %d, %c[%c0] : memref<?xf32>, vector<16xf32>
  return
}

// Rounded by one instruction.
// CHECK-LABEL: define void @round(
// CHECK: %[[R:.*]] = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float> %{{.*}})
// CHECK: bitcast <16 x bfloat> %[[R]] to <16 x i16>
func.func @round(%x: memref<?xf32>, %y: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xf32>, vector<16xf32>
  %r = mlc_vec.round %v : vector<16xf32> to vector<16xbf16>
  vector.store %r, %y[%c0] : memref<?xbf16>, vector<16xbf16>
  return
}

// CHECK-LABEL: define void @bytes(
// CHECK: call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %{{.*}}, <64 x i8> %{{.*}}, <64 x i8> %{{.*}})
func.func @bytes(%x: memref<?xi8>, %c: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xi8>, vector<64xi8>
  %s = vector.load %c[%c0] : memref<?xi32>, vector<16xi32>
  %d = mlc_vec.dot "dot_u8s8" %s, %v, %v : vector<16xi32>, vector<64xi8>, vector<64xi8>
  vector.store %d, %c[%c0] : memref<?xi32>, vector<16xi32>
  return
}

// CHECK-LABEL: define void @words(
// CHECK: %[[S:.*]] = call <16 x i32> @llvm.x86.avx512.vpdpwssd.512(<16 x i32> %{{.*}}, <32 x i16> %{{.*}}, <32 x i16> %{{.*}})
// CHECK: %[[D:.*]] = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %{{.*}}, <32 x i16> %{{.*}})
// CHECK: add <16 x i32> %[[D]], %[[S]]
func.func @words(%x: memref<?xi16>, %c: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xi16>, vector<32xi16>
  %s = vector.load %c[%c0] : memref<?xi32>, vector<16xi32>
  %d = mlc_vec.dot "dot_i16" %s, %v, %v : vector<16xi32>, vector<32xi16>, vector<32xi16>
  %f = mlc_vec.dot "madd_i16" %d, %v, %v : vector<16xi32>, vector<32xi16>, vector<32xi16>
  vector.store %f, %c[%c0] : memref<?xi32>, vector<16xi32>
  return
}

// Tiles are values of a loop; extents are rows and bytes, rows of memory a step of the outer dim apart.
// CHECK-LABEL: define void @tiles(
// CHECK: %[[ZERO:.*]] = call x86_amx @llvm.x86.tilezero.internal(i16 16, i16 64)
// CHECK: %[[STEP:.*]] = mul nsw i64 %a0.1, 2
// CHECK: %[[SUM:.*]] = phi x86_amx [ %[[ZERO]], %entry ], [ %[[NEXT:.*]], %{{.*}} ]
// CHECK: %[[A:.*]] = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %{{.*}}, i64 %[[STEP]])
// CHECK: %[[B:.*]] = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %{{.*}}, i64 64)
// CHECK: %[[NEXT]] = call x86_amx @llvm.x86.tdpbf16ps.internal(i16 16, i16 64, i16 64, x86_amx %[[SUM]], x86_amx %[[A]], x86_amx %[[B]])
// CHECK: call void @llvm.x86.tilestored64.internal(i16 16, i16 64, ptr %{{.*}}, i64 64, x86_amx %[[SUM]])
func.func @tiles(%a: memref<?x?xbf16>, %b: memref<?x32xbf16>, %c: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = mlc_vec.tile_zero : !mlc_vec.tile<16x16xf32>
  %sum = scf.for %k = %c0 to %n step %c32 iter_args(%s = %zero) -> (!mlc_vec.tile<16x16xf32>) {
    %x = mlc_vec.tile_load %a[%c0, %k] : memref<?x?xbf16>, !mlc_vec.tile<16x32xbf16>
    %y = mlc_vec.tile_load %b[%k, %c0] : memref<?x32xbf16>, !mlc_vec.tile<16x32xbf16>
    %d = mlc_vec.dot "amx_bf16" %s, %x, %y : !mlc_vec.tile<16x16xf32>, !mlc_vec.tile<16x32xbf16>, !mlc_vec.tile<16x32xbf16>
    scf.yield %d : !mlc_vec.tile<16x16xf32>
  }
  mlc_vec.tile_store %sum, %c[%c0, %c0] : memref<?x16xf32>, !mlc_vec.tile<16x16xf32>
  return
}

// A smaller tile has smaller extents: 4 rows, 8 columns, 16 summed bytes.
// CHECK-LABEL: define void @tiles_of_bytes(
// CHECK: call x86_amx @llvm.x86.tdpbssd.internal(i16 4, i16 32, i16 16, x86_amx %{{.*}}, x86_amx %{{.*}}, x86_amx %{{.*}})
func.func @tiles_of_bytes(%a: memref<?x16xi8>, %b: memref<?x32xi8>, %c: memref<?x8xi32>) {
  %c0 = arith.constant 0 : index
  %s = mlc_vec.tile_load %c[%c0, %c0] : memref<?x8xi32>, !mlc_vec.tile<4x8xi32>
  %x = mlc_vec.tile_load %a[%c0, %c0] : memref<?x16xi8>, !mlc_vec.tile<4x16xi8>
  %y = mlc_vec.tile_load %b[%c0, %c0] : memref<?x32xi8>, !mlc_vec.tile<4x32xi8>
  %d = mlc_vec.dot "amx_s8" %s, %x, %y : !mlc_vec.tile<4x8xi32>, !mlc_vec.tile<4x16xi8>, !mlc_vec.tile<4x32xi8>
  mlc_vec.tile_store %d, %c[%c0, %c0] : memref<?x8xi32>, !mlc_vec.tile<4x8xi32>
  return
}

// CHECK-LABEL: define void @sdot(
// CHECK: call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(
// CHECK: call <4 x i32> @llvm.aarch64.neon.smmla.v4i32.v16i8(
func.func @sdot(%x: memref<?xi8>, %c: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xi8>, vector<16xi8>
  %s = vector.load %c[%c0] : memref<?xi32>, vector<4xi32>
  %d = mlc_vec.dot "dot_s8" %s, %v, %v : vector<4xi32>, vector<16xi8>, vector<16xi8>
  %f = mlc_vec.dot "mmla_s8" %d, %v, %v : vector<4xi32>, vector<16xi8>, vector<16xi8>
  vector.store %f, %c[%c0] : memref<?xi32>, vector<4xi32>
  return
}

// CHECK-LABEL: define void @bfmmla(
// CHECK: call <4 x float> @llvm.aarch64.neon.bfmmla(<4 x float> %{{.*}}, <8 x bfloat> %{{.*}}, <8 x bfloat> %{{.*}})
func.func @bfmmla(%x: memref<?xbf16>, %c: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<?xbf16>, vector<8xbf16>
  %s = vector.load %c[%c0] : memref<?xf32>, vector<4xf32>
  %d = mlc_vec.dot "mmla_bf16" %s, %v, %v : vector<4xf32>, vector<8xbf16>, vector<8xbf16>
  vector.store %d, %c[%c0] : memref<?xf32>, vector<4xf32>
  return
}
