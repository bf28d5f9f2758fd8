// A dilated convolution in two phases by reshapes is a dense one, right at 64 of 81 positions: the
// last row and column, which 13 positions leave over, are computed by the original's ops.
// RUN: mlc mutants %s %S/Inputs/phases.mlir --target avx512 -o %t.mlir | filecheck %s
// RUN: mlc opt %t.mlir -p dce | filecheck %s --check-prefix=OUT
// RUN: not mlc mutants %S/Inputs/phases.mlir %S/Inputs/double.mlir 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK:       original, predicted {{.*}}s:
// CHECK:         mlc.conv "nc(y+2i)(x+2j),fcij->nfyx"
// CHECK:       79%       16      48 {{.*}} exact  as given
// CHECK:       mutant, as given:
// CHECK:         mlc.conv "nc(y+i)p(x+j)q,fcij->nfypxq"
// CHECK:       wrong at [0, 0:2, 0:8, 8]; [0, 0:2, 8, 0:9]
// CHECK-NEXT:  2 tests at 48 positions of 16 regions, modulo 2147483647, degree 2: wrong with probability <= 48 (2/2147483647)^2 = 4.2e-17
// CHECK-NEXT:  class exact
// CHECK-NEXT:  with corrections, predicted {{.*}}:

// OUT-LABEL:   @dilated(
// OUT:           %[[DENSE:.*]] = mlc.conv "nc(y+i)p(x+j)q,fcij->nfypxq"
// OUT:           %[[RIGHT:.*]] = mlc.reshape %[[DENSE]]
// OUT:           %[[COLUMN:.*]] = mlc.conv "nc(y+2i)(x+2j),fcij->nfyx" {{.*}} -> tensor<1x2x8x1xf64>
// OUT:           %[[ROW:.*]] = mlc.conv "nc(y+2i)(x+2j),fcij->nfyx" {{.*}} -> tensor<1x2x1x9xf64>
// OUT:           mlc.concat

// OTHER:       mlc: the mutant takes ({{.*}}); expected (tensor<1x2x9x9xf64>, tensor<2x2x3x3xf64>), as the original
func.func @dilated(%x: tensor<1x2x9x9xf64>, %w: tensor<2x2x3x3xf64>) -> tensor<1x2x9x9xf64> {
  %o = mlc.constant dense<0.0> : tensor<f64>
  %p = mlc.pad %x, %o [<0, 0, 2, 2>, <0, 0, 2, 2>] : tensor<1x2x9x9xf64>, tensor<f64> -> tensor<1x2x13x13xf64>
  %y = mlc.conv "nc(y+2i)(x+2j),fcij->nfyx" %p, %w : tensor<1x2x13x13xf64>, tensor<2x2x3x3xf64> -> tensor<1x2x9x9xf64>
  func.return %y : tensor<1x2x9x9xf64>
}
