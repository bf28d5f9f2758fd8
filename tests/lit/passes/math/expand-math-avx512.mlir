// Where the target has instructions for exponents and looks up tables in registers, both are used.
// RUN: mlc opt %s -p mlc-expand-math | filecheck %s

// Zeros, infinities and negative numbers need no comparison.
// CHECK-LABEL: func.func @log
// CHECK:         %[[M:.*]] = mlc_math.significand %x : vector<16xf32>
// CHECK-NOT:     mlc_vec.cmpf
// CHECK:         mlc_math.lookup {{.*}} : vector<16xi32> to vector<16xf32>
// CHECK:         mlc_math.lookup {{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT:     mlc_vec.cmpf
// CHECK:         func.return
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @log(%x: vector<16xf32>) -> vector<16xf32> {
    %y = math.log %x : vector<16xf32>
    func.return %y : vector<16xf32>
  }
}
