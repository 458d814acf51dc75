; The allocator of arrays and arenas: see hlotool/runtime/memory.py.
;
; A block is [padding, header, data].  The header is the 64 bytes before the data: the address that malloc gave, the size
; class, the capacity.  Classes: four per power of two, from 64 bytes on; @classes holds the freed blocks of each, linked
; through their first word.

@classes = internal global [256 x ptr] zeroinitializer, align 64
@kept = global i64 0, align 64
@lock = internal global i32 0, align 64

declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; A thread holds this for a few instructions.
define internal void @acquire() nounwind {
entry:
  br label %try
try:
  %got = cmpxchg weak ptr @lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %done, label %try
done:
  ret void
}

define internal void @release() nounwind {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

; The class of a size: with e the exponent of size - 1, the top three bits of it say which quarter.
define internal i64 @class_of(i64 %size) nounwind {
  %least = call i64 @llvm.umax.i64(i64 %size, i64 64)
  %last = sub i64 %least, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %exponent = sub i64 63, %zeros
  %down = sub i64 %exponent, 2
  %quarters = lshr i64 %last, %down
  %quarter = and i64 %quarters, 3
  %four = shl i64 %exponent, 2
  %class = or i64 %four, %quarter
  ret i64 %class
}

define internal i64 @capacity_of(i64 %class) nounwind {
  %exponent = lshr i64 %class, 2
  %quarter = and i64 %class, 3
  %parts = add i64 %quarter, 5
  %down = sub i64 %exponent, 2
  %capacity = shl i64 %parts, %down
  ret i64 %capacity
}

define noalias ptr @hlo_malloc(ptr %context, i64 %size) nounwind {
entry:
  %absurd = icmp ugt i64 %size, 1152921504606846976
  br i1 %absurd, label %fail, label %look
fail:
  ret ptr null
look:
  %class = call i64 @class_of(i64 %size)
  %capacity = call i64 @capacity_of(i64 %class)
  %head = getelementptr ptr, ptr @classes, i64 %class
  call void @acquire()
  %first = load ptr, ptr %head
  %none = icmp eq ptr %first, null
  br i1 %none, label %fresh, label %reuse
reuse:
  %second = load ptr, ptr %first
  store ptr %second, ptr %head
  %kept = load i64, ptr @kept
  %less = sub i64 %kept, %capacity
  store i64 %less, ptr @kept
  call void @release()
  ret ptr %first
fresh:
  call void @release()
  %paged = icmp uge i64 %capacity, 4096
  %huge = icmp uge i64 %capacity, 2097152
  %small = select i1 %paged, i64 4096, i64 64
  %alignment = select i1 %huge, i64 2097152, i64 %small
  %more = add i64 %alignment, 64
  %whole = add i64 %capacity, %more
  %raw = call ptr @malloc(i64 %whole)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %fail, label %place
place:
  ; the first multiple of the alignment that leaves 64 bytes for the header
  %address = ptrtoint ptr %raw to i64
  %above = add i64 %address, %more
  %past = sub i64 %above, 1
  %mask = sub i64 0, %alignment
  %start = and i64 %past, %mask
  %offset = sub i64 %start, %address
  %data = getelementptr i8, ptr %raw, i64 %offset
  %raw_at = getelementptr i8, ptr %data, i64 -64
  store ptr %raw, ptr %raw_at
  %class_at = getelementptr i8, ptr %data, i64 -56
  store i64 %class, ptr %class_at
  br i1 %huge, label %advise, label %done
advise:
  ${ADVISE}
  br label %done
done:
  ret ptr %data
}

define void @hlo_free(ptr %context, ptr %data, i64 %size) nounwind {
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %leave, label %look
look:
  %class_at = getelementptr i8, ptr %data, i64 -56
  %class = load i64, ptr %class_at
  %capacity = call i64 @capacity_of(i64 %class)
  call void @acquire()
  %kept = load i64, ptr @kept
  %more = add i64 %kept, %capacity
  %full = icmp ugt i64 %more, ${LIMIT}
  br i1 %full, label %drop, label %keep
keep:
  store i64 %more, ptr @kept
  %head = getelementptr ptr, ptr @classes, i64 %class
  %first = load ptr, ptr %head
  store ptr %first, ptr %data
  store ptr %data, ptr %head
  call void @release()
  br label %leave
drop:
  call void @release()
  %raw_at = getelementptr i8, ptr %data, i64 -64
  %raw = load ptr, ptr %raw_at
  call void @free(ptr %raw)
  br label %leave
leave:
  ret void
}

define ptr @hlo_calloc(ptr %context, i64 %count, i64 %each) nounwind {
entry:
  %size = mul i64 %count, %each
  %data = call ptr @hlo_malloc(ptr %context, i64 %size)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %leave, label %clear
clear:
  %cleared = call ptr @memset(ptr %data, i32 0, i64 %size)
  br label %leave
leave:
  ret ptr %data
}

define ptr @hlo_realloc(ptr %context, ptr %data, i64 %size) nounwind {
entry:
  %moved = call ptr @hlo_malloc(ptr %context, i64 %size)
  %failed = icmp eq ptr %moved, null
  %nothing = icmp eq ptr %data, null
  %skip = or i1 %failed, %nothing
  br i1 %skip, label %leave, label %copy
copy:
  %class_at = getelementptr i8, ptr %data, i64 -56
  %class = load i64, ptr %class_at
  %capacity = call i64 @capacity_of(i64 %class)
  %length = call i64 @llvm.umin.i64(i64 %capacity, i64 %size)
  %copied = call ptr @memcpy(ptr %moved, ptr %data, i64 %length)
  call void @hlo_free(ptr %context, ptr %data, i64 0)
  br label %leave
leave:
  ret ptr %moved
}

define void @hlo_release() nounwind {
entry:
  br label %classes
classes:
  %class = phi i64 [ 0, %entry ], [ %following, %empty ]
  %head = getelementptr ptr, ptr @classes, i64 %class
  br label %blocks
blocks:
  call void @acquire()
  %data = load ptr, ptr %head
  %none = icmp eq ptr %data, null
  br i1 %none, label %empty, label %drop
drop:
  %second = load ptr, ptr %data
  store ptr %second, ptr %head
  %capacity = call i64 @capacity_of(i64 %class)
  %kept = load i64, ptr @kept
  %less = sub i64 %kept, %capacity
  store i64 %less, ptr @kept
  call void @release()
  %raw_at = getelementptr i8, ptr %data, i64 -64
  %raw = load ptr, ptr %raw_at
  call void @free(ptr %raw)
  br label %blocks
empty:
  call void @release()
  %following = add i64 %class, 1
  %more = icmp ult i64 %following, 256
  br i1 %more, label %classes, label %leave
leave:
  ret void
}
