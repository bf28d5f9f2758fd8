// RUN: mlc opt %s --target=avx2 -p merge-siblings,dce | filecheck %s

// Queries, keys and values are one product; heads are views of its columns. Nothing is copied.
// CHECK-LABEL: @attention
// CHECK:         %[[W:.*]] = mlc.join 1 %wq, %wk, %wv {{.*}} -> tensor<64x192xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc.contract "mk,kn->mn" %x, %[[W]]
// CHECK-NEXT:    %[[B:.*]] = mlc.join 0 %bq, %bk, %bv
// CHECK-NEXT:    %[[ROWS:.*]] = mlc.broadcast "n->mn" %[[B]]
// CHECK-NEXT:    %[[SUM:.*]] = mlc.add %[[Y]], %[[ROWS]] : tensor<128x192xf32>
// CHECK:         mlc.reshape %[[SUM]] : tensor<128x192xf32> -> tensor<128x12x16xf32>
// CHECK:         mlc.slice {{.*}}[<0, 4, 0>, <1, 1, 1>]
// CHECK-NOT:     mlc.contract "mk,kn->mn"
func.func @attention(%x: tensor<128x64xf32>, %wq: tensor<64x64xf32>, %wk: tensor<64x64xf32>, %wv: tensor<64x64xf32>, %bq: tensor<64xf32>, %bk: tensor<64xf32>, %bv: tensor<64xf32>) -> tensor<4x128x16xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %wq : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  %1 = mlc.broadcast "n->mn" %bq : tensor<64xf32> -> tensor<128x64xf32>
  %2 = mlc.add %0, %1 : tensor<128x64xf32>
  %q = mlc.reshape %2 : tensor<128x64xf32> -> tensor<128x4x16xf32>
  %3 = mlc.contract "mk,kn->mn" %x, %wk : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  %4 = mlc.broadcast "n->mn" %bk : tensor<64xf32> -> tensor<128x64xf32>
  %5 = mlc.add %3, %4 : tensor<128x64xf32>
  %k = mlc.reshape %5 : tensor<128x64xf32> -> tensor<128x4x16xf32>
  %6 = mlc.contract "mk,kn->mn" %x, %wv : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  %7 = mlc.broadcast "n->mn" %bv : tensor<64xf32> -> tensor<128x64xf32>
  %8 = mlc.add %6, %7 : tensor<128x64xf32>
  %v = mlc.reshape %8 : tensor<128x64xf32> -> tensor<128x4x16xf32>
  %s = mlc.contract "mhk,nhk->hmn" %q, %k : tensor<128x4x16xf32>, tensor<128x4x16xf32> -> tensor<4x128x128xf32>
  %y = mlc.contract "hmn,nhk->hmk" %s, %v : tensor<4x128x128xf32>, tensor<128x4x16xf32> -> tensor<4x128x16xf32>
  func.return %y : tensor<4x128x16xf32>
}

// Results that leave the function would be copied out of the one result: they stay apart.
// CHECK-LABEL: @results
// CHECK-COUNT-2: mlc.contract
// CHECK-NOT:     mlc.slice
func.func @results(%x: tensor<128x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> (tensor<128x64xf32>, tensor<128x64xf32>) {
  %0 = mlc.contract "mk,kn->mn" %x, %a : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  %1 = mlc.contract "mk,kn->mn" %x, %b : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  func.return %0, %1 : tensor<128x64xf32>, tensor<128x64xf32>
}

// The gate of an MLP runs on the register tile of its product: apart, one buffer is written, not two.
// CHECK-LABEL: @gated
// CHECK-NOT:     mlc.join
func.func @gated(%x: tensor<128x64xf32>, %a: tensor<64x256xf32>, %b: tensor<64x256xf32>) -> tensor<128x256xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %a : tensor<128x64xf32>, tensor<64x256xf32> -> tensor<128x256xf32>
  %1 = mlc.tanh %0 : tensor<128x256xf32>
  %2 = mlc.contract "mk,kn->mn" %x, %b : tensor<128x64xf32>, tensor<64x256xf32> -> tensor<128x256xf32>
  %3 = mlc.mul %1, %2 : tensor<128x256xf32>
  func.return %3 : tensor<128x256xf32>
}

// The second factor is computed from what the first product gives.
// CHECK-LABEL: @dependent
// CHECK-NOT:     mlc.join
func.func @dependent(%x: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> tensor<f32> {
  %0 = mlc.contract "mk,kn->mn" %x, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = mlc.contract "mk,kn->mn" %x, %0 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %2 = mlc.reduce "sum" "mn->" %1 : tensor<64x64xf32> -> tensor<f32>
  func.return %2 : tensor<f32>
}

// Convolutions of equal geometry are one, with the filters side by side.
// CHECK-LABEL: @convolutions
// CHECK:         %[[W:.*]] = mlc.join 0 %a, %b
// CHECK-NEXT:    mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %[[W]] {{.*}} -> tensor<2x32x8x8xf32>
// CHECK-NEXT:    mlc.slice
// CHECK-NEXT:    mlc.slice
// CHECK-NOT:     mlc.conv
func.func @convolutions(%x: tensor<2x8x10x10xf32>, %a: tensor<16x8x3x3xf32>, %b: tensor<16x8x3x3xf32>) -> tensor<2xf32> {
  %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %a : tensor<2x8x10x10xf32>, tensor<16x8x3x3xf32> -> tensor<2x16x8x8xf32>
  %1 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %b : tensor<2x8x10x10xf32>, tensor<16x8x3x3xf32> -> tensor<2x16x8x8xf32>
  %2 = mlc.reduce "max" "nfyx->n" %0 : tensor<2x16x8x8xf32> -> tensor<2xf32>
  %3 = mlc.reduce "max" "nfyx->n" %1 : tensor<2x16x8x8xf32> -> tensor<2xf32>
  %4 = mlc.add %2, %3 : tensor<2xf32>
  func.return %4 : tensor<2xf32>
}

// Another window is another geometry.
// CHECK-LABEL: @other_window
// CHECK-COUNT-2: mlc.conv
// CHECK-NOT:     mlc.slice
func.func @other_window(%x: tensor<2x8x10x10xf32>, %a: tensor<32x8x3x3xf32>, %b: tensor<32x8x1x1xf32>) -> tensor<2xf32> {
  %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %a : tensor<2x8x10x10xf32>, tensor<32x8x3x3xf32> -> tensor<2x32x8x8xf32>
  %1 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %b : tensor<2x8x10x10xf32>, tensor<32x8x1x1xf32> -> tensor<2x32x10x10xf32>
  %2 = mlc.reduce "max" "nfyx->n" %0 : tensor<2x32x8x8xf32> -> tensor<2xf32>
  %3 = mlc.reduce "max" "nfyx->n" %1 : tensor<2x32x10x10xf32> -> tensor<2xf32>
  %4 = mlc.add %2, %3 : tensor<2xf32>
  func.return %4 : tensor<2xf32>
}
