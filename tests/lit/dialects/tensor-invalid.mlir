// What the verifiers of tensor ops say.
// RUN: mlc opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mlc.reduce: operands (tensor<3x4xf32>) give tensor<3xf32>, but the result is declared as tensor<4xf32>
func.func @result(%x: tensor<3x4xf32>) {
  %0 = mlc.reduce "sum" "mn->m" %x : tensor<3x4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: tensor<?x4xf32> has unknown sizes without names; expected #mlc.dims
func.func @unnamed(%x: tensor<?x4xf32>) {
  %0 = mlc.neg %x : tensor<?x4xf32>
  func.return
}

// -----

// CHECK: names 1 dims for 2 axes
func.func @rank(%x: tensor<?x4xf32, #mlc.dims<"B">>) {
  %0 = mlc.neg %x : tensor<?x4xf32, #mlc.dims<"B">>
  func.return
}

// -----

// CHECK: axis 1 is 4 but its dim is 5
func.func @size(%x: tensor<?x4xf32, #mlc.dims<"B", 5>>) {
  %0 = mlc.neg %x : tensor<?x4xf32, #mlc.dims<"B", 5>>
  func.return
}

// -----

// CHECK: 'B /' is not a dim; expected an integer polynomial over names
func.func @dim(%x: tensor<?xf32, #mlc.dims<"B /">>) {
  func.return
}

// -----

// A symbol never broadcasts: B may be 1 in one call and 7 in the next.
// CHECK: mlc.contract 'a,a->': 'a' is B in one operand and N in operand 1 (N,); expected equal sizes
func.func @symbols(%x: tensor<?xf32, #mlc.dims<"B">>, %y: tensor<?xf32, #mlc.dims<"N">>) {
  %0 = mlc.contract "a,a->" %x, %y : tensor<?xf32, #mlc.dims<"B">>, tensor<?xf32, #mlc.dims<"N">> -> tensor<f32>
  func.return
}

// -----

// CHECK: mlc.exp is not defined for i64; expected float
func.func @kind(%x: tensor<4xi64>) {
  %0 = mlc.exp %x : tensor<4xi64>
  func.return
}

// -----

// CHECK: mlc.compare: predicate 'less'; expected one of eq, ne, lt, le, gt, ge
func.func @predicate(%x: tensor<4xf32>) {
  %0 = mlc.compare "less" %x, %x : tensor<4xf32> -> tensor<4xi1>
  func.return
}

// -----

// CHECK: mlc.select: the condition is f32; expected bool: compare it, e.g. c != 0
func.func @condition(%x: tensor<4xf32>) {
  %0 = mlc.select %x, %x, %x : tensor<4xf32>, tensor<4xf32>
  func.return
}

// -----

// CHECK: mlc.broadcast 'nm->mn': operand letters must keep their order in the result
func.func @order(%x: tensor<3x4xf32>) {
  %0 = mlc.broadcast "nm->mn" %x : tensor<3x4xf32> -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: index letters 'mm->m': expected the form 'mk,kn->mn', no letter twice in one operand
func.func @twice(%x: tensor<3x3xf32>) {
  %0 = mlc.reduce "sum" "mm->m" %x : tensor<3x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// CHECK: mlc.reshape: cannot give (3, 4) (12 elements) the shape (5,) (5 elements); expected equal counts
func.func @count(%x: tensor<3x4xf32>) {
  %0 = mlc.reshape %x : tensor<3x4xf32> -> tensor<5xf32>
  func.return
}

// -----

// CHECK: mlc.slice: axis 0 has 4 elements; the slice reads from 2 to 5
func.func @outside(%x: tensor<4xf32>) {
  %0 = mlc.slice %x[<2>, <1>] : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: zero-size array to reduction operation max which has no identity
func.func @nothing(%x: tensor<3x0xf32>) {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<3x0xf32> -> tensor<3xf32>
  func.return
}

// -----

// CHECK: mlc.gather: index 0 is i32; expected i64 (mlc.convert makes it so)
func.func @index(%x: tensor<4xf32>, %i: tensor<2xi32>) {
  %0 = mlc.gather "0,b->b" %x[%i] : tensor<4xf32>, tensor<2xi32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: mlc.for: carried value 0 starts as tensor<4xf32> and continues as tensor<4xf64>; expected one type
func.func @carried(%x: tensor<4xf32>, %y: tensor<4xf64>, %n: tensor<i64>) {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    mlc.yield %y : tensor<4xf64>
  }
  func.return
}

// -----

// CHECK: mlc.within: the index is f32; expected i64 (mlc.convert)
func.func @within(%x: tensor<f32>) {
  %0 = mlc.within %x of <4> : tensor<f32>
  func.return
}

// -----

// CHECK: mlc.within: the size is #mlc.dims<4, 5>; expected one dim
func.func @within_two(%x: tensor<i64>) {
  %0 = mlc.within %x of <4, 5> : tensor<i64>
  func.return
}

// -----

// CHECK: mlc.positions of f32; expected bool (mlc.compare)
func.func @positions_of_numbers(%x: tensor<4xf32>) {
  %0 = mlc.positions %x : tensor<4xf32> -> tensor<2xi64>
  func.return
}

// -----

// CHECK: mlc.positions: 6 of 4 elements; expected no more than all
func.func @positions_beyond_all(%x: tensor<4xi1>) {
  %0 = mlc.positions %x : tensor<4xi1> -> tensor<6xi64>
  func.return
}

// -----

// CHECK: mlc.positions: a mask of 2 axes; expected one (mlc.reshape)
func.func @positions_of_a_matrix(%x: tensor<4x4xi1>) {
  %0 = mlc.positions %x : tensor<4x4xi1> -> tensor<2xi64>
  func.return
}

// -----

// CHECK: mlc.some: the number is i32; expected i64 (mlc.convert)
func.func @some(%x: tensor<i32>) {
  %0 = mlc.some %x of "max" : tensor<i32>
  func.return
}

// -----

// CHECK: mlc.some: reduction 'sum'; expected one of max, min, range
func.func @some_sum(%x: tensor<i64>) {
  %0 = mlc.some %x of "sum" : tensor<i64>
  func.return
}

// -----

// CHECK: mlc.divisor: operation '/'; expected one of int /, int //, int %, int divmod, float /
func.func @divisor(%x: tensor<i64>) {
  %0 = mlc.divisor %x of "/" : tensor<i64>
  func.return
}

// -----

// CHECK: mlc.bind: the limit is #mlc.dims<4, 5>; expected one dim
func.func @limits(%n: tensor<i64>) {
  mlc.bind "k" = %n to <4, 5>
  func.return
}

// -----

// CHECK: mlc.bind: the limit of "k" is said by itself
func.func @itself(%n: tensor<i64>) {
  mlc.bind "k" = %n to <"k + 1">
  func.return
}

// -----

// CHECK: mlc.room: the number is i32; expected i64 (mlc.convert)
func.func @room(%x: tensor<i32>) {
  %0 = mlc.room "repeat" %x of <4> : tensor<i32>
  func.return
}

// -----

// CHECK: mlc.contract: factors of f64 are rounded to bf16; expected f32, and bf16 or f16
func.func @rounded(%x: tensor<4xf64>) -> tensor<f64> {
  %0 = mlc.contract "a,a->" %x, %x rounds "bf16" : tensor<4xf64>, tensor<4xf64> -> tensor<f64>
  func.return %0 : tensor<f64>
}

// -----

// CHECK: mlc.term: term 3; expected 0 to 2
func.func @term(%x: tensor<4xf32>) {
  %0 = mlc.term 3, %x : tensor<4xf32> -> tensor<4xbf16>
  func.return
}

// -----

// CHECK: mlc.term is not defined for f64; expected f32
func.func @wide(%x: tensor<4xf64>) {
  %0 = mlc.term 0, %x : tensor<4xf64> -> tensor<4xbf16>
  func.return
}

// -----

// CHECK: mlc.of_terms is not defined for f16; expected bf16
func.func @of_terms(%x: tensor<4xf16>) {
  %0 = mlc.of_terms %x, %x, %x : tensor<4xf16> -> tensor<4xf32>
  func.return
}
