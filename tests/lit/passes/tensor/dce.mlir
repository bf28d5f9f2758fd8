// What no result depends on is erased, after CSE has made it so, and inside loops too.
// RUN: mlc opt %s -p cse,dce | filecheck %s

// The example of the course: after CSE, d = b + c is a, and its definition has no reader left.
// CHECK-LABEL: @after_cse
// CHECK-SAME:    %[[B:[a-z]+]]: tensor<4xf32>, %[[C:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    %[[A:.*]] = mlc.add %[[B]], %[[C]]
// CHECK-NEXT:    %[[E:.*]] = mlc.mul %[[A]], %[[A]]
// CHECK-NEXT:    func.return %[[E]]
func.func @after_cse(%b: tensor<4xf32>, %c: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = mlc.add %b, %c : tensor<4xf32>
  %d = mlc.add %b, %c : tensor<4xf32>
  %unread = mlc.sub %d, %x : tensor<4xf32>
  %unread_too = mlc.exp %unread : tensor<4xf32>
  %e = mlc.mul %a, %d : tensor<4xf32>
  func.return %e : tensor<4xf32>
}

// A carried value that only feeds itself goes; one that feeds a living one stays.
// CHECK-LABEL: @carried
// CHECK:         %{{.*}}, %{{.*}} = mlc.for %{{.*}} to %{{.*}} iter(%[[X:[a-z]+]] = %{{.*}}, %[[S:[a-z]+]] = %{{.*}}) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:      %[[NEXT:.*]] = mlc.add %[[X]], %[[S]]
// CHECK-NEXT:      mlc.yield %[[NEXT]], %[[X]]
// CHECK-NOT:     mlc.exp
func.func @carried(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r, %s, %dead = mlc.for %i to %n iter(%a = %x, %b = %x, %c = %x) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = mlc.add %a, %b : tensor<4xf32>
    %1 = mlc.exp %c : tensor<4xf32>
    mlc.yield %0, %a, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// CHECK-LABEL: @dead_loop
// CHECK-SAME:    %[[X:[a-z]+]]: tensor<4xf32>
// CHECK-NEXT:    func.return %[[X]]
func.func @dead_loop(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%a = %x) -> (tensor<4xf32>) {
    %0 = mlc.exp %a : tensor<4xf32>
    mlc.yield %0 : tensor<4xf32>
  }
  func.return %x : tensor<4xf32>
}
