// A convolution that copies strips pads them, too; nobody stores the padded tensor.
// RUN: mlc opt %s --target=avx512 -p pad-strips --split-input-file | filecheck %s

// CHECK-LABEL: @padded
// CHECK-NEXT:  %[[R:.*]] = mlc.kernel "window" (%[[A:.*]] = %x, %[[B:.*]] = %w)
// CHECK-NEXT:    %[[ZERO:.*]] = mlc.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[PADDED:.*]] = mlc.pad %[[A]], %[[ZERO]][<0, 0, 1, 1>, <0, 0, 1, 1>]
// CHECK-NEXT:    %[[SUMS:.*]] = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %[[PADDED]], %[[B]]
// CHECK-NEXT:    mlc.yield %[[SUMS]]
// CHECK:       func.return %[[R]]
func.func @padded(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32> {
  %p = mlc.kernel "copy" (%a = %x) : (tensor<8x64x56x56xf32>) -> (tensor<8x64x58x58xf32>) {
    %z = mlc.constant dense<0.000000e+00> : tensor<f32>
    %q = mlc.pad %a, %z[<0, 0, 1, 1>, <0, 0, 1, 1>] : tensor<8x64x56x56xf32>, tensor<f32> -> tensor<8x64x58x58xf32>
    mlc.yield %q : tensor<8x64x58x58xf32>
  }
  %y = mlc.kernel "window" (%a = %w, %b = %p) : (tensor<64x64x3x3xf32>, tensor<8x64x58x58xf32>) -> (tensor<8x64x56x56xf32>) {
    %s = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %b, %a : tensor<8x64x58x58xf32>, tensor<64x64x3x3xf32> -> tensor<8x64x56x56xf32>
    mlc.yield %s : tensor<8x64x56x56xf32>
  }
  func.return %y : tensor<8x64x56x56xf32>
}

// -----

// Another reader of the padded tensor wants it stored.
// CHECK-LABEL: @read_twice
// CHECK:       mlc.kernel "copy"
// CHECK:       mlc.kernel "window"
func.func @read_twice(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> (tensor<8x64x56x56xf32>, tensor<8x64x58x58xf32>) {
  %p = mlc.kernel "copy" (%a = %x) : (tensor<8x64x56x56xf32>) -> (tensor<8x64x58x58xf32>) {
    %z = mlc.constant dense<0.000000e+00> : tensor<f32>
    %q = mlc.pad %a, %z[<0, 0, 1, 1>, <0, 0, 1, 1>] : tensor<8x64x56x56xf32>, tensor<f32> -> tensor<8x64x58x58xf32>
    mlc.yield %q : tensor<8x64x58x58xf32>
  }
  %y = mlc.kernel "window" (%a = %w, %b = %p) : (tensor<64x64x3x3xf32>, tensor<8x64x58x58xf32>) -> (tensor<8x64x56x56xf32>) {
    %s = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %b, %a : tensor<8x64x58x58xf32>, tensor<64x64x3x3xf32> -> tensor<8x64x56x56xf32>
    mlc.yield %s : tensor<8x64x56x56xf32>
  }
  func.return %y, %p : tensor<8x64x56x56xf32>, tensor<8x64x58x58xf32>
}

// -----

// Rows of seven positions are not cut into strips: products read the padded tensor many times.
// CHECK-LABEL: @short_rows
// CHECK:       mlc.kernel "copy"
// CHECK:       mlc.kernel "window"
func.func @short_rows(%x: tensor<4x512x7x7xf32>, %w: tensor<512x512x3x3xf32>) -> tensor<4x512x7x7xf32> {
  %p = mlc.kernel "copy" (%a = %x) : (tensor<4x512x7x7xf32>) -> (tensor<4x512x9x9xf32>) {
    %z = mlc.constant dense<0.000000e+00> : tensor<f32>
    %q = mlc.pad %a, %z[<0, 0, 1, 1>, <0, 0, 1, 1>] : tensor<4x512x7x7xf32>, tensor<f32> -> tensor<4x512x9x9xf32>
    mlc.yield %q : tensor<4x512x9x9xf32>
  }
  %y = mlc.kernel "window" (%a = %w, %b = %p) : (tensor<512x512x3x3xf32>, tensor<4x512x9x9xf32>) -> (tensor<4x512x7x7xf32>) {
    %s = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %b, %a : tensor<4x512x9x9xf32>, tensor<512x512x3x3xf32> -> tensor<4x512x7x7xf32>
    mlc.yield %s : tensor<4x512x7x7xf32>
  }
  func.return %y : tensor<4x512x7x7xf32>
}
