; The barrier of a team, here and in programs for C. Offsets: dialects/abi.py.
;
; Workers arrive in groups: of four, or of more where there would be more than sixteen groups. The
; last of a group arrives at the root. The last there alone reads the cancel counter and the error
; word, and publishes one bit with the release: the bit decides for the whole team whether it goes
; on. Those who wait spin for a bounded time, then sleep.
; The word: 4 x generation + 2 while somebody may sleep on it + 1 if the team stops.

declare i64 @syscall(i64, ...)

define zeroext i1 @mlc_team_barrier(ptr %ctx, i64 %worker, i64 %workers) {
entry:
  %several = icmp sgt i64 %workers, 1
  br i1 %several, label %group, label %alone
alone:
  %own = call i1 @mlc_team_stops(ptr %ctx)
  ret i1 %own
group:
  %word = getelementptr i8, ptr %ctx, i64 128
  %before = load atomic i32, ptr %word monotonic, align 4
  %padded = add i64 %workers, 15
  %sixteenth = lshr i64 %padded, 4
  %wide = icmp ugt i64 %sixteenth, 4
  %width = select i1 %wide, i64 %sixteenth, i64 4
  %number = udiv i64 %worker, %width
  %first = mul i64 %number, %width
  %behind = sub i64 %workers, %first
  %part = icmp ult i64 %behind, %width
  %members = select i1 %part, i64 %behind, i64 %width
  %line = mul i64 %number, 64
  %offset = add i64 %line, 256
  %node = getelementptr i8, ptr %ctx, i64 %offset
  %last = call i1 @mlc_team_arrive(ptr %node, i64 %members)
  br i1 %last, label %root, label %wait
root:
  %up = add i64 %workers, %width
  %most = sub i64 %up, 1
  %groups = udiv i64 %most, %width
  %top = getelementptr i8, ptr %ctx, i64 192
  %last.group = call i1 @mlc_team_arrive(ptr %top, i64 %groups)
  br i1 %last.group, label %release, label %wait
release:
  %taken = getelementptr i8, ptr %ctx, i64 80
  store atomic i64 0, ptr %taken monotonic, align 8
  %stop = call i1 @mlc_team_stops(ptr %ctx)
  %bit = zext i1 %stop to i32
  %generation = and i32 %before, -4
  %next = add i32 %generation, 4
  %new = or i32 %next, %bit
  %old = atomicrmw xchg ptr %word, i32 %new acq_rel, align 4
  %sleepers = and i32 %old, 2
  %awake = icmp eq i32 %sleepers, 0
  br i1 %awake, label %released, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 2147483647)
  br label %released
released:
  ret i1 %stop
wait:
  %answer = call i1 @mlc_team_wait(ptr %word, i32 %before, i64 %workers)
  ret i1 %answer
}

; The next trip of a loop: of several workers the next that none has taken since all met.
define i64 @mlc_team_take(ptr %ctx, i64 %last, i64 %threads) {
entry:
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %take, label %alone
take:
  %taken = getelementptr i8, ptr %ctx, i64 80
  %trip = atomicrmw add ptr %taken, i64 1 monotonic, align 8
  ret i64 %trip
alone:
  %next = add i64 %last, 1
  ret i64 %next
}

; Whether this arrival is the last of `members`; the counter is zero again then.
define internal i1 @mlc_team_arrive(ptr %counter, i64 %members) {
entry:
  %alone = icmp eq i64 %members, 1
  br i1 %alone, label %last, label %count
count:
  %others = sub i64 %members, 1
  %expected = trunc i64 %others to i32
  %arrived = atomicrmw add ptr %counter, i32 1 acq_rel, align 4
  %all = icmp eq i32 %arrived, %expected
  br i1 %all, label %reset, label %early
reset:
  store atomic i32 0, ptr %counter monotonic, align 4
  br label %last
last:
  ret i1 true
early:
  ret i1 false
}

; Waits until the word shows another generation; its stop bit.
define internal i1 @mlc_team_wait(ptr %word, i32 %before, i64 %workers) {
entry:
  %cpus = load i64, ptr @mlc_cpus, align 8
  %patience = load i64, ptr @mlc_patience, align 8
  %crowded = icmp sgt i64 %workers, %cpus
  %limit = select i1 %crowded, i64 1, i64 %patience
  br label %look
look:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %pause ], [ %limit, %doze ], [ %limit, %sleep ]
  %now = load atomic i32, ptr %word acquire, align 4
  %changed = xor i32 %now, %before
  %apart = lshr i32 %changed, 2
  %same = icmp eq i32 %apart, 0
  br i1 %same, label %again, label %done
again:
  %spin = icmp slt i64 %turn, %limit
  br i1 %spin, label %pause, label %tell
pause:
  PAUSE
  %turn.next = add i64 %turn, 1
  br label %look
tell:
  %asleep = or i32 %now, 2
  %told = icmp eq i32 %asleep, %now
  br i1 %told, label %sleep, label %doze
doze:
  %swap = cmpxchg ptr %word, i32 %now, i32 %asleep monotonic monotonic, align 4
  %swapped = extractvalue { i32, i1 } %swap, 1
  br i1 %swapped, label %sleep, label %look
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %asleep, ptr null)
  br label %look
done:
  %bit = trunc i32 %now to i1
  ret i1 %bit
}
