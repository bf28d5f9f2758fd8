// A sum over products with a sum is one over what has been summed already.
// RUN: mlc opt %s -p mlc-exchange-sums,dce --split-input-file | filecheck %s

// The gradient of weights p that sum to o = p v: rows of p * (d vᵀ) sum to those of d * o.
// CHECK-LABEL: @weights
// CHECK-NEXT:  %o = mlc.contract "bij,bjc->bic" %p, %v
// CHECK-NEXT:  %[[SUM:.*]] = mlc.contract "bi{{.}},bi{{.}}->bi" %d, %o : tensor<2x8x4xf32>, tensor<2x8x4xf32> -> tensor<2x8xf32>
// CHECK-NEXT:  %[[SCALED:.*]] = mlc.mul %[[SUM]], %r : tensor<2x8xf32>
// CHECK-NEXT:  %[[NEGATED:.*]] = mlc.neg %[[SCALED]] : tensor<2x8xf32>
// CHECK-NEXT:  func.return %o, %[[NEGATED]]
func.func @weights(%p: tensor<2x8x16xf32>, %v: tensor<2x16x4xf32>, %d: tensor<2x8x4xf32>, %r: tensor<2x8xf32>) -> (tensor<2x8x4xf32>, tensor<2x8xf32>) {
  %o = mlc.contract "bij,bjc->bic" %p, %v : tensor<2x8x16xf32>, tensor<2x16x4xf32> -> tensor<2x8x4xf32>
  %g = mlc.contract "bic,bjc->bij" %d, %v : tensor<2x8x4xf32>, tensor<2x16x4xf32> -> tensor<2x8x16xf32>
  %rb = mlc.broadcast "bi->bij" %r : tensor<2x8xf32> -> tensor<2x8x16xf32>
  %s = mlc.mul %p, %rb : tensor<2x8x16xf32>
  %n = mlc.neg %s : tensor<2x8x16xf32>
  %t = mlc.mul %g, %n : tensor<2x8x16xf32>
  %y = mlc.reduce "sum" "bij->bi" %t : tensor<2x8x16xf32> -> tensor<2x8xf32>
  func.return %o, %y : tensor<2x8x4xf32>, tensor<2x8xf32>
}

// -----

// What is at hand is a sum of other weights, or with other values: nothing is exchanged.
// CHECK-LABEL: @others
// CHECK:       mlc.reduce "sum"
// CHECK:       mlc.reduce "sum"
func.func @others(%p: tensor<8x16xf32>, %q: tensor<8x16xf32>, %v: tensor<16x4xf32>, %w: tensor<16x4xf32>, %d: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) {
  %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %g = mlc.contract "ic,jc->ij" %d, %w : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %t = mlc.mul %p, %g : tensor<8x16xf32>
  %y = mlc.reduce "sum" "ij->i" %t : tensor<8x16xf32> -> tensor<8xf32>
  %h = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %u = mlc.mul %q, %h : tensor<8x16xf32>
  %z = mlc.reduce "sum" "ij->i" %u : tensor<8x16xf32> -> tensor<8xf32>
  func.return %o, %y, %z : tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Nor with strict numerics, nor where the sum is over the rows of the weights.
// CHECK-LABEL: @order
// CHECK:       mlc.reduce "sum"
builtin.module attributes {mlc.numerics = "strict"} {
  func.func @order(%p: tensor<8x16xf32>, %v: tensor<16x4xf32>, %d: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
    %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
    %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
    %t = mlc.mul %p, %g : tensor<8x16xf32>
    %y = mlc.reduce "sum" "ij->i" %t : tensor<8x16xf32> -> tensor<8xf32>
    func.return %o, %y : tensor<8x4xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: @rows
// CHECK:       mlc.reduce "sum"
func.func @rows(%p: tensor<8x16xf32>, %v: tensor<16x4xf32>, %d: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<16xf32>) {
  %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %t = mlc.mul %p, %g : tensor<8x16xf32>
  %y = mlc.reduce "sum" "ij->j" %t : tensor<8x16xf32> -> tensor<16xf32>
  func.return %o, %y : tensor<8x4xf32>, tensor<16xf32>
}

// -----

// Axes of one place come and go between: a batch of one, which products do not have.
// CHECK-LABEL: @batch_of_one
// CHECK:       %[[O:.*]] = mlc.contract "ij,jc->ic"
// CHECK-NEXT:  %[[SUM:.*]] = mlc.contract "{{.*}}->c" %d, %[[O]] : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8xf32>
// CHECK-NEXT:  %[[ROWS:.*]] = mlc.reshape %[[SUM]] : tensor<8xf32> -> tensor<1x8xf32>
// CHECK-NEXT:  func.return %[[O]], %[[ROWS]]
func.func @batch_of_one(%p: tensor<1x8x16xf32>, %v: tensor<16x4xf32>, %d: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<1x8xf32>) {
  %w = mlc.reshape %p : tensor<1x8x16xf32> -> tensor<8x16xf32>
  %o = mlc.contract "ij,jc->ic" %w, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %h = mlc.reshape %g : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %t = mlc.mul %p, %h : tensor<1x8x16xf32>
  %y = mlc.reduce "sum" "bcd->bc" %t : tensor<1x8x16xf32> -> tensor<1x8xf32>
  func.return %o, %y : tensor<8x4xf32>, tensor<1x8xf32>
}

// -----

// Sums of 16 bits too: what is at hand is rounded as the one that is asked for.
// CHECK-LABEL: @narrow
// CHECK:       mlc.contract "i{{.}},i{{.}}->i" %d, %o : tensor<8x4xbf16>, tensor<8x4xbf16> -> tensor<8xbf16>
// CHECK-NOT:   mlc.reduce
func.func @narrow(%p: tensor<8x16xbf16>, %v: tensor<16x4xbf16>, %d: tensor<8x4xbf16>) -> (tensor<8x4xbf16>, tensor<8xbf16>) {
  %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xbf16>, tensor<16x4xbf16> -> tensor<8x16xbf16>
  %t = mlc.mul %p, %g : tensor<8x16xbf16>
  %y = mlc.reduce "sum" "ij->i" %t : tensor<8x16xbf16> -> tensor<8xbf16>
  func.return %o, %y : tensor<8x4xbf16>, tensor<8xbf16>
}

// -----

// A sum of f32 over products of bf16: of the weights that were rounded.
// CHECK-LABEL: @wide
// CHECK-DAG:   %[[D:.*]] = mlc.convert %d : tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK-DAG:   %[[O:.*]] = mlc.convert %o : tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK:       %[[SUM:.*]] = mlc.contract "i{{.}},i{{.}}->i" %[[D]], %[[O]] : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8xf32>
// CHECK-NEXT:  func.return %o, %[[SUM]]
func.func @wide(%p: tensor<8x16xf32>, %v: tensor<16x4xbf16>, %d: tensor<8x4xbf16>) -> (tensor<8x4xbf16>, tensor<8xf32>) {
  %w = mlc.convert %p : tensor<8x16xf32> -> tensor<8x16xbf16>
  %o = mlc.contract "ij,jc->ic" %w, %v : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xbf16>, tensor<16x4xbf16> -> tensor<8x16xbf16>
  %h = mlc.convert %g : tensor<8x16xbf16> -> tensor<8x16xf32>
  %t = mlc.mul %p, %h : tensor<8x16xf32>
  %y = mlc.reduce "sum" "ij->i" %t : tensor<8x16xf32> -> tensor<8xf32>
  func.return %o, %y : tensor<8x4xbf16>, tensor<8xf32>
}
