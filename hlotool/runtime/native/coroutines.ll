; Devices of one run as coroutines of one thread, and where they meet: coroutines.py and rendezvous.py say what the
; words of runs, members, records and steps are.

@hlo_key = external global i8

declare i64 @hlo_host(ptr, ptr)
declare ptr @PyThread_tss_get(ptr)
declare i32 @PyThread_tss_set(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)

; ---- coroutines

; Go on where a stack pointer says, and store at an address the one with which to come back.
define internal void @switch(ptr %from, ptr %to) naked noinline nounwind {
  call void asm sideeffect "${SWITCH}", "~{memory}"()
  unreachable
}

; What a member does on its own stack.
define internal void @body() noinline nounwind {
  %run = call ptr @PyThread_tss_get(ptr @hlo_key)
  %member = load ptr, ptr %run
  %function_at = getelementptr i64, ptr %run, i64 5
  %function = load ptr, ptr %function_at
  %frame_at = getelementptr i64, ptr %member, i64 ${FRAME}
  %frame = load ptr, ptr %frame_at
  call void %function(ptr %frame)
  %ended_at = getelementptr i64, ptr %member, i64 ${ENDED}
  store i64 1, ptr %ended_at
  call void @rest(ptr %run)
  unreachable
}

; Let others have their turn.
define internal void @rest(ptr %run) noinline nounwind {
  %member = load ptr, ptr %run
  %home_at = getelementptr i64, ptr %run, i64 8
  %home = load ptr, ptr %home_at
  call void @switch(ptr %member, ptr %home)
  ret void
}

; Call a function with two addresses on the stack of the thread, where Python can run.
define i64 @hlo_aside(ptr %function, ptr %first, ptr %second) nounwind {
entry:
  %run = call ptr @PyThread_tss_get(ptr @hlo_key)
  %here = icmp eq ptr %run, null
  br i1 %here, label %direct, label %ask
direct:
  %found = call i64 %function(ptr %first, ptr %second)
  ret i64 %found
ask:
  %function_at = getelementptr i64, ptr %run, i64 10
  store ptr %function, ptr %function_at
  %first_at = getelementptr i64, ptr %run, i64 11
  store ptr %first, ptr %first_at
  %second_at = getelementptr i64, ptr %run, i64 12
  store ptr %second, ptr %second_at
  call void @rest(ptr %run)
  %answer_at = getelementptr i64, ptr %run, i64 13
  %answer = load i64, ptr %answer_at
  ret i64 %answer
}

; Run all members of a run, by a thread that has the interpreter's lock.
define void @hlo_together(ptr %run) nounwind {
  %thread = call ptr @PyEval_SaveThread()
  call void @take_turns(ptr %run)
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}

; Run frames of so many words each, one after the other in memory, as the members of a run that is made already, on the
; stacks of the process, by a thread without that lock; 0 where others are on those.
define i64 @hlo_run_frames(ptr %record, ptr %frames, i64 %slots) nounwind {
entry:
  %stacks_at = getelementptr i64, ptr %record, i64 1
  %stacks = load ptr, ptr %stacks_at
  %claim = cmpxchg ptr %stacks, i64 0, i64 1 acquire monotonic
  %ours = extractvalue { i64, i1 } %claim, 1
  br i1 %ours, label %begin, label %busy
busy:
  ret i64 0
begin:
  %run_at = getelementptr i64, ptr %record, i64 2
  %run = load ptr, ptr %run_at
  %count_at = getelementptr i64, ptr %run, i64 3
  %count = load i64, ptr %count_at
  %members_at = getelementptr i64, ptr %run, i64 7
  %members = load ptr, ptr %members_at
  br label %each
each:
  %n = phi i64 [ 0, %begin ], [ %next, %one ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %go
one:
  %word = mul i64 %n, ${MEMBER_WORDS}
  %member = getelementptr i64, ptr %members, i64 %word
  %slot = mul i64 %n, %slots
  %frame = getelementptr i64, ptr %frames, i64 %slot
  %frame_at = getelementptr i64, ptr %member, i64 ${FRAME}
  store ptr %frame, ptr %frame_at
  %next = add i64 %n, 1
  %stack_from = getelementptr i64, ptr %stacks, i64 %next
  %stack = load ptr, ptr %stack_from
  %stack_at = getelementptr i64, ptr %member, i64 ${STACK}
  store ptr %stack, ptr %stack_at
  br label %each
go:
  call void @take_turns(ptr %run)
  store atomic i64 0, ptr %stacks release, align 8
  ret i64 1
}

; Run all members of a run.  It returns when all are at an end, or one has ended early: then the others are left where they
; are, and what was raised is set in this thread.
define internal void @take_turns(ptr %run) nounwind {
entry:
  %count_at = getelementptr i64, ptr %run, i64 3
  %count = load i64, ptr %count_at
  %members_at = getelementptr i64, ptr %run, i64 7
  %members = load ptr, ptr %members_at
  %status_word_at = getelementptr i64, ptr %run, i64 6
  %status_word = load i64, ptr %status_word_at
  %home_at = getelementptr i64, ptr %run, i64 8
  %function_at = getelementptr i64, ptr %run, i64 10
  %first_at = getelementptr i64, ptr %run, i64 11
  %second_at = getelementptr i64, ptr %run, i64 12
  %answer_at = getelementptr i64, ptr %run, i64 13
  %attend_at = getelementptr i64, ptr %run, i64 4
  %attend = load ptr, ptr %attend_at
  %room_at = getelementptr i64, ptr %run, i64 1
  %room = load ptr, ptr %room_at
  %room_bytes_at = getelementptr i64, ptr %run, i64 14
  %room_bytes = load i64, ptr %room_bytes_at
  %cleared = call ptr @memset(ptr %room, i32 0, i64 %room_bytes)
  store ptr null, ptr %function_at
  %outer = call ptr @PyThread_tss_get(ptr @hlo_key)
  %begun = call i64 @hlo_clock()
  br label %each
each:
  %p = phi i64 [ 0, %entry ], [ %p.next, %prepare ]
  %p.more = icmp ult i64 %p, %count
  br i1 %p.more, label %prepare, label %begin
prepare:
  %p.word = mul i64 %p, ${MEMBER_WORDS}
  %p.member = getelementptr i64, ptr %members, i64 %p.word
  %stack_at = getelementptr i64, ptr %p.member, i64 ${STACK}
  %stack = load ptr, ptr %stack_at
  %start = getelementptr i8, ptr %stack, i64 -${SAVED}
  %mode_at = getelementptr i8, ptr %start, i64 ${MODE_AT}
  store i64 ${MODE}, ptr %mode_at
  %return_at = getelementptr i8, ptr %start, i64 ${RETURN_AT}
  store ptr @body, ptr %return_at
  store ptr %start, ptr %p.member
  %p.ended_at = getelementptr i64, ptr %p.member, i64 ${ENDED}
  store i64 0, ptr %p.ended_at
  %p.where_at = getelementptr i64, ptr %p.member, i64 ${WHERE}
  store i64 0, ptr %p.where_at
  %p.next = add i64 %p, 1
  br label %each
begin:
  %mine = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %run)
  br label %sweep

sweep: ; of all members, those that can go on
  %before = phi i64 [ %begun, %begin ], [ %before, %early ], [ %now, %fine ]
  br label %next
next:
  %n = phi i64 [ 0, %sweep ], [ %n.next, %following ]
  %alive = phi i1 [ false, %sweep ], [ %alive.next, %following ]
  %moved = phi i1 [ false, %sweep ], [ %moved.next, %following ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %look, label %swept
look:
  %word = mul i64 %n, ${MEMBER_WORDS}
  %member = getelementptr i64, ptr %members, i64 %word
  %ended_at = getelementptr i64, ptr %member, i64 ${ENDED}
  %ended = load i64, ptr %ended_at
  %over = icmp ne i64 %ended, 0
  br i1 %over, label %following, label %waits
waits:
  %where_at = getelementptr i64, ptr %member, i64 ${WHERE}
  %where = load ptr, ptr %where_at
  %free = icmp eq ptr %where, null
  br i1 %free, label %go, label %compare
compare:
  %until_at = getelementptr i64, ptr %member, i64 ${UNTIL}
  %until = load i64, ptr %until_at
  %rendezvous_all_at = getelementptr i64, ptr %where, i64 1
  %rendezvous = load i64, ptr %rendezvous_all_at
  %held = icmp ult i64 %rendezvous, %until
  br i1 %held, label %following, label %go
go:
  store ptr %member, ptr %run
  store ptr null, ptr %where_at
  br label %resume
resume:
  %stack.now = load ptr, ptr %member
  call void @switch(ptr %home_at, ptr %stack.now)
  %function = load ptr, ptr %function_at
  %asks = icmp ne ptr %function, null
  br i1 %asks, label %aside, label %back
aside:
  %first = load ptr, ptr %first_at
  %second = load ptr, ptr %second_at
  store ptr null, ptr %function_at
  %theirs = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %outer)
  %answer = call i64 %function(ptr %first, ptr %second)
  %again = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %run)
  store i64 %answer, ptr %answer_at
  br label %resume
back:
  %ended.now = load i64, ptr %ended_at
  %over.now = icmp ne i64 %ended.now, 0
  br i1 %over.now, label %check, label %following
check:
  %frame_at = getelementptr i64, ptr %member, i64 ${FRAME}
  %frame = load ptr, ptr %frame_at
  %status_at = getelementptr i64, ptr %frame, i64 %status_word
  %status = load i64, ptr %status_at
  %complete = icmp eq i64 %status, ${COMPLETE}
  br i1 %complete, label %following, label %stop
following:
  %alive.next = phi i1 [ %alive, %look ], [ true, %compare ], [ true, %back ], [ %alive, %check ]
  %moved.next = phi i1 [ %moved, %look ], [ %moved, %compare ], [ true, %back ], [ true, %check ]
  %n.next = add i64 %n, 1
  br label %next
swept:
  br i1 %alive, label %proceed, label %stop
proceed:
  br i1 %moved, label %time, label %stuck
stuck:
  %left.stuck = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %outer)
  %said = call i64 @hlo_host(ptr %attend, ptr %run)
  br label %end
time:
  %now = call i64 @hlo_clock()
  %passed = sub i64 %now, %before
  %late = icmp ugt i64 %passed, ${NANOSECONDS}
  br i1 %late, label %attend.now, label %early
early:
  br label %sweep
attend.now:
  %left = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %outer)
  %told = call i64 @hlo_host(ptr %attend, ptr null)
  %returned = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %run)
  %good = icmp eq i64 %told, ${COMPLETE}
  br i1 %good, label %fine, label %stop
fine:
  br label %sweep
stop:
  %back.again = call i32 @PyThread_tss_set(ptr @hlo_key, ptr %outer)
  br label %end
end:
  ret void
}

; ---- rendezvous

define i64 @hlo_meet(ptr %record, ptr %table) nounwind {
entry:
  %run = call ptr @PyThread_tss_get(ptr @hlo_key)
  %alone = icmp eq ptr %run, null
  br i1 %alone, label %python, label %known
known:
  %its_at = getelementptr i64, ptr %run, i64 9
  %its = load i64, ptr %its_at
  %own_at = getelementptr i64, ptr %record, i64 5
  %ours = load i64, ptr %own_at
  %same = icmp eq i64 %its, %ours
  br i1 %same, label %arrive, label %python
python:
  %callable_at = getelementptr i64, ptr %record, i64 1
  %callable = load ptr, ptr %callable_at
  %said = call i64 @hlo_host(ptr %callable, ptr %table)
  ret i64 %said
arrive:
  %member = load ptr, ptr %run
  %device_at = getelementptr i64, ptr %member, i64 ${DEVICE}
  %device = load i64, ptr %device_at
  %groups_at = getelementptr i64, ptr %record, i64 3
  %groups = load ptr, ptr %groups_at
  %twice = mul i64 %device, 2
  %group_at = getelementptr i64, ptr %groups, i64 %twice
  %group = load i64, ptr %group_at
  %position_at = getelementptr i64, ptr %group_at, i64 1
  %position = load i64, ptr %position_at
  %rows_at = getelementptr i64, ptr %record, i64 4
  %rows = load ptr, ptr %rows_at
  %row_word = mul i64 %group, 3
  %row = getelementptr i64, ptr %rows, i64 %row_word
  %members = load i64, ptr %row
  %tasks_at = getelementptr i64, ptr %row, i64 1
  %tasks = load i64, ptr %tasks_at
  %scripts_at = getelementptr i64, ptr %row, i64 2
  %scripts = load ptr, ptr %scripts_at
  %first_at = getelementptr i64, ptr %record, i64 2
  %first = load i64, ptr %first_at
  %number = add i64 %first, %group
  %rendezvous_all_at = getelementptr i64, ptr %run, i64 1
  %rendezvous_all = load ptr, ptr %rendezvous_all_at
  %stride_at = getelementptr i64, ptr %run, i64 2
  %stride = load i64, ptr %stride_at
  %offset = mul i64 %number, %stride
  %rendezvous = getelementptr i8, ptr %rendezvous_all, i64 %offset
  %over_at = getelementptr i64, ptr %rendezvous, i64 1
  %over = load i64, ptr %over_at
  %over.next = add i64 %over, 1
  %tables = getelementptr i64, ptr %rendezvous, i64 2
  %mine = getelementptr ptr, ptr %tables, i64 %position
  store ptr %table, ptr %mine
  %before = load i64, ptr %rendezvous
  %here = add i64 %before, 1
  %last = icmp eq i64 %here, %members
  br i1 %last, label %begin, label %wait
begin:
  %simple = icmp eq i64 %tasks, 1
  br i1 %simple, label %alone.do, label %share
alone.do:
  call void @tasks_of(ptr %row, ptr %tables, i64 0, i64 1)
  br label %close
share: ; with the threads of the pool
  %job = alloca [2 x ptr]
  %state = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %state
  store ptr %row, ptr %job
  %job_tables = getelementptr ptr, ptr %job, i64 1
  store ptr %tables, ptr %job_tables
  %parallel_at = getelementptr i64, ptr %record, i64 6
  %parallel = load ptr, ptr %parallel_at
  call void %parallel(ptr @shared, ptr %job, i64 %tasks, ptr %state)
  %stopped = load i64, ptr %state
  %whole = icmp eq i64 %stopped, 0
  br i1 %whole, label %close, label %end
end:
  ret i64 0
close:
  %size = mul i64 %members, 8
  %cleared = call ptr @memset(ptr %tables, i32 0, i64 %size)
  store i64 0, ptr %rendezvous
  store i64 %over.next, ptr %over_at
  ret i64 ${COMPLETE}
wait:
  store i64 %here, ptr %rendezvous
  %where_at = getelementptr i64, ptr %member, i64 ${WHERE}
  store ptr %rendezvous, ptr %where_at
  %until_at = getelementptr i64, ptr %member, i64 ${UNTIL}
  store i64 %over.next, ptr %until_at
  %what_at = getelementptr i64, ptr %member, i64 ${WHAT}
  store ptr %record, ptr %what_at
  call void @rest(ptr %run)
  ret i64 ${COMPLETE}
}

; The number of a device, divided by one number, modulo another.
define i64 @hlo_number(ptr %record, ptr %table) nounwind {
entry:
  %run = call ptr @PyThread_tss_get(ptr @hlo_key)
  %alone = icmp eq ptr %run, null
  br i1 %alone, label %python, label %known
known:
  %its_at = getelementptr i64, ptr %run, i64 9
  %its = load i64, ptr %its_at
  %own_at = getelementptr i64, ptr %record, i64 5
  %ours = load i64, ptr %own_at
  %same = icmp eq i64 %its, %ours
  br i1 %same, label %say, label %python
python:
  %callable_at = getelementptr i64, ptr %record, i64 1
  %callable = load ptr, ptr %callable_at
  %said = call i64 @hlo_host(ptr %callable, ptr %table)
  ret i64 %said
say:
  %member = load ptr, ptr %run
  %device_at = getelementptr i64, ptr %member, i64 ${DEVICE}
  %device = load i64, ptr %device_at
  %divisor_at = getelementptr i64, ptr %record, i64 2
  %divisor = load i64, ptr %divisor_at
  %modulus_at = getelementptr i64, ptr %record, i64 3
  %modulus = load i64, ptr %modulus_at
  %quotient = udiv i64 %device, %divisor
  %number = urem i64 %quotient, %modulus
  %small = trunc i64 %number to i32
  %result = load ptr, ptr %table
  store i32 %small, ptr %result
  ret i64 ${COMPLETE}
}

; Tasks of a group, from one number to another, as the pool calls them and as they are.
define internal void @shared(ptr %job, i64 %begin, i64 %end) nounwind {
  %row = load ptr, ptr %job
  %tables_at = getelementptr ptr, ptr %job, i64 1
  %tables = load ptr, ptr %tables_at
  call void @tasks_of(ptr %row, ptr %tables, i64 %begin, i64 %end)
  ret void
}

define internal void @tasks_of(ptr %row, ptr %tables, i64 %begin, i64 %end) nounwind {
entry:
  %members = load i64, ptr %row
  %scripts_at = getelementptr i64, ptr %row, i64 2
  %scripts = load ptr, ptr %scripts_at
  br label %next
next:
  %n = phi i64 [ %begin, %entry ], [ %n.next, %one ]
  %more = icmp ult i64 %n, %end
  br i1 %more, label %one, label %done
one:
  %script_at = getelementptr ptr, ptr %scripts, i64 %n
  %script = load ptr, ptr %script_at
  call void @perform(ptr %script, ptr %tables, i64 %members)
  %n.next = add i64 %n, 1
  br label %next
done:
  ret void
}

; Three words of a step say where: a member, the number of an array in its table, and how many bytes on.
define internal ptr @place(ptr %tables, ptr %words) nounwind alwaysinline {
  %member = load i64, ptr %words
  %array_at = getelementptr i64, ptr %words, i64 1
  %array = load i64, ptr %array_at
  %offset_at = getelementptr i64, ptr %words, i64 2
  %offset = load i64, ptr %offset_at
  %table_at = getelementptr ptr, ptr %tables, i64 %member
  %table = load ptr, ptr %table_at
  %base_at = getelementptr ptr, ptr %table, i64 %array
  %base = load ptr, ptr %base_at
  %place = getelementptr i8, ptr %base, i64 %offset
  ret ptr %place
}

; Carry out the steps of a script, of ${WORDS} words each.
define internal void @perform(ptr %script, ptr %tables, i64 %members) nounwind {
entry:
  %pointers = alloca ptr, i64 %members
  br label %next
next:
  %at = phi ptr [ %script, %entry ], [ %after, %stepped ]
  %after = getelementptr i64, ptr %at, i64 ${WORDS}
  %code = load i64, ptr %at
  %end = icmp eq i64 %code, 0
  br i1 %end, label %done, label %step
step:
  %times_at = getelementptr i64, ptr %at, i64 1
  %times = load i64, ptr %times_at
  %size_at = getelementptr i64, ptr %at, i64 2
  %size = load i64, ptr %size_at
  %to_at = getelementptr i64, ptr %at, i64 3
  %to = call ptr @place(ptr %tables, ptr %to_at)
  %to_stride_at = getelementptr i64, ptr %at, i64 6
  %to_stride = load i64, ptr %to_stride_at
  %from_at = getelementptr i64, ptr %at, i64 7
  %from_stride_at = getelementptr i64, ptr %at, i64 10
  %from_stride = load i64, ptr %from_stride_at
  switch i64 %code, label %done [ i64 ${COPY}, label %copy
                                  i64 ${ZERO}, label %zero
                                  i64 ${FOLD}, label %fold ]
copy:
  %from = call ptr @place(ptr %tables, ptr %from_at)
  br label %copy.next
copy.next:
  %c = phi i64 [ 0, %copy ], [ %c.next, %copy.one ]
  %c.more = icmp ult i64 %c, %times
  br i1 %c.more, label %copy.one, label %stepped
copy.one:
  %c.to_offset = mul i64 %c, %to_stride
  %c.from_offset = mul i64 %c, %from_stride
  %c.to = getelementptr i8, ptr %to, i64 %c.to_offset
  %c.from = getelementptr i8, ptr %from, i64 %c.from_offset
  %copied = call ptr @memcpy(ptr %c.to, ptr %c.from, i64 %size)
  %c.next = add i64 %c, 1
  br label %copy.next
zero:
  %zeroed = call ptr @memset(ptr %to, i32 0, i64 %size)
  br label %stepped
fold:
  %function_at = getelementptr i64, ptr %at, i64 11
  %function = load ptr, ptr %function_at
  br label %fold.next
fold.next:
  %f = phi i64 [ 0, %fold ], [ %f.next, %fold.now ]
  %f.more = icmp ult i64 %f, %times
  br i1 %f.more, label %fold.one, label %stepped
fold.one:
  %f.to_offset = mul i64 %f, %to_stride
  %f.from_offset = mul i64 %f, %from_stride
  %f.to = getelementptr i8, ptr %to, i64 %f.to_offset
  %array_at = getelementptr i64, ptr %from_at, i64 1
  %array = load i64, ptr %array_at
  %begin_at = getelementptr i64, ptr %from_at, i64 2
  %begin = load i64, ptr %begin_at
  %place = add i64 %begin, %f.from_offset
  br label %member
member:
  %m = phi i64 [ 0, %fold.one ], [ %m.next, %member ]
  %table_at = getelementptr ptr, ptr %tables, i64 %m
  %table = load ptr, ptr %table_at
  %base_at = getelementptr ptr, ptr %table, i64 %array
  %base = load ptr, ptr %base_at
  %theirs = getelementptr i8, ptr %base, i64 %place
  %pointer_at = getelementptr ptr, ptr %pointers, i64 %m
  store ptr %theirs, ptr %pointer_at
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %members
  br i1 %m.more, label %member, label %fold.now
fold.now:
  call void %function(ptr %pointers, ptr %f.to, i64 %size)
  %f.next = add i64 %f, 1
  br label %fold.next
stepped:
  br label %next
done:
  ret void
}
