// Derivatives by one function per kind of rule; by hand: J^T u and J v.
// RUN: mlc opt %s -p 'differentiate{mode=reverse}' | filecheck %s --check-prefix=VJP
// RUN: mlc opt %s -p 'differentiate{mode=forward}' | filecheck %s --check-prefix=JVP
// RUN: mlc opt %s -p 'differentiate{function=linear mode=forward},differentiate{function=linear_jvp mode=reverse wrt=0}' | filecheck %s --check-prefix=BOTH
// RUN: mlc opt %s -p 'differentiate{function=cross_entropy wrt=0},canonicalize,cse' | filecheck %s --check-prefix=LOSS
// RUN: not mlc opt %s -p 'differentiate{function=integers wrt=1}' 2>&1 | filecheck %s --check-prefix=INTEGER
// RUN: not mlc opt %s -p 'differentiate{function=integers wrt=2}' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not mlc opt %s -p 'differentiate{function=nobody}' 2>&1 | filecheck %s --check-prefix=NAME

// INTEGER: argument 1 of @integers is tensor<4xi64>, which has no derivative
// MANY: wrt names argument 2; @integers has 2
// NAME: no function 'nobody'; there is elementwise, linear,

// Forward mode, then reverse mode of that: x gets the cotangent of the result alone, none of that of the tangent.
// BOTH-LABEL: @linear_jvp_vjp(
// BOTH-SAME:    %[[U:[0-9]+]]: tensor<3x2xf32>, %[[W:[0-9]+]]:
// BOTH-NEXT:    %{{.*}} = mlc.transpose "ab->ba" %x
// BOTH-NEXT:    %{{.*}} = mlc.transpose "ab->ba" %dx
// BOTH-NEXT:    %[[BACK:.*]] = mlc.transpose "ba->ab" %[[U]]
// BOTH-NEXT:    func.return %{{.*}}, %{{.*}}, %[[BACK]]

// Elementwise: the cotangent times the partial.
// VJP-LABEL: @elementwise_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.sin %x
// VJP-NEXT:    %[[V2:.*]] = mlc.cos %x
// VJP-NEXT:    %[[V3:.*]] = mlc.mul %[[U]], %[[V2]]
// VJP-NEXT:    func.return %[[V1]], %[[V3]]
// JVP-LABEL: @elementwise_jvp(
// JVP-NEXT:    %[[V0:.*]] = mlc.sin %x
// JVP-NEXT:    %[[V1:.*]] = mlc.cos %x
// JVP-NEXT:    %[[V2:.*]] = mlc.mul %dx, %[[V1]]
// JVP-NEXT:    func.return %[[V0]], %[[V2]]
func.func @elementwise(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.sin %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// Linear: the transpose.
// VJP-LABEL: @linear_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.transpose "ab->ba" %x
// VJP-NEXT:    %[[V2:.*]] = mlc.transpose "ba->ab" %[[U]]
// VJP-NEXT:    func.return %[[V1]], %[[V2]]
func.func @linear(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = mlc.transpose "ab->ba" %x : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return %0 : tensor<3x2xf32>
}

// Linear in each operand: the transpose in one while the other is fixed.
// VJP-LABEL: @bilinear_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.contract "mk,kn->mn" %x, %y
// VJP-NEXT:    %[[V2:.*]] = mlc.contract "mn,kn->mk" %[[U]], %y
// VJP-NEXT:    %[[V3:.*]] = mlc.contract "mn,mk->kn" %[[U]], %x
// VJP-NEXT:    func.return %[[V1]], %[[V2]], %[[V3]]
// JVP-LABEL: @bilinear_jvp(
// JVP-NEXT:    %[[V0:.*]] = mlc.contract "mk,kn->mn" %x, %y
// JVP-NEXT:    %[[V1:.*]] = mlc.contract "mk,kn->mn" %dx, %y
// JVP-NEXT:    %[[V2:.*]] = mlc.contract "mk,kn->mn" %x, %dy
// JVP-NEXT:    %[[V3:.*]] = mlc.add %[[V1]], %[[V2]]
// JVP-NEXT:    func.return %[[V0]], %[[V3]]
func.func @bilinear(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>) -> tensor<2x5xf32> {
  %0 = mlc.contract "mk,kn->mn" %x, %y : tensor<2x3xf32>, tensor<3x5xf32> -> tensor<2x5xf32>
  func.return %0 : tensor<2x5xf32>
}

// By tangents: forward mode gathers them in the order of the elements; reverse mode is the transpose of that.
// VJP-LABEL: @by_tangents_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.sort "ascending" %x
// VJP-NEXT:    %[[V2:.*]] = mlc.argsort "ascending" %x
// VJP-NEXT:    %[[V3:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V4:.*]] = mlc.broadcast "->ab" %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = mlc.scatter "add" "a0,ab->ab" %[[V4]][%[[V2]]], %[[U]]
// VJP-NEXT:    func.return %[[V1]], %[[V5]]
// JVP-LABEL: @by_tangents_jvp(
// JVP-NEXT:    %[[V0:.*]] = mlc.sort "ascending" %x
// JVP-NEXT:    %[[V1:.*]] = mlc.argsort "ascending" %x
// JVP-NEXT:    %[[V2:.*]] = mlc.gather "a0,ab->ab" %dx[%[[V1]]]
// JVP-NEXT:    func.return %[[V0]], %[[V2]]
func.func @by_tangents(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mlc.sort "ascending" %x : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// (exp v + 1) exp v: two consumers of exp v, exactly one addition of cotangents.
// VJP-LABEL: @two_consumers_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.exp %v
// VJP-NEXT:    %one = mlc.constant dense<1.000000e+00>
// VJP-NEXT:    %[[V2:.*]] = mlc.add %[[V1]], %one
// VJP-NEXT:    %[[V3:.*]] = mlc.mul %[[V2]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = mlc.mul %[[U]], %[[V1]]
// VJP-NEXT:    %[[V5:.*]] = mlc.mul %[[U]], %[[V2]]
// VJP-NEXT:    %[[V6:.*]] = mlc.add %[[V5]], %[[V4]]
// VJP-NEXT:    %[[V7:.*]] = mlc.mul %[[V6]], %[[V1]]
// VJP-NEXT:    func.return %[[V3]], %[[V7]]
func.func @two_consumers(%v: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.exp %v : tensor<4xf32>
  %one = mlc.constant dense<1.0> : tensor<4xf32>
  %1 = mlc.add %0, %one : tensor<4xf32>
  %2 = mlc.mul %1, %0 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// A select masks what comes through it: the partial of the square root, inf or NaN where it was not chosen, does not reach the sum.
// VJP-LABEL: @select_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.sqrt %x
// VJP-NEXT:    %[[V2:.*]] = mlc.select %c, %[[V1]], %x
// VJP-NEXT:    %[[V3:.*]] = mlc.constant dense<5.000000e-01>
// VJP-NEXT:    %[[V4:.*]] = mlc.broadcast "->a" %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = mlc.div %[[V4]], %[[V1]]
// VJP-NEXT:    %[[V6:.*]] = mlc.mul %[[U]], %[[V5]]
// VJP-NEXT:    %[[V7:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V8:.*]] = mlc.broadcast "->a" %[[V7]]
// VJP-NEXT:    %[[V9:.*]] = mlc.select %c, %[[V8]], %[[U]]
// VJP-NEXT:    %[[V10:.*]] = mlc.select %c, %[[V6]], %[[V8]]
// VJP-NEXT:    %[[V11:.*]] = mlc.add %[[V9]], %[[V10]]
// VJP-NEXT:    func.return %[[V2]], %[[V11]]
func.func @select(%c: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.sqrt %x : tensor<4xf32>
  %1 = mlc.select %c, %0, %x : tensor<4xi1>, tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Reading at positions: adding at positions.
// VJP-LABEL: @gather_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.gather "0n,b->bn" %x[%i]
// VJP-NEXT:    %[[V2:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V3:.*]] = mlc.broadcast "->ab" %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = mlc.scatter "add" "0n,b->bn" %[[V3]][%i], %[[U]]
// VJP-NEXT:    func.return %[[V1]], %[[V4]]
func.func @gather(%x: tensor<9x4xf32>, %i: tensor<5xi64>) -> tensor<5x4xf32> {
  %0 = mlc.gather "0n,b->bn" %x[%i] : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %0 : tensor<5x4xf32>
}

// A slice: zeros around it.
// VJP-LABEL: @slice_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.slice %x[<2>, <1>]
// VJP-NEXT:    %[[V2:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V3:.*]] = mlc.pad %[[U]], %[[V2]][<2>, <3>]
// VJP-NEXT:    func.return %[[V1]], %[[V3]]
func.func @slice(%x: tensor<9xf32>) -> tensor<4xf32> {
  %0 = mlc.slice %x[<2>, <1>] : tensor<9xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// A sum: a broadcast, with symbols.
// VJP-LABEL: @reduce_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.reduce "sum" "mn->m" %x
// VJP-NEXT:    %[[V2:.*]] = mlc.broadcast "m->mn" %[[U]]
// VJP-NEXT:    func.return %[[V1]], %[[V2]]
func.func @reduce(%x: tensor<?x?xf32, #mlc.dims<"M", "N">>) -> tensor<?xf32, #mlc.dims<"M">> attributes {mlc.symbols = ["M", "N"]} {
  %0 = mlc.reduce "sum" "mn->m" %x : tensor<?x?xf32, #mlc.dims<"M", "N">> -> tensor<?xf32, #mlc.dims<"M">>
  func.return %0 : tensor<?xf32, #mlc.dims<"M">>
}

// A broadcast: a sum.
// VJP-LABEL: @broadcast_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.broadcast "n->mn" %x
// VJP-NEXT:    %[[V2:.*]] = mlc.reduce "sum" "mn->n" %[[U]]
// VJP-NEXT:    func.return %[[V1]], %[[V2]]
func.func @broadcast(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = mlc.broadcast "n->mn" %x : tensor<4xf32> -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}

// The largest of equals: all share.
// VJP-LABEL: @largest_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.reduce "max" "mn->m" %x
// VJP-NEXT:    %[[V2:.*]] = mlc.broadcast "m->mn" %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = mlc.compare "eq" %x, %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V5:.*]] = mlc.broadcast "->ab" %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = mlc.convert %[[V3]]
// VJP-NEXT:    %[[V7:.*]] = mlc.reduce "sum" "mn->m" %[[V6]]
// VJP-NEXT:    %[[V8:.*]] = mlc.div %[[U]], %[[V7]]
// VJP-NEXT:    %[[V9:.*]] = mlc.broadcast "m->mn" %[[V8]]
// VJP-NEXT:    %[[V10:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V11:.*]] = mlc.broadcast "->ab" %[[V10]]
// VJP-NEXT:    %[[V12:.*]] = mlc.select %[[V3]], %[[V9]], %[[V11]]
// VJP-NEXT:    func.return %[[V1]], %[[V12]]
// JVP-LABEL: @largest_jvp(
// JVP-NEXT:    %[[V0:.*]] = mlc.reduce "max" "mn->m" %x
// JVP-NEXT:    %[[V1:.*]] = mlc.broadcast "m->mn" %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = mlc.compare "eq" %x, %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = mlc.constant dense<0.000000e+00>
// JVP-NEXT:    %[[V4:.*]] = mlc.broadcast "->ab" %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = mlc.select %[[V2]], %dx, %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = mlc.reduce "sum" "mn->m" %[[V5]]
// JVP-NEXT:    %[[V7:.*]] = mlc.convert %[[V2]]
// JVP-NEXT:    %[[V8:.*]] = mlc.reduce "sum" "mn->m" %[[V7]]
// JVP-NEXT:    %[[V9:.*]] = mlc.div %[[V6]], %[[V8]]
// JVP-NEXT:    func.return %[[V0]], %[[V9]]
func.func @largest(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<2x3xf32> -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// No derivative: constant between jumps, and by its meaning.
// VJP-LABEL: @constant_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.floor %x
// VJP-NEXT:    %[[V2:.*]] = mlc.stop_gradient %x
// VJP-NEXT:    %[[V3:.*]] = mlc.add %[[V1]], %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = mlc.constant dense<0.000000e+00>
// VJP-NEXT:    %[[V5:.*]] = mlc.broadcast "->a" %[[V4]]
// VJP-NEXT:    func.return %[[V3]], %[[V5]]
// JVP-LABEL: @constant_jvp(
// JVP-NEXT:    %[[V0:.*]] = mlc.floor %x
// JVP-NEXT:    %[[V1:.*]] = mlc.stop_gradient %x
// JVP-NEXT:    %[[V2:.*]] = mlc.add %[[V0]], %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = mlc.constant dense<0.000000e+00>
// JVP-NEXT:    %[[V4:.*]] = mlc.broadcast "->a" %[[V3]]
// JVP-NEXT:    func.return %[[V2]], %[[V4]]
func.func @constant(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.floor %x : tensor<4xf32>
  %1 = mlc.stop_gradient %x : tensor<4xf32>
  %2 = mlc.add %0, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// Integers have none; what is computed from them is a constant.
// VJP-LABEL: @integers_vjp(
// VJP-SAME:    %[[U:[0-9]+]]:
// VJP-NEXT:    %[[V1:.*]] = mlc.convert %i
// VJP-NEXT:    %[[V2:.*]] = mlc.mul %x, %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = mlc.mul %[[U]], %[[V1]]
// VJP-NEXT:    func.return %[[V2]], %[[V3]]
func.func @integers(%x: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %0 = mlc.convert %i : tensor<4xi64> -> tensor<4xf32>
  %1 = mlc.mul %x, %0 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Cross-entropy of log-softmax: what comes after the loss holds no exp and no log but the softmax's own exp.
// LOSS-LABEL: @cross_entropy_vjp(
// LOSS:         %[[E:.*]] = mlc.exp
// LOSS:         %[[S:.*]] = mlc.reduce "sum" "mn->m" %[[E]]
// LOSS:         %[[LOSS:.*]] = mlc.reduce "sum" "mn->"
// LOSS-NOT:     mlc.exp
// LOSS-NOT:     mlc.log
// LOSS:         mlc.div %{{.*}}, %[[S]]
// LOSS-NOT:     mlc.exp
// LOSS-NOT:     mlc.log
// LOSS:         mlc.mul %{{.*}}, %[[E]]
// LOSS:         func.return %[[LOSS]]
func.func @cross_entropy(%x: tensor<8x10xf32>, %t: tensor<8x10xf32>) -> tensor<f32> {
  %0 = mlc.reduce "max" "mn->m" %x : tensor<8x10xf32> -> tensor<8xf32>
  %1 = mlc.stop_gradient %0 : tensor<8xf32>
  %2 = mlc.broadcast "m->mn" %1 : tensor<8xf32> -> tensor<8x10xf32>
  %3 = mlc.sub %x, %2 : tensor<8x10xf32>
  %4 = mlc.exp %3 : tensor<8x10xf32>
  %5 = mlc.reduce "sum" "mn->m" %4 : tensor<8x10xf32> -> tensor<8xf32>
  %6 = mlc.log %5 : tensor<8xf32>
  %7 = mlc.broadcast "m->mn" %6 : tensor<8xf32> -> tensor<8x10xf32>
  %8 = mlc.sub %3, %7 : tensor<8x10xf32>
  %9 = mlc.mul %t, %8 : tensor<8x10xf32>
  %10 = mlc.reduce "sum" "mn->" %9 : tensor<8x10xf32> -> tensor<f32>
  func.return %10 : tensor<f32>
}
