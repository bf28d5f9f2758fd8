// Positions from memory: made positive, compared with the extent, and only then used.
// RUN: mlc opt %s --target=avx2 -p plan-to-loops | filecheck %s

// CHECK:       mlc.sites = [{kind = "index", op = "mlc.gather"
// CHECK-LABEL: func.func @gather_
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0> : vector<4xi64>
// CHECK-DAG:     %[[EXTENT:.*]] = arith.constant dense<50> : vector<4xi64>
// CHECK:         %[[FOUND:.*]] = vector.load %i
// CHECK:         %[[NEGATIVE:.*]] = mlc_vec.cmpi slt, %[[FOUND]], %[[ZERO]]
// CHECK:         %[[FROM_END:.*]] = arith.addi %[[FOUND]], %[[EXTENT]]
// CHECK:         %[[AT:.*]] = mlc_vec.select %[[NEGATIVE]], %[[FROM_END]], %[[FOUND]]
// CHECK:         %[[LOW:.*]] = mlc_vec.cmpi sge, %[[AT]], %[[ZERO]]
// CHECK:         %[[HIGH:.*]] = mlc_vec.cmpi slt, %[[AT]], %[[EXTENT]]
// CHECK:         %[[INSIDE:.*]] = arith.andi %[[LOW]], %[[HIGH]]
// CHECK:         scf.if
// CHECK:           mlc_par.fail %{{.*}} site 1
// CHECK:         mlc_vec.gather %t[{{.*}}] at %{{.*}}, %[[INSIDE]],
func.func @elements(%t: tensor<50xf32>, %i: tensor<8xi64>) -> tensor<8xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "gather" (%1 = %t, %2 = %i) : (tensor<50xf32>, tensor<8xi64>) -> (tensor<8xf32>) {
    %3 = mlc.gather "0,b->b" %1[%2] : tensor<50xf32>, tensor<8xi64> -> tensor<8xf32>
    mlc.yield %3 : tensor<8xf32>
  } {schedule = #mlc.schedule<[vector(4, axis 0), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8xf32>
}
