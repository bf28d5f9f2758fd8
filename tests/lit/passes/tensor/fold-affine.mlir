// RUN: mlc opt %s --target=avx2 -p fold-affine,dce | filecheck %s

// Batch normalisation with given statistics: the weights are scaled, and one addition is left.
// CHECK-LABEL: @normalized
// CHECK:         %[[S:.*]] = mlc.div %{{.*}}, %deviation : tensor<32xf32>
// CHECK:         %[[SCALE:.*]] = mlc.broadcast "f->fcij" %[[S]]
// CHECK-NEXT:    %[[W:.*]] = mlc.mul %w, %[[SCALE]] : tensor<32x16x3x3xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %[[W]]
// CHECK-NEXT:    mlc.broadcast "f->nfyx"
// CHECK-NEXT:    mlc.add %[[Y]]
// CHECK-NEXT:    return
func.func @normalized(%x: tensor<4x16x34x34xf32>, %w: tensor<32x16x3x3xf32>, %mean: tensor<32xf32>, %deviation: tensor<32xf32>) -> tensor<4x32x32x32xf32> {
  %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %w : tensor<4x16x34x34xf32>, tensor<32x16x3x3xf32> -> tensor<4x32x32x32xf32>
  %1 = mlc.broadcast "b->abcd" %mean : tensor<32xf32> -> tensor<4x32x32x32xf32>
  %2 = mlc.sub %0, %1 : tensor<4x32x32x32xf32>
  %3 = mlc.broadcast "b->abcd" %deviation : tensor<32xf32> -> tensor<4x32x32x32xf32>
  %4 = mlc.div %2, %3 : tensor<4x32x32x32xf32>
  func.return %4 : tensor<4x32x32x32xf32>
}

// Of a matrix product with many rows, too.
// CHECK-LABEL: @rows
// CHECK:         mlc.mul %w, %{{.*}} : tensor<64x64xf32>
// CHECK-NEXT:    mlc.contract
// CHECK-NEXT:    return
func.func @rows(%x: tensor<4096x64xf32>, %w: tensor<64x64xf32>, %s: tensor<64xf32>) -> tensor<4096x64xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32>
  %1 = mlc.broadcast "n->mn" %s : tensor<64xf32> -> tensor<4096x64xf32>
  %2 = mlc.mul %0, %1 : tensor<4096x64xf32>
  func.return %2 : tensor<4096x64xf32>
}

// Of few rows, scaling the weights would cost more than scaling the result.
// CHECK-LABEL: @few_rows
// CHECK:         %[[Y:.*]] = mlc.contract "mk,kn->mn" %x, %w
// CHECK:         mlc.mul %[[Y]]
func.func @few_rows(%x: tensor<16x512xf32>, %w: tensor<512x64xf32>, %s: tensor<64xf32>) -> tensor<16x64xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<16x512xf32>, tensor<512x64xf32> -> tensor<16x64xf32>
  %1 = mlc.broadcast "n->mn" %s : tensor<64xf32> -> tensor<16x64xf32>
  %2 = mlc.mul %0, %1 : tensor<16x64xf32>
  func.return %2 : tensor<16x64xf32>
}

// A loop reads the same weights in every trip: scaled, they are made once.
// CHECK-LABEL: @in_a_loop
// CHECK:         mlc.for
// CHECK:           mlc.mul %w
// CHECK-NEXT:      mlc.contract "mk,kn->mn" %{{.*}}, %{{.*}}
// CHECK-NEXT:      mlc.yield
func.func @in_a_loop(%x: tensor<512x64xf32>, %w: tensor<64x64xf32>, %s: tensor<64xf32>) -> tensor<512x64xf32> {
  %n = mlc.constant dense<9> : tensor<i64>
  %y = mlc.for %i to %n iter(%h = %x) -> (tensor<512x64xf32>) {
    %0 = mlc.contract "mk,kn->mn" %h, %w : tensor<512x64xf32>, tensor<64x64xf32> -> tensor<512x64xf32>
    %1 = mlc.broadcast "n->mn" %s : tensor<64xf32> -> tensor<512x64xf32>
    %2 = mlc.mul %0, %1 : tensor<512x64xf32>
    mlc.yield %2 : tensor<512x64xf32>
  }
  func.return %y : tensor<512x64xf32>
}

// Somebody reads the product before it is scaled.
// CHECK-LABEL: @read_twice
// CHECK:         %[[Y:.*]] = mlc.contract "mk,kn->mn" %x, %w
// CHECK:         mlc.mul %[[Y]]
func.func @read_twice(%x: tensor<4096x64xf32>, %w: tensor<64x64xf32>, %s: tensor<64xf32>) -> (tensor<4096x64xf32>, tensor<4096x64xf32>) {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32>
  %1 = mlc.broadcast "n->mn" %s : tensor<64xf32> -> tensor<4096x64xf32>
  %2 = mlc.mul %0, %1 : tensor<4096x64xf32>
  func.return %0, %2 : tensor<4096x64xf32>, tensor<4096x64xf32>
}
