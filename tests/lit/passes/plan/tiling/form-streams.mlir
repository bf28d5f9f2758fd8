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
