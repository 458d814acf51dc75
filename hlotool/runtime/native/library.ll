; What a library of `hlotool build` has around its code: the way in, and what the code asks of its caller.  See
; hlotool/runtime/aot/library.py.
;
; The frame of a call lies at the end of the workspace, behind the arena; its slots have eight bytes, whatever addresses
; have, and are filled from the arrays of pointers of the caller.  Behind the two words of the status come the
; context, with all that the caller offers, the code of the error that ends the call, and where the state of random
; numbers is: the caller's, or behind all that.  Nothing is kept between calls.

; name, type, dimensions, bytes, rank, bytes of an element, alias, whether it is overwritten
%array = type { ptr, ptr, ptr, i64, i32, i32, i32, i32 }
; name, function, arguments, results, how many of each, bytes of the workspace
%entry = type { ptr, ptr, ptr, ptr, i32, i32, i64 }
; name, target, text, operands, results, how many of each, number of the function
%call = type { ptr, ptr, ptr, ptr, ptr, i32, i32, i32 }
; version of these structures, entries, functions: how many of each; words of the state of random numbers; bytes of the
; file with weights; the first state; hlotool's version, and the block that hlotool inspect reads
%library = type { i32, i32, ptr, ptr, i32, i32, i64, ptr, ptr, ptr }
; weights, random, user, functions, poll, threads, parallel_for, parallel_for_short
%context = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
; an entry's code for one processor: the function, bytes of the arena
%code = type { ptr, i64 }

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

@nothing = internal constant %context zeroinitializer

define internal i32 @enter(ptr %entry, i1 %shares, ptr %codes, ptr %arguments, ptr %results, ptr %workspace, i64 %bytes, ptr %given) nounwind {
start:
  %constants_at = alloca ptr
  %alone = icmp eq ptr %given, null
  %context = select i1 %alone, ptr @nothing, ptr %given
  %nowhere = icmp eq ptr %workspace, null
  br i1 %nowhere, label %fail, label %place
place:
  %address = ptrtoint ptr %workspace to i64
  %low = and i64 %address, ${LESS}
  %crooked = icmp ne i64 %low, 0
  br i1 %crooked, label %fail, label %room
room:
  %needed_at = getelementptr %entry, ptr %entry, i64 0, i32 6
  %needed = load i64, ptr %needed_at
  %short = icmp ult i64 %bytes, %needed
  br i1 %short, label %fail, label %processor
processor:
  %level = call i32 @level()
  %unable = icmp slt i32 %level, 0
  br i1 %unable, label %fail, label %weights
weights:
  %refused = call i32 @constants_of(ptr %context, ptr %constants_at)
  %wrong = icmp ne i32 %refused, 0
  br i1 %wrong, label %fail, label %prepare
prepare:
  %constants = load ptr, ptr %constants_at
  %code_at = getelementptr %code, ptr %codes, i32 %level
  %code = load ptr, ptr %code_at
  %arena_at = getelementptr %code, ptr %code_at, i64 0, i32 1
  %arena = load i64, ptr %arena_at
  %frame = getelementptr i8, ptr %workspace, i64 %arena
  %takes_at = getelementptr %entry, ptr %entry, i64 0, i32 2
  %takes = load ptr, ptr %takes_at
  %count_at = getelementptr %entry, ptr %entry, i64 0, i32 4
  %count = load i32, ptr %count_at
  %arguments_wrong = call i32 @take(ptr %takes, i32 %count, ptr %arguments, ptr null, ptr %frame)
  %no_arguments = icmp ne i32 %arguments_wrong, 0
  br i1 %no_arguments, label %fail, label %give
give:
  %gives_at = getelementptr %entry, ptr %entry, i64 0, i32 3
  %gives = load ptr, ptr %gives_at
  %number_at = getelementptr %entry, ptr %entry, i64 0, i32 5
  %number = load i32, ptr %number_at
  %outputs = getelementptr i64, ptr %frame, i32 %count
  %others = select i1 %shares, ptr %arguments, ptr null
  %results_wrong = call i32 @take(ptr %gives, i32 %number, ptr %results, ptr %others, ptr %outputs)
  %no_results = icmp ne i32 %results_wrong, 0
  br i1 %no_results, label %fail, label %run
run:
  %rest = getelementptr i64, ptr %outputs, i32 %number
  store ptr %workspace, ptr %rest
  %second = getelementptr i64, ptr %rest, i64 1
  store ptr %constants, ptr %second
  %status = getelementptr i64, ptr %rest, i64 2
  %asked = getelementptr i64, ptr %status, i64 1
  %context_at = getelementptr i64, ptr %status, i64 2
  %error_at = getelementptr i64, ptr %status, i64 3
  store i64 0, ptr %status
  store i64 0, ptr %asked
  store ptr %context, ptr %context_at
  store i64 ${STOPPED_ERROR}, ptr %error_at
  %random_at = getelementptr i64, ptr %status, i64 4
  %own_random = getelementptr i64, ptr %status, i64 5
  %offered_at = getelementptr %context, ptr %context, i64 0, i32 1
  %offered = load ptr, ptr %offered_at
  %forgetful = icmp eq ptr %offered, null
  %random = select i1 %forgetful, ptr %own_random, ptr %offered
  store ptr %random, ptr %random_at
  call void @llvm.memcpy.p0.p0.i64(ptr %own_random, ptr @random, i64 ${RANDOM_BYTES}, i1 false)
  call void %code(ptr %frame)
  %state = load i64, ptr %status
  %complete = icmp eq i64 %state, ${COMPLETE}
  %said = load i64, ptr %error_at
  %error = trunc i64 %said to i32
  %result = select i1 %complete, i32 0, i32 %error
  ret i32 %result
fail:
  %why = phi i32 [ ${NULL}, %start ], [ ${MISALIGNED}, %place ], [ ${SHORT}, %room ], [ ${PROCESSOR}, %processor ],
                 [ %refused, %weights ], [ %arguments_wrong, %prepare ], [ %results_wrong, %give ]
  ret i32 %why
}

; Take the addresses of `count` arrays into the frame.  Of `others`, the arguments, some results have the memory.  Where
; that is not so, and no address is null, as is usual, there is nothing to look at.
define internal i32 @take(ptr %arrays, i32 %count, ptr %given, ptr %others, ptr %frame) nounwind {
entry:
  %wide = zext i32 %count to i64
  %missing_all = icmp eq ptr %given, null
  %shares = icmp ne ptr %others, null
  %slow = or i1 %missing_all, %shares
  br i1 %slow, label %each, label %quick
quick:
  %q = phi i64 [ 0, %entry ], [ %q1, %copy ]
  %zeros = phi i1 [ false, %entry ], [ %zero, %copy ]
  %rest = icmp ult i64 %q, %wide
  br i1 %rest, label %copy, label %copied
copy:
  %from_at = getelementptr ptr, ptr %given, i64 %q
  %from = load ptr, ptr %from_at
  %into = getelementptr i64, ptr %frame, i64 %q
  store ptr %from, ptr %into
  %is_zero = icmp eq ptr %from, null
  %zero = or i1 %zeros, %is_zero
  %q1 = add i64 %q, 1
  br label %quick
copied:
  br i1 %zeros, label %each, label %done
each:
  %n = phi i64 [ 0, %entry ], [ 0, %copied ], [ %n1, %next ]
  %more = icmp ult i64 %n, %wide
  br i1 %more, label %array, label %done
array:
  %absent = icmp eq ptr %given, null
  br i1 %absent, label %nothing, label %read
read:
  %at = getelementptr ptr, ptr %given, i64 %n
  %there = load ptr, ptr %at
  br label %nothing
nothing:
  %address = phi ptr [ null, %array ], [ %there, %read ]
  %array_at = getelementptr %array, ptr %arrays, i64 %n
  %alias_at = getelementptr %array, ptr %array_at, i64 0, i32 6
  %alias = load i32, ptr %alias_at
  %own = icmp slt i32 %alias, 0
  %input = icmp eq ptr %others, null
  %single = or i1 %own, %input
  br i1 %single, label %alone, label %shared
shared:
  %other_at = getelementptr ptr, ptr %others, i32 %alias
  %other = load ptr, ptr %other_at
  %left_out = icmp eq ptr %address, null
  %same = icmp eq ptr %address, %other
  %fits = or i1 %left_out, %same
  br i1 %fits, label %alone, label %wrong
alone:
  %used = phi ptr [ %address, %nothing ], [ %other, %shared ]
  %null = icmp eq ptr %used, null
  br i1 %null, label %missing, label %next
missing:
  %bytes_at = getelementptr %array, ptr %array_at, i64 0, i32 3
  %bytes = load i64, ptr %bytes_at
  %empty = icmp eq i64 %bytes, 0
  br i1 %empty, label %next, label %wrong
next:
  %to = getelementptr i64, ptr %frame, i64 %n
  store ptr %used, ptr %to
  %n1 = add i64 %n, 1
  br label %each
wrong:
  %why = phi i32 [ ${ALIAS}, %shared ], [ ${NULL}, %missing ]
  ret i32 %why
done:
  ret i32 0
}

; ---- what the code calls

define internal ptr @context_of(ptr %status) nounwind alwaysinline {
  %at = getelementptr i64, ptr %status, i64 2
  %context = load ptr, ptr %at
  ret ptr %context
}

define internal void @fork(ptr %fn, ptr %args, i64 %tasks, ptr %status, i32 %which) nounwind {
entry:
  %context = call ptr @context_of(ptr %status)
  %at = getelementptr ptr, ptr %context, i32 %which
  %pool = load ptr, ptr %at
  %none = icmp eq ptr %pool, null
  %few = icmp slt i64 %tasks, 2
  %serial = or i1 %none, %few
  br i1 %serial, label %alone, label %together
alone:
  call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
together:
  %threads_at = getelementptr %context, ptr %context, i64 0, i32 5
  %threads = load ptr, ptr %threads_at
  call void %pool(ptr %threads, ptr %fn, ptr %args, i64 %tasks)
  ret void
}
define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  call void @fork(ptr %fn, ptr %args, i64 %tasks, ptr %status, i32 6)
  ret void
}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  call void @fork(ptr %fn, ptr %args, i64 %tasks, ptr %status, i32 7)
  ret void
}

define i32 @hlo_poll(ptr %status, ptr %name) nounwind {
entry:
  %old = load atomic i64, ptr %status monotonic, align 8
  %over = icmp ne i64 %old, 0
  br i1 %over, label %stop, label %look
look:
  %context = call ptr @context_of(ptr %status)
  %poll_at = getelementptr %context, ptr %context, i64 0, i32 4
  %poll = load ptr, ptr %poll_at
  %none = icmp eq ptr %poll, null
  br i1 %none, label %go, label %ask
ask:
  %user_at = getelementptr %context, ptr %context, i64 0, i32 2
  %user = load ptr, ptr %user_at
  %told = call i32 %poll(ptr %user)
  %ends = icmp ne i32 %told, 0
  br i1 %ends, label %end, label %go
end:
  store atomic i64 ${STOPPED}, ptr %status monotonic, align 8
  br label %stop
go:
  ret i32 0
stop:
  ret i32 1
}

define i64 @hlo_host(ptr %call, ptr %table) nounwind {
entry:
  %number_at = getelementptr %call, ptr %call, i64 0, i32 7
  %number = load i32, ptr %number_at
  %wide = zext i32 %number to i64
  %missing = add i64 %wide, ${MISSING}
  %status_at = getelementptr i64, ptr %table, i64 -1
  %status = load ptr, ptr %status_at
  %context = call ptr @context_of(ptr %status)
  %functions_at = getelementptr %context, ptr %context, i64 0, i32 3
  %functions = load ptr, ptr %functions_at
  %none = icmp eq ptr %functions, null
  br i1 %none, label %fail, label %find
find:
  %function_at = getelementptr ptr, ptr %functions, i32 %number
  %function = load ptr, ptr %function_at
  %absent = icmp eq ptr %function, null
  br i1 %absent, label %fail, label %ask
ask:
  %user_at = getelementptr %context, ptr %context, i64 0, i32 2
  %user = load ptr, ptr %user_at
  %told = call i32 %function(ptr %user, ptr %call, ptr %table)
  %failed = icmp ne i32 %told, 0
  br i1 %failed, label %fail, label %done
done:
  ret i64 ${COMPLETE}
fail:
  %why = phi i64 [ %missing, %entry ], [ %missing, %find ], [ ${FAILED}, %ask ]
  %error_at = getelementptr i64, ptr %status, i64 3
  store atomic i64 %why, ptr %error_at monotonic, align 8
  ret i64 0
}
