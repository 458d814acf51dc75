; What emitted code calls of the pool, at a number of threads.

declare void @hlo_parallel_n(ptr, ptr, i64, ptr, i64, i1)
define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 ${THREADS}, i1 true)
  ret void
}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 ${THREADS}, i1 false)
  ret void
}
