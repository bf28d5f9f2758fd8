// What `mlc opt` reads, it prints, and what it prints it reads.
// RUN: mlc opt %s | mlc opt | filecheck %s

// CHECK-LABEL: func.func @twice
// CHECK-SAME:  (%[[X:.*]]: f32) -> f32
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[X]], %[[X]] : f32
// CHECK-NEXT:    func.return %[[SUM]] : f32
func.func @twice(%x: f32) -> f32 {
  %sum = arith.addf %x, %x : f32
  func.return %sum : f32
}
