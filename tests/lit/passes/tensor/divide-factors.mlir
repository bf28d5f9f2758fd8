// What a product takes or gives is divided where it has fewer elements.
// RUN: mlc opt %s -p mlc-divide-factors,cse,dce --split-input-file | filecheck %s

// Weights are divided by the sums of their rows: the result is instead, and so is what the other product takes.
// CHECK-LABEL: @weights
// CHECK:       %[[P:.*]] = mlc.contract "ij,jc->ic" %e, %v
// CHECK:       mlc.div %[[P]], %{{.*}} : tensor<8x4xf32>
// CHECK:       %[[D:.*]] = mlc.div %d, %{{.*}} : tensor<8x4xf32>
// CHECK:       mlc.contract "ij,ic->jc" %e, %[[D]]
// CHECK:       mlc.contract "ic,jc->ij" %[[D]], %v
// CHECK-NOT:   mlc.div
func.func @weights(%e: tensor<8x16xf32>, %l: tensor<8xf32>, %v: tensor<16x4xf32>, %d: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<16x4xf32>, tensor<8x16xf32>) {
  %lb = mlc.broadcast "i->ij" %l : tensor<8xf32> -> tensor<8x16xf32>
  %p = mlc.div %e, %lb : tensor<8x16xf32>
  %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %y = mlc.contract "ij,ic->jc" %p, %d : tensor<8x16xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %g = mlc.contract "ic,jc->ij" %d, %v : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %z = mlc.div %g, %lb : tensor<8x16xf32>
  func.return %o, %y, %z : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8x16xf32>
}

// -----

// Axes of one place, which products do not have, do not matter.
// CHECK-LABEL: @batch_of_one
// CHECK:       %[[E:.*]] = mlc.reshape %e
// CHECK:       %[[O:.*]] = mlc.contract "ij,jc->ic" %[[E]], %v
// CHECK:       mlc.reshape %l : tensor<1x8xf32> -> tensor<8xf32>
// CHECK:       mlc.div %[[O]], %{{.*}} : tensor<8x4xf32>
func.func @batch_of_one(%e: tensor<1x8x16xf32>, %l: tensor<1x8xf32>, %v: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %lb = mlc.broadcast "bi->bij" %l : tensor<1x8xf32> -> tensor<1x8x16xf32>
  %p = mlc.div %e, %lb : tensor<1x8x16xf32>
  %r = mlc.reshape %p : tensor<1x8x16xf32> -> tensor<8x16xf32>
  %o = mlc.contract "ij,jc->ic" %r, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  func.return %o : tensor<8x4xf32>
}

// -----

// Quotients that are wanted besides stay, as do those whose divisor the product sums over, narrow
// numbers, and where no less would be divided.
// CHECK-LABEL: @stay
// CHECK-COUNT-4: mlc.div
// CHECK-NOT:   mlc.div
func.func @stay(%e: tensor<8x16xf32>, %l: tensor<8xf32>, %c: tensor<16xf32>, %h: tensor<8x16xf16>, %k: tensor<8xf16>, %v: tensor<16x4xf32>, %n: tensor<16x4xf16>, %w: tensor<16x32xf32>) -> (tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf16>, tensor<8x32xf32>) {
  %lb = mlc.broadcast "i->ij" %l : tensor<8xf32> -> tensor<8x16xf32>
  %p = mlc.div %e, %lb : tensor<8x16xf32>
  %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %cb = mlc.broadcast "j->ij" %c : tensor<16xf32> -> tensor<8x16xf32>
  %q = mlc.div %cb, %e : tensor<8x16xf32>
  %u = mlc.contract "ij,jc->ic" %q, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %kb = mlc.broadcast "i->ij" %k : tensor<8xf16> -> tensor<8x16xf16>
  %t = mlc.div %h, %kb : tensor<8x16xf16>
  %x = mlc.contract "ij,jc->ic" %t, %n : tensor<8x16xf16>, tensor<16x4xf16> -> tensor<8x4xf16>
  %s = mlc.mul %e, %e : tensor<8x16xf32>
  %r = mlc.div %s, %lb : tensor<8x16xf32>
  %y = mlc.contract "ij,jk->ik" %r, %w : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  func.return %p, %o, %u, %x, %y : tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf16>, tensor<8x32xf32>
}

// -----

// Nor with strict numerics.
// CHECK-LABEL: @order
// CHECK:       mlc.div %e
builtin.module attributes {mlc.numerics = "strict"} {
  func.func @order(%e: tensor<8x16xf32>, %l: tensor<8xf32>, %v: tensor<16x4xf32>) -> tensor<8x4xf32> {
    %lb = mlc.broadcast "i->ij" %l : tensor<8xf32> -> tensor<8x16xf32>
    %p = mlc.div %e, %lb : tensor<8x16xf32>
    %o = mlc.contract "ij,jc->ic" %p, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
    func.return %o : tensor<8x4xf32>
  }
}

// -----

// Of two empty arrays neither is smaller: to divide the other one in its place would never end.
// CHECK-LABEL: @none
// CHECK-COUNT-1: mlc.div
// CHECK-NOT:   mlc.div
func.func @none(%x: tensor<2x0xf32>, %y: tensor<2x0xf32>, %l: tensor<0xf32>) -> tensor<0xf32> {
  %lb = mlc.broadcast "j->kj" %l : tensor<0xf32> -> tensor<2x0xf32>
  %q = mlc.div %y, %lb : tensor<2x0xf32>
  %s = mlc.contract "kj,kj->j" %x, %q : tensor<2x0xf32>, tensor<2x0xf32> -> tensor<0xf32>
  func.return %s : tensor<0xf32>
}

// -----

// A constant multiplies the result, also behind the next product, and of two factors both.
// CHECK-LABEL: @scaled
// CHECK-NEXT:  %[[P:.*]] = mlc.contract "ij,jk->ik" %a, %b
// CHECK-NEXT:  %[[Q:.*]] = mlc.contract "ij,jk->ik" %[[P]], %c
// CHECK-NEXT:  %[[S:.*]] = mlc.constant dense<1.500000e+00> : tensor<8x24xf32>
// CHECK-NEXT:  mlc.mul %[[Q]], %[[S]] : tensor<8x24xf32>
// CHECK:       %[[R:.*]] = mlc.contract "ij,ik->jk" %a, %a
// CHECK-COUNT-2: mlc.mul {{.*}} : tensor<16x16xf32>
func.func @scaled(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>, %c: tensor<12x24xf32>) -> (tensor<8x24xf32>, tensor<16x16xf32>) {
  %s = mlc.constant dense<1.5> : tensor<8x16xf32>
  %x = mlc.mul %a, %s : tensor<8x16xf32>
  %p = mlc.contract "ij,jk->ik" %x, %b : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %q = mlc.contract "ij,jk->ik" %p, %c : tensor<8x12xf32>, tensor<12x24xf32> -> tensor<8x24xf32>
  %g = mlc.contract "ij,ik->jk" %x, %x : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  func.return %q, %g : tensor<8x24xf32>, tensor<16x16xf32>
}

// -----

// Products that are wanted besides stay, those of what is computed in any case, of far numbers, narrow ones, and where
// many more would be multiplied.
// CHECK-LABEL: @unscaled
// CHECK-COUNT-5: mlc.mul
// CHECK-NOT:   mlc.mul
func.func @unscaled(%a: tensor<8x16xf32>, %h: tensor<8x16xf16>, %b: tensor<16x12xf32>, %n: tensor<16x12xf16>, %w: tensor<16x128xf32>) -> (tensor<8x16xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf16>, tensor<8x128xf32>) {
  %s = mlc.constant dense<1.5> : tensor<8x16xf32>
  %x = mlc.mul %a, %s : tensor<8x16xf32>
  %p = mlc.contract "ij,jk->ik" %x, %b : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %e = mlc.exp %a : tensor<8x16xf32>
  %y = mlc.mul %e, %s : tensor<8x16xf32>
  %q = mlc.contract "ij,jk->ik" %y, %b : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %t = mlc.constant dense<1.0e-20> : tensor<8x16xf32>
  %z = mlc.mul %a, %t : tensor<8x16xf32>
  %r = mlc.contract "ij,jk->ik" %z, %b : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %u = mlc.constant dense<1.5> : tensor<8x16xf16>
  %v = mlc.mul %h, %u : tensor<8x16xf16>
  %o = mlc.contract "ij,jk->ik" %v, %n : tensor<8x16xf16>, tensor<16x12xf16> -> tensor<8x12xf16>
  %d = mlc.constant dense<2.5> : tensor<8x16xf32>
  %f = mlc.mul %a, %d : tensor<8x16xf32>
  %m = mlc.contract "ij,jk->ik" %f, %w : tensor<8x16xf32>, tensor<16x128xf32> -> tensor<8x128xf32>
  func.return %x, %p, %q, %r, %o, %m : tensor<8x16xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf16>, tensor<8x128xf32>
}
