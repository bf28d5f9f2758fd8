// Parts of a program that are equal, one after the other, are one loop.
// RUN: mlc opt %s -p 'roll-loops{least-trips=4 least-ops=12}' | filecheck %s

// What the trips share stays outside, or goes there; their own rows are dynamic slices.
// CHECK-LABEL: @recurrent
// CHECK:         %[[B:.*]] = mlc.broadcast "->b" %b
// CHECK:         %[[N:.*]] = mlc.constant dense<4>
// CHECK-NEXT:    %[[R:.*]] = mlc.for %[[I:.*]] to %[[N]] iter(%[[H:.*]] = %h) -> (tensor<8xf32>) {
// CHECK-NEXT:      %[[S:.*]] = mlc.dynamic_slice %x[%[[I]], %{{.*}}]
// CHECK-NEXT:      %[[X:.*]] = mlc.reshape %[[S]]
// CHECK-NEXT:      %[[P:.*]] = mlc.contract "a,ab->b" %[[H]], %w
// CHECK-NEXT:      %[[Q:.*]] = mlc.add %[[P]], %[[X]]
// CHECK-NEXT:      %[[Z:.*]] = mlc.add %[[Q]], %[[B]]
// CHECK-NEXT:      %[[Y:.*]] = mlc.tanh %[[Z]]
// CHECK-NEXT:      mlc.yield %[[Y]]
// CHECK:         func.return %[[R]]
func.func @recurrent(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<f32>, %h: tensor<8xf32>) -> tensor<8xf32> {
  %s0 = mlc.slice %x[<0, 0>, <1, 1>] : tensor<4x8xf32> -> tensor<1x8xf32>
  %r0 = mlc.reshape %s0 : tensor<1x8xf32> -> tensor<8xf32>
  %p0 = mlc.contract "a,ab->b" %h, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q0 = mlc.add %p0, %r0 : tensor<8xf32>
  %bb = mlc.broadcast "->b" %b : tensor<f32> -> tensor<8xf32>
  %z0 = mlc.add %q0, %bb : tensor<8xf32>
  %h0 = mlc.tanh %z0 : tensor<8xf32>
  %s1 = mlc.slice %x[<1, 0>, <1, 1>] : tensor<4x8xf32> -> tensor<1x8xf32>
  %r1 = mlc.reshape %s1 : tensor<1x8xf32> -> tensor<8xf32>
  %p1 = mlc.contract "a,ab->b" %h0, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q1 = mlc.add %p1, %r1 : tensor<8xf32>
  %z1 = mlc.add %q1, %bb : tensor<8xf32>
  %h1 = mlc.tanh %z1 : tensor<8xf32>
  %s2 = mlc.slice %x[<2, 0>, <1, 1>] : tensor<4x8xf32> -> tensor<1x8xf32>
  %r2 = mlc.reshape %s2 : tensor<1x8xf32> -> tensor<8xf32>
  %p2 = mlc.contract "a,ab->b" %h1, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q2 = mlc.add %p2, %r2 : tensor<8xf32>
  %z2 = mlc.add %q2, %bb : tensor<8xf32>
  %h2 = mlc.tanh %z2 : tensor<8xf32>
  %s3 = mlc.slice %x[<3, 0>, <1, 1>] : tensor<4x8xf32> -> tensor<1x8xf32>
  %r3 = mlc.reshape %s3 : tensor<1x8xf32> -> tensor<8xf32>
  %p3 = mlc.contract "a,ab->b" %h2, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q3 = mlc.add %p3, %r3 : tensor<8xf32>
  %z3 = mlc.add %q3, %bb : tensor<8xf32>
  %h3 = mlc.tanh %z3 : tensor<8xf32>
  func.return %h3 : tensor<8xf32>
}

// What two trips before have made is carried twice; numbers of trips' own lie in a table.
// CHECK-LABEL: @two_back
// CHECK:         %[[T:.*]] = mlc.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// CHECK:         mlc.for %[[I:.*]] to %{{.*}} iter(%[[A:.*]] = %v, %[[B:.*]] = %u) -> (tensor<8xf32>, tensor<8xf32>) {
// CHECK:           %[[P:.*]] = mlc.contract "a,ab->b" %[[A]], %w
// CHECK:           %[[M:.*]] = mlc.sub %[[P]], %[[B]]
// CHECK:           %[[S:.*]] = mlc.dynamic_slice %[[T]][%[[I]]]
// CHECK:           %[[N:.*]] = mlc.broadcast
// CHECK:           %[[Y:.*]] = mlc.mul %[[M]], %[[N]]
// CHECK-NEXT:      mlc.yield %[[Y]], %[[A]]
func.func @two_back(%u: tensor<8xf32>, %v: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<8xf32> {
  %c0 = mlc.constant dense<1.0> : tensor<8xf32>
  %p0 = mlc.contract "a,ab->b" %v, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %m0 = mlc.sub %p0, %u : tensor<8xf32>
  %y0 = mlc.mul %m0, %c0 : tensor<8xf32>
  %c1 = mlc.constant dense<2.0> : tensor<8xf32>
  %p1 = mlc.contract "a,ab->b" %y0, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %m1 = mlc.sub %p1, %v : tensor<8xf32>
  %y1 = mlc.mul %m1, %c1 : tensor<8xf32>
  %c2 = mlc.constant dense<3.0> : tensor<8xf32>
  %p2 = mlc.contract "a,ab->b" %y1, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %m2 = mlc.sub %p2, %y0 : tensor<8xf32>
  %y2 = mlc.mul %m2, %c2 : tensor<8xf32>
  %c3 = mlc.constant dense<4.0> : tensor<8xf32>
  %p3 = mlc.contract "a,ab->b" %y2, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %m3 = mlc.sub %p3, %y1 : tensor<8xf32>
  %y3 = mlc.mul %m3, %c3 : tensor<8xf32>
  func.return %y3 : tensor<8xf32>
}

// Elementwise trips share a kernel: they stay.
// CHECK-LABEL: @elementwise
// CHECK-NOT:     mlc.for
// CHECK:         func.return
func.func @elementwise(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %a0 = mlc.mul %x, %x : tensor<8xf32>
  %b0 = mlc.add %a0, %y : tensor<8xf32>
  %c0 = mlc.exp %b0 : tensor<8xf32>
  %a1 = mlc.mul %c0, %c0 : tensor<8xf32>
  %b1 = mlc.add %a1, %y : tensor<8xf32>
  %c1 = mlc.exp %b1 : tensor<8xf32>
  %a2 = mlc.mul %c1, %c1 : tensor<8xf32>
  %b2 = mlc.add %a2, %y : tensor<8xf32>
  %c2 = mlc.exp %b2 : tensor<8xf32>
  %a3 = mlc.mul %c2, %c2 : tensor<8xf32>
  %b3 = mlc.add %a3, %y : tensor<8xf32>
  %c3 = mlc.exp %b3 : tensor<8xf32>
  func.return %c3 : tensor<8xf32>
}

// Every trip has a factor of its own, so that there would be one to copy: they stay.
// CHECK-LABEL: @own_factors
// CHECK-NOT:     mlc.for
// CHECK:         func.return
func.func @own_factors(%x: tensor<8xf32>, %w0: tensor<8x8xf32>, %w1: tensor<8x8xf32>, %w2: tensor<8x8xf32>, %w3: tensor<8x8xf32>) -> tensor<8xf32> {
  %p0 = mlc.contract "a,ab->b" %x, %w0 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q0 = mlc.add %p0, %x : tensor<8xf32>
  %y0 = mlc.tanh %q0 : tensor<8xf32>
  %p1 = mlc.contract "a,ab->b" %y0, %w1 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q1 = mlc.add %p1, %x : tensor<8xf32>
  %y1 = mlc.tanh %q1 : tensor<8xf32>
  %p2 = mlc.contract "a,ab->b" %y1, %w2 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q2 = mlc.add %p2, %x : tensor<8xf32>
  %y2 = mlc.tanh %q2 : tensor<8xf32>
  %p3 = mlc.contract "a,ab->b" %y2, %w3 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %q3 = mlc.add %p3, %x : tensor<8xf32>
  %y3 = mlc.tanh %q3 : tensor<8xf32>
  func.return %y3 : tensor<8xf32>
}
