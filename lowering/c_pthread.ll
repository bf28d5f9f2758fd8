; A pool of threads that wait for regions. A region is one word: 256 x its number + its workers, so that
; a thread that was late for one cannot take another for it. Of several calls at once, one has the pool;
; the others do their work alone. What a thread is in its region, its key says: 256 x workers + number.

@mlc_started = internal global i32 0
@mlc_helpers = internal global i64 0  ; threads of the pool; the caller is one more worker
@mlc_threads = internal global [256 x i64] zeroinitializer
@mlc_key = internal global i32 0
@mlc_taken = internal global i32 0  ; whether a call has the pool
@mlc_now = internal global i32 0  ; the region
@mlc_left = internal global i32 0  ; helpers that have not ended it
@mlc_body = internal global ptr null
@mlc_data = internal global ptr null

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_key_delete(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)

; Starts `threads` - 1 threads; MLC_BAD_ARGUMENT where there are some or too many, MLC_OUT_OF_MEMORY
; where the system has no more.
define i32 @ENTRY_start(i64 %threads) PLAIN {
entry:
  %many = icmp ugt i64 %threads, 255
  %before = load i32, ptr @mlc_started, align 4
  %running = icmp ne i32 %before, 0
  %none = icmp eq i64 %threads, 0
  %a = or i1 %many, %running
  %bad = or i1 %a, %none
  br i1 %bad, label %refuse, label %name
refuse:
  ret i32 4
name:
  %unnamed = call i32 @pthread_key_create(ptr @mlc_key, ptr null)
  %named = icmp eq i32 %unnamed, 0
  br i1 %named, label %begin, label %poor
begin:
  store i32 1, ptr @mlc_started, align 4
  store atomic i32 0, ptr @mlc_now monotonic, align 4
  br label %look
look:
  %number = phi i64 [ 1, %begin ], [ %next, %started ]
  %more = icmp ult i64 %number, %threads
  br i1 %more, label %start, label %done
start:
  %at = getelementptr i64, ptr @mlc_threads, i64 %number
  %given = inttoptr i64 %number to ptr
  %failed = call i32 @pthread_create(ptr %at, ptr null, ptr @mlc_help, ptr %given)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %started, label %give.up
started:
  store i64 %number, ptr @mlc_helpers, align 8
  %next = add i64 %number, 1
  br label %look
give.up:
  call void @ENTRY_stop()
  ret i32 2
poor:
  ret i32 2
done:
  ret i32 0
}

; Ends the threads; nothing may be running.
define void @ENTRY_stop() PLAIN {
entry:
  %begun = load i32, ptr @mlc_started, align 4
  %runs = icmp ne i32 %begun, 0
  br i1 %runs, label %tell, label %out
out:
  ret void
tell:
  %helpers = load i64, ptr @mlc_helpers, align 8
  %word = load atomic i32, ptr @mlc_now monotonic, align 4
  %numbered = and i32 %word, -256
  %end = add i32 %numbered, 256  ; a region without workers is the last
  store atomic i32 %end, ptr @mlc_now release, align 4
  call void @mlc_wake(ptr @mlc_now)
  br label %look
look:
  %number = phi i64 [ 1, %tell ], [ %next, %join ]
  %more = icmp ule i64 %number, %helpers
  br i1 %more, label %join, label %done
join:
  %at = getelementptr i64, ptr @mlc_threads, i64 %number
  %thread = load i64, ptr %at, align 8
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %next = add i64 %number, 1
  br label %look
done:
  store i64 0, ptr @mlc_helpers, align 8
  store i32 0, ptr @mlc_started, align 4
  %key = load i32, ptr @mlc_key, align 4
  %deleted = call i32 @pthread_key_delete(i32 %key)
  ret void
}

define internal ptr @mlc_help(ptr %given) PLAIN {
entry:
  %number = ptrtoint ptr %given to i32
  %key = load i32, ptr @mlc_key, align 4
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen, %doze ], [ %word, %take ], [ %word, %last ], [ %word, %ended ]
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %doze ], [ 0, %take ], [ 0, %last ], [ 0, %ended ]
  %word = load atomic i32, ptr @mlc_now acquire, align 4
  %same = icmp eq i32 %word, %seen
  br i1 %same, label %doze, label %read
doze:
  call void @mlc_doze(ptr @mlc_now, i32 %seen, i64 %turn)
  %turn.next = add i64 %turn, 1
  br label %wait
read:
  %workers = and i32 %word, 255
  %over = icmp eq i32 %workers, 0
  br i1 %over, label %leave, label %take
take:
  %mine = icmp ult i32 %number, %workers
  br i1 %mine, label %work, label %wait
work:
  call void @mlc_work(i32 %key, i32 %workers, i32 %number)
  %before = atomicrmw sub ptr @mlc_left, i32 1 acq_rel, align 4
  %all = icmp eq i32 %before, 1
  br i1 %all, label %last, label %ended
last:
  call void @mlc_wake(ptr @mlc_left)
  br label %wait
ended:
  br label %wait
leave:
  ret ptr null
}

; The region's work of one worker, who may ask who he is.
define internal void @mlc_work(i32 %key, i32 %workers, i32 %number) PLAIN {
  %high = shl i32 %workers, 8
  %who = or i32 %high, %number
  %wide = zext i32 %who to i64
  %kept = inttoptr i64 %wide to ptr
  %set = call i32 @pthread_setspecific(i32 %key, ptr %kept)
  %body = load ptr, ptr @mlc_body, align 8
  %data = load ptr, ptr @mlc_data, align 8
  call void %body(ptr %data)
  ret void
}

define internal void @GOMP_parallel(ptr %body, ptr %data, i32 %threads, i32 %flags) PLAIN {
entry:
  %helpers = load i64, ptr @mlc_helpers, align 8
  %some = trunc i64 %helpers to i32
  %most = add i32 %some, 1
  %few = icmp ult i32 %threads, %most
  %workers = select i1 %few, i32 %threads, i32 %most
  %several = icmp ugt i32 %workers, 1
  br i1 %several, label %ask, label %alone
ask:
  %asked = cmpxchg ptr @mlc_taken, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %asked, 1
  br i1 %mine, label %begin, label %alone
alone:
  call void %body(ptr %data)
  ret void
begin:
  store ptr %body, ptr @mlc_body, align 8
  store ptr %data, ptr @mlc_data, align 8
  %others = sub i32 %workers, 1
  store atomic i32 %others, ptr @mlc_left monotonic, align 4
  %last = load atomic i32, ptr @mlc_now monotonic, align 4
  %numbered = and i32 %last, -256
  %next = add i32 %numbered, 256
  %word = or i32 %next, %workers
  store atomic i32 %word, ptr @mlc_now release, align 4
  call void @mlc_wake(ptr @mlc_now)
  %key = load i32, ptr @mlc_key, align 4
  call void @mlc_work(i32 %key, i32 %workers, i32 0)
  br label %wait
wait:
  %turn = phi i64 [ 0, %begin ], [ %turn.next, %doze ]
  %left = load atomic i32, ptr @mlc_left acquire, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %end, label %doze
doze:
  call void @mlc_doze(ptr @mlc_left, i32 %left, i64 %turn)
  %turn.next = add i64 %turn, 1
  br label %wait
end:
  %unset = call i32 @pthread_setspecific(i32 %key, ptr null)
  store atomic i32 0, ptr @mlc_taken release, align 4
  ret void
}

; Pauses; later sleeps while the word is what it was.
define internal void @mlc_doze(ptr %word, i32 %was, i64 %turn) PLAIN {
entry:
  %patience = load i64, ptr @mlc_patience, align 8
  %early = icmp slt i64 %turn, %patience
  br i1 %early, label %pause, label %sleep
pause:
  PAUSE
  ret void
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %was, ptr null)
  ret void
}

define internal void @mlc_wake(ptr %word) PLAIN {
  %woken = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 2147483647)
  ret void
}

define internal i64 @mlc_who() PLAIN {
entry:
  %helpers = load i64, ptr @mlc_helpers, align 8
  %none = icmp eq i64 %helpers, 0
  br i1 %none, label %alone, label %ask
ask:
  %key = load i32, ptr @mlc_key, align 4
  %kept = call ptr @pthread_getspecific(i32 %key)
  %who = ptrtoint ptr %kept to i64
  %known = icmp ne i64 %who, 0
  br i1 %known, label %said, label %alone
said:
  ret i64 %who
alone:
  ret i64 256  ; the first of one
}

define internal i32 @omp_get_thread_num() PLAIN {
  %who = call i64 @mlc_who()
  %low = and i64 %who, 255
  %number = trunc i64 %low to i32
  ret i32 %number
}

define internal i32 @omp_get_num_threads() PLAIN {
  %who = call i64 @mlc_who()
  %high = lshr i64 %who, 8
  %count = trunc i64 %high to i32
  ret i32 %count
}
