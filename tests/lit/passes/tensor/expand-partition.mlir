// Where only sorts have a template, a partition is a stable sort of groups: before the element of
// the rank, equal to it, behind it.
// RUN: mlc opt %s --target=h200 -p expand-partition | filecheck %s
// RUN: mlc opt %s --target=avx512 -p expand-partition | filecheck %s --check-prefix=CPU

// CHECK-LABEL: @positions
// CHECK:         %[[S:.*]] = mlc.sort "ascending" %x
// CHECK:         mlc.slice %[[S]][<0, 4>, <1, 1>]
// CHECK:         %[[P:.*]] = mlc.argsort "ascending"
// CHECK-NEXT:    func.return %[[P]]
// CPU-LABEL:   @positions
// CPU-NEXT:      mlc.argpartition
func.func @positions(%x: tensor<3x9xi32>) -> tensor<3x9xi64> {
  %0 = mlc.argpartition "ascending" 4 : i64 "all" %x : tensor<3x9xi32> -> tensor<3x9xi64>
  func.return %0 : tensor<3x9xi64>
}

// The elements are gathered; NaN is the largest value.
// CHECK-LABEL: @largest
// CHECK:         mlc.compare "ne"
// CHECK:         mlc.argsort
// CHECK:         mlc.slice %{{.*}} : tensor<9xi64> -> tensor<3xi64>
// CHECK-NEXT:    mlc.gather
func.func @largest(%x: tensor<9xf32>) -> tensor<3xf32> {
  %0 = mlc.partition "descending" 2 : i64 "first" %x : tensor<9xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
