// Barriers hold back the merging of equal subexpressions; after it they go.
// RUN: mlc opt %s -p cse | filecheck %s --check-prefix=HELD
// RUN: mlc opt %s -p cse,drop-barriers | filecheck %s --check-prefix=GONE

// HELD-LABEL: @again
// HELD-COUNT-2: mlc.exp
// GONE-LABEL: @again
// GONE-NEXT:    %[[FIRST:.*]] = mlc.exp %x
// GONE-NEXT:    %[[SECOND:.*]] = mlc.exp %x
// GONE-NEXT:    mlc.mul %[[FIRST]], %[[SECOND]]
// GONE-NOT:     mlc.barrier
func.func @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.exp %x : tensor<4xf32>
  %1 = mlc.barrier %x : tensor<4xf32>
  %2 = mlc.exp %1 : tensor<4xf32>
  %3 = mlc.mul %0, %2 : tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// A barrier in a region goes too.
// GONE-LABEL: @inside
// GONE:         mlc.for
// GONE-NEXT:      %[[Y:.*]] = mlc.tanh
// GONE-NEXT:      mlc.yield %[[Y]]
func.func @inside(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %0 = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %1 = mlc.barrier %a : tensor<4xf32>
    %2 = mlc.tanh %1 : tensor<4xf32>
    mlc.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
