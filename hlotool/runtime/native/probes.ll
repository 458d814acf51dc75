; The probes of one program: see hlotool/runtime/recorder.py for what is in memory, in words of 64 bits.
;
; The head has the events so far, the room for them, and how many a probe may have.  A probe has a line of the caches: how
; often it was passed, ticks of the clock (@hlo_clock), and those that it took itself, which no other one counts.  An event is its probe, the thread, when it began and when it
; ended.

@head = internal global ptr null
@probes = internal global ptr null
@events = internal global ptr null

define i64 @hlo_now() nounwind {
  %ticks = tail call i64 @hlo_clock()
  ret i64 %ticks
}

define void @hlo_probes(ptr %head, ptr %probes, ptr %events) nounwind {
  store ptr %head, ptr @head
  store ptr %probes, ptr @probes
  store ptr %events, ptr @events
  ret void
}

; A probe that has all time since the last one of its function.  What it writes may be far away: that is its own time.
define void @hlo_mark(ptr %last, i64 %probe) nounwind {
  %begin = load i64, ptr %last
  %end = call i64 @hlo_clock()
  call void @add(i64 %probe, i64 %begin, i64 %end)
  %probes = load ptr, ptr @probes
  %line = shl i64 %probe, 3
  %at = or disjoint i64 %line, 2
  %own_at = getelementptr i64, ptr %probes, i64 %at
  %after = call i64 @hlo_clock()
  %own = sub i64 %after, %end
  %before = atomicrmw add ptr %own_at, i64 %own monotonic
  store i64 %after, ptr %last
  ret void
}

; A probe that has the time since `begin`.
define void @hlo_span(i64 %probe, i64 %begin) nounwind {
  %end = call i64 @hlo_clock()
  call void @add(i64 %probe, i64 %begin, i64 %end)
  ret void
}

define internal void @add(i64 %probe, i64 %begin, i64 %end) nounwind {
entry:
  %probes = load ptr, ptr @probes
  %head = load ptr, ptr @head
  %line = shl i64 %probe, 3
  %count_at = getelementptr i64, ptr %probes, i64 %line
  %time_at = getelementptr i64, ptr %count_at, i64 1
  %time = sub i64 %end, %begin
  %before = atomicrmw add ptr %count_at, i64 1 monotonic
  %sum = atomicrmw add ptr %time_at, i64 %time monotonic
  %each_at = getelementptr i64, ptr %head, i64 2
  %each = load i64, ptr %each_at
  %wanted = icmp ult i64 %before, %each
  br i1 %wanted, label %take, label %leave
take:
  %number = atomicrmw add ptr %head, i64 1 monotonic
  %room_at = getelementptr i64, ptr %head, i64 1
  %room = load i64, ptr %room_at
  %fits = icmp ult i64 %number, %room
  br i1 %fits, label %write, label %leave
write:
  %events = load ptr, ptr @events
  %first = shl i64 %number, 2
  %event = getelementptr i64, ptr %events, i64 %first
  store i64 %probe, ptr %event
  %thread_at = getelementptr i64, ptr %event, i64 1
  %thread = call i64 @hlo_thread()
  store i64 %thread, ptr %thread_at
  %begin_at = getelementptr i64, ptr %event, i64 2
  store i64 %begin, ptr %begin_at
  %end_at = getelementptr i64, ptr %event, i64 3
  store i64 %end, ptr %end_at
  br label %leave
leave:
  ret void
}
