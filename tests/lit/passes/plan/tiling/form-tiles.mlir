// Ops with common rows become one loop over tiles of rows: what they hand to one another stays in a
// cache, and only what somebody else reads is put together.
// RUN: mlc opt %s --target=avx512 -p mlc-form-tiles --split-input-file | filecheck %s
// RUN: mlc opt %s --target=avx512 -p 'form-tiles{tile=3,8}' --split-input-file | filecheck %s --check-prefix=ANY

// Rows of a softmax: three loop nests over tiles, one kernel.
// CHECK-LABEL: @softmax
// CHECK: %[[ROWS:.*]] = mlc.tiles (%[[I:.*]] in 4096 step 16) -> (tensor<4096x1024xf32> at (0)) {
// CHECK-NEXT: %[[TILE:.*]] = mlc.tile %x[%[[I]]] at (0) : tensor<4096x1024xf32> -> tensor<16x1024xf32>
// CHECK-NEXT: %[[MAX:.*]] = mlc.reduce "max" "ab->a" %[[TILE]] : tensor<16x1024xf32> -> tensor<16xf32>
// CHECK: mlc.reduce "sum" "ab->a"
// CHECK: mlc.yield %{{.*}} : tensor<16x1024xf32>
// CHECK: func.return %[[ROWS]]
func.func @softmax(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %m = mlc.reduce "max" "ab->a" %x : tensor<4096x1024xf32> -> tensor<4096xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<4096xf32> -> tensor<4096x1024xf32>
  %d = mlc.sub %x, %mb : tensor<4096x1024xf32>
  %e = mlc.exp %d : tensor<4096x1024xf32>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<4096x1024xf32> -> tensor<4096xf32>
  %sb = mlc.broadcast "a->ab" %s : tensor<4096xf32> -> tensor<4096x1024xf32>
  %p = mlc.div %e, %sb : tensor<4096x1024xf32>
  func.return %p : tensor<4096x1024xf32>
}

// -----

// Xᵀ(w·(X v)) reads X once: each tile of rows adds to the sum over rows.
// CHECK-LABEL: @one_pass
// CHECK: mlc.tiles (%[[I:.*]] in 10000 step {{[0-9]+}}) iter(%[[SUM:.*]] = %{{.*}}) fold("sum") -> (tensor<500xf32>) {
// CHECK: %[[X:.*]] = mlc.tile %X[%[[I]]] at (0)
// CHECK: mlc.contract "ab,b->a" %[[X]], %v
// CHECK: %[[PART:.*]] = mlc.contract "ba,b->a" %[[X]],
// CHECK: mlc.add %[[SUM]], %[[PART]] : tensor<500xf32>
func.func @one_pass(%X: tensor<10000x500xf32>, %w: tensor<10000xf32>, %v: tensor<500xf32>) -> tensor<500xf32> {
  %0 = mlc.contract "ab,b->a" %X, %v : tensor<10000x500xf32>, tensor<500xf32> -> tensor<10000xf32>
  %1 = mlc.mul %w, %0 : tensor<10000xf32>
  %2 = mlc.contract "ba,b->a" %X, %1 : tensor<10000x500xf32>, tensor<10000xf32> -> tensor<500xf32>
  func.return %2 : tensor<500xf32>
}

// -----

// The size of the last tile has a name where tiles do not come out even.
// CHECK-LABEL: @any_rows
// CHECK: mlc.tiles (%{{.*}} in "N" step {{[0-9]+}} as "T1") -> (tensor<?x1024xf32, #mlc.dims<"N", 1024>> at (0))
func.func @any_rows(%x: tensor<?x1024xf32, #mlc.dims<"N", 1024>>) -> tensor<?x1024xf32, #mlc.dims<"N", 1024>> {
  %m = mlc.reduce "max" "ab->a" %x : tensor<?x1024xf32, #mlc.dims<"N", 1024>> -> tensor<?xf32, #mlc.dims<"N">>
  %mb = mlc.broadcast "a->ab" %m : tensor<?xf32, #mlc.dims<"N">> -> tensor<?x1024xf32, #mlc.dims<"N", 1024>>
  %d = mlc.sub %x, %mb : tensor<?x1024xf32, #mlc.dims<"N", 1024>>
  func.return %d : tensor<?x1024xf32, #mlc.dims<"N", 1024>>
}

// -----

// One loop nest alone gains nothing; nor does a pair whose second reads all rows of the first.
// CHECK-LABEL: @nothing_to_share
// CHECK-NOT: mlc.tiles
func.func @nothing_to_share(%x: tensor<4096x1024xf32>) -> tensor<1024xf32> {
  %s = mlc.reduce "sum" "ab->b" %x : tensor<4096x1024xf32> -> tensor<1024xf32>
  %e = mlc.exp %s : tensor<1024xf32>
  func.return %e : tensor<1024xf32>
}

// -----

// What is sorted is read after the loop that computes it.
// CHECK-LABEL: @beside_a_partition
// CHECK: %[[ROWS:.*]], %{{.*}} = mlc.tiles (%{{.*}} in 4096 step {{[0-9]+}}) -> (tensor<4096x1024xf32> at (0), tensor<4096xf32> at (0))
// CHECK: mlc.partition "ascending" 5 : i64 "all" %[[ROWS]] :
func.func @beside_a_partition(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096xf32>) {
  %m = mlc.reduce "max" "ab->a" %x : tensor<4096x1024xf32> -> tensor<4096xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<4096xf32> -> tensor<4096x1024xf32>
  %d = mlc.sub %x, %mb : tensor<4096x1024xf32>
  %e = mlc.exp %d : tensor<4096x1024xf32>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<4096x1024xf32> -> tensor<4096xf32>
  %p = mlc.partition "ascending" 5 : i64 "all" %e : tensor<4096x1024xf32> -> tensor<4096x1024xf32>
  func.return %p, %s : tensor<4096x1024xf32>, tensor<4096xf32>
}

// -----

// Small programs have tiles of any size that somebody asks for.
// ANY-LABEL: @few_rows
// ANY: mlc.tiles (%{{.*}} in 7 step 3 as "T{{.*}}") -> (tensor<7xf32> at (0)) {
// ANY: mlc.tiles (%{{.*}} in 16 step 8) iter({{.*}}) fold("sum")
// ANY: mlc.tiles (%{{.*}} in 16 step 8) iter({{.*}}) fold("max")
func.func @few_rows(%x: tensor<7x16xf32>) -> tensor<7xf32> {
  %s = mlc.reduce "sum" "ab->a" %x : tensor<7x16xf32> -> tensor<7xf32>
  %sb = mlc.broadcast "a->ab" %s : tensor<7xf32> -> tensor<7x16xf32>
  %d = mlc.sub %x, %sb : tensor<7x16xf32>
  %m = mlc.reduce "max" "ab->a" %d : tensor<7x16xf32> -> tensor<7xf32>
  func.return %m : tensor<7xf32>
}

// -----

// What an update covers whole is not read, and cut all the same: both have one shape.
// ANY-LABEL: @covered
// ANY: mlc.tiles (%{{.*}} in 7 step 3 as "[[T:T[0-9]+]]")
// ANY: mlc.dynamic_update {{.*}} : tensor<?xi64, #mlc.dims<"[[T]]">>, tensor<?xi64, #mlc.dims<"[[T]]">>, tensor<i64>
func.func @covered(%x: tensor<7xi64>, %y: tensor<7xi64>, %i: tensor<i64>) -> tensor<i64> {
  %n = mlc.dynamic_slice %y[%i] : tensor<7xi64>, tensor<i64> -> tensor<7xi64>
  %u = mlc.dynamic_update %x, %n[%i] : tensor<7xi64>, tensor<7xi64>, tensor<i64> -> tensor<7xi64>
  %b = mlc.broadcast "a->ab" %u : tensor<7xi64> -> tensor<7x17xi64>
  %s = mlc.reduce "sum" "ab->" %b : tensor<7x17xi64> -> tensor<i64>
  func.return %s : tensor<i64>
}

// -----

// Nothing is computed in no tile.
// CHECK-LABEL: @no_rows
// CHECK-NOT: mlc.tiles
func.func @no_rows(%x: tensor<0x1024xf32>) -> tensor<0xf32> {
  %s = mlc.reduce "sum" "ab->a" %x : tensor<0x1024xf32> -> tensor<0xf32>
  %sb = mlc.broadcast "a->ab" %s : tensor<0xf32> -> tensor<0x1024xf32>
  %d = mlc.sub %x, %sb : tensor<0x1024xf32>
  %m = mlc.reduce "max" "ab->a" %d : tensor<0x1024xf32> -> tensor<0xf32>
  func.return %m : tensor<0xf32>
}

// -----

// A trip runs if its part of the mask holds a true, or a masked column would count for some row.
// ANY-LABEL: @masked
// ANY: mlc.tiles (%[[I:.*]] in 9 step 3) ->
// ANY: mlc.tiles (%[[J:.*]] in 16 step 8) iter(%[[M:.*]] = %{{.*}}, %[[S:.*]] = %{{.*}})
// ANY-NEXT: %[[MASK:.*]] = mlc.tile %mask[%[[I]], %[[J]]] at (0, 1)
// ANY-NEXT: %[[SEEN:.*]] = mlc.reduce "max" "ab->" %[[MASK]]
// ANY: %[[D:.*]] = mlc.sub %{{.*}}, %[[M]]
// ANY-NEXT: %[[E:.*]] = mlc.exp %[[D]]
// ANY: mlc.compare "ne" %[[E]],
// ANY: %[[RUNS:.*]] = mlc.add %[[SEEN]], %{{.*}} : tensor<i1>
// ANY: mlc.if %[[RUNS]]
// ANY: mlc.tile %x[%[[I]], %[[J]]]
// ANY: else {
// ANY-NEXT: mlc.yield %[[M]], %[[S]]
func.func @masked(%x: tensor<9x16xf32>, %mask: tensor<9x16xi1>) -> tensor<9xf32> {
  %c = mlc.constant dense<-1.000000e+30> : tensor<9x16xf32>
  %z = mlc.select %mask, %x, %c : tensor<9x16xi1>, tensor<9x16xf32>
  %m = mlc.reduce "max" "ab->a" %z : tensor<9x16xf32> -> tensor<9xf32>
  %mb = mlc.broadcast "a->ab" %m : tensor<9xf32> -> tensor<9x16xf32>
  %d = mlc.sub %z, %mb : tensor<9x16xf32>
  %e = mlc.exp %d : tensor<9x16xf32>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<9x16xf32> -> tensor<9xf32>
  func.return %s : tensor<9xf32>
}

// -----

// What has lost its last element has to lie in memory: a tile of it is not a tile that lost one.
// ANY-LABEL: @shortened
// ANY: %[[P:.*]] = mlc.pad %x,
// ANY: mlc.tiles (%[[I:.*]] in 10 step 3 as "T{{.*}}")
// ANY: mlc.tile %[[P]][%[[I]]] at (0)
func.func @shortened(%x: tensor<11xi32>) -> (tensor<10xi32>, tensor<i32>) {
  %c = mlc.constant dense<2> : tensor<i32>
  %p = mlc.pad %x, %c[<0>, <-1>] : tensor<11xi32>, tensor<i32> -> tensor<10xi32>
  %n = mlc.neg %p : tensor<10xi32>
  %s = mlc.reduce "sum" "c->" %n : tensor<10xi32> -> tensor<i32>
  func.return %n, %s : tensor<10xi32>, tensor<i32>
}

// -----

// So has a part of an axis of any size: whether a tile lies inside is not known.
// ANY-LABEL: @first_two
// ANY: %[[P:.*]] = mlc.slice %x[<0>, <1>]
// ANY: mlc.tiles (%[[I:.*]] in 2 step 3 as "T{{.*}}")
// ANY: mlc.tile %[[P]][%[[I]]] at (0)
func.func @first_two(%x: tensor<?xui32, #mlc.dims<"B">>) -> tensor<f32> attributes {mlc.symbols = ["B"]} {
  %p = mlc.slice %x[<0>, <1>] : tensor<?xui32, #mlc.dims<"B">> -> tensor<2xui32>
  %c = mlc.convert %p : tensor<2xui32> -> tensor<2xf32>
  %s = mlc.reduce "sum" "e->" %c : tensor<2xf32> -> tensor<f32>
  func.return %s : tensor<f32>
}

// -----

// Where a limit of memory asks for it there are none.
// CHECK-LABEL: @untiled
// CHECK-NOT: mlc.tiles
// CHECK: func.return
module attributes {mlc.no_tile_loops} {
  func.func @untiled(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
    %m = mlc.reduce "max" "ab->a" %x : tensor<4096x1024xf32> -> tensor<4096xf32>
    %mb = mlc.broadcast "a->ab" %m : tensor<4096xf32> -> tensor<4096x1024xf32>
    %d = mlc.sub %x, %mb : tensor<4096x1024xf32>
    %e = mlc.exp %d : tensor<4096x1024xf32>
    %s = mlc.reduce "sum" "ab->a" %e : tensor<4096x1024xf32> -> tensor<4096xf32>
    %sb = mlc.broadcast "a->ab" %s : tensor<4096xf32> -> tensor<4096x1024xf32>
    %p = mlc.div %e, %sb : tensor<4096x1024xf32>
    func.return %p : tensor<4096x1024xf32>
  }
}

// -----

// Of 16 bits values of a loop are f32: what it reads is converted there, rounded is what it hands on.
// The maximum of a row, which another op reads, is handed on in f32, and rounded outside for others.
// CHECK-LABEL: @narrow
// CHECK: %[[TOP:.*]], %[[OUT:.*]] = mlc.tiles (%[[I:.*]] in 4096 step {{[0-9]+}}) -> (tensor<4096xf32> at (0), tensor<4096x1024xbf16> at (0)) {
// CHECK: %[[TILE:.*]] = mlc.tile %x[%[[I]]] at (0) : tensor<4096x1024xbf16>
// CHECK: %[[WIDE:.*]] = mlc.convert %[[TILE]] : {{.*}} -> tensor<[[N:[0-9]+]]x1024xf32>
// CHECK: mlc.reduce "sum" "ab->a" %{{.*}} : tensor<[[N]]x1024xf32> -> tensor<[[N]]xf32>
// CHECK: mlc.convert %{{.*}} : tensor<[[N]]x1024xf32> -> tensor<[[N]]x1024xbf16>
// CHECK: mlc.convert %[[TOP]] {mlc.wide} : tensor<4096xf32> -> tensor<4096xbf16>
func.func @narrow(%x: tensor<4096x1024xbf16>) -> (tensor<4096x1024xbf16>, tensor<bf16>) {
  %m = mlc.reduce "max" "ab->a" %x : tensor<4096x1024xbf16> -> tensor<4096xbf16>
  %mb = mlc.broadcast "a->ab" %m : tensor<4096xbf16> -> tensor<4096x1024xbf16>
  %d = mlc.sub %x, %mb : tensor<4096x1024xbf16>
  %e = mlc.exp %d : tensor<4096x1024xbf16>
  %s = mlc.reduce "sum" "ab->a" %e : tensor<4096x1024xbf16> -> tensor<4096xbf16>
  %sb = mlc.broadcast "a->ab" %s : tensor<4096xbf16> -> tensor<4096x1024xbf16>
  %p = mlc.div %e, %sb : tensor<4096x1024xbf16>
  %t = mlc.scan "sum" "forward" "inclusive" 0 %m : tensor<4096xbf16> -> tensor<4096xbf16>
  %u = mlc.reduce "max" "a->" %t : tensor<4096xbf16> -> tensor<bf16>
  func.return %p, %u : tensor<4096x1024xbf16>, tensor<bf16>
}
