// Instructions whose sums are matrices of 2 x 2: a loop carries such matrices, and their rows are put together behind it.
// RUN: mlc opt %s --split-input-file -p plan-to-loops | filecheck %s

// Two rows of a, and two columns of b, lie side by side: one load each.
// CHECK-LABEL: func.func @rows(
// CHECK:         scf.for %[[K:.+]] = {{.*}} iter_args(%[[LEFT:.+]] = %{{.+}}, %[[RIGHT:.+]] = %{{.+}}) -> (vector<4xi32>, vector<4xi32>)
// CHECK:           %[[B0:.+]] = vector.load %{{.+}}[%{{.+}}, %[[K]], %[[ZERO:.+]], %[[ZERO]]] : memref<1x2x4x8xi8>, vector<16xi8>
// CHECK:           %[[B1:.+]] = vector.load %{{.+}}[%{{.+}}, %[[K]], %{{.+}}, %[[ZERO]]] : memref<1x2x4x8xi8>, vector<16xi8>
// CHECK:           %[[A:.+]] = vector.load %{{.+}}[%{{.+}}, %[[K]], %[[ZERO]], %[[ZERO]]] : memref<4x2x2x8xi8>, vector<16xi8>
// CHECK-NOT:       mlc_vec.repeat
// CHECK:           mlc_vec.dot "mmla_s8" %[[LEFT]], %[[A]], %[[B0]]
// CHECK:           mlc_vec.dot "mmla_s8" %[[RIGHT]], %[[A]], %[[B1]]
// CHECK:           scf.yield
// CHECK:         %[[FIRST:.+]] = vector.shuffle %[[X:.+]], %[[Y:.+]] [0, 1, 4, 5] : vector<4xi32>, vector<4xi32>
// CHECK:         %[[SECOND:.+]] = vector.shuffle %[[X]], %[[Y]] [2, 3, 6, 7] : vector<4xi32>, vector<4xi32>
// CHECK:         vector.store %[[FIRST]], %y[%[[I:.+]], %[[ZERO]]]
// CHECK:         vector.store %[[SECOND]], %y[%{{.+}}, %[[ZERO]]]
builtin.module attributes {mlc.target = #mlc.target<"mmla">} {
  mlc_tile.kernel @rows(%a: !mlc_tile.view<4x2x2x8xi8>, %b: !mlc_tile.view<1x2x4x8xi8>) -> (%y: !mlc_tile.view<8x4xi32>) {
    mlc_tile.for %m in 8 step 2 {
      %s = mlc_tile.dot "mkc,kcn->mn" %a[%m floordiv 2, k, m, c], %b[0, k, n, c] over (k 2, c 8) via mmla_s8 : !mlc_tile.frag<2x4xi32>
      mlc_tile.store %s, %y[%m + m, n] as "mn"
    }
  }
  func.func @main(%a: tensor<4x2x2x8xi8>, %b: tensor<1x2x4x8xi8>) -> tensor<8x4xi32> attributes {mlc.arena = {}} {
    %y = mlc_tile.call @rows(%a, %b) : (tensor<4x2x2x8xi8>, tensor<1x2x4x8xi8>) -> tensor<8x4xi32> {buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<8x4xi32>
  }
}

// -----

// Sums that begin with a tile: its rows become matrices before the loop. Two columns are half a vector.
// CHECK-LABEL: func.func @begun(
// CHECK:         %[[TOP:.+]] = vector.load %s[{{.*}}] : memref<2x2xf32>, vector<2xf32>
// CHECK:         %[[BOTTOM:.+]] = vector.load %s[{{.*}}] : memref<2x2xf32>, vector<2xf32>
// CHECK:         %[[BEGIN:.+]] = vector.shuffle %[[TOP]], %[[BOTTOM]] [0, 1, 2, 3] : vector<2xf32>, vector<2xf32>
// CHECK:         %[[SUMS:.+]] = scf.for {{.*}} iter_args(%{{.+}} = %[[BEGIN]]) -> (vector<4xf32>)
// CHECK:           mlc_vec.dot "mmla_bf16"
// CHECK:         %[[FIRST:.+]] = vector.shuffle %[[SUMS]], %[[SUMS]] [0, 1] : vector<4xf32>, vector<4xf32>
// CHECK:         %[[SECOND:.+]] = vector.shuffle %[[SUMS]], %[[SUMS]] [2, 3] : vector<4xf32>, vector<4xf32>
// CHECK:         vector.store %[[FIRST]], %y
// CHECK:         vector.store %[[SECOND]], %y
builtin.module attributes {mlc.target = #mlc.target<"mmla">} {
  mlc_tile.kernel @begun(%a: !mlc_tile.view<3x2x4xbf16>, %b: !mlc_tile.view<3x2x4xbf16>, %s: !mlc_tile.view<2x2xf32>) -> (%y: !mlc_tile.view<2x2xf32>) {
    %t = mlc_tile.load %s[m, n] as "mn" : !mlc_tile.frag<2x2xf32>
    %u = mlc_tile.dot "mkc,kcn->mn" %a[k, m, c], %b[k, n, c] over (k 3, c 4) init %t via mmla_bf16 : !mlc_tile.frag<2x2xf32>
    mlc_tile.store %u, %y[m, n] as "mn"
  }
  func.func @main(%a: tensor<3x2x4xbf16>, %b: tensor<3x2x4xbf16>, %s: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {mlc.arena = {}} {
    %y = mlc_tile.call @begun(%a, %b, %s) : (tensor<3x2x4xbf16>, tensor<3x2x4xbf16>, tensor<2x2xf32>) -> tensor<2x2xf32> {buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<2x2xf32>
  }
}

// -----

// What is computed of sums is twice as wide: their vectors stay whole, and are cut behind the loop.
// CHECK-LABEL: func.func @wider(
// CHECK:         %[[SUMS:.+]] = scf.for {{.*}} -> (vector<4xi32>)
// CHECK:           mlc_vec.dot "dot_s8"
// CHECK:         %[[LOW:.+]] = vector.shuffle %[[SUMS]], %[[SUMS]] [0, 1] : vector<4xi32>, vector<4xi32>
// CHECK:         %[[HIGH:.+]] = vector.shuffle %[[SUMS]], %[[SUMS]] [2, 3] : vector<4xi32>, vector<4xi32>
// CHECK:         mlc_vec.cast sitofp %[[LOW]] : vector<2xi32> to vector<2xf64>
// CHECK:         mlc_vec.cast sitofp %[[HIGH]] : vector<2xi32> to vector<2xf64>
builtin.module attributes {mlc.target = #mlc.target<"neon">} {
  mlc_tile.kernel @wider(%a: !mlc_tile.view<1x8xi8>, %b: !mlc_tile.view<2x4x4xi8>) -> (%y: !mlc_tile.view<1x4xf64>) {
    %s = mlc_tile.dot "mkc,kcn->mn" %a[m, 4*k + c], %b[k, n, c] over (k 2, c 4) via dot_s8 : !mlc_tile.frag<1x4xi32>
    %w = mlc_tile.convert %s : !mlc_tile.frag<1x4xi32> to !mlc_tile.frag<1x4xf64>
    mlc_tile.store %w, %y[m, n] as "mn"
  }
  func.func @main(%a: tensor<1x8xi8>, %b: tensor<2x4x4xi8>) -> tensor<1x4xf64> attributes {mlc.arena = {}} {
    %y = mlc_tile.call @wider(%a, %b) : (tensor<1x8xi8>, tensor<2x4x4xi8>) -> tensor<1x4xf64> {buffers = [#mlc.buffer<out 0>]}
    func.return %y : tensor<1x4xf64>
  }
}
