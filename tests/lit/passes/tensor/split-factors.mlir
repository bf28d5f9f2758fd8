// Tensor cores multiply f32 as three bf16, where that takes less time; the terms of a factor stand where it is made.
// RUN: mlc opt %s -p split-factors --split-input-file | filecheck %s

// CHECK-LABEL: @both
// CHECK:         %[[A:.*]] = mlc.term 0, %a : tensor<2048x4096xf32> -> tensor<2048x4096xbf16>
// CHECK-NEXT:    %[[B:.*]] = mlc.term 1, %a
// CHECK-NEXT:    %[[C:.*]] = mlc.term 2, %a
// CHECK:         %[[L:.*]] = mlc.of_terms %[[A]], %[[B]], %[[C]] : tensor<2048x4096xbf16> -> tensor<2048x4096xf32>
// CHECK-NEXT:    %[[R:.*]] = mlc.of_terms
// CHECK-NEXT:    %[[E:.*]] = mlc.contract "ab,bc->ac" %[[L]], %[[R]]
// CHECK-NEXT:    mlc.term 0, %[[E]]
// CHECK:         %[[L2:.*]] = mlc.of_terms %[[A]], %[[B]], %[[C]]
// CHECK-NEXT:    %[[R2:.*]] = mlc.of_terms
// CHECK-NEXT:    mlc.contract "ba,bc->ac" %[[L2]], %[[R2]]
// CHECK-NOT:     mlc.term
module attributes {mlc.numerics = "standard", mlc.target = #mlc.target<"cuda:h200">} {
  func.func @both(%a: tensor<2048x4096xf32>, %b: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
    %0 = mlc.contract "ab,bc->ac" %a, %b : tensor<2048x4096xf32>, tensor<4096x1024xf32> -> tensor<2048x1024xf32>
    %1 = mlc.contract "ba,bc->ac" %a, %0 : tensor<2048x4096xf32>, tensor<2048x1024xf32> -> tensor<4096x1024xf32>
    func.return %1 : tensor<4096x1024xf32>
  }
}

// -----

// A factor that no trip changes has its terms before the loop.
// CHECK-LABEL: @before_the_loop
// CHECK:         mlc.term 2, %w
// CHECK:         mlc.for
// CHECK-COUNT-3: mlc.term {{[0-2]}}, %x
// CHECK-NOT:     mlc.term
module attributes {mlc.numerics = "standard", mlc.target = #mlc.target<"cuda:h200">} {
  func.func @before_the_loop(%s: tensor<2048x2048xf32>, %w: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
    %n = mlc.constant dense<8> : tensor<i64>
    %0 = mlc.for %i to %n iter(%x = %s) -> (tensor<2048x2048xf32>) {
      %1 = mlc.contract "ab,bc->ac" %x, %w : tensor<2048x2048xf32>, tensor<2048x2048xf32> -> tensor<2048x2048xf32>
      mlc.yield %1 : tensor<2048x2048xf32>
    }
    func.return %0 : tensor<2048x2048xf32>
  }
}

// -----

// What the cores are faster at, factors of 16 bits, rows that begin where no copy may, sizes that nobody knows: as they are.
// CHECK-LABEL: @stay
// CHECK-NOT:     mlc.term
// CHECK:         func.return
module attributes {mlc.numerics = "standard", mlc.target = #mlc.target<"cuda:h200">} {
  func.func @stay(%a: tensor<256x256xf32>, %h: tensor<2048x2048xbf16>, %o: tensor<2048x2049xf32>, %p: tensor<2049x2048xf32>, %n: tensor<?x2048xf32, #mlc.dims<"N", 2048>>, %m: tensor<2048x2048xf32>)
      -> (tensor<256x256xf32>, tensor<2048x2048xf32>, tensor<2048x2048xf32>, tensor<?x2048xf32, #mlc.dims<"N", 2048>>) {
    %0 = mlc.contract "ab,bc->ac" %a, %a : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
    %1 = mlc.convert %h : tensor<2048x2048xbf16> -> tensor<2048x2048xf32>
    %2 = mlc.contract "ab,bc->ac" %1, %1 : tensor<2048x2048xf32>, tensor<2048x2048xf32> -> tensor<2048x2048xf32>
    %3 = mlc.contract "ab,bc->ac" %o, %p : tensor<2048x2049xf32>, tensor<2049x2048xf32> -> tensor<2048x2048xf32>
    %4 = mlc.contract "ab,bc->ac" %n, %m : tensor<?x2048xf32, #mlc.dims<"N", 2048>>, tensor<2048x2048xf32> -> tensor<?x2048xf32, #mlc.dims<"N", 2048>>
    func.return %0, %2, %3, %4 : tensor<256x256xf32>, tensor<2048x2048xf32>, tensor<2048x2048xf32>, tensor<?x2048xf32, #mlc.dims<"N", 2048>>
  }
}

// -----

// CHECK-LABEL: @fast
// CHECK-NOT:     mlc.term
// CHECK:         func.return
module attributes {mlc.numerics = "fast", mlc.target = #mlc.target<"cuda:h200">} {
  func.func @fast(%a: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
    %0 = mlc.contract "ab,bc->ac" %a, %a : tensor<2048x2048xf32>, tensor<2048x2048xf32> -> tensor<2048x2048xf32>
    func.return %0 : tensor<2048x2048xf32>
  }
}

// -----

// CHECK-LABEL: @other_machines
// CHECK-NOT:     mlc.term
// CHECK:         func.return
module attributes {mlc.numerics = "standard", mlc.target = #mlc.target<"cuda:sm_80">} {
  func.func @other_machines(%a: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
    %0 = mlc.contract "ab,bc->ac" %a, %a : tensor<2048x2048xf32>, tensor<2048x2048xf32> -> tensor<2048x2048xf32>
    func.return %0 : tensor<2048x2048xf32>
  }
}
