; The pool of a process, which lives as long as that does: its memory, and the way in.

@pool = internal global %pool zeroinitializer, align 128

declare i32 @hlo_poll(ptr, ptr)
${DECLARE}

define void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 %most, i1 %wakes) nounwind {
  call void @share(ptr @pool, ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 %most, i1 %wakes)
  ret void
}

; Before the first job, and in the child of a fork, where only the forking thread is left and the job that may have been
; open is nobody's.
define void @hlo_pool_reset() nounwind {
  store i64 0, ptr getelementptr (%pool, ptr @pool, i64 0, i32 6)
  store [${WORDS} x i64] zeroinitializer, ptr getelementptr (%pool, ptr @pool, i64 0, i32 4)
  %old = load i64, ptr getelementptr (%pool, ptr @pool, i64 0, i32 1)
  %odd = or i64 %old, 1
  store atomic i64 %odd, ptr getelementptr (%pool, ptr @pool, i64 0, i32 1) seq_cst, align 8
  store atomic i32 0, ptr @pool seq_cst, align 4
  call void @reset_sleep(ptr @pool)
  ret void
}
