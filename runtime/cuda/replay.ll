; What a repeated call of a GPU program does on the host. Layouts: `_Layout` in recording.py.
;
; %call: 0 arguments, 1 their table, 2 patches, 3 their table, 4 launches, 5 their table,
;        6 addresses, 7 the context, 8 cuLaunchKernel, 9 cuCtxPushCurrent, 10 cuCtxPopCurrent,
;        11 current_work_stream, 12 the device's number
; an argument: 0 its type, 1 dltensor_from_py_object_no_sync, 2 rank and dtype, 3 device,
;        4 sizes, 5 strides, 6 whether they are row-major
; a patch: 0 where an address goes, 1 which, 2 what is added
; a launch: 0 function, 1-3 grid, 4-6 block, 7 parameters, 8 bytes of shared memory
;
; SOURCE: dlpack.h, version 1.3 (DLTensor, DLPackExchangeAPI); CUDA driver API, cuLaunchKernel.

; 0: all arguments are as recorded, their addresses are taken; 1: some are not; an error is set: -1.
define i64 @mlc_replay_gather(ptr %call, ptr %objects) {
entry:
  %tensor = alloca [48 x i8], align 16
  %stream = alloca ptr, align 8
  store ptr null, ptr %stream
  %count = load i64, ptr %call
  %table.at = getelementptr i64, ptr %call, i64 1
  %table = load ptr, ptr %table.at
  %addresses.at = getelementptr i64, ptr %call, i64 6
  %addresses = load ptr, ptr %addresses.at
  %work.at = getelementptr i64, ptr %call, i64 11
  %work = load ptr, ptr %work.at
  %device.at = getelementptr i64, ptr %call, i64 12
  %device = load i32, ptr %device.at
  %asked = call i32 %work(i32 2, i32 %device, ptr %stream)
  %refused = icmp ne i32 %asked, 0
  br i1 %refused, label %failed, label %streamed
streamed:
  %current = load ptr, ptr %stream
  %default = icmp eq ptr %current, null
  br i1 %default, label %argument, label %other
argument:
  %k = phi i64 [ 0, %streamed ], [ %k.next, %taken ]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %fits, label %check.type
check.type:
  %object.at = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %object.at
  %spec = getelementptr [8 x i64], ptr %table, i64 %k
  %type.at = getelementptr i64, ptr %object, i64 1
  %type = load i64, ptr %type.at
  %type.want = load i64, ptr %spec
  %type.same = icmp eq i64 %type, %type.want
  br i1 %type.same, label %convert, label %other
convert:
  %from.at = getelementptr i64, ptr %spec, i64 1
  %from = load ptr, ptr %from.at
  %status = call i32 %from(ptr %object, ptr %tensor)
  %failing = icmp ne i32 %status, 0
  br i1 %failing, label %failed, label %check.kind
check.kind:
  %kind.at = getelementptr i8, ptr %tensor, i64 16
  %kind = load i64, ptr %kind.at
  %kind.want.at = getelementptr i64, ptr %spec, i64 2
  %kind.want = load i64, ptr %kind.want.at
  %kind.same = icmp eq i64 %kind, %kind.want
  %place.at = getelementptr i8, ptr %tensor, i64 8
  %place = load i64, ptr %place.at
  %place.want.at = getelementptr i64, ptr %spec, i64 3
  %place.want = load i64, ptr %place.want.at
  %place.same = icmp eq i64 %place, %place.want
  %both = and i1 %kind.same, %place.same
  br i1 %both, label %shapes, label %other
shapes:
  %rank = and i64 %kind, 4294967295
  %sizes.at = getelementptr i8, ptr %tensor, i64 24
  %sizes = load ptr, ptr %sizes.at
  %sizes.want.at = getelementptr i64, ptr %spec, i64 4
  %sizes.want = load ptr, ptr %sizes.want.at
  %strides.at = getelementptr i8, ptr %tensor, i64 32
  %strides = load ptr, ptr %strides.at
  %strides.want.at = getelementptr i64, ptr %spec, i64 5
  %strides.want = load ptr, ptr %strides.want.at
  %bare = icmp eq ptr %strides, null
  %plain.at = getelementptr i64, ptr %spec, i64 6
  %plain = load i64, ptr %plain.at
  %plain.want = icmp ne i64 %plain, 0
  %strided = xor i1 %bare, true
  %possible = or i1 %strided, %plain.want
  br i1 %possible, label %axis, label %other
axis:
  %a = phi i64 [ 0, %shapes ], [ %a.next, %axis.next ]
  %axes.done = icmp eq i64 %a, %rank
  br i1 %axes.done, label %address, label %size
size:
  %size.at = getelementptr i64, ptr %sizes, i64 %a
  %size.is = load i64, ptr %size.at
  %size.want.at = getelementptr i64, ptr %sizes.want, i64 %a
  %size.want = load i64, ptr %size.want.at
  %size.same = icmp eq i64 %size.is, %size.want
  br i1 %size.same, label %stride, label %other
stride:
  br i1 %bare, label %axis.next, label %stride.check
stride.check:
  %stride.at = getelementptr i64, ptr %strides, i64 %a
  %stride.is = load i64, ptr %stride.at
  %stride.want.at = getelementptr i64, ptr %strides.want, i64 %a
  %stride.want = load i64, ptr %stride.want.at
  %stride.same = icmp eq i64 %stride.is, %stride.want
  br i1 %stride.same, label %axis.next, label %other
axis.next:
  %a.next = add i64 %a, 1
  br label %axis
address:
  %data = load i64, ptr %tensor
  %offset.at = getelementptr i8, ptr %tensor, i64 40
  %offset = load i64, ptr %offset.at
  %pointer = add i64 %data, %offset
  %low = and i64 %pointer, 15
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %taken, label %other
taken:
  %address.at = getelementptr i64, ptr %addresses, i64 %k
  store i64 %pointer, ptr %address.at
  %k.next = add i64 %k, 1
  br label %argument
fits:
  ret i64 0
other:
  ret i64 1
failed:
  ret i64 -1
}

; The launches with the addresses; 0, or the driver's error.
define i64 @mlc_replay_start(ptr %call) {
entry:
  %patches.at = getelementptr i64, ptr %call, i64 2
  %patches = load i64, ptr %patches.at
  %patch.table.at = getelementptr i64, ptr %call, i64 3
  %patch.table = load ptr, ptr %patch.table.at
  %launches.at = getelementptr i64, ptr %call, i64 4
  %launches = load i64, ptr %launches.at
  %launch.table.at = getelementptr i64, ptr %call, i64 5
  %launch.table = load ptr, ptr %launch.table.at
  %addresses.at = getelementptr i64, ptr %call, i64 6
  %addresses = load ptr, ptr %addresses.at
  %context.at = getelementptr i64, ptr %call, i64 7
  %context = load ptr, ptr %context.at
  %launch.at = getelementptr i64, ptr %call, i64 8
  %cuLaunchKernel = load ptr, ptr %launch.at
  %push.at = getelementptr i64, ptr %call, i64 9
  %cuCtxPushCurrent = load ptr, ptr %push.at
  %pop.at = getelementptr i64, ptr %call, i64 10
  %cuCtxPopCurrent = load ptr, ptr %pop.at
  %popped = alloca ptr, align 8
  br label %patch
patch:
  %p = phi i64 [ 0, %entry ], [ %p.next, %patch.one ]
  %patched = icmp eq i64 %p, %patches
  br i1 %patched, label %enter, label %patch.one
patch.one:
  %patch.at = getelementptr [3 x i64], ptr %patch.table, i64 %p
  %where = load ptr, ptr %patch.at
  %which.at = getelementptr i64, ptr %patch.at, i64 1
  %which = load i64, ptr %which.at
  %address.at = getelementptr i64, ptr %addresses, i64 %which
  %address = load i64, ptr %address.at
  %added.at = getelementptr i64, ptr %patch.at, i64 2
  %added = load i64, ptr %added.at
  %moved = add i64 %address, %added
  store i64 %moved, ptr %where
  %p.next = add i64 %p, 1
  br label %patch
enter:
  %entered = call i32 %cuCtxPushCurrent(ptr %context)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %refused, label %launch
refused:
  %entered.wide = zext i32 %entered to i64
  ret i64 %entered.wide
launch:
  %n = phi i64 [ 0, %enter ], [ %n.next, %launched ]
  %all = icmp eq i64 %n, %launches
  br i1 %all, label %leave, label %launch.one
launch.one:
  %spec = getelementptr [9 x i64], ptr %launch.table, i64 %n
  %function = load ptr, ptr %spec
  %gx.at = getelementptr i64, ptr %spec, i64 1
  %gx = load i32, ptr %gx.at
  %gy.at = getelementptr i64, ptr %spec, i64 2
  %gy = load i32, ptr %gy.at
  %gz.at = getelementptr i64, ptr %spec, i64 3
  %gz = load i32, ptr %gz.at
  %bx.at = getelementptr i64, ptr %spec, i64 4
  %bx = load i32, ptr %bx.at
  %by.at = getelementptr i64, ptr %spec, i64 5
  %by = load i32, ptr %by.at
  %bz.at = getelementptr i64, ptr %spec, i64 6
  %bz = load i32, ptr %bz.at
  %parameters.at = getelementptr i64, ptr %spec, i64 7
  %parameters = load ptr, ptr %parameters.at
  %shared.at = getelementptr i64, ptr %spec, i64 8
  %shared = load i32, ptr %shared.at
  %status = call i32 %cuLaunchKernel(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %shared, ptr null, ptr %parameters, ptr null)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %leave, label %launched
launched:
  %n.next = add i64 %n, 1
  br label %launch
leave:
  %code = phi i32 [ 0, %launch ], [ %status, %launch.one ]
  %left = call i32 %cuCtxPopCurrent(ptr %popped)
  %code.wide = zext i32 %code to i64
  ret i64 %code.wide
}
