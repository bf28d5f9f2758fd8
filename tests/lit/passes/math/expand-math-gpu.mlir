// A GPU estimates 2^x and 1 / x in one instruction; f64 has polynomials only.
// RUN: mlc opt %s -p mlc-expand-math | filecheck %s

// What the bounded exponent leaves of x goes into the estimate: overflow and underflow included.
// CHECK-LABEL: func.func @exp
// CHECK:         %[[SHARE:.*]] = math.fma %x
// CHECK:         %[[BOUNDED:.*]] = mlc_math.saturate %[[SHARE]] : vector<4xf32>
// CHECK:         mlc_math.exp2_estimate {{.*}} : vector<4xf32>
// CHECK-NOT:     math.fma
// CHECK:         func.return
builtin.module attributes {mlc.target = #mlc.target<"cuda:sm_90a">} {
  func.func @exp(%x: vector<4xf32>) -> vector<4xf32> {
    %y = math.exp %x : vector<4xf32>
    func.return %y : vector<4xf32>
  }

  // CHECK-LABEL: func.func @tanh
  // CHECK:         %[[POWER:.*]] = mlc_math.exp2_estimate
  // CHECK:         %[[MORE:.*]] = arith.addf %[[POWER]]
  // CHECK:         mlc_math.reciprocal_estimate %[[MORE]]
  // CHECK-NOT:     arith.divf
  // CHECK:         func.return
  func.func @tanh(%x: vector<4xf32>) -> vector<4xf32> {
    %y = math.tanh %x : vector<4xf32>
    func.return %y : vector<4xf32>
  }

  // CHECK-LABEL: func.func @wide
  // CHECK-NOT:     estimate
  // CHECK:         func.return
  func.func @wide(%x: vector<2xf64>) -> vector<2xf64> {
    %y = math.exp %x : vector<2xf64>
    func.return %y : vector<2xf64>
  }
}
