// Reductions to a single number.
// RUN: mlc opt %s --split-input-file --target=avx2 -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

// Blocks whose size depends on N alone, so that every number of threads gives the same bits; each
// writes its sum, and one thread adds them in order.
// CHECK-LABEL: func.func @magg_
// CHECK:         %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<64xf64>
// CHECK:         mlc_par.region
// CHECK:           scf.for %[[BLOCK:.*]] =
// CHECK:             %[[SUM:.*]] = arith.addf {{.*}} : f64
// CHECK-NEXT:        memref.store %[[SUM]], %[[SUMS]][%[[BLOCK]]]
// CHECK:           mlc_par.yield
// CHECK:         %[[TOTAL:.*]] = scf.for %[[BLOCK:.*]] = {{.*}} iter_args
// CHECK-NEXT:      memref.load %[[SUMS]][%[[BLOCK]]]
// CHECK:         memref.store %[[TOTAL]], %{{.*}}[]
func.func @sum(%x: tensor<?xf64, #mlc.dims<"N">>) -> tensor<f64> {
  %0 = mlc.reduce "sum" "n->" %x : tensor<?xf64, #mlc.dims<"N">> -> tensor<f64>
  func.return %0 : tensor<f64>
}

// -----

// Few elements: no blocks and no threads. The state is a value and its position: of equal values
// the first wins, and a NaN wins over numbers.
// CHECK-LABEL: func.func @magg_
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant dense<0xff800000> : vector<8xf32>
// CHECK-DAG:     %[[NOWHERE:.*]] = arith.constant dense<9223372036854775807> : vector<8xi64>
// CHECK-NOT:     mlc_par.region
// CHECK:         scf.for {{.*}} iter_args(%[[BEST:.*]] = %[[LOWEST]], %[[WHERE:.*]] = %[[NOWHERE]], %{{.*}} = %[[LOWEST]], %{{.*}} = %[[NOWHERE]])
// CHECK:           %[[X:.*]] = vector.load
// CHECK:           mlc_vec.cmpf ogt, %[[X]], %[[BEST]]
// CHECK:           mlc_vec.cmpf oeq, %[[BEST]], %[[X]]
// CHECK:           mlc_vec.cmpf une, %[[X]], %[[X]]
// CHECK:           mlc_vec.cmpi slt, %{{.*}}, %[[WHERE]]
// CHECK:         memref.store {{.*}} : memref<i64>
func.func @argmax(%x: tensor<40xf32>) -> tensor<i64> {
  %0 = mlc.reduce "argmax" "n->" %x : tensor<40xf32> -> tensor<i64>
  func.return %0 : tensor<i64>
}
