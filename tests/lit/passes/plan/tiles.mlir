// Tile loops: tiles are views of buffers, phases are kernels; what these hand to one another lies in
// slots of which each thread has a set, as large as the largest tile; results are written in place.
// RUN: mlc opt %s -p form-kernels,plan-buffers | filecheck %s

// CHECK-LABEL: @rows
// CHECK-SAME:    mlc.arena = {}, mlc.private = {"0" = #mlc.dims<64>}
// CHECK:         mlc.tiles
// CHECK-NEXT:      %[[T:[a-z]+]] = mlc.tile %x[%i] at (0)
// CHECK-NEXT:      %[[SUMS:[0-9]+]] = mlc.kernel "row" (%{{.+}} = %[[T]])
// CHECK:           buffers = [#mlc.buffer<private 0>]
// CHECK-NEXT:      %[[QUOTIENTS:[0-9]+]] = mlc.kernel "cell" (%{{.+}} = %[[T]], %{{.+}} = %[[SUMS]])
// CHECK:           buffers = [#mlc.buffer<tile 0>]
// CHECK-NEXT:      mlc.yield %[[QUOTIENTS]]
// CHECK-NEXT:    } attributes {buffers = [#mlc.buffer<out 0>]}
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

// What is folded has a state in each thread, and is a result of its own; a tile that is handed out as
// it came is copied.
// CHECK-LABEL: @folded
// CHECK-SAME:    mlc.private = {"0" = #mlc.dims<24>}
// CHECK:         over = [0 : i64], buffers = [#mlc.buffer<private 0>]
// CHECK:         mlc.kernel "copy"
// CHECK:         buffers = [#mlc.buffer<tile 0>]
// CHECK:         } attributes {buffers = [#mlc.buffer<out 1>, #mlc.buffer<out 0>, #mlc.buffer<private 0>]}
func.func @folded(%x: tensor<40x6xf32>, %start: tensor<6xf32>) -> (tensor<6xf32>, tensor<40x6xf32>) attributes {mlc.symbols = []} {
  %same, %y = mlc.tiles (%i in 40 step 8) iter(%c = %start) fold("sum") -> (tensor<40x6xf32> at (0), tensor<6xf32>) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x6xf32> -> tensor<8x6xf32>
    %s = mlc.reduce "sum" "ij->j" %t : tensor<8x6xf32> -> tensor<6xf32>
    %n = mlc.add %c, %s : tensor<6xf32>
    mlc.yield %t, %n : tensor<8x6xf32>, tensor<6xf32>
  }
  func.return %y, %same : tensor<6xf32>, tensor<40x6xf32>
}

// Trips that wait for one another run one after another: what they carry lies in one place, the result.
// CHECK-LABEL: @carried
// CHECK-SAME:    mlc.arena = {}}
// CHECK:         buffers = [#mlc.buffer<out 0>]
// CHECK:         mlc.tiles (%i in 40 step 8) iter(%c = %{{.+}}) -> (tensor<6xf32>) {
// CHECK:           over = [0 : i64], buffers = [#mlc.buffer<out 0>]
// CHECK:         } attributes {buffers = []}
func.func @carried(%x: tensor<40x6xf32>, %u: tensor<6xf32>) -> tensor<6xf32> attributes {mlc.symbols = []} {
  %start = mlc.exp %u : tensor<6xf32>
  %y = mlc.tiles (%i in 40 step 8) iter(%c = %start) -> (tensor<6xf32>) {
    %t = mlc.tile %x[%i] at (0) : tensor<40x6xf32> -> tensor<8x6xf32>
    %s = mlc.reduce "sum" "ij->j" %t : tensor<8x6xf32> -> tensor<6xf32>
    %n = mlc.sub %s, %c : tensor<6xf32>
    mlc.yield %n : tensor<6xf32>
  }
  func.return %y : tensor<6xf32>
}
