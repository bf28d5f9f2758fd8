// Sorts: floats are integers that order as they do, sorted in scratch memory.
// RUN: mlc opt %s --split-input-file --target=avx2 -p plan-to-loops | filecheck %s

// A column of chunks on a stack: quicksort in vectors, networks at its end.
// CHECK-LABEL: func.func @sort_
// CHECK-SAME:    %{{.*}}: memref<8x1000xf32> {mlc.readonly}, %[[KEYS:[a-z]+]]: memref<8128xi32>
// CHECK:         %[[X:.*]] = vector.load %{{.*}} : memref<8x1000xf32>, vector<8xf32>
// CHECK-NEXT:    %[[BITS:.*]] = arith.bitcast %[[X]] : vector<8xf32> to vector<8xi32>
// CHECK-NEXT:    %[[SIGN:.*]] = arith.shrsi %[[BITS]]
// CHECK:         %[[NAN:.*]] = mlc_vec.cmpf une, %[[X]], %[[X]] : vector<8xf32>
// CHECK:         mlc_vec.select %[[NAN]]
// CHECK:         vector.store %{{.*}}, %[[KEYS]]
// CHECK:         scf.while
func.func @rows(%x: tensor<8x1000xf32>) -> tensor<8x1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "sort" (%1 = %x) : (tensor<8x1000xf32>) -> (tensor<8x1000xf32>) {
    %2 = mlc.sort "ascending" %1 : tensor<8x1000xf32> -> tensor<8x1000xf32>
    mlc.yield %2 : tensor<8x1000xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(1843)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<8x1000xf32>
}

// -----

// Places are sorted by counting, byte by byte, which keeps the order of equals: four counts are
// made in one walk over the keys, and a byte that all keys share moves nothing.
// CHECK-LABEL: func.func @sort_
// CHECK:         %[[COUNTS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1024xi64>
// CHECK-COUNT-4: memref.store %{{.*}}, %[[COUNTS]][%{{.*}}] : memref<1024xi64>
// CHECK:         %[[ALL:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK-NEXT:    scf.if %[[ALL]]
func.func @places(%x: tensor<1000xf32>) -> tensor<1000xi64> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "sort" (%1 = %x) : (tensor<1000xf32>) -> (tensor<1000xi64>) {
    %2 = mlc.argsort "ascending" %1 : tensor<1000xf32> -> tensor<1000xi64>
    mlc.yield %2 : tensor<1000xi64>
  } {schedule = #mlc.schedule<[vector(4), grain(1843)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xi64>
}

// -----

// A partition walks on in the one part that holds the place.
// CHECK-LABEL: func.func @sort_
// CHECK:         %[[STATE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8xi64>
// CHECK:         scf.while () : () -> () {
// CHECK-NEXT:      memref.load %[[STATE]]
func.func @parted(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {mlc.arena = {}} {
  %0 = mlc.kernel "sort" (%1 = %x) : (tensor<1000xf32>) -> (tensor<1000xf32>) {
    %2 = mlc.partition "ascending" 10 : i64 "all" %1 : tensor<1000xf32> -> tensor<1000xf32>
    mlc.yield %2 : tensor<1000xf32>
  } {schedule = #mlc.schedule<[vector(8), grain(8510)]>, buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<1000xf32>
}
