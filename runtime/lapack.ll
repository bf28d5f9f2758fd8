; Factorisations by LAPACK's own routines, in double precision as NumPy's are: copies of matrices by
; columns, the call, and the result by rows. Integers are words whose lower half a library of 32 bits
; reads. What is not here, or was not found, goes to `mlc_library_target`. Memory: `work`, of
; lowering/loops/opaque/lapack.py.

@mlc_lower = internal constant [1 x i8] c"L"

; to[c * rows + r] = from[r * columns + c], of elements of 1 or 2 parts; single ones on a side widen
define internal void @mlc_turn(ptr %to, i1 %to.single, ptr %from, i1 %from.single, i64 %rows, i64 %columns, i64 %parts) {
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %r.more = icmp slt i64 %r, %rows
  br i1 %r.more, label %column, label %done
column:
  %c = phi i64 [ 0, %row ], [ %c.next, %column.end ]
  %c.more = icmp slt i64 %c, %columns
  br i1 %c.more, label %part, label %row.end
part:
  %w = phi i64 [ 0, %column ], [ %w.next, %stored ]
  %w.more = icmp slt i64 %w, %parts
  br i1 %w.more, label %copy, label %column.end
copy:
  %from.row = mul i64 %r, %columns
  %from.element = add i64 %from.row, %c
  %from.parts = mul i64 %from.element, %parts
  %from.part = add i64 %from.parts, %w
  %to.column = mul i64 %c, %rows
  %to.element = add i64 %to.column, %r
  %to.parts = mul i64 %to.element, %parts
  %to.part = add i64 %to.parts, %w
  br i1 %from.single, label %read.single, label %read
read.single:
  %from.narrow = getelementptr float, ptr %from, i64 %from.part
  %narrow = load float, ptr %from.narrow, align 4
  %widened = fpext float %narrow to double
  br label %write
read:
  %from.at = getelementptr double, ptr %from, i64 %from.part
  %value = load double, ptr %from.at, align 8
  br label %write
write:
  %wide = phi double [ %widened, %read.single ], [ %value, %read ]
  br i1 %to.single, label %write.single, label %write.double
write.single:
  %to.narrow = getelementptr float, ptr %to, i64 %to.part
  %less = fptrunc double %wide to float
  store float %less, ptr %to.narrow, align 4
  br label %stored
write.double:
  %to.at = getelementptr double, ptr %to, i64 %to.part
  store double %wide, ptr %to.at, align 8
  br label %stored
stored:
  %w.next = add i64 %w, 1
  br label %part
column.end:
  %c.next = add i64 %c, 1
  br label %column
row.end:
  %r.next = add i64 %r, 1
  br label %row
done:
  ret void
}

; Zeros above the diagonal of a matrix by columns; or the identity.
define internal void @mlc_fill(ptr %to, i64 %n, i64 %parts, i1 %identity) {
entry:
  br label %column
column:
  %c = phi i64 [ 0, %entry ], [ %c.next, %column.end ]
  %c.more = icmp slt i64 %c, %n
  br i1 %c.more, label %begin, label %done
begin:
  %end = select i1 %identity, i64 %n, i64 %c
  br label %row
row:
  %r = phi i64 [ 0, %begin ], [ %r.next, %row.end ]
  %r.more = icmp slt i64 %r, %end
  br i1 %r.more, label %part, label %column.end
part:
  %w = phi i64 [ 0, %row ], [ %w.next, %put ]
  %w.more = icmp slt i64 %w, %parts
  br i1 %w.more, label %put, label %row.end
put:
  %equal = icmp eq i64 %r, %c
  %real = icmp eq i64 %w, 0
  %both = and i1 %equal, %real
  %value = select i1 %both, double 1.0, double 0.0
  %column.at = mul i64 %c, %n
  %element = add i64 %column.at, %r
  %elements = mul i64 %element, %parts
  %place = add i64 %elements, %w
  %at = getelementptr double, ptr %to, i64 %place
  store double %value, ptr %at, align 8
  %w.next = add i64 %w, 1
  br label %part
row.end:
  %r.next = add i64 %r, 1
  br label %row
column.end:
  %c.next = add i64 %c, 1
  br label %column
done:
  ret void
}

define i64 @mlc_library(i64 %routine, i64 %dtype, ptr %a, ptr %b, ptr %work, ptr %out, i64 %batch, i64 %n, i64 %columns, i64 %p, i64 %k) {
entry:
  %integers = alloca [3 x i64], align 8  ; n, right sides, info
  switch i64 %routine, label %other [
    i64 ROUTINE_SOLVE, label %known
    i64 ROUTINE_INV, label %known
    i64 ROUTINE_CHOLESKY, label %known
  ]
known:
  %factors = icmp eq i64 %routine, ROUTINE_CHOLESKY
  %inverts = icmp eq i64 %routine, ROUTINE_INV
  %c64 = icmp eq i64 %dtype, DTYPE_C64
  %c128 = icmp eq i64 %dtype, DTYPE_C128
  %f32 = icmp eq i64 %dtype, DTYPE_F32
  %complex = or i1 %c64, %c128
  %single = or i1 %c64, %f32
  %first = select i1 %factors, i64 2, i64 0
  %second = zext i1 %complex to i64
  %number = add i64 %first, %second
  %slot = getelementptr ptr, ptr @mlc_lapack, i64 %number
  %function = load ptr, ptr %slot, align 8
  %none = icmp eq ptr %function, null
  br i1 %none, label %other, label %look
other:
  %target = load ptr, ptr @mlc_library_target, align 8
  %found = call i64 %target(i64 %routine, i64 %dtype, ptr %a, ptr %b, ptr %work, ptr %out, i64 %batch, i64 %n, i64 %columns, i64 %p, i64 %k)
  ret i64 %found
look:
  %nothing = icmp slt i64 %n, 1
  br i1 %nothing, label %done, label %begin
begin:
  %parts = add i64 %second, 1
  %rights = select i1 %inverts, i64 %n, i64 %k
  %square = mul i64 %n, %n
  %square.parts = mul i64 %square, %parts
  %sides = mul i64 %n, %rights
  %sides.parts = mul i64 %sides, %parts
  %halves = select i1 %single, i64 4, i64 8
  %a.bytes = mul i64 %square.parts, %halves
  %b.bytes = mul i64 %sides.parts, %halves
  %b.copy = getelementptr double, ptr %work, i64 %square.parts
  %used = select i1 %factors, i64 0, i64 %sides.parts
  %pivots = getelementptr double, ptr %b.copy, i64 %used
  %rights.at = getelementptr i64, ptr %integers, i64 1
  %info.at = getelementptr i64, ptr %integers, i64 2
  br label %matrix
matrix:
  %number.now = phi i64 [ 0, %begin ], [ %number.next, %stored ]
  %more = icmp slt i64 %number.now, %batch
  br i1 %more, label %copy, label %done
copy:
  store i64 %n, ptr %integers, align 8
  store i64 %rights, ptr %rights.at, align 8
  store i64 0, ptr %info.at, align 8
  %a.offset = mul i64 %number.now, %a.bytes
  %a.now = getelementptr i8, ptr %a, i64 %a.offset
  call void @mlc_turn(ptr %work, i1 false, ptr %a.now, i1 %single, i64 %n, i64 %n, i64 %parts)
  br i1 %factors, label %factor, label %right.sides
right.sides:
  br i1 %inverts, label %identity, label %given
identity:
  call void @mlc_fill(ptr %b.copy, i64 %n, i64 %parts, i1 true)
  br label %solve
given:
  %b.offset = mul i64 %number.now, %b.bytes
  %b.now = getelementptr i8, ptr %b, i64 %b.offset
  call void @mlc_turn(ptr %b.copy, i1 false, ptr %b.now, i1 %single, i64 %n, i64 %rights, i64 %parts)
  br label %solve
solve:
  call void %function(ptr %integers, ptr %rights.at, ptr %work, ptr %integers, ptr %pivots, ptr %b.copy, ptr %integers, ptr %info.at)
  %info = load i64, ptr %info.at, align 8
  %singular = icmp ne i64 %info, 0
  br i1 %singular, label %failed, label %store
store:
  %out.offset = mul i64 %number.now, %b.bytes
  %out.now = getelementptr i8, ptr %out, i64 %out.offset
  call void @mlc_turn(ptr %out.now, i1 %single, ptr %b.copy, i1 false, i64 %rights, i64 %n, i64 %parts)
  br label %stored
failed:
  ret i64 1  ; "Singular matrix"
factor:
  call void %function(ptr @mlc_lower, ptr %integers, ptr %work, ptr %integers, ptr %info.at, i64 1)
  %indefinite = load i64, ptr %info.at, align 8
  %bad = icmp ne i64 %indefinite, 0
  br i1 %bad, label %refused, label %lower
lower:
  call void @mlc_fill(ptr %work, i64 %n, i64 %parts, i1 false)
  %l.offset = mul i64 %number.now, %a.bytes
  %l.now = getelementptr i8, ptr %out, i64 %l.offset
  call void @mlc_turn(ptr %l.now, i1 %single, ptr %work, i1 false, i64 %n, i64 %n, i64 %parts)
  br label %stored
refused:
  ret i64 2  ; "Matrix is not positive definite"
stored:
  %number.next = add i64 %number.now, 1
  br label %matrix
done:
  ret i64 0
}
