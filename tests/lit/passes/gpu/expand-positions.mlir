// Where scans and searches have templates, the position of the j-th true element is where the running
// count passes j.
// RUN: mlc opt %s -p expand-positions | filecheck %s

// CHECK-LABEL: @positions
// CHECK:         %[[ONES:.*]] = mlc.convert %mask
// CHECK:         %[[COUNTS:.*]] = mlc.scan "sum" "forward" "inclusive" 0 %[[ONES]]
// CHECK:         %[[J:.*]] = mlc.iota 0 : tensor<3xi64>
// CHECK:         %[[P:.*]] = mlc.searchsorted "right" %[[COUNTS]][%[[J]]]
// CHECK-NEXT:    func.return %[[P]]
func.func @positions(%mask: tensor<9xi1>) -> tensor<3xi64> {
  %0 = mlc.positions %mask : tensor<9xi1> -> tensor<3xi64>
  func.return %0 : tensor<3xi64>
}
