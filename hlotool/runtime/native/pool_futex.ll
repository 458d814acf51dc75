; How the pool's threads sleep, with Linux futexes on the low half of the ticket, and move to other processors.
;
; Workers sleep with a bit of their own (FUTEX_WAIT_BITSET and FUTEX_WAKE_BITSET, private: 137 and 138), so that only those
; are woken that are wanted, or some more of many.  A worker may run wherever the process may, but for the processor of its
; caller.  Processors are bits of a mask; 1024 are the most that the C library's type has.

declare i64 @syscall(i64, ...)
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @say_where(ptr %pool) nounwind {
  %here = call i32 @sched_getcpu()
  %at = getelementptr %pool, ptr %pool, i64 0, i32 1, i32 6
  store atomic i32 %here, ptr %at monotonic, align 4
  ret void
}

; A worker is out of a job: it moves away from the processor of its caller.
define internal void @leave_job(ptr %pool) nounwind {
entry:
  %mask = alloca [16 x i64]
  %there_at = getelementptr %pool, ptr %pool, i64 0, i32 1, i32 6
  %there = load atomic i32, ptr %there_at monotonic, align 4
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %there
  %known = icmp ult i32 %here, 1024
  %together = and i1 %same, %known
  br i1 %together, label %ask, label %leave
ask:
  store [16 x i64] zeroinitializer, ptr %mask
  %process = call i32 @getpid()
  %error = call i32 @sched_getaffinity(i32 %process, i64 128, ptr %mask)
  %failed = icmp slt i32 %error, 0
  br i1 %failed, label %leave, label %choose
choose:
  %byte = lshr i32 %here, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %bit = and i32 %here, 7
  %one = shl i32 1, %bit
  %small = trunc i32 %one to i8
  %others = xor i8 %small, -1
  %before = load i8, ptr %at
  %after = and i8 %before, %others
  store i8 %after, ptr %at
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask) ; refused where nothing is left
  br label %leave
leave:
  ret void
}

define internal void @sleep_until_other(ptr %pool, i64 %seen, i64 %own) nounwind {
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %word = trunc i64 %seen to i32
  %small = trunc i64 %own to i32
  %place = and i32 %small, 31
  %bit = shl i32 1, %place
  %r = call i64 (i64, ...) @syscall(i64 ${FUTEX}, ptr %job, i32 137, i32 %word, ptr null, ptr null, i32 %bit)
  ret void
}

define internal void @wake(ptr %pool, i64 %threads) nounwind {
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %few = icmp slt i64 %threads, 32
  %small = trunc i64 %threads to i32
  %place = and i32 %small, 31
  %bit = shl i32 1, %place
  %low = sub i32 %bit, 1
  %bits = select i1 %few, i32 %low, i32 -1
  %r = call i64 (i64, ...) @syscall(i64 ${FUTEX}, ptr %job, i32 138, i32 2147483647, ptr null, ptr null, i32 %bits)
  ret void
}

define internal void @reset_sleep(ptr %pool) nounwind {
  ret void
}
