// Two products of bf16, the second of exponentials of what the first gives, become one op: values of
// 16 bits between them are f32, but for the weights, which are multiplied. Axes of one place stay
// outside. Factors of f32, and weights that are wanted besides, leave all as it is.
// RUN: mlc opt %s --target=cuda:h200 -p form-streams | filecheck %s

// CHECK-LABEL: func.func @attention
// CHECK-NEXT:    %{{.+}} = mlc.reshape %q : tensor<1x256x64xbf16> -> tensor<256x64xbf16>
// CHECK:         mlc.stream({{.*}}) : (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<256x64xbf16> {
// CHECK:           mlc.contract "md,nd->mn" %{{.+}}, %{{.+}} : tensor<256x64xf32>, tensor<256x64xf32> -> tensor<256x256xf32>
// CHECK:           mlc.exp %{{.+}} : tensor<256x256xf32>
// CHECK:           mlc.convert %{{.+}} : tensor<256x256xf32> -> tensor<256x256xbf16>
// CHECK:           mlc.contract "mn,nd->md"
// CHECK:         }
// CHECK-NEXT:    %o = mlc.reshape
func.func @attention(%q: tensor<1x256x64xbf16>, %k: tensor<1x256x64xbf16>, %v: tensor<1x256x64xbf16>) -> tensor<1x256x64xbf16> {
  %s = mlc.contract "bmd,bnd->bmn" %q, %k : tensor<1x256x64xbf16>, tensor<1x256x64xbf16> -> tensor<1x256x256xbf16>
  %m = mlc.reduce "max" "bmn->bm" %s : tensor<1x256x256xbf16> -> tensor<1x256xbf16>
  %w = mlc.broadcast "bm->bmn" %m : tensor<1x256xbf16> -> tensor<1x256x256xbf16>
  %x = mlc.sub %s, %w : tensor<1x256x256xbf16>
  %e = mlc.exp %x : tensor<1x256x256xbf16>
  %o = mlc.contract "bmn,bnd->bmd" %e, %v : tensor<1x256x256xbf16>, tensor<1x256x64xbf16> -> tensor<1x256x64xbf16>
  func.return %o : tensor<1x256x64xbf16>
}

// CHECK-LABEL: func.func @weights_too
// CHECK-NOT:     mlc.stream
func.func @weights_too(%q: tensor<256x64xbf16>, %k: tensor<256x64xbf16>, %v: tensor<256x64xbf16>) -> (tensor<256x64xbf16>, tensor<256x256xbf16>) {
  %s = mlc.contract "md,nd->mn" %q, %k : tensor<256x64xbf16>, tensor<256x64xbf16> -> tensor<256x256xbf16>
  %m = mlc.reduce "max" "mn->m" %s : tensor<256x256xbf16> -> tensor<256xbf16>
  %w = mlc.broadcast "m->mn" %m : tensor<256xbf16> -> tensor<256x256xbf16>
  %x = mlc.sub %s, %w : tensor<256x256xbf16>
  %e = mlc.exp %x : tensor<256x256xbf16>
  %o = mlc.contract "mn,nd->md" %e, %v : tensor<256x256xbf16>, tensor<256x64xbf16> -> tensor<256x64xbf16>
  func.return %o, %e : tensor<256x64xbf16>, tensor<256x256xbf16>
}

// Two products of the weights: the first one's stream stays as it is, the other one computes them
// again, from the sums of their rows, which are the result of a third.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[LOG:.+]] = mlc.stream(%{{.+}} = %q, %{{.+}} = %k) : (tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<256xf32> {
// CHECK:           mlc.log
// CHECK:         %o = mlc.stream({{.*}}) : (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<256x64xbf16>) -> tensor<256x64xbf16> {
// CHECK:           mlc.reduce "sum"
// CHECK:         %d = mlc.stream(%{{.+}} = %q, %{{.+}} = %k, %[[L:.+]] = %[[LOG]], %{{.+}} = %g)
// CHECK-NOT:       mlc.reduce
// CHECK:           mlc.broadcast "m->mn" %[[L]]
// CHECK:           mlc.exp2_estimate
// CHECK-NOT:       mlc.div
// CHECK:           mlc.contract "mn,md->nd"
// CHECK:         func.return %o, %d
func.func @gradient(%q: tensor<256x64xbf16>, %k: tensor<256x64xbf16>, %v: tensor<256x64xbf16>, %g: tensor<256x64xbf16>) -> (tensor<256x64xbf16>, tensor<256x64xbf16>) {
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
  func.return %o, %d : tensor<256x64xbf16>, tensor<256x64xbf16>
}
