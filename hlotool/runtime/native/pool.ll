; The thread pool: see hlotool/runtime/pool.py for how a job is published, dealt out and joined.
;
; Every hot word has a cache line (pair) of its own: see %job, %range (a word, and the job that the worker is in).  Ranges
; are numbered by thread, and 0 is the caller.  A range's word is a ticket times 2^16, and parts.

; ticket, function, its arguments, tasks, tasks of a part, threads, the caller's processor
%job = type { i64, ptr, ptr, i64, i64, i64, i32, [76 x i8] }
; its word, the job that the worker is in, the pool, the worker's number and its thread
%range = type { i64, i64, ptr, i64, i64, [88 x i8] }
%line = type { i64, [120 x i8] }
; busy, job, ranges, outs, asleep, room, started, missed, whether sleeping is prepared, most threads, mutex, condition
%pool = type { %line, %job, [${THREADS} x %range], [${THREADS} x %line], [${WORDS} x i64], [${ROOM} x i8], %line, i32, i32, i64, [256 x i8], [256 x i8] }

define internal void @share(ptr %pool, ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 %most, i1 %wakes) nounwind {
entry:
  %many = icmp sgt i64 %tasks, 1
  br i1 %many, label %acquire, label %few
few:
  %one = icmp eq i64 %tasks, 1
  br i1 %one, label %serial, label %nothing
nothing:
  ret void
acquire:
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %missed = getelementptr %pool, ptr %pool, i64 0, i32 7
  %started = getelementptr %pool, ptr %pool, i64 0, i32 6
  %got = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %own, label %serial
serial:
  call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
own:
  %asked = call i64 @llvm.smin.i64(i64 %most, i64 %tasks)
  %threads = call i64 @llvm.smin.i64(i64 %asked, i64 ${THREADS})
  %helpers = sub i64 %threads, 1
  %have = load i64, ptr %started
  %enough = icmp sge i64 %have, %helpers
  %resting = call i1 @any_asleep(ptr %pool, i64 %threads)
  %awake = xor i1 %resting, true
  %ready = and i1 %enough, %awake
  %go = or i1 %ready, %wakes
  br i1 %go, label %begin, label %miss
miss:
  %before = load i32, ptr %missed
  %misses = add i32 %before, 1
  %often = icmp sge i32 %misses, ${MISSES}
  %kept = select i1 %often, i32 0, i32 %misses
  store i32 %kept, ptr %missed
  br i1 %often, label %begin, label %alone
alone:
  store atomic i32 0, ptr %pool release, align 4
  br label %serial
begin:
  br i1 %enough, label %publish, label %start
start:
  call void @start_workers(ptr %pool, i64 %helpers)
  br label %publish
publish:
  %rounded = add i64 %tasks, %helpers
  %share = udiv i64 %rounded, %threads
  %filled = add i64 %share, ${LESS}
  %part = udiv i64 %filled, ${PARTS}
  %end = call i64 @start_of(i64 1, i64 %tasks, i64 %threads)
  %whole = call i64 @parts_of(i64 0, i64 %end, i64 %part)
  %half = call i64 @half(i64 %whole)
  %left = sub i64 %whole, %half
  %old = load i64, ptr %job
  %odd = or i64 %old, 1
  %ticket = add i64 %odd, 1
  %shifted = shl i64 %ticket, 16
  %word = or i64 %shifted, %left
  %ranges = getelementptr %pool, ptr %pool, i64 0, i32 2
  store atomic i64 %word, ptr %ranges monotonic, align 8
  call void @publish(ptr %pool, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads)
  call void @wake_some(ptr %pool, i64 %threads)
  %reach = mul i64 %half, %part
  %first = call i64 @llvm.smin.i64(i64 %reach, i64 %end)
  call void %fn(ptr %args, i64 0, i64 %first)
  call void @wake_some(ptr %pool, i64 %threads)
  call void @work(ptr %pool, i64 0, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads)
  br label %others
others:
  %r = phi i64 [ 1, %publish ], [ %r1, %out ]
  %waits = icmp slt i64 %r, %threads
  br i1 %waits, label %look, label %release
look:
  %left_already = call i1 @await(ptr %pool, i64 %r, i64 %ticket, i64 1, ptr null)
  br i1 %left_already, label %out, label %ask
ask:
  %in_at = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %r, i32 1
  %in = load atomic i64, ptr %in_at acquire, align 8
  %joined = icmp eq i64 %in, %ticket
  br i1 %joined, label %join, label %out
join:
  call i1 @await(ptr %pool, i64 %r, i64 %ticket, i64 0, ptr %status)
  br label %out
out:
  %r1 = add i64 %r, 1
  br label %others
release:
  store atomic i32 0, ptr %pool release, align 4
  ret void
}

; Let workers see a job, whose ticket is the next one.
define internal void @publish(ptr %pool, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads) nounwind {
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %odd = sub i64 %ticket, 1
  store atomic i64 %odd, ptr %job monotonic, align 8
  fence release
  %fn_at = getelementptr %job, ptr %job, i64 0, i32 1
  store atomic ptr %fn, ptr %fn_at monotonic, align 8
  %args_at = getelementptr %job, ptr %job, i64 0, i32 2
  store atomic ptr %args, ptr %args_at monotonic, align 8
  %tasks_at = getelementptr %job, ptr %job, i64 0, i32 3
  store atomic i64 %tasks, ptr %tasks_at monotonic, align 8
  %part_at = getelementptr %job, ptr %job, i64 0, i32 4
  store atomic i64 %part, ptr %part_at monotonic, align 8
  %threads_at = getelementptr %job, ptr %job, i64 0, i32 5
  store atomic i64 %threads, ptr %threads_at monotonic, align 8
  call void @say_where(ptr %pool)
  store atomic i64 %ticket, ptr %job release, align 8
  ret void
}

; Where range %r begins.
define internal i64 @start_of(i64 %r, i64 %tasks, i64 %threads) nounwind {
  %before = mul i64 %tasks, %r
  %start = udiv i64 %before, %threads
  ret i64 %start
}

define internal i64 @parts_of(i64 %start, i64 %end, i64 %part) nounwind {
  %length = sub i64 %end, %start
  %more = add i64 %length, %part
  %rounded = sub i64 %more, 1
  %parts = udiv i64 %rounded, %part
  ret i64 %parts
}

define internal i64 @half(i64 %left) nounwind {
  %more = add i64 %left, 1
  %half = lshr i64 %more, 1
  ret i64 %half
}

; Whether worker %r is out of a job; with a limit (not 0) only so many looks.
define internal i1 @await(ptr %pool, i64 %r, i64 %ticket, i64 %limit, ptr %status) nounwind {
entry:
  %watched = icmp ne ptr %status, null
  %at = getelementptr %pool, ptr %pool, i64 0, i32 3, i64 %r
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ %more, %relax ]
  %out = load atomic i64, ptr %at acquire, align 8
  %done = icmp eq i64 %out, %ticket
  br i1 %done, label %leave, label %wait
wait:
  %more = add nuw nsw i64 %tries, 1
  %enough = icmp eq i64 %more, %limit
  br i1 %enough, label %leave, label %stay
stay:
  %patient = icmp ult i64 %tries, 2000
  br i1 %patient, label %pause, label %yield
pause:
  ${PAUSE}
  br label %relax
yield:
  %often = call i1 @stand_back(ptr %pool, ptr %at, i64 %ticket, i64 %tries)
  %due = and i1 %often, %watched
  br i1 %due, label %poll, label %relax
poll:
  %told = call i32 @hlo_poll(ptr %status, ptr null)
  br label %relax
relax:
  br label %look
leave:
  ret i1 %done
}

; Take from range %own, then from the others, until there is nothing left.  Workers leave it to the caller to look at
; ranges of one part: all that is taken from such a one is its owner's, or the owner is not there.
define internal void @work(ptr %pool, i64 %own, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads) nounwind {
entry:
  %all = mul i64 %part, %threads
  %single = icmp sge i64 %all, %tasks
  %worker = icmp ne i64 %own, 0
  %only = and i1 %single, %worker
  %count = select i1 %only, i64 1, i64 %threads
  br label %ranges
ranges:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %r = phi i64 [ %own, %entry ], [ %r1, %next ]
  %some = icmp slt i64 %n, %count
  br i1 %some, label %range, label %leave
range:
  ; the caller gives a worker that is about to end a moment: a look at its range would take the line from it
  %first = icmp eq i64 %n, 0
  %polite = or i1 %first, %worker
  br i1 %polite, label %look, label %moment
moment:
  %out = call i1 @await(ptr %pool, i64 %r, i64 %ticket, i64 2, ptr null)
  br i1 %out, label %next, label %look
look:
  %start = call i64 @start_of(i64 %r, i64 %tasks, i64 %threads)
  %following = add i64 %r, 1
  %end = call i64 @start_of(i64 %following, i64 %tasks, i64 %threads)
  %whole = call i64 @parts_of(i64 %start, i64 %end, i64 %part)
  %at = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %r
  br label %again
again:
  %word = load atomic i64, ptr %at acquire, align 8
  %seen = lshr i64 %word, 16
  %over = icmp ugt i64 %seen, %ticket
  br i1 %over, label %next, label %count_parts
count_parts:
  %begun = icmp eq i64 %seen, %ticket
  %low = and i64 %word, 65535
  %left = select i1 %begun, i64 %low, i64 %whole
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %next, label %take
take:
  %half = call i64 @half(i64 %left)
  %rest = sub i64 %left, %half
  %shifted = shl i64 %ticket, 16
  %new = or i64 %shifted, %rest
  %took = cmpxchg ptr %at, i64 %word, i64 %new acq_rel acquire
  %mine = extractvalue { i64, i1 } %took, 1
  br i1 %mine, label %run, label %again
run:
  %gone = sub i64 %whole, %left
  %skipped = mul i64 %gone, %part
  %from = add i64 %start, %skipped
  %length = mul i64 %half, %part
  %reach = add i64 %from, %length
  %to = call i64 @llvm.smin.i64(i64 %reach, i64 %end)
  call void %fn(ptr %args, i64 %from, i64 %to)
  %last = icmp eq i64 %rest, 0
  br i1 %last, label %next, label %again
next:
  %n1 = add i64 %n, 1
  %up = add i64 %r, 1
  %wraps = icmp eq i64 %up, %threads
  %r1 = select i1 %wraps, i64 0, i64 %up
  br label %ranges
leave:
  ret void
}

; Whether a worker is asleep of those that help `threads` - 1 of them.
define internal i1 @any_asleep(ptr %pool, i64 %threads) nounwind {
entry:
  %asleep = getelementptr %pool, ptr %pool, i64 0, i32 4
  br label %look
look:
  %at = phi ptr [ %asleep, %entry ], [ %at1, %more ]
  %left = phi i64 [ %threads, %entry ], [ %left1, %more ]
  %word = load atomic i64, ptr %at monotonic, align 8
  %last = icmp slt i64 %left, 64
  %count = and i64 %left, 63
  %bit = shl i64 1, %count
  %low = sub i64 %bit, 1
  %mask = select i1 %last, i64 %low, i64 -1
  %found = and i64 %word, %mask
  %any = icmp ne i64 %found, 0
  %left1 = sub i64 %left, 64
  %none = icmp sle i64 %left1, 0
  %done = or i1 %any, %none
  br i1 %done, label %leave, label %more
more:
  %at1 = getelementptr i64, ptr %at, i64 1
  br label %look
leave:
  ret i1 %any
}

define internal void @wake_some(ptr %pool, i64 %threads) nounwind {
entry:
  %any = call i1 @any_asleep(ptr %pool, i64 %threads)
  br i1 %any, label %call, label %leave
call:
  call void @wake(ptr %pool, i64 %threads)
  br label %leave
leave:
  ret void
}

define internal ptr @worker(ptr %range) nounwind {
entry:
  ${MODE}
  %pool_at = getelementptr %range, ptr %range, i64 0, i32 2
  %pool = load ptr, ptr %pool_at
  %own_at = getelementptr %range, ptr %range, i64 0, i32 3
  %own = load i64, ptr %own_at
  %job = getelementptr %pool, ptr %pool, i64 0, i32 1
  %fn_at = getelementptr %job, ptr %job, i64 0, i32 1
  %args_at = getelementptr %job, ptr %job, i64 0, i32 2
  %tasks_at = getelementptr %job, ptr %job, i64 0, i32 3
  %part_at = getelementptr %job, ptr %job, i64 0, i32 4
  %threads_at = getelementptr %job, ptr %job, i64 0, i32 5
  %in_at = getelementptr %range, ptr %range, i64 0, i32 1
  %out_at = getelementptr %pool, ptr %pool, i64 0, i32 3, i64 %own
  %quotient = lshr i64 %own, 6
  %asleep_at = getelementptr %pool, ptr %pool, i64 0, i32 4, i64 %quotient
  %place = and i64 %own, 63
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  br label %idle
idle:
  %known = phi i64 [ 0, %entry ], [ %ticket, %join ]
  %idle_since = call i64 @hlo_clock()
  br label %look
look:
  %seen = phi i64 [ %known, %idle ], [ %seen, %again ], [ %ticket, %whole ]
  %looks = phi i32 [ 0, %idle ], [ %looks1, %again ], [ %looks, %whole ]
  %ticket = load atomic i64, ptr %job acquire, align 8
  %same = icmp eq i64 %ticket, %seen
  %low = and i64 %ticket, 1
  %changing = icmp ne i64 %low, 0
  %nothing = or i1 %same, %changing
  br i1 %nothing, label %spin, label %called
spin:
  ${PAUSE}
  %more = add i32 %looks, 1
  %sixteenth = and i32 %more, 15
  %due = icmp eq i32 %sixteenth, 0
  br i1 %due, label %watch, label %again
watch:
  %time = call i64 @hlo_clock()
  %spent = sub i64 %time, %idle_since
  %tired = icmp sgt i64 %spent, ${SPIN}
  br i1 %tired, label %rest, label %again
rest:
  %lying = atomicrmw or ptr %asleep_at, i64 %bit seq_cst
  call void @sleep_until_other(ptr %pool, i64 %ticket, i64 %own)
  %rising = atomicrmw and ptr %asleep_at, i64 %others seq_cst
  br label %again
again:
  %looks1 = phi i32 [ %more, %spin ], [ %more, %watch ], [ 0, %rest ], [ %looks, %called ]
  br label %look
called:
  %fn = load atomic ptr, ptr %fn_at monotonic, align 8
  %args = load atomic ptr, ptr %args_at monotonic, align 8
  %tasks = load atomic i64, ptr %tasks_at monotonic, align 8
  %part = load atomic i64, ptr %part_at monotonic, align 8
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  fence acquire
  %still = load atomic i64, ptr %job monotonic, align 8
  %stable = icmp eq i64 %still, %ticket
  br i1 %stable, label %last, label %again
last:
  %over = icmp eq ptr %fn, null
  br i1 %over, label %leave, label %whole
leave:
  ret ptr null
whole:
  %wanted = icmp slt i64 %own, %threads
  br i1 %wanted, label %join, label %look
join:
  store atomic i64 %ticket, ptr %in_at monotonic, align 8
  call void @work(ptr %pool, i64 %own, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads)
  store atomic i64 %ticket, ptr %out_at release, align 8
  call void @leave_job(ptr %pool)
  br label %idle
}

; Called with the pool held.  A thread that cannot be had is not asked for again: the pool counts it as started.
define internal void @start_workers(ptr %pool, i64 %wanted) nounwind {
entry:
  %started = getelementptr %pool, ptr %pool, i64 0, i32 6
  %have = load i64, ptr %started
  br label %each
each:
  %number = phi i64 [ %have, %entry ], [ %following, %next_one ]
  %lacking = icmp slt i64 %number, %wanted
  br i1 %lacking, label %create, label %leave
create:
  %own = add i64 %number, 1
  %range = getelementptr %pool, ptr %pool, i64 0, i32 2, i64 %own
  %pool_at = getelementptr %range, ptr %range, i64 0, i32 2
  store ptr %pool, ptr %pool_at
  %own_at = getelementptr %range, ptr %range, i64 0, i32 3
  store i64 %own, ptr %own_at
  call void @create(ptr %range)
  br label %next_one
next_one:
  %following = add i64 %number, 1
  br label %each
leave:
  store i64 %number, ptr %started
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
