func.func @phases(%x: tensor<1x2x9x9xf64>, %w: tensor<2x2x3x3xf64>) -> tensor<1x2x9x9xf64> {
  %o = mlc.constant dense<0.0> : tensor<f64>
  %p = mlc.pad %x, %o [<0, 0, 2, 2>, <0, 0, 2, 2>] : tensor<1x2x9x9xf64>, tensor<f64> -> tensor<1x2x13x13xf64>
  %q = mlc.slice %p[<0, 0, 0, 0>, <1, 1, 1, 1>] : tensor<1x2x13x13xf64> -> tensor<1x2x12x12xf64>
  %r = mlc.reshape %q : tensor<1x2x12x12xf64> -> tensor<1x2x6x2x6x2xf64>
  %d = mlc.conv "nc(y+i)p(x+j)q,fcij->nfypxq" %r, %w : tensor<1x2x6x2x6x2xf64>, tensor<2x2x3x3xf64> -> tensor<1x2x4x2x4x2xf64>
  %s = mlc.reshape %d : tensor<1x2x4x2x4x2xf64> -> tensor<1x2x8x8xf64>
  %y = mlc.pad %s, %o [<0, 0, 0, 0>, <0, 0, 1, 1>] : tensor<1x2x8x8xf64>, tensor<f64> -> tensor<1x2x9x9xf64>
  func.return %y : tensor<1x2x9x9xf64>
}
