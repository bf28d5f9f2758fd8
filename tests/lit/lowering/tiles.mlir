// A tile loop is one parallel region: phases are called, interrupts are looked for before each tile,
// errors after the last. Each thread's memory begins behind that of the threads before it.
// RUN: mlc opt %s --target=avx2 --split-input-file -p plan-to-loops | filecheck %s

// CHECK-LABEL: func.func @row_
// CHECK-NOT:     mlc_par.region
// CHECK-LABEL: func.func @rows
// CHECK:         %[[AVAILABLE:.+]] = mlc_par.threads
// CHECK-NEXT:    %[[BYTES:.+]] = arith.muli %[[EACH:.+]], %[[AVAILABLE]]
// CHECK-NEXT:    mlc_par.reserve %{{.+}}, %[[BYTES]]
// CHECK:         mlc_par.region
// CHECK-NEXT:    ^bb0(%[[THREAD:.+]]: index, %[[THREADS:.+]]: index):
// CHECK:           %[[BASE:.+]] = arith.muli %[[THREAD]], %[[EACH]]
// CHECK:           scf.for
// CHECK-NEXT:        mlc_par.cancelled
// CHECK:             mlc_par.shift %{{.+}}, %{{.+}}[%{{.+}}] : memref<1320xf32> -> memref<?xf32>
// CHECK:             %[[SUMS:.+]] = mlc_par.arena %{{.+}}, %[[BASE]][%{{.+}}] : memref<?xf32>
// CHECK:             func.call @row_
// CHECK-NOT:         mlc_par.check
// CHECK:             func.call @cell_
// CHECK:           mlc_par.yield
// CHECK:         mlc_par.check
func.func @rows(%x: tensor<40x33xf32>) -> tensor<40x33xf32> attributes {mlc.symbols = [], mlc.arena = {}, mlc.private = {"0" = #mlc.dims<64>}} {
  %y = mlc.tiles (%i in 40 step 16 as "T") -> (tensor<40x33xf32> at (0)) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x33xf32> -> tensor<?x33xf32, #mlc.dims<"T", 33>>
    %0 = mlc.kernel "row" (%1 = %t) : (tensor<?x33xf32, #mlc.dims<"T", 33>>) -> (tensor<?xf32, #mlc.dims<"T">>) {
      %s = mlc.reduce "sum" "ij->i" %1 : tensor<?x33xf32, #mlc.dims<"T", 33>> -> tensor<?xf32, #mlc.dims<"T">>
      mlc.yield %s : tensor<?xf32, #mlc.dims<"T">>
    } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(4), grain(60000)]>, buffers = [#mlc.buffer<private 0>]}
    %1 = mlc.kernel "cell" (%2 = %t, %3 = %0) : (tensor<?x33xf32, #mlc.dims<"T", 33>>, tensor<?xf32, #mlc.dims<"T">>) -> (tensor<?x33xf32, #mlc.dims<"T", 33>>) {
      %w = mlc.broadcast "i->ij" %3 : tensor<?xf32, #mlc.dims<"T">> -> tensor<?x33xf32, #mlc.dims<"T", 33>>
      %q = mlc.div %2, %w : tensor<?x33xf32, #mlc.dims<"T", 33>>
      mlc.yield %q : tensor<?x33xf32, #mlc.dims<"T", 33>>
    } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(18181)]>, buffers = [#mlc.buffer<tile 0>]}
    mlc.yield %1 : tensor<?x33xf32, #mlc.dims<"T", 33>>
  } attributes {buffers = [#mlc.buffer<out 0>]}
  func.return %y : tensor<40x33xf32>
}

// -----

// Chunks begin with the identity and leave a state each; the caller combines these in order.
// CHECK-LABEL: func.func @folded
// CHECK:         mlc_par.region
// CHECK:           vector.maskedstore %[[STATE:.+]][%{{.+}}], %{{.+}}, %{{.+}}
// CHECK:           %[[LAST:.+]] = scf.for %{{.+}} iter_args(%{{.+}} = %[[STATE]])
// CHECK:           %[[FOUND:.+]] = vector.maskedload %[[LAST]]
// CHECK:           vector.maskedstore %{{.+}}[%{{.+}}], %{{.+}}, %[[FOUND]]
// CHECK:           mlc_par.yield
// CHECK:         scf.for
// CHECK:           arith.addf
// CHECK:         mlc_par.check
func.func @folded(%x: tensor<40x6xf32>, %start: tensor<6xf32>) -> (tensor<6xf32>, tensor<40x6xf32>) attributes {mlc.symbols = [], mlc.arena = {}, mlc.private = {"0" = #mlc.dims<24>}} {
  %same, %y = mlc.tiles (%i in 40 step 8) iter(%c = %start) fold("sum") -> (tensor<40x6xf32> at (0), tensor<6xf32>) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x6xf32> -> tensor<8x6xf32>
    %0 = mlc.kernel "row" (%1 = %c, %2 = %t) : (tensor<6xf32>, tensor<8x6xf32>) -> (tensor<6xf32>) {
      %s = mlc.reduce "sum" "ij->j" %2 : tensor<8x6xf32> -> tensor<6xf32>
      %n = mlc.add %1, %s : tensor<6xf32>
      mlc.yield %n : tensor<6xf32>
    } {schedule = #mlc.schedule<[vector(8, axis 0), unroll(8), grain(30000)]>, over = [0 : i64], buffers = [#mlc.buffer<private 0>]}
    %1 = mlc.kernel "copy" (%2 = %t) : (tensor<8x6xf32>) -> (tensor<8x6xf32>) {
      mlc.yield %2 : tensor<8x6xf32>
    } {schedule = #mlc.schedule<[vector(8, axis 1), unroll(2), grain(60000)]>, buffers = [#mlc.buffer<tile 0>]}
    mlc.yield %1, %0 : tensor<8x6xf32>, tensor<6xf32>
  } attributes {buffers = [#mlc.buffer<out 1>, #mlc.buffer<out 0>, #mlc.buffer<private 0>]}
  func.return %y, %same : tensor<6xf32>, tensor<40x6xf32>
}
