// Constants fold, identities that keep every bit apply, views compose; nothing that changes a bit.
// RUN: mlc opt %s -p canonicalize,dce --split-input-file | filecheck %s
// RUN: mlc opt %s -p 'canonicalize{max-elements=3}' --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=BUDGET

// Constant folding, the first example of the course: 2 * 3 + x is 6 + x, with the constant on the right.
// CHECK-LABEL: @constants_fold
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    %[[SIX:.*]] = mlc.constant dense<6.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[SUM:.*]] = mlc.add %[[X]], %[[SIX]]
// CHECK-NEXT:    func.return %[[SUM]]
func.func @constants_fold(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = mlc.constant dense<2.0> : tensor<4xf32>
  %three = mlc.constant dense<3.0> : tensor<4xf32>
  %six = mlc.mul %two, %three : tensor<4xf32>
  %sum = mlc.add %six, %x : tensor<4xf32>
  func.return %sum : tensor<4xf32>
}

// A constant above the budget is left to run time, with a remark; a splat of any size is one element.
// CHECK-LABEL: @budget
// CHECK:         mlc.constant dense<[4.000000e+00, 3.000000e+00, 2.000000e+00, 1.000000e+00]>
// CHECK-NOT:     mlc.slice
// BUDGET:        remark: mlc.slice: not folded: 4 elements
// BUDGET-LABEL:  @budget
// BUDGET:        mlc.slice
// BUDGET:        mlc.constant dense<6.000000e+00> : tensor<1000000xf32>
func.func @budget() -> (tensor<4xf32>, tensor<1000000xf32>) {
  %x = mlc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %reversed = mlc.slice %x[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
  %three = mlc.constant dense<3.0> : tensor<f32>
  %large = mlc.broadcast "->n" %three : tensor<f32> -> tensor<1000000xf32>
  %six = mlc.add %large, %large : tensor<1000000xf32>
  func.return %reversed, %six : tensor<4xf32>, tensor<1000000xf32>
}

// -----

// x * 1, x - 0.0, x + -0.0, -(-x), x / 1, convert there and back: all are x.
// CHECK-LABEL: @identities
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    func.return %[[X]]
func.func @identities(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = mlc.constant dense<1.0> : tensor<4xf32>
  %zero = mlc.constant dense<0.0> : tensor<4xf32>
  %minus_zero = mlc.constant dense<-0.0> : tensor<4xf32>
  %0 = mlc.mul %one, %x : tensor<4xf32>
  %1 = mlc.sub %0, %zero : tensor<4xf32>
  %2 = mlc.add %1, %minus_zero : tensor<4xf32>
  %3 = mlc.neg %2 : tensor<4xf32>
  %4 = mlc.neg %3 : tensor<4xf32>
  %5 = mlc.div %4, %one : tensor<4xf32>
  %6 = mlc.convert %5 : tensor<4xf32> -> tensor<4xf64>
  %7 = mlc.convert %6 : tensor<4xf64> -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}

// x + 0.0 turns -0.0 into 0.0, x * 0.0 keeps NaN, x - x may be NaN: none of them is an identity.
// CHECK-LABEL: @not_identities
// CHECK:         mlc.add
// CHECK-NEXT:    mlc.mul
// CHECK-NEXT:    mlc.sub
// CHECK-NEXT:    mlc.convert
// CHECK-NEXT:    mlc.convert
func.func @not_identities(%x: tensor<4xf64>) -> tensor<4xf64> {
  %zero = mlc.constant dense<0.0> : tensor<4xf64>
  %0 = mlc.add %x, %zero : tensor<4xf64>
  %1 = mlc.mul %0, %zero : tensor<4xf64>
  %2 = mlc.sub %1, %1 : tensor<4xf64>
  %3 = mlc.convert %2 : tensor<4xf64> -> tensor<4xf32>
  %4 = mlc.convert %3 : tensor<4xf32> -> tensor<4xf64>
  func.return %4 : tensor<4xf64>
}

// On integers they are: they have neither NaN nor -0.
// CHECK-LABEL: @integer_identities
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xi64>
// CHECK-NEXT:    %[[ZERO:.*]] = mlc.constant dense<0> : tensor<4xi64>
// CHECK-NEXT:    func.return %[[X]], %[[ZERO]], %[[ZERO]]
func.func @integer_identities(%x: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) {
  %zero = mlc.constant dense<0> : tensor<4xi64>
  %0 = mlc.add %x, %zero : tensor<4xi64>
  %1 = mlc.mul %x, %zero : tensor<4xi64>
  %2 = mlc.mul %1, %x : tensor<4xi64>
  func.return %0, %1, %2 : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
}

// -----

// Subtracting a negated value adds it; dividing by 4 multiplies by a quarter, exactly. By 3: never.
// CHECK-LABEL: @strength
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>, %[[Y:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    %[[THREE:.*]] = mlc.constant dense<3.000000e+00>
// CHECK-NEXT:    %[[SUM:.*]] = mlc.add %[[X]], %[[Y]]
// CHECK-NEXT:    %[[QUARTER:.*]] = mlc.constant dense<2.500000e-01>
// CHECK-NEXT:    %[[PRODUCT:.*]] = mlc.mul %[[SUM]], %[[QUARTER]]
// CHECK-NEXT:    mlc.div %[[PRODUCT]], %[[THREE]]
func.func @strength(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %four = mlc.constant dense<4.0> : tensor<4xf32>
  %three = mlc.constant dense<3.0> : tensor<4xf32>
  %0 = mlc.neg %y : tensor<4xf32>
  %1 = mlc.sub %x, %0 : tensor<4xf32>
  %2 = mlc.div %1, %four : tensor<4xf32>
  %3 = mlc.div %2, %three : tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// A select of equal branches, or on a known condition, is the branch.
// CHECK-LABEL: @selects
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>, %[[Y:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    func.return %[[X]], %[[Y]]
func.func @selects(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %no = mlc.constant dense<false> : tensor<4xi1>
  %0 = mlc.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  %1 = mlc.select %no, %x, %y : tensor<4xi1>, tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two views of one kind are one; a pair that cancels is none.
// CHECK-LABEL: @views
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<2x3xf32>
// CHECK-NEXT:    %[[ONCE:.*]] = mlc.transpose "abc->bca" {{.*}} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
// CHECK-NEXT:    %[[WIDE:.*]] = mlc.broadcast "xy->kxy" %[[X]]
// CHECK-NEXT:    %[[FLAT:.*]] = mlc.reshape %[[X]] : tensor<2x3xf32> -> tensor<6xf32>
// CHECK-NEXT:    func.return %[[X]], %[[ONCE]], %[[WIDE]], %[[FLAT]]
func.func @views(%x: tensor<2x3xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2x3xf32>, tensor<3x4x2xf32>, tensor<5x2x3xf32>, tensor<6xf32>) {
  %0 = mlc.transpose "mn->nm" %x : tensor<2x3xf32> -> tensor<3x2xf32>
  %1 = mlc.transpose "mn->nm" %0 : tensor<3x2xf32> -> tensor<2x3xf32>
  %2 = mlc.transpose "abc->bac" %y : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %3 = mlc.transpose "bac->bca" %2 : tensor<3x2x4xf32> -> tensor<3x4x2xf32>
  %4 = mlc.broadcast "mn->mn" %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %5 = mlc.broadcast "xy->kxy" %4 : tensor<2x3xf32> -> tensor<5x2x3xf32>
  %6 = mlc.reshape %x : tensor<2x3xf32> -> tensor<3x2xf32>
  %7 = mlc.reshape %6 : tensor<3x2xf32> -> tensor<6xf32>
  func.return %1, %3, %5, %7 : tensor<2x3xf32>, tensor<3x4x2xf32>, tensor<5x2x3xf32>, tensor<6xf32>
}

// x[1:][::-2] reads x backwards from its end: one slice. A slice of everything is none.
// CHECK-LABEL: @slices
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<8xf32>
// CHECK-NEXT:    %[[S:.*]] = mlc.slice %[[X]][<7>, <-2>] : tensor<8xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %[[S]], %[[X]]
func.func @slices(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = mlc.slice %x[<1>, <1>] : tensor<8xf32> -> tensor<7xf32>
  %1 = mlc.slice %0[<6>, <-2>] : tensor<7xf32> -> tensor<4xf32>
  %2 = mlc.slice %x[<0>, <1>] : tensor<8xf32> -> tensor<8xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<8xf32>
}

// A transposed splat is a splat; a symbolic one stays a broadcast of one element.
// CHECK-LABEL: @splats
// CHECK-NEXT:    %[[ONE:.*]] = mlc.constant dense<1.000000e+00> : tensor<3x2xf32>
// CHECK-NEXT:    %[[POINT:.*]] = mlc.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[ONES:.*]] = mlc.broadcast "->a" %[[POINT]]
// CHECK-NEXT:    func.return %[[ONE]], %[[ONES]]
func.func @splats(%x: tensor<?xf32, #mlc.dims<"B">>) -> (tensor<3x2xf32>, tensor<?xf32, #mlc.dims<"B">>) {
  %one = mlc.constant dense<1.0> : tensor<2x3xf32>
  %0 = mlc.transpose "mn->nm" %one : tensor<2x3xf32> -> tensor<3x2xf32>
  %point = mlc.constant dense<1.0> : tensor<f32>
  %ones = mlc.broadcast "->a" %point : tensor<f32> -> tensor<?xf32, #mlc.dims<"B">>
  %1 = mlc.mul %ones, %ones : tensor<?xf32, #mlc.dims<"B">>
  func.return %0, %1 : tensor<3x2xf32>, tensor<?xf32, #mlc.dims<"B">>
}

// The exponential of a repeated row is computed once and repeated; of two different patterns it is not.
// CHECK-LABEL: @compute_before_broadcast
// CHECK-SAME:    %[[ROW:[a-z]+]]: tensor<3xf32>
// CHECK-NEXT:    %[[E:.*]] = mlc.exp %[[ROW]] : tensor<3xf32>
// CHECK-NEXT:    %[[REPEATED:.*]] = mlc.broadcast "n->mn" %[[E]]
// CHECK-NEXT:    %[[COLUMNS:.*]] = mlc.broadcast "m->mn"
// CHECK-NEXT:    mlc.add %[[REPEATED]], %[[COLUMNS]] : tensor<2x3xf32>
func.func @compute_before_broadcast(%row: tensor<3xf32>, %column: tensor<2xf32>) -> tensor<2x3xf32> {
  %0 = mlc.broadcast "n->mn" %row : tensor<3xf32> -> tensor<2x3xf32>
  %1 = mlc.exp %0 : tensor<2x3xf32>
  %2 = mlc.broadcast "m->mn" %column : tensor<2xf32> -> tensor<2x3xf32>
  %3 = mlc.add %1, %2 : tensor<2x3xf32>
  func.return %3 : tensor<2x3xf32>
}

// -----

// A reshape that joins only what lies together in an argument is a view of it: the transpose comes after.
// CHECK-LABEL: @split_after_transpose
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4x6xf32>
// CHECK-NEXT:    %[[FLAT:.*]] = mlc.reshape %[[X]] : tensor<4x6xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT:    mlc.transpose "{{.*}}" %[[FLAT]] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
func.func @split_after_transpose(%x: tensor<4x6xf32>) -> tensor<2x3x4xf32> {
  %t = mlc.transpose "mn->nm" %x : tensor<4x6xf32> -> tensor<6x4xf32>
  %r = mlc.reshape %t : tensor<6x4xf32> -> tensor<2x3x4xf32>
  func.return %r : tensor<2x3x4xf32>
}

// -----

// Two axes that do not lie together are joined: the elements have to be moved first.
// CHECK-LABEL: @joined_after_transpose
// CHECK:         mlc.transpose
// CHECK-NEXT:    mlc.reshape
func.func @joined_after_transpose(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %t = mlc.transpose "mn->nm" %x : tensor<4x6xf32> -> tensor<6x4xf32>
  %r = mlc.reshape %t : tensor<6x4xf32> -> tensor<24xf32>
  func.return %r : tensor<24xf32>
}

// -----

// A transpose that only moves an axis of size 1 moves nothing.
// CHECK-LABEL: @unit_axis
// CHECK-NOT:     mlc.transpose
func.func @unit_axis(%x: tensor<1x2x3xf32>) -> tensor<6xf32> {
  %t = mlc.transpose "abc->bca" %x : tensor<1x2x3xf32> -> tensor<2x3x1xf32>
  %r = mlc.reshape %t : tensor<2x3x1xf32> -> tensor<6xf32>
  func.return %r : tensor<6xf32>
}

// -----

// The gradient of a padded convolution: the cotangent's padding shrinks by what is taken away from the result.
// CHECK-LABEL: @crop_of_convolution
// CHECK-NEXT:    %[[ZERO:.*]] = mlc.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[PADDED:.*]] = mlc.pad %{{.*}}, %[[ZERO]][<0, 1, 0>, <0, 1, 0>] : tensor<2x8x4xf32>
// CHECK-NEXT:    %[[GRADIENT:.*]] = mlc.conv "n(y+i)f,icf->nyc" %[[PADDED]], %{{.*}} : tensor<2x10x4xf32>, tensor<3x5x4xf32> -> tensor<2x8x5xf32>
// CHECK-NEXT:    func.return %[[GRADIENT]]
func.func @crop_of_convolution(%g: tensor<2x8x4xf32>, %w: tensor<3x5x4xf32>) -> tensor<2x8x5xf32> {
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %wide = mlc.pad %g, %zero[<0, 2, 0>, <0, 2, 0>] : tensor<2x8x4xf32>, tensor<f32> -> tensor<2x12x4xf32>
  %all = mlc.conv "n(y+i)f,icf->nyc" %wide, %w : tensor<2x12x4xf32>, tensor<3x5x4xf32> -> tensor<2x10x5xf32>
  %kept = mlc.pad %all, %zero[<0, -1, 0>, <0, -1, 0>] : tensor<2x10x5xf32>, tensor<f32> -> tensor<2x8x5xf32>
  func.return %kept : tensor<2x8x5xf32>
}

// -----

// Of a result that somebody else reads whole, everything is computed.
// CHECK-LABEL: @crop_of_shared_convolution
// CHECK:         mlc.conv {{.*}} -> tensor<2x6x5xf32>
// CHECK-NEXT:    mlc.pad {{.*}} -> tensor<2x4x5xf32>
func.func @crop_of_shared_convolution(%g: tensor<2x8x4xf32>, %w: tensor<3x5x4xf32>) -> (tensor<2x4x5xf32>, tensor<2x6x5xf32>) {
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %all = mlc.conv "n(y+i)f,icf->nyc" %g, %w : tensor<2x8x4xf32>, tensor<3x5x4xf32> -> tensor<2x6x5xf32>
  %kept = mlc.pad %all, %zero[<0, -1, 0>, <0, -1, 0>] : tensor<2x6x5xf32>, tensor<f32> -> tensor<2x4x5xf32>
  func.return %kept, %all : tensor<2x4x5xf32>, tensor<2x6x5xf32>
}

// -----

// With stride 2 and dilation 3, one result less at the front is 2 elements less of x.
// CHECK-LABEL: @crop_of_strided_convolution
// CHECK:         mlc.pad %{{.*}}, %{{.*}}[<-2>, <-4>] : tensor<20xf32>, tensor<f32> -> tensor<14xf32>
// CHECK-NEXT:    mlc.conv "(2y+3i),i->y" {{.*}} : tensor<14xf32>, tensor<3xf32> -> tensor<4xf32>
func.func @crop_of_strided_convolution(%x: tensor<20xf32>, %w: tensor<3xf32>) -> tensor<4xf32> {
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %all = mlc.conv "(2y+3i),i->y" %x, %w : tensor<20xf32>, tensor<3xf32> -> tensor<7xf32>
  %kept = mlc.pad %all, %zero[<-1>, <-2>] : tensor<7xf32>, tensor<f32> -> tensor<4xf32>
  func.return %kept : tensor<4xf32>
}

// -----

// Nothing is left of a padding that is taken away whole.
// CHECK-LABEL: @pad_nothing
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    func.return %[[X]]
func.func @pad_nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = mlc.constant dense<1.0> : tensor<f32>
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %wide = mlc.pad %x, %one[<2>, <1>] : tensor<4xf32>, tensor<f32> -> tensor<7xf32>
  %same = mlc.pad %wide, %zero[<-2>, <-1>] : tensor<7xf32>, tensor<f32> -> tensor<4xf32>
  func.return %same : tensor<4xf32>
}

// -----

// What a padding adds nowhere is not computed.
// CHECK-LABEL: @crop
// CHECK-NEXT:    %[[ZERO:.*]] = mlc.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:    %{{.*}} = mlc.pad %{{.*}}, %[[ZERO]][<-1>, <0>] : tensor<4xf32>, tensor<f32> -> tensor<3xf32>
// CHECK-NEXT:    func.return
func.func @crop(%x: tensor<4xf32>) -> tensor<3xf32> {
  %sum = mlc.reduce "sum" "a->" %x : tensor<4xf32> -> tensor<f32>
  %fewer = mlc.pad %x, %sum[<-1>, <0>] : tensor<4xf32>, tensor<f32> -> tensor<3xf32>
  func.return %fewer : tensor<3xf32>
}

// -----

// Zeros around ones, and zeros in place of elements: two paddings stay two.
// CHECK-LABEL: @two_paddings
// CHECK-COUNT-4: mlc.pad
func.func @two_paddings(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<4xf32>) {
  %one = mlc.constant dense<1.0> : tensor<f32>
  %zero = mlc.constant dense<0.0> : tensor<f32>
  %ones = mlc.pad %x, %one[<1>, <0>] : tensor<4xf32>, tensor<f32> -> tensor<5xf32>
  %zeros = mlc.pad %ones, %zero[<1>, <0>] : tensor<5xf32>, tensor<f32> -> tensor<6xf32>
  %fewer = mlc.pad %x, %zero[<-1>, <0>] : tensor<4xf32>, tensor<f32> -> tensor<3xf32>
  %shifted = mlc.pad %fewer, %zero[<1>, <0>] : tensor<3xf32>, tensor<f32> -> tensor<4xf32>
  func.return %zeros, %shifted : tensor<6xf32>, tensor<4xf32>
}

// Arithmetic along one axis is done along that axis, whatever the other operands repeat.
// CHECK-LABEL: @along_fewer_axes
// CHECK:         %[[ALL:.*]] = mlc.broadcast "->{{[a-z]}}" %s : tensor<f32> -> tensor<5xf32>
// CHECK-NEXT:    %[[SUM:.*]] = mlc.add %x, %[[ALL]] : tensor<5xf32>
// CHECK-NEXT:    mlc.broadcast "n->mn" %[[SUM]] : tensor<5xf32> -> tensor<4x5xf32>
func.func @along_fewer_axes(%x: tensor<5xf32>, %s: tensor<f32>) -> tensor<4x5xf32> {
  %0 = mlc.broadcast "n->mn" %x : tensor<5xf32> -> tensor<4x5xf32>
  %1 = mlc.broadcast "->mn" %s : tensor<f32> -> tensor<4x5xf32>
  %2 = mlc.add %0, %1 : tensor<4x5xf32>
  func.return %2 : tensor<4x5xf32>
}

// Of an outer sum every element is another.
// CHECK-LABEL: @outer_sum
// CHECK:         mlc.add {{.*}} : tensor<4x5xf32>
func.func @outer_sum(%x: tensor<5xf32>, %y: tensor<4xf32>) -> tensor<4x5xf32> {
  %0 = mlc.broadcast "n->mn" %x : tensor<5xf32> -> tensor<4x5xf32>
  %1 = mlc.broadcast "m->mn" %y : tensor<4xf32> -> tensor<4x5xf32>
  %2 = mlc.add %0, %1 : tensor<4x5xf32>
  func.return %2 : tensor<4x5xf32>
}

// What follows a reshape runs where the product's tiles are, before it.
// CHECK-LABEL: @compute_before_reshape
// CHECK:         %[[Y:.*]] = mlc.contract
// CHECK-NEXT:    %[[T:.*]] = mlc.tanh %[[Y]] : tensor<4x6xf32>
// CHECK-NEXT:    mlc.reshape %[[T]] : tensor<4x6xf32> -> tensor<4x2x3xf32>
func.func @compute_before_reshape(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> tensor<4x2x3xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %w : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32>
  %1 = mlc.reshape %0 : tensor<4x6xf32> -> tensor<4x2x3xf32>
  %2 = mlc.tanh %1 : tensor<4x2x3xf32>
  func.return %2 : tensor<4x2x3xf32>
}

// A reshape of an argument is a view already.
// CHECK-LABEL: @reshaped_argument
// CHECK:         mlc.reshape %x
// CHECK-NEXT:    mlc.tanh
func.func @reshaped_argument(%x: tensor<4x6xf32>) -> tensor<4x2x3xf32> {
  %1 = mlc.reshape %x : tensor<4x6xf32> -> tensor<4x2x3xf32>
  %2 = mlc.tanh %1 : tensor<4x2x3xf32>
  func.return %2 : tensor<4x2x3xf32>
}

// A run of columns that a reshape cuts into heads is a run of heads: the reshape looks at memory.
// CHECK-LABEL: @reshape_of_slice
// CHECK:         %[[HEADS:.*]] = mlc.reshape %x : tensor<4x6xf32> -> tensor<4x3x2xf32>
// CHECK-NEXT:    mlc.slice %[[HEADS]][<0, 1, 0>, <1, 1, 1>] : tensor<4x3x2xf32> -> tensor<4x2x2xf32>
func.func @reshape_of_slice(%x: tensor<4x6xf32>) -> tensor<4x2x2xf32> {
  %0 = mlc.slice %x[<0, 2>, <1, 1>] : tensor<4x6xf32> -> tensor<4x4xf32>
  %1 = mlc.reshape %0 : tensor<4x4xf32> -> tensor<4x2x2xf32>
  func.return %1 : tensor<4x2x2xf32>
}

// Column 1 is in the middle of a head.
// CHECK-LABEL: @reshape_of_odd_slice
// CHECK:         mlc.slice %x
// CHECK-NEXT:    mlc.reshape
func.func @reshape_of_odd_slice(%x: tensor<4x6xf32>) -> tensor<4x2x2xf32> {
  %0 = mlc.slice %x[<0, 1>, <1, 1>] : tensor<4x6xf32> -> tensor<4x4xf32>
  %1 = mlc.reshape %0 : tensor<4x4xf32> -> tensor<4x2x2xf32>
  func.return %1 : tensor<4x2x2xf32>
}

// Exact strength reduction: powers of constants that are whole on integers, and signs that cancel.
// CHECK-LABEL: @cheaper_ops
// CHECK:         mlc.neg %x
// CHECK-NEXT:    mlc.mul %i, %i : tensor<4xi32>
// CHECK-NEXT:    mlc.mul %x, %x : tensor<4xf32>
// CHECK-NOT:     mlc.pow
func.func @cheaper_ops(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %0 = mlc.constant dense<-1.0> : tensor<4xf32>
  %1 = mlc.mul %x, %0 : tensor<4xf32>
  %2 = mlc.constant dense<2> : tensor<4xi32>
  %3 = mlc.pow %i, %2 : tensor<4xi32>
  %4 = mlc.neg %x : tensor<4xf32>
  %5 = mlc.mul %4, %4 : tensor<4xf32>
  func.return %1, %3, %5 : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
}

// In range exp(x) exp(y) is exp(x + y), but not everywhere: only "fast" numerics allows it.
// CHECK-LABEL: @approximate
// CHECK-COUNT-2: mlc.exp
func.func @approximate(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.exp %x : tensor<4xf32>
  %1 = mlc.exp %y : tensor<4xf32>
  %2 = mlc.mul %0, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// A constant and a repeated one fold where that stores no more; two repeated ones do not.
// CHECK-LABEL: @fold_repeated
// CHECK:         mlc.constant dense<{{.*}}9.0{{.*}}1.2{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:    mlc.broadcast "n->mn"
// CHECK-NEXT:    mlc.mul
// CHECK-NEXT:    return
func.func @fold_repeated() -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = mlc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %1 = mlc.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %2 = mlc.broadcast "m->mn" %1 : tensor<2xf32> -> tensor<2x2xf32>
  %3 = mlc.mul %0, %2 : tensor<2x2xf32>
  %4 = mlc.broadcast "n->mn" %1 : tensor<2xf32> -> tensor<2x2xf32>
  %5 = mlc.mul %4, %2 : tensor<2x2xf32>
  func.return %3, %5 : tensor<2x2xf32>, tensor<2x2xf32>
}

// The rows of an identity matrix are computed at the indices, which are judged all the same.
// CHECK-LABEL: @rows_of_an_identity
// CHECK-DAG:     %[[N:.*]] = mlc.iota 0 : tensor<9xi32>
// CHECK-DAG:     mlc.gather "0,a->a" %[[N]][%y] : tensor<9xi32>, tensor<4xi64> -> tensor<4xi32>
// CHECK-DAG:     mlc.iota 1 : tensor<4x9xi32>
// CHECK:         mlc.compare "eq" {{.*}} : tensor<4x9xi32> -> tensor<4x9xi1>
// CHECK-NEXT:    mlc.convert
// CHECK-NEXT:    return
func.func @rows_of_an_identity(%y: tensor<4xi64>) -> tensor<4x9xf64> {
  %0 = mlc.iota 0 : tensor<9x9xi32>
  %1 = mlc.iota 1 : tensor<9x9xi32>
  %2 = mlc.compare "eq" %0, %1 : tensor<9x9xi32> -> tensor<9x9xi1>
  %3 = mlc.convert %2 : tensor<9x9xi1> -> tensor<9x9xf64>
  %4 = mlc.gather "0b,a->ab" %3[%y] : tensor<9x9xf64>, tensor<4xi64> -> tensor<4x9xf64>
  func.return %4 : tensor<4x9xf64>
}

// An index that nothing made up is read with would be judged by nobody: the value stays.
// CHECK-LABEL: @rows_alike
// CHECK:         mlc.gather "0b,a->ab"
func.func @rows_alike(%y: tensor<4xi64>) -> tensor<4x9xi32> {
  %0 = mlc.iota 1 : tensor<9x9xi32>
  %1 = mlc.constant dense<2> : tensor<9x9xi32>
  %2 = mlc.add %0, %1 : tensor<9x9xi32>
  %3 = mlc.gather "0b,a->ab" %2[%y] : tensor<9x9xi32>, tensor<4xi64> -> tensor<4x9xi32>
  func.return %3 : tensor<4x9xi32>
}

// Slices that follow one another are one; of single rows, in any step.
// CHECK-LABEL: @slices_in_a_row
// CHECK-NEXT:    %[[BACK:.*]] = mlc.slice %x[<4>, <-2>] : tensor<8xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[Y:.*]] = mlc.concat 0 %x, %[[BACK]] : tensor<8xf32>, tensor<3xf32> -> tensor<11xf32>
// CHECK-NEXT:    func.return %[[Y]]
func.func @slices_in_a_row(%x: tensor<8xf32>) -> tensor<11xf32> {
  %0 = mlc.slice %x[<0>, <1>] : tensor<8xf32> -> tensor<3xf32>
  %1 = mlc.slice %x[<3>, <1>] : tensor<8xf32> -> tensor<5xf32>
  %2 = mlc.slice %x[<4>, <1>] : tensor<8xf32> -> tensor<1xf32>
  %3 = mlc.slice %x[<2>, <1>] : tensor<8xf32> -> tensor<1xf32>
  %4 = mlc.slice %x[<0>, <1>] : tensor<8xf32> -> tensor<1xf32>
  %5 = mlc.concat 0 %0, %1, %2, %3, %4 : tensor<3xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32> -> tensor<11xf32>
  func.return %5 : tensor<11xf32>
}

// Neither are rows read twice, nor other columns.
// CHECK-LABEL: @slices_apart
// CHECK:         mlc.concat 0 %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<3x2xf32>
func.func @slices_apart(%x: tensor<4x3xf32>) -> tensor<3x2xf32> {
  %0 = mlc.slice %x[<1, 0>, <1, 1>] : tensor<4x3xf32> -> tensor<1x2xf32>
  %1 = mlc.slice %x[<1, 0>, <1, 1>] : tensor<4x3xf32> -> tensor<1x2xf32>
  %2 = mlc.slice %x[<2, 1>, <1, 1>] : tensor<4x3xf32> -> tensor<1x2xf32>
  %3 = mlc.concat 0 %0, %1, %2 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<3x2xf32>
  func.return %3 : tensor<3x2xf32>
}

// -----

// A window as large as the image has one place: a product, in which what lies together in both factors is one letter.
// CHECK-LABEL: @window_with_one_place
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<2x5x3x3xf32>, %[[W:[a-z]+]]: tensor<4x5x3x3xf32>
// CHECK-NEXT:    %[[ROWS:.*]] = mlc.reshape %[[X]] : tensor<2x5x3x3xf32> -> tensor<2x45xf32>
// CHECK-NEXT:    %[[FILTERS:.*]] = mlc.reshape %[[W]] : tensor<4x5x3x3xf32> -> tensor<4x45xf32>
// CHECK-NEXT:    %[[SUMS:.*]] = mlc.contract "nj,fj->nf" %[[ROWS]], %[[FILTERS]]
// CHECK-NEXT:    mlc.reshape %[[SUMS]] : tensor<2x4xf32> -> tensor<2x4x1x1xf32>
func.func @window_with_one_place(%x: tensor<2x5x3x3xf32>, %w: tensor<4x5x3x3xf32>) -> tensor<2x4x1x1xf32> {
  %0 = mlc.conv "nc(y+i)(x+j),fcij->nfyx" %x, %w : tensor<2x5x3x3xf32>, tensor<4x5x3x3xf32> -> tensor<2x4x1x1xf32>
  func.return %0 : tensor<2x4x1x1xf32>
}

// On one axis of two it stays a convolution; with a stride or a dilation it reads a part of the image.
// CHECK-LABEL: @one_axis
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<2x5x6x9xf32>
// CHECK-NEXT:    %[[ROWS:.*]] = mlc.slice %[[X]][<0, 0, 0, 0>, <1, 1, 2, 1>] : tensor<2x5x6x9xf32> -> tensor<2x5x3x9xf32>
// CHECK-NEXT:    mlc.conv "nci(2x+j),fcij->nfx" %[[ROWS]], %{{.*}} -> tensor<2x4x4xf32>
// CHECK-NEXT:    mlc.reshape %{{.*}} : tensor<2x4x4xf32> -> tensor<2x4x1x4xf32>
func.func @one_axis(%x: tensor<2x5x6x9xf32>, %w: tensor<4x5x3x3xf32>) -> tensor<2x4x1x4xf32> {
  %0 = mlc.conv "nc(3y+2i)(2x+j),fcij->nfyx" %x, %w : tensor<2x5x6x9xf32>, tensor<4x5x3x3xf32> -> tensor<2x4x1x4xf32>
  func.return %0 : tensor<2x4x1x4xf32>
}
