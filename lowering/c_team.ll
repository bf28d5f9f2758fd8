; Several workers: those of a call that say so, as many as its work repays.

@mlc_cpus = internal constant i64 4096  ; all of a team may spin for a while
@mlc_patience = internal constant i64 1000  ; pauses before a worker that waits goes to sleep

define internal i64 @mlc_threads_of(i64 %wanted) PLAIN {
  %few = icmp slt i64 %wanted, 1
  %some = select i1 %few, i64 1, i64 %wanted
  %many = icmp sgt i64 %some, 255
  %threads = select i1 %many, i64 255, i64 %some
  ret i64 %threads
}

define internal i64 @mlc_team_size(i64 %threads, i64 %shares, i64 %waking) {
  %few = icmp slt i64 %threads, %shares
  %most = select i1 %few, i64 %threads, i64 %shares
  %repaid = icmp slt i64 %waking, %most
  %fewer = select i1 %repaid, i64 %waking, i64 %most
  %some = icmp sgt i64 %fewer, 1
  %team = select i1 %some, i64 %fewer, i64 1
  ret i64 %team
}
