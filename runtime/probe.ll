; The loops of runtime/microbenchmarks.py. LANES stands for the number of float32 in one vector.

; 12 independent chains: enough for 2 ports of 4 to 6 cycles latency. 12 * LANES * 2 flops a trip.
define void @mlc_probe_fma(ptr %out, i64 %trips) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %a0 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b0, %loop ]
  %a1 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b1, %loop ]
  %a2 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b2, %loop ]
  %a3 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b3, %loop ]
  %a4 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b4, %loop ]
  %a5 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b5, %loop ]
  %a6 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b6, %loop ]
  %a7 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b7, %loop ]
  %a8 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b8, %loop ]
  %a9 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b9, %loop ]
  %a10 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b10, %loop ]
  %a11 = phi <LANES x float> [ zeroinitializer, %entry ], [ %b11, %loop ]
  %x = load <LANES x float>, ptr %out, align 4
  %b0 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a0)
  %b1 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a1)
  %b2 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a2)
  %b3 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a3)
  %b4 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a4)
  %b5 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a5)
  %b6 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a6)
  %b7 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a7)
  %b8 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a8)
  %b9 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a9)
  %b10 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a10)
  %b11 = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %x, <LANES x float> %x, <LANES x float> %a11)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %trips
  br i1 %more, label %loop, label %done
done:
  %s0 = fadd <LANES x float> %b0, %b1
  %s1 = fadd <LANES x float> %b2, %b3
  %s2 = fadd <LANES x float> %b4, %b5
  %s3 = fadd <LANES x float> %b6, %b7
  %s4 = fadd <LANES x float> %b8, %b9
  %s5 = fadd <LANES x float> %b10, %b11
  %t0 = fadd <LANES x float> %s0, %s1
  %t1 = fadd <LANES x float> %s2, %s3
  %t2 = fadd <LANES x float> %s4, %s5
  %u0 = fadd <LANES x float> %t0, %t1
  %u1 = fadd <LANES x float> %u0, %t2
  store <LANES x float> %u1, ptr %out, align 4
  ret void
}
declare <LANES x float> @llvm.fma.vLANESf32(<LANES x float>, <LANES x float>, <LANES x float>)

; Reads `groups` groups of 8 vectors, `repeats` times.
define void @mlc_probe_read(ptr %data, i64 %groups, i64 %repeats, ptr %out) {
entry:
  br label %again
again:
  %r = phi i64 [ 0, %entry ], [ %r.next, %next ]
  %t0 = phi <LANES x i32> [ zeroinitializer, %entry ], [ %y0, %next ]
  %t1 = phi <LANES x i32> [ zeroinitializer, %entry ], [ %y1, %next ]
  %t2 = phi <LANES x i32> [ zeroinitializer, %entry ], [ %y2, %next ]
  %t3 = phi <LANES x i32> [ zeroinitializer, %entry ], [ %y3, %next ]
  br label %loop
loop:
  %i = phi i64 [ 0, %again ], [ %i.next, %loop ]
  %p = phi ptr [ %data, %again ], [ %p.next, %loop ]
  %a0 = phi <LANES x i32> [ %t0, %again ], [ %y0, %loop ]
  %a1 = phi <LANES x i32> [ %t1, %again ], [ %y1, %loop ]
  %a2 = phi <LANES x i32> [ %t2, %again ], [ %y2, %loop ]
  %a3 = phi <LANES x i32> [ %t3, %again ], [ %y3, %loop ]
  %p1 = getelementptr <LANES x i32>, ptr %p, i64 1
  %p2 = getelementptr <LANES x i32>, ptr %p, i64 2
  %p3 = getelementptr <LANES x i32>, ptr %p, i64 3
  %p4 = getelementptr <LANES x i32>, ptr %p, i64 4
  %p5 = getelementptr <LANES x i32>, ptr %p, i64 5
  %p6 = getelementptr <LANES x i32>, ptr %p, i64 6
  %p7 = getelementptr <LANES x i32>, ptr %p, i64 7
  %p.next = getelementptr <LANES x i32>, ptr %p, i64 8
  %v0 = load <LANES x i32>, ptr %p, align 16
  %v1 = load <LANES x i32>, ptr %p1, align 16
  %v2 = load <LANES x i32>, ptr %p2, align 16
  %v3 = load <LANES x i32>, ptr %p3, align 16
  %v4 = load <LANES x i32>, ptr %p4, align 16
  %v5 = load <LANES x i32>, ptr %p5, align 16
  %v6 = load <LANES x i32>, ptr %p6, align 16
  %v7 = load <LANES x i32>, ptr %p7, align 16
  %x0 = xor <LANES x i32> %a0, %v0
  %x1 = xor <LANES x i32> %a1, %v1
  %x2 = xor <LANES x i32> %a2, %v2
  %x3 = xor <LANES x i32> %a3, %v3
  %y0 = xor <LANES x i32> %x0, %v4
  %y1 = xor <LANES x i32> %x1, %v5
  %y2 = xor <LANES x i32> %x2, %v6
  %y3 = xor <LANES x i32> %x3, %v7
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %groups
  br i1 %more, label %loop, label %next
next:
  %r.next = add i64 %r, 1
  %again.more = icmp slt i64 %r.next, %repeats
  br i1 %again.more, label %again, label %done
done:
  %s0 = or <LANES x i32> %y0, %y1
  %s1 = or <LANES x i32> %y2, %y3
  %s = or <LANES x i32> %s0, %s1
  store <LANES x i32> %s, ptr %out, align 4
  ret void
}

; Writes as many.
define void @mlc_probe_write(ptr %data, i64 %groups, i64 %repeats) {
entry:
  br label %again
again:
  %r = phi i64 [ 0, %entry ], [ %r.next, %next ]
  br label %loop
loop:
  %i = phi i64 [ 0, %again ], [ %i.next, %loop ]
  %v = phi <LANES x i32> [ zeroinitializer, %again ], [ %v.next, %loop ]
  %p = phi ptr [ %data, %again ], [ %p.next, %loop ]
  %p1 = getelementptr <LANES x i32>, ptr %p, i64 1
  %p2 = getelementptr <LANES x i32>, ptr %p, i64 2
  %p3 = getelementptr <LANES x i32>, ptr %p, i64 3
  %p4 = getelementptr <LANES x i32>, ptr %p, i64 4
  %p5 = getelementptr <LANES x i32>, ptr %p, i64 5
  %p6 = getelementptr <LANES x i32>, ptr %p, i64 6
  %p7 = getelementptr <LANES x i32>, ptr %p, i64 7
  %p.next = getelementptr <LANES x i32>, ptr %p, i64 8
  store <LANES x i32> %v, ptr %p, align 16
  store <LANES x i32> %v, ptr %p1, align 16
  store <LANES x i32> %v, ptr %p2, align 16
  store <LANES x i32> %v, ptr %p3, align 16
  store <LANES x i32> %v, ptr %p4, align 16
  store <LANES x i32> %v, ptr %p5, align 16
  store <LANES x i32> %v, ptr %p6, align 16
  store <LANES x i32> %v, ptr %p7, align 16
  %v.next = add <LANES x i32> %v, splat (i32 1)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %groups
  br i1 %more, label %loop, label %next
next:
  %r.next = add i64 %r, 1
  %again.more = icmp slt i64 %r.next, %repeats
  br i1 %again.more, label %again, label %done
done:
  ret void
}

; Follows `steps` pointers, each of which the next one waits for.
define void @mlc_probe_chase(ptr %data, i64 %steps, ptr %out) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %p = phi ptr [ %data, %entry ], [ %p.next, %loop ]
  %p.next = load ptr, ptr %p, align 8
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %steps
  br i1 %more, label %loop, label %done
done:
  store ptr %p.next, ptr %out, align 8
  ret void
}

; Adds up what `count` pointers point to, none of which another one waits for.
define void @mlc_probe_pick(ptr %places, i64 %count, ptr %out) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr ptr, ptr %places, i64 %i
  %p = load ptr, ptr %at, align 8
  %x = load i64, ptr %p, align 8
  %sum.next = add i64 %sum, %x
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %loop, label %done
done:
  store i64 %sum.next, ptr %out, align 8
  ret void
}
