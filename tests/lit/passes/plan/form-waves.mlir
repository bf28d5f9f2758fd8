// Trips of a loop whose kernels read rows near the one that they write run in waves.
// RUN: mlc opt %s -p mlc-form-waves | filecheck %s

// Eight rows of two arrays are a block, 64 KB. Four trips have nine of these at a time in half of a cache
// of 1.25 MB.
// CHECK-LABEL: @by_turns
// CHECK:         grain(8192)
// CHECK:         grain(8192)
// CHECK:         } attributes {mlc.waves = #mlc.waves<125 blocks, 4 trips>}
builtin.module attributes {mlc.target = #mlc.target<"avx512">} {
  func.func @by_turns(%a: tensor<1000x1024xf32>, %b: tensor<1000x1024xf32>) -> tensor<1000x1024xf32> attributes {mlc.arena = {"0" = #mlc.dims<4096000>, "1" = #mlc.dims<4096000>}, mlc.team} {
    %0 = mlc.constant dense<40> : tensor<i64>
    %1, %2 = mlc.for %i to %0 iter(%3 = %a, %4 = %b) -> (tensor<1000x1024xf32>, tensor<1000x1024xf32>) {
      %5 = mlc.kernel "copy" (%6 = %3, %7 = %4) : (tensor<1000x1024xf32>, tensor<1000x1024xf32>) -> (tensor<1000x1024xf32>) {
        %8 = mlc.slice %7[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %9 = mlc.slice %6[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<998x1024xf32>
        %10 = mlc.slice %6[<2, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<998x1024xf32>
        %11 = mlc.add %9, %10 : tensor<998x1024xf32>
        %12 = mlc.slice %7[<999, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %13 = mlc.concat 0 %8, %11, %12 : tensor<1x1024xf32>, tensor<998x1024xf32>, tensor<1x1024xf32> -> tensor<1000x1024xf32>
        mlc.yield %13 : tensor<1000x1024xf32>
      } {schedule = #mlc.schedule<[vector(16), grain(34666)]>, over = [1 : i64], buffers = [#mlc.buffer<arena 1>], mlc.wait}
      %6 = mlc.kernel "copy" (%7 = %3, %8 = %5) : (tensor<1000x1024xf32>, tensor<1000x1024xf32>) -> (tensor<1000x1024xf32>) {
        %9 = mlc.slice %7[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %10 = mlc.slice %8[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<998x1024xf32>
        %11 = mlc.slice %8[<2, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<998x1024xf32>
        %12 = mlc.add %10, %11 : tensor<998x1024xf32>
        %13 = mlc.slice %7[<999, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %14 = mlc.concat 0 %9, %12, %13 : tensor<1x1024xf32>, tensor<998x1024xf32>, tensor<1x1024xf32> -> tensor<1000x1024xf32>
        mlc.yield %14 : tensor<1000x1024xf32>
      } {schedule = #mlc.schedule<[vector(16), grain(34666)]>, over = [0 : i64], buffers = [#mlc.buffer<arena 0>], mlc.wait}
      mlc.yield %6, %5 : tensor<1000x1024xf32>, tensor<1000x1024xf32>
    }
    func.return %1 : tensor<1000x1024xf32>
  }

  // A row of the frame comes from the other array: each trip writes it again.
  // CHECK-LABEL: @moved_frame
  // CHECK-NOT:     mlc.waves
  func.func @moved_frame(%a: tensor<1000x1024xf32>, %b: tensor<1000x1024xf32>) -> tensor<1000x1024xf32> attributes {mlc.arena = {"0" = #mlc.dims<4096000>, "1" = #mlc.dims<4096000>}, mlc.team} {
    %0 = mlc.constant dense<40> : tensor<i64>
    %1, %2 = mlc.for %i to %0 iter(%3 = %a, %4 = %b) -> (tensor<1000x1024xf32>, tensor<1000x1024xf32>) {
      %5 = mlc.kernel "copy" (%6 = %3, %7 = %4) : (tensor<1000x1024xf32>, tensor<1000x1024xf32>) -> (tensor<1000x1024xf32>) {
        %8 = mlc.slice %7[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %9 = mlc.slice %6[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<998x1024xf32>
        %10 = mlc.slice %6[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %11 = mlc.concat 0 %8, %9, %10 : tensor<1x1024xf32>, tensor<998x1024xf32>, tensor<1x1024xf32> -> tensor<1000x1024xf32>
        mlc.yield %11 : tensor<1000x1024xf32>
      } {schedule = #mlc.schedule<[vector(16), grain(34666)]>, over = [1 : i64], buffers = [#mlc.buffer<arena 1>], mlc.wait}
      %6 = mlc.kernel "copy" (%7 = %3, %8 = %5) : (tensor<1000x1024xf32>, tensor<1000x1024xf32>) -> (tensor<1000x1024xf32>) {
        %9 = mlc.slice %7[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<1x1024xf32>
        %10 = mlc.slice %8[<0, 0>, <1, 1>] : tensor<1000x1024xf32> -> tensor<999x1024xf32>
        %11 = mlc.concat 0 %9, %10 : tensor<1x1024xf32>, tensor<999x1024xf32> -> tensor<1000x1024xf32>
        mlc.yield %11 : tensor<1000x1024xf32>
      } {schedule = #mlc.schedule<[vector(16), grain(34666)]>, over = [0 : i64], buffers = [#mlc.buffer<arena 0>], mlc.wait}
      mlc.yield %6, %5 : tensor<1000x1024xf32>, tensor<1000x1024xf32>
    }
    func.return %1 : tensor<1000x1024xf32>
  }
}
