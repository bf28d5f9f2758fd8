// When no derivative is asked for any more, a rule is its body, and stop_gradient its operand.
// RUN: mlc opt %s -p inline-rules | filecheck %s

// CHECK-LABEL: @checkpoint
// CHECK-NEXT:    %[[Y:.*]] = mlc.exp %x
// CHECK-NEXT:    %[[Z:.*]] = mlc.add %[[Y]], %x
// CHECK-NEXT:    func.return %[[Z]]
func.func @checkpoint(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.rule "checkpoint" (%x) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = mlc.exp %a : tensor<4xf32>
    mlc.yield %1 : tensor<4xf32>
  }
  %2 = mlc.stop_gradient %x : tensor<4xf32>
  %3 = mlc.add %0, %2 : tensor<4xf32>
  func.return %3 : tensor<4xf32>
}
