// Values that wait for late readers are computed again where the module's limit asks for it. Nothing happens
// without a limit, or below it; a limit that cannot be kept is an error. Here six layers are read again in
// reverse.
// RUN: mlc opt %s -p rematerialise --split-input-file --verify-diagnostics --remarks 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=SAID --input-file %t.err

// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %[[Z:.*]] = mlc.contract "ab,bc->ac" %x, %w
// CHECK-NEXT:    %[[A:.*]] = mlc.tanh %[[Z]]
// CHECK:         mlc.contract "ac,bc->ab"
// CHECK:         %[[AGAIN:.*]] = mlc.contract "ab,bc->ac"
// CHECK-NEXT:    mlc.tanh %[[AGAIN]]
// CHECK:         func.return
// SAID:        remark: func.func: the peak falls from {{[0-9,]+}} to {{[0-9,]+}} bytes (limit 60,000); values computed again: {{[0-9]+}}, which takes {{.*}} by the Lagrange bound
builtin.module attributes {mlc.target = #mlc.target<"avx2">, mlc.peak_bytes = 60000 : i64} {
func.func @chain(%w: tensor<32x32xf32>, %x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = mlc.contract "ab,bc->ac" %x, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %1 = mlc.tanh %0 : tensor<64x32xf32>
  %2 = mlc.contract "ab,bc->ac" %1, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %3 = mlc.tanh %2 : tensor<64x32xf32>
  %4 = mlc.contract "ab,bc->ac" %3, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %5 = mlc.tanh %4 : tensor<64x32xf32>
  %6 = mlc.contract "ab,bc->ac" %5, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %7 = mlc.tanh %6 : tensor<64x32xf32>
  %8 = mlc.contract "ab,bc->ac" %7, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %9 = mlc.tanh %8 : tensor<64x32xf32>
  %10 = mlc.contract "ab,bc->ac" %9, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %x_1 = mlc.tanh %10 : tensor<64x32xf32>
  %11 = mlc.mul %x_1, %x_1 : tensor<64x32xf32>
  %12 = mlc.constant dense<1.000000e+00> : tensor<64x32xf32>
  %13 = mlc.add %x_1, %x_1 : tensor<64x32xf32>
  %14 = mlc.sub %12, %11 : tensor<64x32xf32>
  %15 = mlc.mul %13, %14 : tensor<64x32xf32>
  %16 = mlc.contract "ac,bc->ab" %15, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %17 = mlc.mul %9, %9 : tensor<64x32xf32>
  %18 = mlc.sub %12, %17 : tensor<64x32xf32>
  %19 = mlc.mul %16, %18 : tensor<64x32xf32>
  %20 = mlc.contract "ac,bc->ab" %19, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %21 = mlc.mul %7, %7 : tensor<64x32xf32>
  %22 = mlc.sub %12, %21 : tensor<64x32xf32>
  %23 = mlc.mul %20, %22 : tensor<64x32xf32>
  %24 = mlc.contract "ac,bc->ab" %23, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %25 = mlc.mul %5, %5 : tensor<64x32xf32>
  %26 = mlc.sub %12, %25 : tensor<64x32xf32>
  %27 = mlc.mul %24, %26 : tensor<64x32xf32>
  %28 = mlc.contract "ac,bc->ab" %27, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %29 = mlc.mul %3, %3 : tensor<64x32xf32>
  %30 = mlc.sub %12, %29 : tensor<64x32xf32>
  %31 = mlc.mul %28, %30 : tensor<64x32xf32>
  %32 = mlc.contract "ac,bc->ab" %31, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %33 = mlc.mul %1, %1 : tensor<64x32xf32>
  %34 = mlc.sub %12, %33 : tensor<64x32xf32>
  %35 = mlc.mul %32, %34 : tensor<64x32xf32>
  %36 = mlc.contract "ac,bc->ab" %35, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  func.return %36 : tensor<64x32xf32>
}
}

// -----
// Nothing to do.

// CHECK-LABEL: func.func @few
// CHECK-NEXT:    mlc.exp
// CHECK-NEXT:    mlc.exp
// CHECK-NEXT:    func.return
builtin.module attributes {mlc.target = #mlc.target<"avx2">, mlc.peak_bytes = 8192 : i64} {
func.func @few(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = mlc.exp %x : tensor<64x32xf32>
  %1 = mlc.exp %0 : tensor<64x32xf32>
  func.return %1 : tensor<64x32xf32>
}
}

// -----
// The result alone is larger.

// CHECK:       few: peak_bytes=8,191 cannot be kept: the least peak that was found is 8,192 bytes, with nothing computed again.
// CHECK-NEXT:    Results take 8,192 bytes, the arena 0; most is live here:
// CHECK-NEXT:    8,192 bytes: f32[64, 32] of exp
// CHECK-NEXT:  Remedy: raise the limit, put mlc.checkpoint around parts of the function, or take a smaller batch.
builtin.module attributes {mlc.target = #mlc.target<"avx2">, mlc.peak_bytes = 8191 : i64} {
func.func @few(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = mlc.exp %x : tensor<64x32xf32>
  %1 = mlc.exp %0 : tensor<64x32xf32>
  func.return %1 : tensor<64x32xf32>
}
}

// -----
// What is not known is not planned.

// CHECK:       peak_bytes needs sizes that are known when the function is compiled; B is a symbol
builtin.module attributes {mlc.target = #mlc.target<"avx2">, mlc.peak_bytes = 1 : i64} {
func.func @some(%x: tensor<?xf32, #mlc.dims<"B">>) -> tensor<?xf32, #mlc.dims<"B">> {
  func.return %x : tensor<?xf32, #mlc.dims<"B">>
}
}
