// Reductions of the same points that read the same memory are one kernel; equal ops of both are one. Others stay apart: of
// what another has found, of other points, of short rows, of products.
// RUN: mlc opt %s --target=avx2 -p merge-reductions --split-input-file | filecheck %s

// CHECK-LABEL: @two
// CHECK:      %s, %t = mlc.kernel "magg" (%{{.*}} = %x, %{{.*}} = %y)
// CHECK-NEXT:   %{{.*}} = mlc.mul
// CHECK-NEXT:   %[[S:.*]] = mlc.reduce "sum"
// CHECK-NEXT:   %[[T:.*]] = mlc.reduce "max"
// CHECK-NEXT:   mlc.yield %[[S]], %[[T]]
// CHECK-NOT:  mlc.kernel
func.func @two(%x: tensor<5000xf32>, %y: tensor<5000xf32>) -> (tensor<f32>, tensor<f32>) {
  %s = mlc.kernel "magg" (%a = %x, %b = %y) : (tensor<5000xf32>, tensor<5000xf32>) -> (tensor<f32>) {
    %0 = mlc.mul %a, %b : tensor<5000xf32>
    %1 = mlc.reduce "sum" "a->" %0 : tensor<5000xf32> -> tensor<f32>
    mlc.yield %1 : tensor<f32>
  }
  %t = mlc.kernel "magg" (%a = %x, %b = %y) : (tensor<5000xf32>, tensor<5000xf32>) -> (tensor<f32>) {
    %0 = mlc.mul %a, %b : tensor<5000xf32>
    %1 = mlc.reduce "max" "a->" %0 : tensor<5000xf32> -> tensor<f32>
    mlc.yield %1 : tensor<f32>
  }
  func.return %s, %t : tensor<f32>, tensor<f32>
}

// -----

// CHECK-LABEL: @one_after_the_other
// CHECK-COUNT-2: mlc.kernel "magg"
func.func @one_after_the_other(%x: tensor<5000xf32>) -> tensor<f32> {
  %s = mlc.kernel "magg" (%a = %x) : (tensor<5000xf32>) -> (tensor<f32>) {
    %1 = mlc.reduce "sum" "a->" %a : tensor<5000xf32> -> tensor<f32>
    mlc.yield %1 : tensor<f32>
  }
  %t = mlc.kernel "magg" (%a = %x, %b = %s) : (tensor<5000xf32>, tensor<f32>) -> (tensor<f32>) {
    %0 = mlc.broadcast "->a" %b : tensor<f32> -> tensor<5000xf32>
    %1 = mlc.sub %a, %0 : tensor<5000xf32>
    %2 = mlc.reduce "max" "a->" %1 : tensor<5000xf32> -> tensor<f32>
    mlc.yield %2 : tensor<f32>
  }
  func.return %t : tensor<f32>
}

// -----

// CHECK-LABEL: @short_rows
// CHECK-COUNT-2: mlc.kernel "row"
func.func @short_rows(%x: tensor<900x16xf32>) -> (tensor<900xf32>, tensor<900xf32>) {
  %s = mlc.kernel "row" (%a = %x) : (tensor<900x16xf32>) -> (tensor<900xf32>) {
    %1 = mlc.reduce "sum" "ab->a" %a : tensor<900x16xf32> -> tensor<900xf32>
    mlc.yield %1 : tensor<900xf32>
  }
  %t = mlc.kernel "row" (%a = %x) : (tensor<900x16xf32>) -> (tensor<900xf32>) {
    %1 = mlc.reduce "max" "ab->a" %a : tensor<900x16xf32> -> tensor<900xf32>
    mlc.yield %1 : tensor<900xf32>
  }
  func.return %s, %t : tensor<900xf32>, tensor<900xf32>
}

// -----

// CHECK-LABEL: @other_points
// CHECK-COUNT-2: mlc.kernel "row"
func.func @other_points(%x: tensor<900x900xf32>) -> (tensor<900xf32>, tensor<900xf32>) {
  %s = mlc.kernel "row" (%a = %x) : (tensor<900x900xf32>) -> (tensor<900xf32>) {
    %1 = mlc.reduce "sum" "ab->a" %a : tensor<900x900xf32> -> tensor<900xf32>
    mlc.yield %1 : tensor<900xf32>
  }
  %t = mlc.kernel "row" (%a = %x) : (tensor<900x900xf32>) -> (tensor<900xf32>) {
    %1 = mlc.reduce "sum" "ab->b" %a : tensor<900x900xf32> -> tensor<900xf32>
    mlc.yield %1 : tensor<900xf32>
  }
  func.return %s, %t : tensor<900xf32>, tensor<900xf32>
}
