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

// -----

// Each takes the other's sum at its own point, behind its walk: one kernel. What one wrote for both, and now the one alone
// reads, is computed there.
// CHECK-LABEL: @behind
// CHECK:      %s, %t = mlc.kernel "row" (%{{.*}} = %x, %{{.*}} = %y)
// CHECK-NEXT:   %[[D:.*]] = mlc.sub
// CHECK-NEXT:   %[[S:.*]] = mlc.reduce "sum" "ab->a" %[[D]]
// CHECK-NEXT:   %[[Q:.*]] = mlc.mul %[[D]], %[[D]]
// CHECK-NEXT:   %[[T:.*]] = mlc.reduce "sum" "ab->a" %[[Q]]
// CHECK-NEXT:   %[[R:.*]] = mlc.div %[[T]], %[[S]]
// CHECK-NEXT:   mlc.yield %[[S]], %[[R]]
// CHECK-NOT:  mlc.kernel
func.func @behind(%x: tensor<90x900xf32>, %y: tensor<90x900xf32>) -> (tensor<90xf32>, tensor<90xf32>) {
  %d = mlc.kernel "cell" (%a = %x, %b = %y) : (tensor<90x900xf32>, tensor<90x900xf32>) -> (tensor<90x900xf32>) {
    %1 = mlc.sub %a, %b : tensor<90x900xf32>
    mlc.yield %1 : tensor<90x900xf32>
  }
  %s = mlc.kernel "row" (%a = %d) : (tensor<90x900xf32>) -> (tensor<90xf32>) {
    %1 = mlc.reduce "sum" "ab->a" %a : tensor<90x900xf32> -> tensor<90xf32>
    mlc.yield %1 : tensor<90xf32>
  }
  %t = mlc.kernel "row" (%a = %d, %b = %s) : (tensor<90x900xf32>, tensor<90xf32>) -> (tensor<90xf32>) {
    %1 = mlc.mul %a, %a : tensor<90x900xf32>
    %2 = mlc.reduce "sum" "ab->a" %1 : tensor<90x900xf32> -> tensor<90xf32>
    %3 = mlc.div %2, %b : tensor<90xf32>
    mlc.yield %3 : tensor<90xf32>
  }
  func.return %s, %t : tensor<90xf32>, tensor<90xf32>
}

// -----

// What another reads too, or what is read at other points, is stored.
// CHECK-LABEL: @stored
// CHECK:      %d = mlc.kernel "cell"
// CHECK:      %{{.*}}, %{{.*}} = mlc.kernel "row"
// CHECK-NOT:  mlc.kernel
func.func @stored(%x: tensor<90x900xf32>) -> (tensor<90x900xf32>, tensor<90xf32>, tensor<90xf32>) {
  %d = mlc.kernel "cell" (%a = %x) : (tensor<90x900xf32>) -> (tensor<90x900xf32>) {
    %1 = mlc.exp %a : tensor<90x900xf32>
    mlc.yield %1 : tensor<90x900xf32>
  }
  %s = mlc.kernel "row" (%a = %d) : (tensor<90x900xf32>) -> (tensor<90xf32>) {
    %1 = mlc.reduce "sum" "ab->a" %a : tensor<90x900xf32> -> tensor<90xf32>
    mlc.yield %1 : tensor<90xf32>
  }
  %t = mlc.kernel "row" (%a = %d) : (tensor<90x900xf32>) -> (tensor<90xf32>) {
    %1 = mlc.reduce "max" "ab->a" %a : tensor<90x900xf32> -> tensor<90xf32>
    mlc.yield %1 : tensor<90xf32>
  }
  func.return %d, %s, %t : tensor<90x900xf32>, tensor<90xf32>, tensor<90xf32>
}
