
; Sleep for some microseconds with what Python has on every system: wait for a lock that nobody will release.

declare ptr @PyThread_allocate_lock()
declare void @PyThread_free_lock(ptr)
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare void @PyThread_release_lock(ptr)
define internal void @hlo_nap(i32 %microseconds) nounwind {
entry:
  %lock = call ptr @PyThread_allocate_lock()
  %none = icmp eq ptr %lock, null
  br i1 %none, label %leave, label %sleep
sleep:
  %mine = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 0, i32 0)
  %time = zext i32 %microseconds to i64
  %slept = call i32 @PyThread_acquire_lock_timed(ptr %lock, i64 %time, i32 0)
  call void @PyThread_release_lock(ptr %lock)
  call void @PyThread_free_lock(ptr %lock)
  br label %leave
leave:
  ret void
}
