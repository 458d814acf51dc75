; The pool of one thread: whoever has a job does it.

define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
