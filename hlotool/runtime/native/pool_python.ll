; How the pool's threads are made, sleep and are woken with what Python has on every system: locks that are not released
; where they were taken.
;
; Each worker has one in the place of its thread, which is always taken: the worker sleeps as it tries to take it.  Who
; takes the worker's bit out of those that are asleep is the one to release it, once; where the worker itself does so,
; there is nothing to wait for.  The caller waits in the same way for a worker that has been long at work: its lock is in
; the place of the mutex, and behind it a word that is 1 as long as it waits.

declare i${LONG} @PyThread_start_new_thread(ptr, ptr)
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare void @PyThread_release_lock(ptr)

define internal ptr @taken_lock() nounwind {
entry:
  %lock = call ptr @PyThread_allocate_lock()
  %none = icmp eq ptr %lock, null
  br i1 %none, label %leave, label %take
take:
  %taken = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 0, i32 0)
  br label %leave
leave:
  ret ptr %lock
}

define internal void @create(ptr %range) nounwind {
entry:
  %lock = call ptr @taken_lock()
  %lock_at = getelementptr %range, ptr %range, i64 0, i32 4
  store ptr %lock, ptr %lock_at
  %none = icmp eq ptr %lock, null
  br i1 %none, label %leave, label %start
start:
  %thread = call i${LONG} @PyThread_start_new_thread(ptr @worker, ptr %range)
  br label %leave
leave:
  ret void
}

; Whether worker %own was among those that are asleep, where it is no longer.
define internal i1 @rouse(ptr %pool, i64 %own) nounwind {
  %quotient = lshr i64 %own, 6
  %asleep_at = getelementptr %pool, ptr %pool, i64 0, i32 4, i64 %quotient
  %place = and i64 %own, 63
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  %before = atomicrmw and ptr %asleep_at, i64 %others seq_cst
  %was = and i64 %before, %bit
  %slept = icmp ne i64 %was, 0
  ret i1 %slept
}

define internal void @sleep_until_other(ptr %pool, i64 %seen, i64 %own) nounwind {
entry:
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %ticket = load atomic i64, ptr %job seq_cst, align 8
  %same = icmp eq i64 %ticket, %seen
  br i1 %same, label %wait, label %rise
rise:
  %mine = call i1 @rouse(ptr %pool, i64 %own)
  br i1 %mine, label %leave, label %wait
wait:
  %lock_at = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %own, i32 4
  %lock = load ptr, ptr %lock_at
  %taken = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 -1, i32 0)
  br label %leave
leave:
  ret void
}

define internal void @wake(ptr %pool, i64 %threads) nounwind {
entry:
  br label %each
each:
  %own = phi i64 [ 1, %entry ], [ %following, %next ]
  %more = icmp slt i64 %own, %threads
  br i1 %more, label %look, label %leave
look:
  %quotient = lshr i64 %own, 6
  %asleep_at = getelementptr %pool, ptr %pool, i64 0, i32 4, i64 %quotient
  %word = load atomic i64, ptr %asleep_at monotonic, align 8
  %place = and i64 %own, 63
  %shifted = lshr i64 %word, %place
  %sleeps = trunc i64 %shifted to i1
  br i1 %sleeps, label %claim, label %next
claim:
  %mine = call i1 @rouse(ptr %pool, i64 %own)
  br i1 %mine, label %release, label %next
release:
  %lock_at = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %own, i32 4
  %lock = load ptr, ptr %lock_at
  call void @PyThread_release_lock(ptr %lock)
  br label %next
next:
  %following = add i64 %own, 1
  br label %each
leave:
  ret void
}

; Whether the caller was waiting, where it does so no longer.
define internal i1 @end_wait(ptr %pool) nounwind {
  %waits_at = getelementptr %pool, ptr %pool, i64 0, i32 10, i64 8
  %took = cmpxchg ptr %waits_at, i32 1, i32 0 seq_cst monotonic
  %waited = extractvalue { i32, i1 } %took, 1
  ret i1 %waited
}

; The caller has waited for long; whether it is time to look after the execution.
define internal i1 @stand_back(ptr %pool, ptr %out_at, i64 %ticket, i64 %tries) nounwind {
entry:
  %lock_at = getelementptr %pool, ptr %pool, i64 0, i32 10
  %lock = load ptr, ptr %lock_at
  %none = icmp eq ptr %lock, null
  br i1 %none, label %leave, label %say
say:
  %waits_at = getelementptr %pool, ptr %pool, i64 0, i32 10, i64 8
  store atomic i32 1, ptr %waits_at seq_cst, align 4
  fence seq_cst
  %out = load atomic i64, ptr %out_at seq_cst, align 8
  %done = icmp eq i64 %out, %ticket
  br i1 %done, label %stop, label %wait
wait:
  %got = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 ${PATIENCE}, i32 0)
  %taken = icmp eq i32 %got, 1
  br i1 %taken, label %leave, label %stop
stop:
  %mine = call i1 @end_wait(ptr %pool)
  br i1 %mine, label %leave, label %meet
meet:
  %released = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 -1, i32 0)
  br label %leave
leave:
  ret i1 true
}

; A worker is out of a job.
define internal void @leave_job(ptr %pool) nounwind {
entry:
  fence seq_cst
  %waits_at = getelementptr %pool, ptr %pool, i64 0, i32 10, i64 8
  %waits = load atomic i32, ptr %waits_at seq_cst, align 4
  %somebody = icmp ne i32 %waits, 0
  br i1 %somebody, label %claim, label %leave
claim:
  %mine = call i1 @end_wait(ptr %pool)
  br i1 %mine, label %release, label %leave
release:
  %lock_at = getelementptr %pool, ptr %pool, i64 0, i32 10
  %lock = load ptr, ptr %lock_at
  call void @PyThread_release_lock(ptr %lock)
  br label %leave
leave:
  ret void
}

define internal void @say_where(ptr %pool) nounwind {
  ret void
}

define internal void @reset_sleep(ptr %pool) nounwind {
  %lock_at = getelementptr %pool, ptr %pool, i64 0, i32 10
  %waits_at = getelementptr %pool, ptr %pool, i64 0, i32 10, i64 8
  store i32 0, ptr %waits_at
  %lock = call ptr @taken_lock()
  store ptr %lock, ptr %lock_at
  ret void
}
