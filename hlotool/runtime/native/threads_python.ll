
; Threads that are waited for, as Python has them on every system, where nothing tells of their end: a word of their own
; is 1 as long as they run.  It is looked at now and then, and not a lock, which could be gone before it is released.

declare i${LONG} @PyThread_start_new_thread(ptr, ptr)
define internal void @hlo_start(ptr %word, ptr %function, ptr %argument) nounwind {
entry:
  store atomic i64 1, ptr %word release, align 8
  %thread = call i${LONG} @PyThread_start_new_thread(ptr %function, ptr %argument)
  %made = icmp ne i${LONG} %thread, -1
  br i1 %made, label %leave, label %forget
forget:
  store atomic i64 0, ptr %word release, align 8
  br label %leave
leave:
  ret void
}
define internal void @hlo_end(ptr %word) nounwind {
  store atomic i64 0, ptr %word release, align 8
  ret void
}
define internal void @hlo_join(ptr %word) nounwind {
entry:
  br label %look
look:
  %runs = load atomic i64, ptr %word acquire, align 8
  %over = icmp eq i64 %runs, 0
  br i1 %over, label %leave, label %wait
wait:
  call void @hlo_nap(i32 100)
  br label %look
leave:
  ret void
}
