// With numerics "fast", windows of 3 x 3 are 16 products for 4 results, where many channels repay what is moved more.
// RUN: mlc opt %s --target=avx512 -p winograd --split-input-file | filecheck %s

// CHECK-LABEL: @odd
// CHECK:         mlc.pad %x
// CHECK-COUNT-16: mlc.contract "ncyx,fc->nfyx" {{.*}} -> tensor<8x256x8x7xf32>
// CHECK-NOT:     mlc.contract
// CHECK:         mlc.concat 4
// CHECK:         mlc.concat 4
// CHECK:         mlc.concat 3
// CHECK:         mlc.slice {{.*}} -> tensor<8x256x15x14xf32>
// CHECK-NOT:     mlc.conv
builtin.module attributes {mlc.numerics = "fast"} {
  func.func @odd(%x: tensor<8x256x17x16xf32>, %w: tensor<256x256x3x3xf32>) -> tensor<8x256x15x14xf32> {
    %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %w : tensor<8x256x17x16xf32>, tensor<256x256x3x3xf32> -> tensor<8x256x15x14xf32>
    func.return %0 : tensor<8x256x15x14xf32>
  }
}

// -----

// Few channels, few tiles, strides, other windows: as they are.
// CHECK-LABEL: @stays
// CHECK-COUNT-4: mlc.conv
// CHECK-NOT:     mlc.contract
builtin.module attributes {mlc.numerics = "fast"} {
  func.func @stays(%x: tensor<8x16x16x16xf32>, %w: tensor<16x16x3x3xf32>, %s: tensor<8x256x9x9xf32>, %v: tensor<256x256x3x3xf32>, %u: tensor<256x256x17x17xf32>, %t: tensor<256x256x2x3xf32>)
      -> (tensor<8x16x14x14xf32>, tensor<8x256x7x7xf32>, tensor<256x256x8x8xf32>, tensor<256x256x16x15xf32>) {
    %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %w : tensor<8x16x16x16xf32>, tensor<16x16x3x3xf32> -> tensor<8x16x14x14xf32>
    %1 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %s, %v : tensor<8x256x9x9xf32>, tensor<256x256x3x3xf32> -> tensor<8x256x7x7xf32>
    %2 = mlc.conv "nc(2y+i)(2x+j),fcij->nfyx" %u, %v : tensor<256x256x17x17xf32>, tensor<256x256x3x3xf32> -> tensor<256x256x8x8xf32>
    %3 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %u, %t : tensor<256x256x17x17xf32>, tensor<256x256x2x3xf32> -> tensor<256x256x16x15xf32>
    func.return %0, %1, %2, %3 : tensor<8x16x14x14xf32>, tensor<8x256x7x7xf32>, tensor<256x256x8x8xf32>, tensor<256x256x16x15xf32>
  }
}

// -----

// CHECK-LABEL: @standard
// CHECK:         mlc.conv
func.func @standard(%x: tensor<8x256x16x16xf32>, %w: tensor<256x256x3x3xf32>) -> tensor<8x256x14x14xf32> {
  %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %w : tensor<8x256x16x16xf32>, tensor<256x256x3x3xf32> -> tensor<8x256x14x14xf32>
  func.return %0 : tensor<8x256x14x14xf32>
}
