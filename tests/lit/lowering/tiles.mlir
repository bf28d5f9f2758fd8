// A tile loop is one parallel region: phases are called, interrupts are looked for before each tile,
// errors after the last. Each thread's memory begins behind that of the threads before it.
// RUN: mlc opt %s --target=avx2 --split-input-file -p form-kernels,schedule,plan-buffers,plan-to-loops | filecheck %s

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
func.func @rows(%x: tensor<40x33xf32>) -> tensor<40x33xf32> attributes {mlc.symbols = []} {
  %y = mlc.tiles (%i in 40 step 16 as "T") -> (tensor<40x33xf32> at (0)) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x33xf32> -> tensor<?x33xf32, #mlc.dims<"T", 33>>
    %s = mlc.reduce "sum" "ij->i" %t : tensor<?x33xf32, #mlc.dims<"T", 33>> -> tensor<?xf32, #mlc.dims<"T">>
    %w = mlc.broadcast "i->ij" %s : tensor<?xf32, #mlc.dims<"T">> -> tensor<?x33xf32, #mlc.dims<"T", 33>>
    %q = mlc.div %t, %w : tensor<?x33xf32, #mlc.dims<"T", 33>>
    mlc.yield %q : tensor<?x33xf32, #mlc.dims<"T", 33>>
  }
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
func.func @folded(%x: tensor<40x6xf32>, %start: tensor<6xf32>) -> (tensor<6xf32>, tensor<40x6xf32>) attributes {mlc.symbols = []} {
  %same, %y = mlc.tiles (%i in 40 step 8) iter(%c = %start) fold("sum") -> (tensor<40x6xf32> at (0), tensor<6xf32>) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x6xf32> -> tensor<8x6xf32>
    %s = mlc.reduce "sum" "ij->j" %t : tensor<8x6xf32> -> tensor<6xf32>
    %n = mlc.add %c, %s : tensor<6xf32>
    mlc.yield %t, %n : tensor<8x6xf32>, tensor<6xf32>
  }
  func.return %y, %same : tensor<6xf32>, tensor<40x6xf32>
}
