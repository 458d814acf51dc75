; A pool in memory that a caller of a library gives: its start, its end, and what goes into a context.

declare i32 @pthread_join(i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define i32 @${NAME}_threads_start(ptr %pool, i64 %bytes, i32 %threads) nounwind {
entry:
  %nowhere = icmp eq ptr %pool, null
  br i1 %nowhere, label %fail, label %place
place:
  %address = ptrtoint ptr %pool to i64
  %low = and i64 %address, ${LESS}
  %crooked = icmp ne i64 %low, 0
  br i1 %crooked, label %fail, label %room
room:
  %end = getelementptr %pool, ptr null, i64 1
  %size = ptrtoint ptr %end to i64
  %short = icmp ult i64 %bytes, %size
  br i1 %short, label %fail, label %begin
begin:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 %size, i1 false)
  call void @reset_sleep(ptr %pool)
  %asked = sext i32 %threads to i64
  %some = call i64 @llvm.smax.i64(i64 %asked, i64 1)
  %most = call i64 @llvm.smin.i64(i64 %some, i64 ${THREADS})
  %most_at = getelementptr %pool, ptr %pool, i64 0, i32 9
  store i64 %most, ptr %most_at
  %helpers = sub i64 %most, 1
  call void @start_workers(ptr %pool, i64 %helpers)
  ret i32 0
fail:
  %why = phi i32 [ ${NULL}, %entry ], [ ${MISALIGNED}, %place ], [ ${SHORT}, %room ]
  ret i32 %why
}

define void @${NAME}_threads_run(ptr %pool, ptr %task, ptr %arguments, i64 %tasks) nounwind {
  %most_at = getelementptr %pool, ptr %pool, i64 0, i32 9
  %most = load i64, ptr %most_at
  call void @share(ptr %pool, ptr %task, ptr %arguments, i64 %tasks, ptr null, i64 %most, i1 true)
  ret void
}

define void @${NAME}_threads_run_short(ptr %pool, ptr %task, ptr %arguments, i64 %tasks) nounwind {
  %most_at = getelementptr %pool, ptr %pool, i64 0, i32 9
  %most = load i64, ptr %most_at
  call void @share(ptr %pool, ptr %task, ptr %arguments, i64 %tasks, ptr null, i64 %most, i1 false)
  ret void
}

; A job without a function ends the workers; they are waited for.
define void @${NAME}_threads_stop(ptr %pool) nounwind {
entry:
  %nowhere = icmp eq ptr %pool, null
  br i1 %nowhere, label %leave, label %last
last:
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %old = load i64, ptr %job
  %odd = or i64 %old, 1
  %ticket = add i64 %odd, 1
  %started_at = getelementptr %pool, ptr %pool, i64 0, i32 6
  %started = load i64, ptr %started_at
  %all = add i64 %started, 1
  call void @publish(ptr %pool, i64 %ticket, ptr null, ptr null, i64 0, i64 1, i64 %all)
  fence seq_cst
  call void @wake(ptr %pool, i64 %all)
  br label %each
each:
  %n = phi i64 [ 1, %last ], [ %n1, %next ]
  %more = icmp slt i64 %n, %all
  br i1 %more, label %thread, label %done
thread:
  %thread_at = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %n, i32 4
  %handle = load i64, ptr %thread_at
  %there = icmp ne i64 %handle, 0
  br i1 %there, label %join, label %next
join:
  %error = call i32 @pthread_join(i64 %handle, ptr null)
  br label %next
next:
  %n1 = add i64 %n, 1
  br label %each
done:
  store i64 0, ptr %started_at
  br label %leave
leave:
  ret void
}

; Nobody waits for a job with the status of an execution at hand: who does its tasks looks at that.
define internal i32 @hlo_poll(ptr %status, ptr %name) nounwind {
  ret i32 0
}

declare i64 @llvm.smax.i64(i64, i64)
