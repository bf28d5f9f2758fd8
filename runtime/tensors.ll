; Addresses of the memory of a list of tensors, by the function of their library that describes one: a
; DLTensor has 48 bytes, the address first and an offset in bytes last. SOURCE: dlpack.h 1.3

declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyType_IsSubtype(ptr, ptr)

; the number of tensors that were described: fewer where one is none, or an exception of Python's is set
define i64 @mlc_addresses(ptr %list, i64 %count, ptr %class, ptr %describe, ptr %out) {
entry:
  %tensor = alloca [48 x i8], align 8
  %offset.at = getelementptr i8, ptr %tensor, i64 40
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %keep ]
  %last = phi ptr [ %class, %entry ], [ %type, %keep ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %item, label %end
item:
  %object = call ptr @PyList_GetItem(ptr %list, i64 %k)
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %end, label %check
check:
  %type.at = getelementptr i8, ptr %object, i64 OBJECT_TYPE
  %type = load ptr, ptr %type.at, align 8
  %same = icmp eq ptr %type, %last
  br i1 %same, label %ask, label %look
look:
  %below = call i32 @PyType_IsSubtype(ptr %type, ptr %class)
  %other = icmp eq i32 %below, 0
  br i1 %other, label %end, label %ask
ask:
  %status = call i32 %describe(ptr %object, ptr %tensor)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %keep
keep:
  %data = load i64, ptr %tensor, align 8
  %offset = load i64, ptr %offset.at, align 8
  %address = add i64 %data, %offset
  %to = getelementptr i64, ptr %out, i64 %k
  store i64 %address, ptr %to, align 8
  %k.next = add i64 %k, 1
  br label %next
end:
  ret i64 %k
}
