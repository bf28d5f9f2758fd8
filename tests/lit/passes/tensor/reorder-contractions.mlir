// A sum of products of several operands is computed in the cheapest order of pairs.
// RUN: mlc opt %s --target=avx512 -p reorder-contractions,dce | filecheck %s

// Matrix-vector products instead of matrix products.
// CHECK-LABEL: @chain
// CHECK:         %[[CV:.*]] = mlc.contract "cb,b->c" %c, %v
// CHECK-NEXT:    %[[BCV:.*]] = mlc.contract "dc,c->d" %b, %[[CV]]
// CHECK-NEXT:    %[[ABCV:.*]] = mlc.contract "ad,d->a" %a, %[[BCV]]
// CHECK-NEXT:    func.return %[[ABCV]]
func.func @chain(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>, %c: tensor<512x512xf32>, %v: tensor<512xf32>) -> tensor<512xf32> {
  %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  %1 = mlc.contract "mk,kn->mn" %0, %c : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  %2 = mlc.contract "mk,k->m" %1, %v : tensor<512x512xf32>, tensor<512xf32> -> tensor<512xf32>
  func.return %2 : tensor<512xf32>
}

// No order is best for all sizes: the costs, polynomials in the symbols, are compared at run time.
// CHECK-LABEL: @symbols
// CHECK:         %[[LEFT:.*]] = mlc.size <"2*K*M*N
// CHECK:         %[[RIGHT:.*]] = mlc.size <"148*K*M + 148*K*N
// CHECK:         %[[WINS:.*]] = mlc.compare "le" %[[LEFT]], %[[RIGHT]]
// CHECK:         mlc.if %[[WINS]]
// CHECK:           mlc.contract "ad,dc->ac" %a, %b
// CHECK:         } else {
// CHECK:           mlc.contract "dc,cb->db" %b, %c
func.func @symbols(%a: tensor<?x?xf32, #mlc.dims<"M", "K">>, %b: tensor<?x?xf32, #mlc.dims<"K", "N">>, %c: tensor<?x64xf32, #mlc.dims<"N", 64>>) -> tensor<?x64xf32, #mlc.dims<"M", 64>> {
  %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<?x?xf32, #mlc.dims<"M", "K">>, tensor<?x?xf32, #mlc.dims<"K", "N">> -> tensor<?x?xf32, #mlc.dims<"M", "N">>
  %1 = mlc.contract "mk,kn->mn" %0, %c : tensor<?x?xf32, #mlc.dims<"M", "N">>, tensor<?x64xf32, #mlc.dims<"N", 64>> -> tensor<?x64xf32, #mlc.dims<"M", 64>>
  func.return %1 : tensor<?x64xf32, #mlc.dims<"M", 64>>
}

// The inner product is read twice: it is needed as it is.
// CHECK-LABEL: @read_twice
// CHECK:         %[[AB:.*]] = mlc.contract "mk,kn->mn" %a, %b
// CHECK-NEXT:    %[[ABV:.*]] = mlc.contract "mk,k->m" %[[AB]], %v
// CHECK-NEXT:    func.return %[[AB]], %[[ABV]]
func.func @read_twice(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %v: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = mlc.contract "mk,k->m" %0, %v : tensor<64x64xf32>, tensor<64xf32> -> tensor<64xf32>
  func.return %0, %1 : tensor<64x64xf32>, tensor<64xf32>
}
