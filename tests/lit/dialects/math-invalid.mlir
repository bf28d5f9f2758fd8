// What the verifier of mlc_math.lookup says.
// RUN: mlc opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mlc_math.lookup: 2 entries, expected 16 or 32 of f64
func.func @entries(%i: vector<8xi64>) {
  %t = mlc_math.lookup %i [0.0, 1.0] : vector<8xi64> to vector<8xf64>
  func.return
}

// -----

// CHECK: mlc_math.lookup: index vector<8xi32>, expected vector<8xi64> for vector<8xf64>
func.func @index(%i: vector<8xi32>) {
  %t = mlc_math.lookup %i [0.0, 1.0] : vector<8xi32> to vector<8xf64>
  func.return
}
