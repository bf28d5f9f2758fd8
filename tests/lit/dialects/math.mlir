// The ops of mlc_math that stand for instructions print what they read.
// RUN: mlc opt %s | mlc opt | filecheck %s

// CHECK-LABEL: func.func @instructions
func.func @instructions(%x: vector<8xf64>, %i: vector<8xi64>) {
  // CHECK: mlc_math.scale %x, %x : vector<8xf64>
  %scaled = mlc_math.scale %x, %x : vector<8xf64>
  // CHECK: mlc_math.exponent %x : vector<8xf64>
  %k = mlc_math.exponent %x : vector<8xf64>
  // CHECK: mlc_math.significand %x : vector<8xf64>
  %m = mlc_math.significand %x : vector<8xf64>
  // CHECK: mlc_math.reciprocal_estimate %x : vector<8xf64>
  %r = mlc_math.reciprocal_estimate %x : vector<8xf64>
  // CHECK: mlc_math.root_estimate %x : vector<8xf64>
  %q = mlc_math.root_estimate %x : vector<8xf64>
  // CHECK: mlc_math.lookup %i [0.{{.*}}, 1.500000e+01] : vector<8xi64> to vector<8xf64>
  %t = mlc_math.lookup %i [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0] : vector<8xi64> to vector<8xf64>
  func.return
}
