// Loops whose states a region combines are walked in parts, of which threads take one each.
// RUN: mlc opt %s --target=avx512 -p mlc-split-folds | filecheck %s
// RUN: mlc opt %s --target=avx512 -p 'split-folds{parts=3}' | filecheck %s --check-prefix=ANY
// RUN: mlc opt %s --target=avx512 -p 'form-tiles,split-folds' | filecheck %s --check-prefix=FORMED

// A part begins with the loop's starts; what parts end with is combined in order.
// CHECK-LABEL: @largest_and_sum
// CHECK: %[[M:.*]], %[[S:.*]] = mlc.tiles (%[[J:.*]] in 1048576 step 4096) iter(%[[A:.*]] = %[[LOWEST:.*]], %[[B:.*]] = %[[ZERO:.*]]) parts 32 -> (tensor<32xf32>, tensor<32xf32>) {
// CHECK-NEXT: mlc.tile %x[%[[J]]] at (0)
// CHECK: mlc.yield
// CHECK-NEXT: }{{$}}
// CHECK-NEXT: %[[TOP:.*]], %[[SUM:.*]] = mlc.tiles (%[[P:.*]] in 32 step 1) iter(%[[C:.*]] = %[[LOWEST]], %[[D:.*]] = %[[ZERO]]) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT: %[[E:.*]] = mlc.tile %[[M]][%[[P]]] at (0) : tensor<32xf32> -> tensor<1xf32>
// CHECK-NEXT: %[[F:.*]] = mlc.reshape %[[E]] : tensor<1xf32> -> tensor<f32>
// CHECK-NEXT: %[[G:.*]] = mlc.tile %[[S]][%[[P]]]
// CHECK-NEXT: %[[H:.*]] = mlc.reshape %[[G]]
// CHECK-NEXT: mlc.max %[[C]], %[[F]]
// CHECK-NEXT: mlc.add %[[D]], %[[H]]
// CHECK: func.return %[[TOP]], %[[SUM]]

// What is short is not split, unless somebody asks for it: the region goes.
// CHECK-LABEL: @short
// CHECK: mlc.tiles (%{{.*}} in 64 step 16) iter(%{{.*}} = %{{.*}}) -> (tensor<f32>)
// CHECK-NOT: combine
// ANY-LABEL: @short
// ANY: mlc.tiles (%{{.*}} in 64 step 16) iter(%{{.*}} = %{{.*}}) parts 3 -> (tensor<3xf32>)

// Threads share the trips of the loop around it.
// CHECK-LABEL: @inside
// CHECK: mlc.tiles (%{{.*}} in 8 step 4)
// CHECK: mlc.tiles (%{{.*}} in 1048576 step 4096) iter(%{{.*}} = %{{.*}}) -> (tensor<f32>)
// CHECK-NOT: combine
// ANY-LABEL: @inside
// ANY-NOT: parts
// ANY-LABEL: @few_rows

// Fewer rows than cores have tiles of: the maximum, the sum and what it weights are one state.
// FORMED-LABEL: @few_rows
// FORMED: %{{.*}}, %{{.*}}, %{{.*}} = mlc.tiles (%{{.*}} in 65536 step {{[0-9]+}}) iter({{.*}}) parts 32 -> (tensor<32x200xf32>, tensor<32x200xf32>, tensor<32x200x64xf32>) {
// FORMED: mlc.tiles (%{{.*}} in 32 step 1) iter({{.*}}) -> (tensor<200xf32>, tensor<200xf32>, tensor<200x64xf32>) {
func.func @largest_and_sum(%x: tensor<1048576xf32>) -> (tensor<f32>, tensor<f32>) {
  %lowest = mlc.constant dense<0xff800000> : tensor<f32>
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %m, %s = mlc.tiles (%j in 1048576 step 4096) iter(%a = %lowest, %b = %zero) -> (tensor<f32>, tensor<f32>) {
    %t = mlc.tile %x[%j] at (0) : tensor<1048576xf32> -> tensor<4096xf32>
    %e = mlc.exp %t : tensor<4096xf32>
    %u = mlc.reduce "max" "a->" %e : tensor<4096xf32> -> tensor<f32>
    %v = mlc.reduce "sum" "a->" %e : tensor<4096xf32> -> tensor<f32>
    %c = mlc.max %a, %u : tensor<f32>
    %d = mlc.add %b, %v : tensor<f32>
    mlc.yield %c, %d : tensor<f32>, tensor<f32>
  } combine {
  ^bb0(%m1: tensor<f32>, %s1: tensor<f32>, %m2: tensor<f32>, %s2: tensor<f32>):
    %c = mlc.max %m1, %m2 : tensor<f32>
    %d = mlc.add %s1, %s2 : tensor<f32>
    mlc.yield %c, %d : tensor<f32>, tensor<f32>
  }
  func.return %m, %s : tensor<f32>, tensor<f32>
}

func.func @short(%x: tensor<64xf32>) -> tensor<f32> {
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %s = mlc.tiles (%j in 64 step 16) iter(%b = %zero) -> (tensor<f32>) {
    %t = mlc.tile %x[%j] at (0) : tensor<64xf32> -> tensor<16xf32>
    %v = mlc.reduce "sum" "a->" %t : tensor<16xf32> -> tensor<f32>
    %d = mlc.add %b, %v : tensor<f32>
    mlc.yield %d : tensor<f32>
  } combine {
  ^bb0(%s1: tensor<f32>, %s2: tensor<f32>):
    %d = mlc.add %s1, %s2 : tensor<f32>
    mlc.yield %d : tensor<f32>
  }
  func.return %s : tensor<f32>
}

func.func @inside(%x: tensor<8x1048576xf32>) -> tensor<8xf32> {
  %y = mlc.tiles (%i in 8 step 4) -> (tensor<8xf32> at (0)) {
    %zero = mlc.constant dense<0.0> : tensor<f32>
    %s = mlc.tiles (%j in 1048576 step 4096) iter(%b = %zero) -> (tensor<f32>) {
      %t = mlc.tile %x[%i, %j] at (0, 1) : tensor<8x1048576xf32> -> tensor<4x4096xf32>
      %v = mlc.reduce "sum" "ab->" %t : tensor<4x4096xf32> -> tensor<f32>
      %d = mlc.add %b, %v : tensor<f32>
      mlc.yield %d : tensor<f32>
    } combine {
    ^bb0(%s1: tensor<f32>, %s2: tensor<f32>):
      %d = mlc.add %s1, %s2 : tensor<f32>
      mlc.yield %d : tensor<f32>
    }
    %r = mlc.broadcast "->a" %s : tensor<f32> -> tensor<4xf32>
    mlc.yield %r : tensor<4xf32>
  }
  func.return %y : tensor<8xf32>
}

func.func @few_rows(%q: tensor<200x64xf32>, %k: tensor<65536x64xf32>, %v: tensor<65536x64xf32>) -> tensor<200x64xf32> {
  %s = mlc.contract "ab,cb->ac" %q, %k : tensor<200x64xf32>, tensor<65536x64xf32> -> tensor<200x65536xf32>
  %m = mlc.reduce "max" "ab->a" %s : tensor<200x65536xf32> -> tensor<200xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<200xf32> -> tensor<200x65536xf32>
  %d = mlc.sub %s, %mb : tensor<200x65536xf32>
  %e = mlc.exp %d : tensor<200x65536xf32>
  %l = mlc.reduce "sum" "ab->a" %e : tensor<200x65536xf32> -> tensor<200xf32>
  %lb = mlc.broadcast "a->ab" %l : tensor<200xf32> -> tensor<200x65536xf32>
  %p = mlc.div %e, %lb : tensor<200x65536xf32>
  %o = mlc.contract "ab,bc->ac" %p, %v : tensor<200x65536xf32>, tensor<65536x64xf32> -> tensor<200x64xf32>
  func.return %o : tensor<200x64xf32>
}
