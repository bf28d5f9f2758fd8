; The address of a routine of LAPACK by its place in abi.LAPACK: a constant, so that calls are plain ones.

define internal ptr @mlc_lapack_routine(i64 %number) alwaysinline {
  %slot = getelementptr ptr, ptr @mlc_lapack, i64 %number
  %routine = load ptr, ptr %slot, align 8
  ret ptr %routine
}
