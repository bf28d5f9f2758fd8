; Regions and teams: the way to the OpenMP runtime. A part of support.ll, beside barrier.ll. Offsets:
; dialects/abi.py.

; ---- regions: null targets mean one thread (not bound yet, none found, or a forked child)

@mlc_threads = global i64 1
@mlc_parallel_target = global ptr null
@mlc_thread_num_target = global ptr null
@mlc_num_threads_target = global ptr null
@mlc_max_threads_target = global ptr null  ; set while the runtime's own limit is to be respected

; body, data, where each of the first workers began, when the region did
%mlc.region = type { ptr, ptr, [64 x i32], i64 }

; Idle threads spin for longer than this (runtime/threads.py): a call that follows another within it
; finds them awake, or wakes them for those that follow. They are those of the thread that called: of
; several threads that call by turns, none does.
@mlc_awake_ns = global i64 150000
; A worker that begins so late was kept from its core by another process: then, for a while, small
; calls do without.
@mlc_late_ns = internal constant i64 1000000
@mlc_alone_ns = internal constant i64 50000000
@mlc_seen = internal global i64 -1000000000  ; when a call last had, or wanted, a team
@mlc_seen_by = internal global i64 0  ; which thread's call that was
@mlc_late = global i64 -1000000000  ; when a worker last was late

@mlc_cpus = global i64 1  ; that the process may use: more workers than that do not spin
@mlc_patience = global i64 1000  ; pauses before a worker that waits goes to sleep
declare i32 @clock_gettime(i32, ptr)
declare ptr @llvm.thread.pointer.p0()

define internal i64 @mlc_now() {
  %at = alloca { i64, i64 }, align 8
  %unused = call i32 @clock_gettime(i32 1, ptr %at)
  %s = load i64, ptr %at, align 8
  %ns.at = getelementptr i8, ptr %at, i64 8
  %ns = load i64, ptr %ns.at, align 8
  %whole = mul i64 %s, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}

; How many workers a call's team has, for so many shares of its work; `waking`: that repay waking.
define i64 @mlc_team_size(i64 %threads, i64 %shares, i64 %waking) {
entry:
  %few = icmp slt i64 %threads, %shares
  %most = select i1 %few, i64 %threads, i64 %shares
  %several = icmp sgt i64 %most, 1
  br i1 %several, label %look, label %alone
alone:
  ret i64 1
look:
  %now = call i64 @mlc_now()
  %seen = load atomic i64, ptr @mlc_seen monotonic, align 8
  %late = load atomic i64, ptr @mlc_late monotonic, align 8
  %seen.by = load atomic i64, ptr @mlc_seen_by monotonic, align 8
  %caller = call ptr @llvm.thread.pointer.p0()
  %self = ptrtoint ptr %caller to i64
  store atomic i64 %now, ptr @mlc_seen monotonic, align 8
  store atomic i64 %self, ptr @mlc_seen_by monotonic, align 8
  %own = icmp eq i64 %seen.by, %self
  %idle = sub i64 %now, %seen
  %window = load i64, ptr @mlc_awake_ns, align 8
  %recent = icmp slt i64 %idle, %window
  %since = sub i64 %now, %late
  %calm.ns = load i64, ptr @mlc_alone_ns, align 8
  %calm = icmp sgt i64 %since, %calm.ns
  %mine = and i1 %recent, %own
  %awake = and i1 %mine, %calm
  %repaid = icmp slt i64 %waking, %most
  %fewer = select i1 %repaid, i64 %waking, i64 %most
  %found = select i1 %awake, i64 %most, i64 %fewer
  %some = icmp sgt i64 %found, 1
  %team = select i1 %some, i64 %found, i64 1
  ret i64 %team
}

define void @mlc_parallel(ptr %body, ptr %data, i32 %threads, i32 %flags) {
entry:
  %region = alloca %mlc.region, align 8
  %target = load ptr, ptr @mlc_parallel_target, align 8
  %serial = icmp eq ptr %target, null
  br i1 %serial, label %alone, label %limit
limit:
  %max.target = load ptr, ptr @mlc_max_threads_target, align 8
  %default = load i64, ptr @mlc_threads, align 8
  %default32 = trunc i64 %default to i32
  %asked.for = icmp ne i32 %default32, %threads  ; a count of the function's own
  %unlimited = icmp eq ptr %max.target, null
  %free = or i1 %asked.for, %unlimited
  br i1 %free, label %start, label %ask
ask:
  %max = call i32 %max.target()
  %lower = call i32 @llvm.smin.i32(i32 %max, i32 %threads)
  br label %start
start:
  %count = phi i32 [ %threads, %limit ], [ %lower, %ask ]
  store ptr %body, ptr %region, align 8
  %data.at = getelementptr %mlc.region, ptr %region, i64 0, i32 1
  store ptr %data, ptr %data.at, align 8
  %cpus.at = getelementptr %mlc.region, ptr %region, i64 0, i32 2
  call void @llvm.memset.p0.i64(ptr %cpus.at, i8 -1, i64 256, i1 false)
  %own = call i32 @sched_getcpu()
  store i32 %own, ptr %cpus.at, align 4
  %began.at = getelementptr %mlc.region, ptr %region, i64 0, i32 3
  %began = call i64 @mlc_now()
  store i64 %began, ptr %began.at, align 8
  call void %target(ptr @mlc_begin, ptr %region, i32 %count, i32 %flags)
  %ended = call i64 @mlc_now()
  store atomic i64 %ended, ptr @mlc_seen monotonic, align 8
  ret void
alone:
  tail call void %body(ptr %data)
  ret void
}
declare i32 @llvm.smin.i32(i32, i32)

; A guest's scheduler takes a halted core for one that its host has given to another, and so leaves
; a worker that it wakes on the core of its waker, where the two take turns. A worker that finds
; itself where one with a lower number began moves to another core of its own mask, which it keeps.

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @mlc_begin(ptr %region) {
entry:
  %number = call i32 @mlc_thread_num()
  %worker = zext i32 %number to i64
  %cpus = getelementptr %mlc.region, ptr %region, i64 0, i32 2
  %first = icmp eq i32 %number, 0
  br i1 %first, label %begin, label %clock
clock:
  %began.at = getelementptr %mlc.region, ptr %region, i64 0, i32 3
  %began = load i64, ptr %began.at, align 8
  %now = call i64 @mlc_now()
  %waited = sub i64 %now, %began
  %patience = load i64, ptr @mlc_late_ns, align 8
  %is.late = icmp sgt i64 %waited, %patience
  br i1 %is.late, label %late, label %place
late:
  store atomic i64 %now, ptr @mlc_late monotonic, align 8
  br label %place
place:
  %many = icmp ugt i64 %worker, 63
  br i1 %many, label %begin, label %settle
settle:
  call void @mlc_settle(ptr %cpus, i64 %worker)
  br label %begin
begin:
  %body = load ptr, ptr %region, align 8
  %data.at = getelementptr %mlc.region, ptr %region, i64 0, i32 1
  %data = load ptr, ptr %data.at, align 8
  tail call void %body(ptr %data)
  ret void
}

; Leaves the core on which a worker with a lower number began, if the process may use another.
define void @mlc_settle(ptr %cpus, i64 %worker) {
entry:
  %mask = alloca [128 x i8], align 8
  %free = alloca [128 x i8], align 8
  %mine = call i32 @sched_getcpu()
  %place = getelementptr i32, ptr %cpus, i64 %worker
  store atomic i32 %mine, ptr %place monotonic, align 4
  %most = load i64, ptr @mlc_cpus, align 8
  %crowded = icmp uge i64 %worker, %most
  br i1 %crowded, label %done, label %look
look:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %at = getelementptr i32, ptr %cpus, i64 %j
  %other = load atomic i32, ptr %at monotonic, align 4
  %shared = icmp eq i32 %other, %mine
  br i1 %shared, label %ask, label %next
next:
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, %worker
  br i1 %more, label %look, label %done
ask:
  %unknown = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %known = icmp eq i32 %unknown, 0
  br i1 %known, label %copy, label %done
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %free, ptr %mask, i64 128, i1 false)
  br label %take
take:
  %k = phi i64 [ 0, %copy ], [ %k.next, %taken ]
  %where = getelementptr i32, ptr %cpus, i64 %k
  %cpu = load atomic i32, ptr %where monotonic, align 4
  %inside = icmp ult i32 %cpu, 1024
  br i1 %inside, label %clear, label %taken
clear:
  %word = lshr i32 %cpu, 3
  %wide = zext i32 %word to i64
  %byte.at = getelementptr i8, ptr %free, i64 %wide
  %byte = load i8, ptr %byte.at, align 1
  %low = and i32 %cpu, 7
  %bit = shl i32 1, %low
  %keep = xor i32 %bit, 255
  %keep8 = trunc i32 %keep to i8
  %left = and i8 %byte, %keep8
  store i8 %left, ptr %byte.at, align 1
  br label %taken
taken:
  %k.next = add i64 %k, 1
  %again = icmp ult i64 %k.next, %worker
  br i1 %again, label %take, label %move
move:
  ; an empty mask is refused: then the worker stays
  %refused = call i32 @sched_setaffinity(i32 0, i64 128, ptr %free)
  %moved = icmp eq i32 %refused, 0
  br i1 %moved, label %restore, label %done
restore:
  %ignored = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  %now = call i32 @sched_getcpu()
  store atomic i32 %now, ptr %place monotonic, align 4
  br label %done
done:
  ret void
}

define i32 @mlc_thread_num() {
entry:
  %target = load ptr, ptr @mlc_thread_num_target, align 8
  %serial = icmp eq ptr %target, null
  br i1 %serial, label %alone, label %ask
ask:
  %number = tail call i32 %target()
  ret i32 %number
alone:
  ret i32 0
}

define i32 @mlc_num_threads() {
entry:
  %target = load ptr, ptr @mlc_num_threads_target, align 8
  %serial = icmp eq ptr %target, null
  br i1 %serial, label %alone, label %ask
ask:
  %count = tail call i32 %target()
  ret i32 %count
alone:
  ret i32 1
}
