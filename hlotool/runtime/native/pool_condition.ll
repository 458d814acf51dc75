; How the pool's threads sleep where there are no futexes: on a condition variable.
;
; 256 bytes hold a mutex or a condition variable of every libc.

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @sleep_until_other(ptr %pool, i64 %seen, i64 %own) nounwind {
entry:
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 10
  %condition = getelementptr %pool, ptr %pool, i64 0, i32 11
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %ticket = load atomic i64, ptr %job seq_cst, align 8
  %same = icmp eq i64 %ticket, %seen
  br i1 %same, label %wait, label %leave
wait:
  %w = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
leave:
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @wake(ptr %pool, i64 %threads) nounwind {
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 10
  %condition = getelementptr %pool, ptr %pool, i64 0, i32 11
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @say_where(ptr %pool) nounwind {
  ret void
}

define internal void @leave_job(ptr %pool) nounwind {
  ret void
}

define internal void @reset_sleep(ptr %pool) nounwind {
  %mutex = getelementptr %pool, ptr %pool, i64 0, i32 10
  %condition = getelementptr %pool, ptr %pool, i64 0, i32 11
  %m = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}
