// A factor that thin products of a loop read in every trip is packed once, before it.
// RUN: mlc opt %s --target avx512 -p pack-before-loops | filecheck %s
// RUN: mlc opt %s --target avx2 -p pack-before-loops | filecheck %s --check-prefix AVX2
// RUN: mlc opt %s --target sm_80 -p pack-before-loops | filecheck %s --check-prefix GPU

// CHECK-LABEL: @state
// CHECK:         %[[R:.*]] = mlc.reshape %w : tensor<64x128xf32> -> tensor<64x4x32xf32>
// CHECK-NEXT:    %[[P:.*]] = mlc.transpose "abc->bac" %[[R]]
// CHECK:         mlc.for
// CHECK:           %[[C:.*]] = mlc.contract "mk,akn->man" %{{.*}}, %[[P]] {{.*}} -> tensor<16x4x32xf32>
// CHECK-NEXT:      mlc.reshape %[[C]]
// AVX2-LABEL:  @state
// AVX2:          mlc.transpose "abc->bac"
// AVX2:          mlc.for
// GPU-NOT:     mlc.transpose
func.func @state(%w: tensor<64x128xf32>, %x: tensor<16x64xf32>, %n: tensor<i64>) -> tensor<16x64xf32> {
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<16x64xf32>) {
    %1 = mlc.contract "mk,kn->mn" %h, %w : tensor<16x64xf32>, tensor<64x128xf32> -> tensor<16x128xf32>
    %2 = mlc.slice %1[<0, 0>, <1, 1>] : tensor<16x128xf32> -> tensor<16x64xf32>
    mlc.yield %2 : tensor<16x64xf32>
  }
  func.return %0 : tensor<16x64xf32>
}

// It is another one in each trip, or read in place anyway, or there are many rows, or no loop.
// CHECK-LABEL: @stays
// CHECK-NOT:     mlc.transpose
func.func @stays(%w: tensor<256x256xf32>, %v: tensor<256x64xf32>, %x: tensor<256x256xf32>, %n: tensor<i64>) -> tensor<16x256xf32> {
  %0 = mlc.for %i to %n iter(%h = %x) -> (tensor<256x256xf32>) {
    %s = mlc.slice %h[<0, 0>, <1, 1>] : tensor<256x256xf32> -> tensor<16x256xf32>
    %1 = mlc.contract "mk,kn->mn" %s, %h : tensor<16x256xf32>, tensor<256x256xf32> -> tensor<16x256xf32>
    %2 = mlc.contract "mk,kn->mn" %1, %v : tensor<16x256xf32>, tensor<256x64xf32> -> tensor<16x64xf32>
    %3 = mlc.contract "mk,kn->mn" %h, %w : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
    %4 = mlc.reduce "sum" "ab->" %2 : tensor<16x64xf32> -> tensor<f32>
    %5 = mlc.broadcast "->ab" %4 : tensor<f32> -> tensor<256x256xf32>
    %6 = mlc.add %3, %5 : tensor<256x256xf32>
    mlc.yield %6 : tensor<256x256xf32>
  }
  %s2 = mlc.slice %0[<0, 0>, <1, 1>] : tensor<256x256xf32> -> tensor<16x256xf32>
  %7 = mlc.contract "mk,kn->mn" %s2, %w : tensor<16x256xf32>, tensor<256x256xf32> -> tensor<16x256xf32>

  func.return %7 : tensor<16x256xf32>
}
