// Functions without an instruction become polynomials; the others stay.
// RUN: mlc opt %s -p mlc-expand-math | filecheck %s

// Constants stand in front of the function; e^x is scaled twice, so that it may underflow gradually.
// CHECK-LABEL: func.func @vector
// CHECK-NOT:     math.exp
// CHECK:         math.fma {{.*}} : vector<16xf32>
// CHECK:         arith.shli {{.*}} : vector<16xi32>
// CHECK:         %[[SCALE:.*]] = arith.bitcast %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK:         %[[ONCE:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
// CHECK-NEXT:    %[[TWICE:.*]] = arith.mulf %[[ONCE]], %[[SCALE]]
// CHECK-NEXT:    func.return %[[TWICE]]
func.func @vector(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  func.return %y : vector<16xf32>
}

// Half-width floats are computed in f32.
// CHECK-LABEL: func.func @half
// CHECK:         %[[WIDE:.*]] = arith.extf %x : bf16 to f32
// CHECK:         %[[R:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT:    func.return %[[R]]
func.func @half(%x: bf16) -> bf16 {
  %y = math.log %x : bf16
  func.return %y : bf16
}

// CHECK-LABEL: func.func @instruction
// CHECK-NEXT:    %[[R:.*]] = math.sqrt %x
// CHECK-NEXT:    func.return %[[R]]
func.func @instruction(%x: f64) -> f64 {
  %y = math.sqrt %x : f64
  func.return %y : f64
}

// Powers of integers take as many steps as the largest exponent of the lanes has bits.
// CHECK-LABEL: func.func @power
// CHECK:         %[[P:[^ ]*]], %{{.*}} = scf.while (%{{.*}} = %{{.*}}, %{{.*}} = %x, %[[Y:.*]] = %y) :
// CHECK-NEXT:      %[[LEFT:.*]] = mlc_vec.cmpi ne, %[[Y]]
// CHECK-NEXT:      vector.reduction <or>, %[[LEFT]]
// CHECK:           arith.muli %{{.*}} : vector<8xi64>
// CHECK:           arith.shrui %{{.*}} : vector<8xi64>
// CHECK:         func.return %[[P]]
func.func @power(%x: vector<8xi64>, %y: vector<8xi64>) -> vector<8xi64> {
  %z = mlc_math.ipow %x, %y : vector<8xi64>
  func.return %z : vector<8xi64>
}
