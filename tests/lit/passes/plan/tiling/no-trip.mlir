// A loop that workers could share, without a trip: nothing says how many trips one must have.
// RUN: mlc show %s --at plan --target avx2 --threads 2 | filecheck %s

// CHECK: mlc.kernel "nest"
// CHECK: schedule = #mlc.schedule<[vector(4)]>
func.func @f(%0: tensor<2x40xi64>) -> tensor<2x40xi1> {
  %2 = mlc.constant dense<-1> : tensor<i64>
  %3 = mlc.dynamic_slice %0[%2, %2] : tensor<2x40xi64>, tensor<i64>, tensor<i64> -> tensor<2x40xi64>
  %4 = mlc.convert %3 : tensor<2x40xi64> -> tensor<2x40xi1>
  %5 = mlc.constant dense<0> : tensor<i64>
  %6 = mlc.for %7 to %5 iter(%8 = %4) -> (tensor<2x40xi1>) {
    %9 = mlc.constant dense<1> : tensor<i64>
    %10 = mlc.dynamic_slice %8[%9, %2] : tensor<2x40xi1>, tensor<i64>, tensor<i64> -> tensor<1x1xi1>
    %13 = mlc.dynamic_update %8, %10[%2, %9] : tensor<2x40xi1>, tensor<1x1xi1>, tensor<i64>, tensor<i64> -> tensor<2x40xi1>
    mlc.yield %13 : tensor<2x40xi1>
  }
  func.return %6 : tensor<2x40xi1>
}
