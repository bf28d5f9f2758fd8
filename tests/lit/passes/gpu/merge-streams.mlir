// Streams over the same rows and columns are one kernel, which has their products once: sums of rows
// beside what they are divided by, and both products with what a gradient computes again. Another
// walk of the same values stays apart.
// RUN: mlc opt %s --target=cuda:h200 -p form-streams,choose-fusion,form-kernels,merge-streams,schedule | filecheck %s

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[LOG:.+]], %[[O:.+]] = mlc.kernel "stream" ({{.*}}) : ({{.*}}) -> (tensor<256xf32>, tensor<256x64xbf16>) {
// CHECK:           mlc.stream(
// CHECK:           mlc.stream(
// CHECK:         } {schedule = #mlc.schedule<[tile(m 128, n 128, k 64)
// CHECK:         %[[D:.+]], %[[E:.+]] = mlc.kernel "stream" ({{.*}}) : ({{.*}}) -> (tensor<256x64xbf16>, tensor<256x64xbf16>) {
// CHECK:         } {schedule = #mlc.schedule<[tile(m 128, n 64, k 64), stages(4), roles(producer 1, consumer 2
// CHECK:         %[[F:.+]] = mlc.kernel "stream" ({{.*}}) : ({{.*}}) -> (tensor<256x64xbf16>) {
// CHECK:         } {schedule = #mlc.schedule<[tile(m 192, n 64, k 64), stages(4), roles(producer 1, consumer 3
// CHECK-NOT:     mlc.kernel
func.func @gradient(%q: tensor<256x64xbf16>, %k: tensor<256x64xbf16>, %v: tensor<256x64xbf16>, %g: tensor<256x64xbf16>) -> (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>) {
  %s = mlc.contract "md,nd->mn" %q, %k : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
  %m = mlc.reduce "max" "mn->m" %s : tensor<256x256xbf16> -> tensor<256xbf16>
  %w = mlc.broadcast "m->mn" %m : tensor<256xbf16> -> tensor<256x256xbf16>
  %x = mlc.sub %s, %w : tensor<256x256xbf16>
  %e = mlc.exp %x : tensor<256x256xbf16>
  %l = mlc.reduce "sum" "mn->m" %e : tensor<256x256xbf16> -> tensor<256xbf16>
  %b = mlc.broadcast "m->mn" %l : tensor<256xbf16> -> tensor<256x256xbf16>
  %p = mlc.div %e, %b : tensor<256x256xbf16>
  %o = mlc.contract "mn,nd->md" %p, %v : tensor<256x256xbf16>, tensor<256x64xbf16> -> tensor<256x64xbf16>
  %d = mlc.contract "mn,md->nd" %p, %g : tensor<256x256xbf16>, tensor<256x64xbf16> -> tensor<256x64xbf16>
  %h = mlc.add %p, %s : tensor<256x256xbf16>
  %r = mlc.mul %p, %h : tensor<256x256xbf16>
  %f = mlc.contract "mn,md->nd" %r, %q : tensor<256x256xbf16>, tensor<256x64xbf16> -> tensor<256x64xbf16>
  %c = mlc.contract "mn,nd->md" %r, %k : tensor<256x256xbf16>, tensor<256x64xbf16> -> tensor<256x64xbf16>
  func.return %o, %d, %f, %c : tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>
}
