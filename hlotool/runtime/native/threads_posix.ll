
; Threads that are waited for, as POSIX has them: a word of their own has the handle, 0 where there is none.

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
define internal void @hlo_start(ptr %word, ptr %function, ptr %argument) nounwind {
entry:
  %error = call i32 @pthread_create(ptr %word, ptr null, ptr %function, ptr %argument)
  %made = icmp eq i32 %error, 0
  br i1 %made, label %leave, label %forget
forget:
  store i64 0, ptr %word
  br label %leave
leave:
  ret void
}
define internal void @hlo_end(ptr %word) nounwind {
  ret void
}
define internal void @hlo_join(ptr %word) nounwind {
entry:
  %handle = load ptr, ptr %word
  %none = icmp eq ptr %handle, null
  br i1 %none, label %leave, label %wait
wait:
  %ignored = call i32 @pthread_join(ptr %handle, ptr null)
  store ptr null, ptr %word
  br label %leave
leave:
  ret void
}
