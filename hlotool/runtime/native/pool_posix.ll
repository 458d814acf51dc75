; How the pool's threads are made, and let others have the processor, where there is POSIX.

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @sched_yield()

define internal void @create(ptr %range) nounwind {
entry:
  %thread = alloca i64
  %thread_at = getelementptr %range, ptr %range, i64 0, i32 4
  store i64 0, ptr %thread_at
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %range)
  %made = icmp eq i32 %error, 0
  br i1 %made, label %keep, label %leave
keep:
  %handle = load i64, ptr %thread
  ${KEEP}
  br label %leave
leave:
  ret void
}

; The caller has waited for long; whether it is time to look after the execution.
define internal i1 @stand_back(ptr %pool, ptr %out_at, i64 %ticket, i64 %tries) nounwind {
  %ignored = call i32 @sched_yield()
  %low = and i64 %tries, 255
  %often = icmp eq i64 %low, 0
  ret i1 %often
}
