// What loops walk along an axis, part by part, has that axis first in memory.
// RUN: mlc opt %s --target avx512 -p turn-walked-axes | filecheck %s
// RUN: mlc opt %s --target sm_80 -p turn-walked-axes | filecheck %s --check-prefix GPU
// RUN: mlc opt %s -p 'turn-walked-axes{always=true}' | filecheck %s --check-prefix ALWAYS
// GPU-NOT:     mlc.transpose

// An argument is turned once before all loops, what they carry is made so, and the result is turned
// back once.
// CHECK-LABEL: @columns
// CHECK:         %[[X:.*]] = mlc.transpose "abc->cab" %x {mlc.stored} {{.*}} -> tensor<200x64x40xf64>
// CHECK:         %[[Y:.*]] = mlc.constant dense<0.000000e+00> : tensor<200x64x40xf64>
// CHECK:         %[[R:.*]] = mlc.for %{{.*}} iter(%[[D:.*]] = %[[Y]]) -> (tensor<200x64x40xf64>)
// CHECK:           mlc.for %[[K:.*]] to %n iter(%[[C:.*]] = %[[D]]) -> (tensor<200x64x40xf64>)
// CHECK:             %[[P:.*]] = mlc.dynamic_slice %[[X]][%[[K]], %z, %z] {{.*}} -> tensor<1x64x40xf64>
// CHECK-NEXT:        mlc.reshape %[[P]] : tensor<1x64x40xf64> -> tensor<64x40xf64>
// CHECK:             %[[T:.*]] = mlc.reshape %{{.*}} : tensor<64x40xf64> -> tensor<1x64x40xf64>
// CHECK-NEXT:        mlc.dynamic_update %[[C]], %[[T]][%[[K]], %z, %z]
// CHECK:         %[[B:.*]] = mlc.transpose "abc->bca" %[[R]] : tensor<200x64x40xf64> -> tensor<64x40x200xf64>
// CHECK-NEXT:    func.return %[[B]]
func.func @columns(%x: tensor<64x40x200xf64>, %n: tensor<i64>) -> tensor<64x40x200xf64> {
  %z = mlc.constant dense<0> : tensor<i64>
  %eight = mlc.constant dense<8> : tensor<i64>
  %y = mlc.constant dense<0.0> : tensor<64x40x200xf64>
  %r = mlc.for %i to %eight iter(%d = %y) -> (tensor<64x40x200xf64>) {
    %e = mlc.for %k to %n iter(%c = %d) -> (tensor<64x40x200xf64>) {
      %p = mlc.dynamic_slice %x[%z, %z, %k] : tensor<64x40x200xf64>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<64x40x1xf64>
      %q = mlc.reshape %p : tensor<64x40x1xf64> -> tensor<64x40xf64>
      %s = mlc.exp %q : tensor<64x40xf64>
      %t = mlc.reshape %s : tensor<64x40xf64> -> tensor<64x40x1xf64>
      %u = mlc.dynamic_update %c, %t[%z, %z, %k] : tensor<64x40x200xf64>, tensor<64x40x1xf64>, tensor<i64>, tensor<i64>, tensor<i64> -> tensor<64x40x200xf64>
      mlc.yield %u : tensor<64x40x200xf64>
    }
    mlc.yield %e : tensor<64x40x200xf64>
  }
  func.return %r : tensor<64x40x200xf64>
}

// A loop that walks along columns, then one along rows: the array is turned between them.
// CHECK-LABEL: @both_ways
// CHECK:         %[[X:.*]] = mlc.transpose "ab->ba" %x {mlc.stored}
// CHECK:         %[[R:.*]] = mlc.for %{{.*}} to %n iter(%{{.*}} = %[[X]])
// CHECK:         %[[B:.*]] = mlc.transpose "ab->ba" %[[R]] : tensor<?x600xf64, #mlc.dims<"n", 600>>
// CHECK:         %[[Q:.*]] = mlc.for %{{.*}} to %h iter(%{{.*}} = %[[B]])
// CHECK:         func.return %[[Q]] : tensor<600x?xf64, #mlc.dims<600, "n">>
func.func @both_ways(%x: tensor<600x?xf64, #mlc.dims<600, "n">>) -> tensor<600x?xf64, #mlc.dims<600, "n">> attributes {mlc.symbols = ["n"]} {
  %z = mlc.constant dense<0> : tensor<i64>
  %n = mlc.size <"n"> : tensor<i64>
  %h = mlc.constant dense<600> : tensor<i64>
  %r = mlc.for %k to %n iter(%c = %x) -> (tensor<600x?xf64, #mlc.dims<600, "n">>) {
    %p = mlc.dynamic_slice %c[%z, %k] : tensor<600x?xf64, #mlc.dims<600, "n">>, tensor<i64>, tensor<i64> -> tensor<600x1xf64>
    %s = mlc.exp %p : tensor<600x1xf64>
    %u = mlc.dynamic_update %c, %s[%z, %k] : tensor<600x?xf64, #mlc.dims<600, "n">>, tensor<600x1xf64>, tensor<i64>, tensor<i64> -> tensor<600x?xf64, #mlc.dims<600, "n">>
    mlc.yield %u : tensor<600x?xf64, #mlc.dims<600, "n">>
  }
  %q = mlc.for %i to %h iter(%c = %r) -> (tensor<600x?xf64, #mlc.dims<600, "n">>) {
    %p = mlc.dynamic_slice %c[%i, %z] : tensor<600x?xf64, #mlc.dims<600, "n">>, tensor<i64>, tensor<i64> -> tensor<1x?xf64, #mlc.dims<1, "n">>
    %s = mlc.exp %p : tensor<1x?xf64, #mlc.dims<1, "n">>
    %u = mlc.dynamic_update %c, %s[%i, %z] : tensor<600x?xf64, #mlc.dims<600, "n">>, tensor<1x?xf64, #mlc.dims<1, "n">>, tensor<i64>, tensor<i64> -> tensor<600x?xf64, #mlc.dims<600, "n">>
    mlc.yield %u : tensor<600x?xf64, #mlc.dims<600, "n">>
  }
  func.return %q : tensor<600x?xf64, #mlc.dims<600, "n">>
}

// Three of forty columns: to turn the array takes longer. Without a loop the same ops are turned.
// CHECK-LABEL: @unrolled
// CHECK-NOT:     mlc.transpose
// CHECK:         func.return
// ALWAYS-LABEL: @unrolled
// ALWAYS:         %[[X:.*]] = mlc.transpose "ab->ba" %x {mlc.stored}
// ALWAYS:         %[[A:.*]] = mlc.slice %[[X]][<1, 0>, <1, 1>] : tensor<40x4000xf32> -> tensor<1x4000xf32>
// ALWAYS:         %[[C:.*]] = mlc.concat 0 %[[A]], %{{.*}} -> tensor<3x4000xf32>
// ALWAYS:         %[[D:.*]] = mlc.pad %[[C]], %zero[<1, 0>, <0, 2>] {{.*}} -> tensor<4x4002xf32>
// ALWAYS:         %[[T:.*]] = mlc.transpose "ab->ba" %[[D]] : tensor<4x4002xf32> -> tensor<4002x4xf32>
// ALWAYS:         func.return %[[T]]
func.func @unrolled(%x: tensor<4000x40xf32>, %zero: tensor<f32>) -> tensor<4002x4xf32> {
  %0 = mlc.slice %x[<0, 1>, <1, 1>] : tensor<4000x40xf32> -> tensor<4000x1xf32>
  %1 = mlc.slice %x[<0, 2>, <1, 1>] : tensor<4000x40xf32> -> tensor<4000x1xf32>
  %2 = mlc.exp %1 : tensor<4000x1xf32>
  %3 = mlc.concat 1 %0, %1, %2 : tensor<4000x1xf32>, tensor<4000x1xf32>, tensor<4000x1xf32> -> tensor<4000x3xf32>
  %4 = mlc.pad %3, %zero [<0, 1>, <2, 0>] : tensor<4000x3xf32>, tensor<f32> -> tensor<4002x4xf32>
  func.return %4 : tensor<4002x4xf32>
}

// Single elements that a loop reads hold an array; rows lie well already.
// CHECK-LABEL: @stays
// CHECK-NOT:     mlc.transpose
// CHECK:         func.return
func.func @stays(%x: tensor<600x600xf64>, %y: tensor<600x600xf64>, %n: tensor<i64>) -> tensor<1x1xf64> {
  %z = mlc.constant dense<0> : tensor<i64>
  %s = mlc.constant dense<0.0> : tensor<1x1xf64>
  %r = mlc.for %k to %n iter(%c = %s) -> (tensor<1x1xf64>) {
    %p = mlc.dynamic_slice %x[%z, %k] : tensor<600x600xf64>, tensor<i64>, tensor<i64> -> tensor<600x1xf64>
    %q = mlc.dynamic_slice %y[%k, %z] : tensor<600x600xf64>, tensor<i64>, tensor<i64> -> tensor<1x600xf64>
    %d = mlc.contract "ab,ca->bc" %p, %q : tensor<600x1xf64>, tensor<1x600xf64> -> tensor<1x1xf64>
    %e = mlc.dynamic_slice %x[%k, %k] : tensor<600x600xf64>, tensor<i64>, tensor<i64> -> tensor<1x1xf64>
    %a = mlc.add %c, %d : tensor<1x1xf64>
    %b = mlc.mul %a, %e : tensor<1x1xf64>
    mlc.yield %b : tensor<1x1xf64>
  }
  func.return %r : tensor<1x1xf64>
}
