// Rules by xDSL's greedy driver, and as PDL patterns where PDL can say them: the same results.
// RUN: mlc opt %s -p apply-rules,dce | filecheck %s
// RUN: mlc rules pdl > %t.mlir
// RUN: xdsl-opt %s -p 'apply-pdl{pdl_file="%t.mlir"},mlc-dce' | filecheck %s
// RUN: mlc rules pdl | filecheck %s --check-prefix=PDL

// CHECK-LABEL: @difference
// CHECK-NEXT:    %0 = mlc.sub %x, %y : tensor<4xf32>
// CHECK-NEXT:    func.return %0
func.func @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.neg %y : tensor<4xf32>
  %1 = mlc.neg %0 : tensor<4xf32>
  %2 = mlc.neg %1 : tensor<4xf32>
  %3 = mlc.add %x, %2 : tensor<4xf32>
  %4 = mlc.max %3, %3 : tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// PDL:         // add_zero is no pattern: a constant
// PDL:         pdl.pattern @add_negated : benefit(1) {
// PDL-NEXT:      %T0 = pdl.type
