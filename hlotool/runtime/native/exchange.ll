; Collectives as scripts of messages: hlotool/devices/mpi/script.py says what the words of records and scripts are.

declare i64 @hlo_host(ptr, ptr)
declare i32 @hlo_yield()
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @MPI_Isend(ptr, i32 signext, ${GIVEN}, i32 signext, i32 signext, ${GIVEN}, ptr)
declare i32 @MPI_Irecv(ptr, i32 signext, ${GIVEN}, i32 signext, i32 signext, ${GIVEN}, ptr)
declare i32 @MPI_Iallreduce(ptr, ptr, i32 signext, ${GIVEN}, ${GIVEN}, ${GIVEN}, ptr)
declare i32 @MPI_Testall(i32 signext, ptr, ptr, ptr)

define i64 @hlo_exchange(ptr %record, ptr %table) nounwind {
entry:
  %script_at = getelementptr i64, ptr %record, i64 2
  %script = load ptr, ptr %script_at
  %pending = getelementptr i64, ptr %record, i64 6
  %counter_at = getelementptr i64, ptr %record, i64 7
  %counter = load ptr, ptr %counter_at
  %before = load atomic i64, ptr %counter monotonic, align 8
  %been = add i64 %before, 1
  store atomic i64 %been, ptr %counter monotonic, align 8
  store i64 0, ptr %pending
  %alarm_at = getelementptr i64, ptr %record, i64 8
  %alarm = load ptr, ptr %alarm_at
  %alarmed = load atomic i64, ptr %alarm monotonic, align 8
  %turn = and i64 %been, ${OFTEN}
  %asks = icmp eq i64 %turn, 0
  %rings = icmp ne i64 %alarmed, 0
  %ask = or i1 %asks, %rings
  br i1 %ask, label %attend, label %start
attend:
  %fine = call i1 @attend(ptr %record)
  br i1 %fine, label %start, label %stop
start:
  %comm_at = getelementptr i64, ptr %record, i64 12
  %comm_place = load ptr, ptr %comm_at
  %comm = load ${HANDLE}, ptr %comm_place
  %byte_at = getelementptr i64, ptr %record, i64 13
  %byte_place = load ptr, ptr %byte_at
  %byte = load ${HANDLE}, ptr %byte_place
  br label %next
next:
  %at = phi ptr [ %script, %start ], [ %after, %moved ], [ %after.message, %begun ], [ %after.wait, %wait ], [ %after.fold, %folded ]
  %code = load i64, ptr %at
  %first_at = getelementptr i64, ptr %at, i64 1
  %first = call ptr @place(ptr %record, ptr %table, ptr %first_at)
  %size_at = getelementptr i64, ptr %at, i64 3
  %size = load i64, ptr %size_at
  %count = trunc i64 %size to i32
  switch i64 %code, label %end [ i64 ${COPY}, label %copy
                                 i64 ${RECEIVE}, label %receive
                                 i64 ${SEND}, label %send
                                 i64 ${REDUCE}, label %reduce
                                 i64 ${WAIT}, label %wait.now
                                 i64 ${FOLD}, label %fold ]
copy:
  %from_at = getelementptr i64, ptr %at, i64 4
  %from = call ptr @place(ptr %record, ptr %table, ptr %from_at)
  %copied = call ptr @memcpy(ptr %first, ptr %from, i64 %size)
  br label %moved
moved:
  %after = getelementptr i64, ptr %at, i64 6
  br label %next

receive:
  %source_at = getelementptr i64, ptr %at, i64 4
  %source = load i64, ptr %source_at
  %source.rank = trunc i64 %source to i32
  %room = call ptr @request(ptr %record)
  %received = call i32 @MPI_Irecv(ptr %first, i32 signext %count, ${GIVEN} %byte, i32 signext %source.rank, i32 signext ${TAG}, ${GIVEN} %comm, ptr %room)
  br label %posted
send:
  %target_at = getelementptr i64, ptr %at, i64 4
  %target = load i64, ptr %target_at
  %target.rank = trunc i64 %target to i32
  %slot = call ptr @request(ptr %record)
  %sent = call i32 @MPI_Isend(ptr %first, i32 signext %count, ${GIVEN} %byte, i32 signext %target.rank, i32 signext ${TAG}, ${GIVEN} %comm, ptr %slot)
  br label %posted
reduce:
  %operand_at = getelementptr i64, ptr %at, i64 4
  %operand = call ptr @place(ptr %record, ptr %table, ptr %operand_at)
  %type_at = getelementptr i64, ptr %at, i64 6
  %type_place = load ptr, ptr %type_at
  %type = load ${HANDLE}, ptr %type_place
  %operation_at = getelementptr i64, ptr %at, i64 7
  %operation_place = load ptr, ptr %operation_at
  %operation = load ${HANDLE}, ptr %operation_place
  %in_place_at = getelementptr i64, ptr %record, i64 14
  %in_place = load ptr, ptr %in_place_at
  %same = icmp eq ptr %operand, %first
  %given = select i1 %same, ptr %in_place, ptr %operand
  %going = call ptr @request(ptr %record)
  %reduced = call i32 @MPI_Iallreduce(ptr %given, ptr %first, i32 signext %count, ${GIVEN} %type, ${GIVEN} %operation, ${GIVEN} %comm, ptr %going)
  br label %posted
posted:
  %said = phi i32 [ %received, %receive ], [ %sent, %send ], [ %reduced, %reduce ]
  %words = phi i64 [ 5, %receive ], [ 5, %send ], [ 8, %reduce ]
  %good = icmp eq i32 %said, 0
  br i1 %good, label %begun, label %wrong
begun:
  %after.message = getelementptr i64, ptr %at, i64 %words
  br label %next
wrong:
  call void @wrong(ptr %record, i32 %said)
  %told = call i1 @attend(ptr %record)
  br label %stop

wait.now:
  %complete = call i1 @wait(ptr %record)
  br i1 %complete, label %wait, label %stop
wait:
  %after.wait = getelementptr i64, ptr %at, i64 4
  br label %next

fold:
  %function_at = getelementptr i64, ptr %at, i64 4
  %function = load ptr, ptr %function_at
  %members_at = getelementptr i64, ptr %at, i64 5
  %members = load i64, ptr %members_at
  %pointers_at = getelementptr i64, ptr %record, i64 5
  %pointers = load ptr, ptr %pointers_at
  br label %member
member:
  %m = phi i64 [ 0, %fold ], [ %m.next, %member ]
  %place_at = phi ptr [ %function_at, %fold ], [ %place_next, %member ]
  %place_next = getelementptr i64, ptr %place_at, i64 2
  %array = call ptr @place(ptr %record, ptr %table, ptr %place_next)
  %pointer_at = getelementptr ptr, ptr %pointers, i64 %m
  store ptr %array, ptr %pointer_at
  %m.next = add i64 %m, 1
  %more = icmp slt i64 %m.next, %members
  br i1 %more, label %member, label %fold.now
fold.now:
  call void %function(ptr %pointers, ptr %first, i64 %size)
  br label %folded
folded:
  %after.fold = getelementptr i64, ptr %place_next, i64 2
  br label %next

end:
  ret i64 ${COMPLETE}
stop:
  ret i64 0
}

; Whether all requests are complete: 1, 0, or -1 after an error.
define i32 @hlo_look(ptr %record) nounwind {
entry:
  %flag = alloca i32
  %pending_at = getelementptr i64, ptr %record, i64 6
  %pending = load i64, ptr %pending_at
  %count = trunc i64 %pending to i32
  %requests_at = getelementptr i64, ptr %record, i64 3
  %requests = load ptr, ptr %requests_at
  %statuses_at = getelementptr i64, ptr %record, i64 4
  %statuses = load ptr, ptr %statuses_at
  %said = call i32 @MPI_Testall(i32 signext %count, ptr %requests, ptr %flag, ptr %statuses)
  %good = icmp eq i32 %said, 0
  br i1 %good, label %known, label %bad
known:
  %found = load i32, ptr %flag
  %yes = icmp ne i32 %found, 0
  %result = zext i1 %yes to i32
  ret i32 %result
bad:
  call void @wrong(ptr %record, i32 %said)
  ret i32 -1
}

; Until all requests are complete: looks, then looks between which others have the processor, then Python.
define internal i1 @wait(ptr %record) nounwind {
entry:
  %looks_at = getelementptr i64, ptr %record, i64 10
  %looks = load i64, ptr %looks_at
  %most_at = getelementptr i64, ptr %record, i64 11
  %most = load i64, ptr %most_at
  br label %look
look:
  %k = phi i64 [ 1, %entry ], [ %k.next, %again ], [ %k.next, %yield ]
  %k.next = add i64 %k, 1
  %found = call i32 @hlo_look(ptr %record)
  %going = icmp eq i32 %found, 0
  br i1 %going, label %on, label %found.out
found.out:
  %good = icmp eq i32 %found, 1
  br i1 %good, label %done, label %attend
on:
  %early = icmp slt i64 %k, %looks
  br i1 %early, label %again, label %late
again:
  br label %look
late:
  %alarm_at = getelementptr i64, ptr %record, i64 8
  %alarm = load ptr, ptr %alarm_at
  %alarmed = load atomic i64, ptr %alarm monotonic, align 8
  %rings = icmp ne i64 %alarmed, 0
  %over = icmp sge i64 %k, %most
  %ask = or i1 %rings, %over
  br i1 %ask, label %attend, label %yield
yield:
  %yielded = call i32 @hlo_yield()
  br label %look
attend:
  %fine = call i1 @attend(ptr %record)
  br i1 %fine, label %done, label %stop
done:
  %pending_at = getelementptr i64, ptr %record, i64 6
  store i64 0, ptr %pending_at
  ret i1 true
stop:
  ret i1 false
}

; Let Python see to it; whether it is fine to go on.
define internal i1 @attend(ptr %record) nounwind {
entry:
  %callable_at = getelementptr i64, ptr %record, i64 9
  %callable = load ptr, ptr %callable_at
  %said = call i64 @hlo_host(ptr %callable, ptr %record)
  %fine = icmp eq i64 %said, ${COMPLETE}
  ret i1 %fine
}

define internal void @wrong(ptr %record, i32 %code) nounwind {
entry:
  %error_at = getelementptr i64, ptr %record, i64 15
  %wide = sext i32 %code to i64
  store i64 %wide, ptr %error_at
  ret void
}

; Room for one more request.
define internal ptr @request(ptr %record) nounwind {
entry:
  %requests_at = getelementptr i64, ptr %record, i64 3
  %requests = load ptr, ptr %requests_at
  %pending_at = getelementptr i64, ptr %record, i64 6
  %pending = load i64, ptr %pending_at
  %more = add i64 %pending, 1
  store i64 %more, ptr %pending_at
  %request = getelementptr ${HANDLE}, ptr %requests, i64 %pending
  ret ptr %request
}

; Two words say where: the number of an array in the table, or -1 for the scratch memory, and how many bytes on.
define internal ptr @place(ptr %record, ptr %table, ptr %words) nounwind {
entry:
  %array = load i64, ptr %words
  %offset_at = getelementptr i64, ptr %words, i64 1
  %offset = load i64, ptr %offset_at
  %ours = icmp slt i64 %array, 0
  %scratch_at = getelementptr i64, ptr %record, i64 1
  %theirs_at = getelementptr ptr, ptr %table, i64 %array
  %base_at = select i1 %ours, ptr %scratch_at, ptr %theirs_at
  %base = load ptr, ptr %base_at
  %place = getelementptr i8, ptr %base, i64 %offset
  ret ptr %place
}
