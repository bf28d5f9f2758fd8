; Clock reads around kernels: runtime/kernel_clock.py. The table holds two i64 for each kernel: the
; ticks it took and how often it ran. Before and after a read, code waits until what came before it
; has finished.

@mlc_profile_table = external global [0 x i64]

define i64 @mlc_profile_clock() alwaysinline {
  FENCE
  %now = CLOCK
  FENCE
  ret i64 %now
}

define void @mlc_profile_begin(i64 %kernel) noinline {
  %at = mul i64 %kernel, 2
  %ticks = getelementptr i64, ptr @mlc_profile_table, i64 %at
  %before = load i64, ptr %ticks, align 8
  %now = call i64 @mlc_profile_clock()
  %began = sub i64 %before, %now
  store i64 %began, ptr %ticks, align 8
  ret void
}

define void @mlc_profile_end(i64 %kernel) noinline {
  %now = call i64 @mlc_profile_clock()
  %at = mul i64 %kernel, 2
  %ticks = getelementptr i64, ptr @mlc_profile_table, i64 %at
  %began = load i64, ptr %ticks, align 8
  %took = add i64 %began, %now
  store i64 %took, ptr %ticks, align 8
  %runs = getelementptr i64, ptr %ticks, i64 1
  %before = load i64, ptr %runs, align 8
  %after = add i64 %before, 1
  store i64 %after, ptr %runs, align 8
  ret void
}

; what the clock itself takes: a kernel that does nothing
define void @mlc_profile_empty(i64 %kernel) {
  call void @mlc_profile_begin(i64 %kernel)
  call void @mlc_profile_end(i64 %kernel)
  ret void
}
