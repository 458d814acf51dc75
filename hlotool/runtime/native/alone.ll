; What code that is linked without hlotool calls of its runtime; whoever links it may define these otherwise.

define weak void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
define weak void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
define weak i32 @hlo_poll(ptr %status, ptr %name) nounwind {
  ret i32 0
}

@${ENTRY}_arena_bytes = constant i64 ${ARENA}
@${ENTRY}_constants = constant [${SIZE} x i8] c"${CONSTANTS}", align 64
