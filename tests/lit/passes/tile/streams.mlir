// The words of a stream, which say its form together. With overlap(items) the last product of an item
// is started behind the first one of the next, and what is left of the last item stands behind all.
// RUN: mlc opt %s -p plan-to-tiles | filecheck %s
// RUN: sed s/,.overlap(items)// %s | mlc opt -p plan-to-tiles | filecheck %s --check-prefix=ALONE

// CHECK:      mlc_tile.roles producer(1, regs 24) %warp {
// CHECK-NEXT:   %{{.*}}, %{{.*}} = mlc_tile.work %a in 40 step 1, %b in 512 step 128 raster 40 down after(%a_before, %b_before) {
// CHECK-NEXT:     mlc_tile.put %q
// CHECK:          mlc_tile.put %k
// CHECK:          mlc_tile.put %v
// CHECK-NEXT:     mlc_tile.copy %{{.*}}[%a_before, m, d]
// CHECK-NEXT:     mlc_tile.for %n in %b step 128 {
// CHECK:      } consumer(2, regs 240) %group {
// CHECK:        mlc_tile.work %a_1 in 40 step 1, %b_1 in 512 step 128 raster 40 down after(%a_before_1, %b_before_1) carry(
// CHECK:          mlc_tile.dot_start "mk,nk->mn"
// CHECK:          mlc_tile.dot_start "mk,kn->mn"
// CHECK:          mlc_tile.copy %out[%group, 0, m, n] -> %{{.*}}[%a_before_1, 64*%group + %b_before_1 + m, n]
// CHECK:          mlc_tile.for %n_1 in %b_1 step 128 carry(
// CHECK:        mlc_tile.dot_start "mk,kn->mn"
// CHECK:        mlc_tile.copy %out

// ALONE:      mlc_tile.work %a in 40 step 1, %b in 512 step 128 raster 40 down {
// ALONE-NOT:  before
builtin.module attributes {mlc.numerics = "standard", mlc.target = #mlc.target<"cuda:h200">} {
  func.func @causal(%q: tensor<40x512x64xbf16>, %k: tensor<40x512x64xbf16>, %v: tensor<40x512x64xbf16>) -> tensor<40x512x64xbf16> attributes {mlc.arena = {}} {
    %0 = mlc.kernel "stream" (%1 = %q, %2 = %k, %3 = %v) : (tensor<40x512x64xbf16>, tensor<40x512x64xbf16>, tensor<40x512x64xbf16>) -> (tensor<40x512x64xbf16>) {
      %4 = mlc.stream(%q_1 = %1, %k_1 = %2, %v_1 = %3) : (tensor<40x512x64xbf16>, tensor<40x512x64xbf16>, tensor<40x512x64xbf16>) -> tensor<40x512x64xbf16> {
        %5 = mlc.convert %q_1 : tensor<40x512x64xbf16> -> tensor<40x512x64xf32>
        %6 = mlc.convert %k_1 : tensor<40x512x64xbf16> -> tensor<40x512x64xf32>
        %7 = mlc.contract "abc,adc->abd" %5, %6 : tensor<40x512x64xf32>, tensor<40x512x64xf32> -> tensor<40x512x512xf32>
        %8 = mlc.constant dense<1.250000e-01> : tensor<f32>
        %9 = mlc.broadcast "->abc" %8 : tensor<f32> -> tensor<40x512x512xf32>
        %10 = mlc.mul %7, %9 : tensor<40x512x512xf32>
        %i = mlc.iota 0 : tensor<512xi64>
        %11 = mlc.broadcast "b->ab" %i : tensor<512xi64> -> tensor<512x512xi64>
        %12 = mlc.broadcast "a->ab" %i : tensor<512xi64> -> tensor<512x512xi64>
        %13 = mlc.compare "le" %11, %12 : tensor<512x512xi64> -> tensor<512x512xi1>
        %14 = mlc.constant dense<0xff800000> : tensor<f32>
        %15 = mlc.broadcast "->abc" %14 : tensor<f32> -> tensor<40x512x512xf32>
        %16 = mlc.broadcast "bc->abc" %13 : tensor<512x512xi1> -> tensor<40x512x512xi1>
        %17 = mlc.select %16, %10, %15 : tensor<40x512x512xi1>, tensor<40x512x512xf32>
        %18 = mlc.reduce "max" "abc->ab" %17 : tensor<40x512x512xf32> -> tensor<40x512xf32>
        %19 = mlc.broadcast "ab->abc" %18 : tensor<40x512xf32> -> tensor<40x512x512xf32>
        %20 = mlc.sub %17, %19 : tensor<40x512x512xf32>
        %e = mlc.exp %20 : tensor<40x512x512xf32>
        %21 = mlc.reduce "sum" "abc->ab" %e : tensor<40x512x512xf32> -> tensor<40x512xf32>
        %22 = mlc.broadcast "ab->abc" %21 : tensor<40x512xf32> -> tensor<40x512x512xf32>
        %23 = mlc.div %e, %22 : tensor<40x512x512xf32>
        %24 = mlc.convert %v_1 : tensor<40x512x64xbf16> -> tensor<40x512x64xf32>
        %25 = mlc.convert %23 : tensor<40x512x512xf32> -> tensor<40x512x512xbf16>
        %26 = mlc.convert %25 : tensor<40x512x512xbf16> -> tensor<40x512x512xf32>
        %27 = mlc.convert %v_1 : tensor<40x512x64xbf16> -> tensor<40x512x64xf32>
        %28 = mlc.contract "abc,acd->abd" %26, %27 : tensor<40x512x512xf32>, tensor<40x512x64xf32> -> tensor<40x512x64xf32>
        %29 = mlc.convert %28 : tensor<40x512x64xf32> -> tensor<40x512x64xbf16>
        mlc.yield %29 : tensor<40x512x64xbf16>
      }
      mlc.yield %4 : tensor<40x512x64xbf16>
    } {schedule = #mlc.schedule<[tile(m 128, n 128, k 64), stages(2), roles(producer 1, consumer 2, fill 24, sums 240), raster(40), overlap(items)]>, buffers = [#mlc.buffer<out 0>]}
    func.return %0 : tensor<40x512x64xbf16>
  }
}
