; Execution: see hlotool/jax/pjrt/native.py, and objects.ll for what objects are.  A loaded executable is these words:
;
;   0 parameters  1 results  2 entry function  3 arena bytes  4 constants  5 Python's function for whatever is unusual
;   6 device  7 addresses of the memories of all devices  8 rows of parameters: type, bytes, and 0: read, 1: a result's memory, 3: given up
;   9 rows of results: type, rank, dimensions, bytes, the parameter that holds it or -1
;   10 is there an entry function?  11 runs  12 nanoseconds of all of them  13 replicas  14 partitions
;   15 references  16 the next one in the list of those without references  17 devices
;   18 the record of a function that runs the frames of several devices, or 0 (hlotool/runtime/coroutines.py)

@failed = external global i8
@KeyboardInterrupt = external global i8

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyThreadState_SetAsyncExc(i64, ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyLong_FromVoidPtr(ptr)
declare void @PyErr_Clear()
declare i32 @PyErr_ExceptionMatches(ptr)

; Ctrl-C in the midst of an execution: the user is to see KeyboardInterrupt, and JAX can only raise errors of its own.  So
; it is told that all is well, and Python raises as soon as JAX returns, before anybody can look at the results.
define internal void @interrupt() nounwind noinline optnone {
  %state = call i32 @PyGILState_Ensure()
  %thread = call i64 @PyThread_get_thread_ident()
  %found = call i32 @PyThreadState_SetAsyncExc(i64 %thread, ptr @KeyboardInterrupt)
  call void @PyGILState_Release(i32 %state)
  ret void
}

; An error that Python made, or null for one of this code, which is Ctrl-C and needs no more words.
define internal ptr @settled(ptr %error, i64 %forgotten) nounwind noinline optnone {
entry:
  %none = icmp eq ptr %error, null
  br i1 %none, label %done, label %look
look:
  %code = load i64, ptr %error
  %forget = icmp eq i64 %code, %forgotten
  br i1 %forget, label %end, label %other
end:
  call void @interrupt()
  call void @hlo_free(ptr null, ptr %error, i64 0)
  ret ptr null
other:
  %cancelled = icmp eq i64 %code, ${CANCELLED}
  br i1 %cancelled, label %again, label %done
again:
  call void @interrupt()
  br label %done
done:
  ret ptr %error
}

; What one of Python's functions says of these arguments: the address of an error, or null.  It catches whatever is
; raised, but Ctrl-C can come before it can catch anything: then it is called again, and the interrupt comes afterwards.
define internal ptr @python(ptr %function, ptr %args) nounwind noinline optnone {
entry:
  %number_at = alloca ptr
  %state = call i32 @PyGILState_Ensure()
  %number = call ptr @PyLong_FromVoidPtr(ptr %args)
  store ptr %number, ptr %number_at
  br label %try
try:
  %before = phi i1 [ false, %entry ], [ true, %again ]
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %number_at, i64 1, ptr null)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %caught, label %said
caught:
  %matches = call i32 @PyErr_ExceptionMatches(ptr @KeyboardInterrupt)
  %interrupted = icmp ne i32 %matches, 0
  br i1 %interrupted, label %again, label %other
again:
  call void @PyErr_Clear()
  br label %try
other:
  %why = call ptr @raised()
  br label %done
said:
  %told = call ptr @PyLong_AsVoidPtr(ptr %result)
  call void @Py_DecRef(ptr %result)
  br label %done
done:
  %error = phi ptr [ %why, %other ], [ %told, %said ]
  call void @Py_DecRef(ptr %number)
  br i1 %before, label %late, label %end
late:
  call void @interrupt()
  br label %end
end:
  call void @PyGILState_Release(i32 %state)
  ret ptr %error
}

; A builtin function of Python's, whose self is another function: the address of arguments in, that of an error out.
define ptr @python_called(ptr %function, ptr %address) nounwind noinline optnone {
  %args = call ptr @PyLong_AsVoidPtr(ptr %address)
  %error = call ptr @python(ptr %function, ptr %args)
  %left = call ptr @settled(ptr %error, i64 ${INTERRUPTED})
  %number = call ptr @PyLong_FromVoidPtr(ptr %left)
  ret ptr %number
}

; The error for what was raised in this thread, if anything was.
define internal ptr @raised() nounwind noinline optnone {
entry:
  %type_at = alloca ptr
  %value_at = alloca ptr
  %trace_at = alloca ptr
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %type_at, ptr %value_at, ptr %trace_at)
  call void @PyErr_NormalizeException(ptr %type_at, ptr %value_at, ptr %trace_at)
  %value = load ptr, ptr %value_at
  %none = icmp eq ptr %value, null
  %count = select i1 %none, i64 0, i64 1
  %number = call ptr @PyObject_Vectorcall(ptr @failed, ptr %value_at, i64 %count, ptr null)
  %type = load ptr, ptr %type_at
  %trace = load ptr, ptr %trace_at
  call void @Py_DecRef(ptr %type)
  call void @Py_DecRef(ptr %value)
  call void @Py_DecRef(ptr %trace)
  %again = icmp eq ptr %number, null
  br i1 %again, label %cancelled, label %told
told:
  %its = call ptr @PyLong_AsVoidPtr(ptr %number)
  call void @Py_DecRef(ptr %number)
  br label %done
cancelled:
  call void @PyErr_Clear()
  %made = call ptr @hlo_malloc(ptr null, i64 64)
  store i64 ${CANCELLED}, ptr %made
  %size_at = getelementptr i64, ptr %made, i64 1
  store i64 0, ptr %size_at
  br label %done
done:
  %error = phi ptr [ %its, %told ], [ %made, %cancelled ]
  call void @PyGILState_Release(i32 %state)
  ret ptr %error
}

; Why an execution ended early: null if it was Ctrl-C.
define internal ptr @why() nounwind noinline optnone {
  %error = call ptr @raised()
  %left = call ptr @settled(ptr %error, i64 ${CANCELLED})
  ret ptr %left
}

; Take back the references on the storages of the first `count` arguments.
define internal void @let_go(ptr %arguments, ptr %rows, i64 %count) nounwind noinline optnone {
entry:
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %following ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %done
one:
  %buffer_at = getelementptr ptr, ptr %arguments, i64 %n
  %buffer = load ptr, ptr %buffer_at
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  %storage = load ptr, ptr %storage_at
  %row = mul i64 %n, 3
  %mode_word = add i64 %row, 2
  %mode_at = getelementptr i64, ptr %rows, i64 %mode_word
  %mode = load i64, ptr %mode_at
  %odd = and i64 %mode, 1
  %written = icmp eq i64 %odd, 1
  br i1 %written, label %unclaim, label %drop
unclaim:
  store atomic i64 1, ptr %storage release, align 8
  br label %following
drop:
  call void @unref(ptr %storage)
  br label %following
following:
  %next = add i64 %n, 1
  br label %each
done:
  ret void
}

; End the results that were made: their memory, unless it is an argument's.
define internal void @drop_results(ptr %frame, ptr %rows, i64 %count) nounwind noinline optnone {
entry:
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %following ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %done
one:
  %row = mul i64 %n, 5
  %held_word = add i64 %row, 4
  %held_at = getelementptr i64, ptr %rows, i64 %held_word
  %held = load i64, ptr %held_at
  %own = icmp slt i64 %held, 0
  br i1 %own, label %free, label %following
free:
  %data_at = getelementptr ptr, ptr %frame, i64 %n
  %data = load ptr, ptr %data_at
  call void @hlo_free(ptr null, ptr %data, i64 0)
  br label %following
following:
  %next = add i64 %n, 1
  br label %each
done:
  ret void
}

; Claim or share the arguments of a device, make its results and the arena, and fill its frame: 0.  Otherwise nothing is
; left of all that, and it is -1 where something is unusual, else how many bytes there were no memory for.
define internal i64 @prepare(ptr %executable, ptr %arguments, ptr %frame) nounwind noinline optnone {
entry:
  %parameters = load i64, ptr %executable
  %results_at = getelementptr i64, ptr %executable, i64 1
  %results = load i64, ptr %results_at
  %rows_at = getelementptr i64, ptr %executable, i64 8
  %rows = load ptr, ptr %rows_at
  %out_rows_at = getelementptr i64, ptr %executable, i64 9
  %out_rows = load ptr, ptr %out_rows_at
  %leaves = add i64 %parameters, %results
  %frame_out = getelementptr ptr, ptr %frame, i64 %parameters
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %got ]
  %i_more = icmp ult i64 %i, %parameters
  br i1 %i_more, label %argument, label %outputs
argument:
  %buffer_at = getelementptr ptr, ptr %arguments, i64 %i
  %buffer = load ptr, ptr %buffer_at
  %row = mul i64 %i, 3
  %row_at = getelementptr i64, ptr %rows, i64 %row
  %bytes_at = getelementptr i64, ptr %row_at, i64 1
  %mode_at = getelementptr i64, ptr %row_at, i64 2
  %type = load i64, ptr %row_at
  %bytes = load i64, ptr %bytes_at
  %mode = load i64, ptr %mode_at
  %own_type = load i64, ptr %buffer
  %own_bytes_at = getelementptr i64, ptr %buffer, i64 4
  %own_bytes = load i64, ptr %own_bytes_at
  %deleted_at = getelementptr i64, ptr %buffer, i64 8
  %deleted = load i64, ptr %deleted_at
  %layout_at = getelementptr i64, ptr %buffer, i64 9
  %layout = load ptr, ptr %layout_at
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  %storage = load ptr, ptr %storage_at
  %same_type = icmp eq i64 %type, %own_type
  %same_bytes = icmp eq i64 %bytes, %own_bytes
  %alive = icmp eq i64 %deleted, 0
  %row_major = icmp eq ptr %layout, null
  %d = and i1 %same_type, %same_bytes
  %e = and i1 %alive, %row_major
  %fits = and i1 %d, %e
  br i1 %fits, label %take, label %undo
take:
  %odd = and i64 %mode, 1
  %overwritten = icmp eq i64 %odd, 1
  br i1 %overwritten, label %claim, label %share
claim:
  %function_at = getelementptr i64, ptr %storage, i64 2
  %ending = load ptr, ptr %function_at
  %ours = icmp eq ptr %ending, @owned
  br i1 %ours, label %exclusive, label %undo
exclusive:
  %claimed = cmpxchg ptr %storage, i64 1, i64 1099511627776 acq_rel acquire
  %won = extractvalue { i64, i1 } %claimed, 1
  br i1 %won, label %got, label %undo
share:
  %before = atomicrmw add ptr %storage, i64 1 acq_rel
  %taken = icmp uge i64 %before, 1099511627776
  br i1 %taken, label %give_back, label %got
give_back:
  %restored = atomicrmw sub ptr %storage, i64 1 acq_rel
  br label %undo
undo:
  call void @let_go(ptr %arguments, ptr %rows, i64 %i)
  ret i64 -1
got:
  %data_at = getelementptr i64, ptr %buffer, i64 3
  %data = load ptr, ptr %data_at
  %frame_at = getelementptr ptr, ptr %frame, i64 %i
  store ptr %data, ptr %frame_at
  %i_next = add i64 %i, 1
  br label %each
outputs:
  %o = phi i64 [ 0, %each ], [ %o_next, %placed ]
  %o_more = icmp ult i64 %o, %results
  br i1 %o_more, label %output, label %arena
output:
  %o_row = mul i64 %o, 5
  %o_row_at = getelementptr i64, ptr %out_rows, i64 %o_row
  %held_at = getelementptr i64, ptr %o_row_at, i64 4
  %held = load i64, ptr %held_at
  %is_held = icmp sge i64 %held, 0
  br i1 %is_held, label %within, label %fresh
within:
  %within_at = getelementptr ptr, ptr %frame, i64 %held
  %within_data = load ptr, ptr %within_at
  br label %placed
fresh:
  %o_bytes_at = getelementptr i64, ptr %o_row_at, i64 3
  %o_bytes = load i64, ptr %o_bytes_at
  %new = call ptr @hlo_malloc(ptr null, i64 %o_bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %exhausted, label %placed
placed:
  %o_data = phi ptr [ %within_data, %within ], [ %new, %fresh ]
  %o_at = getelementptr ptr, ptr %frame_out, i64 %o
  store ptr %o_data, ptr %o_at
  %o_next = add i64 %o, 1
  br label %outputs
exhausted:
  %wanted = phi i64 [ %o_bytes, %fresh ], [ %arena_bytes, %reserve ]
  call void @drop_results(ptr %frame_out, ptr %out_rows, i64 %o)
  call void @let_go(ptr %arguments, ptr %rows, i64 %parameters)
  %missing = or i64 %wanted, 1
  ret i64 %missing
arena:
  %arena_at = getelementptr i64, ptr %executable, i64 3
  %arena_bytes = load i64, ptr %arena_at
  %no_arena = icmp eq i64 %arena_bytes, 0
  br i1 %no_arena, label %done, label %reserve
reserve:
  %reserved = call ptr @hlo_malloc(ptr null, i64 %arena_bytes)
  %no_reserve = icmp eq ptr %reserved, null
  br i1 %no_reserve, label %exhausted, label %done
done:
  %base = phi ptr [ null, %arena ], [ %reserved, %reserve ]
  %base_at = getelementptr ptr, ptr %frame, i64 %leaves
  store ptr %base, ptr %base_at
  %constants_from = getelementptr i64, ptr %executable, i64 4
  %constants = load ptr, ptr %constants_from
  %constants_word = add i64 %leaves, 1
  %constants_at = getelementptr ptr, ptr %frame, i64 %constants_word
  store ptr %constants, ptr %constants_at
  %status_word = add i64 %leaves, 2
  %status_at = getelementptr ptr, ptr %frame, i64 %status_word
  store [2 x i64] zeroinitializer, ptr %status_at
  ret i64 0
}

; Give back the arena of a frame, if it has one.
define internal void @end_arena(ptr %executable, ptr %frame) nounwind noinline optnone {
entry:
  %parameters = load i64, ptr %executable
  %results_at = getelementptr i64, ptr %executable, i64 1
  %results = load i64, ptr %results_at
  %leaves = add i64 %parameters, %results
  %base_at = getelementptr ptr, ptr %frame, i64 %leaves
  %base = load ptr, ptr %base_at
  %none = icmp eq ptr %base, null
  br i1 %none, label %done, label %free
free:
  call void @hlo_free(ptr null, ptr %base, i64 0)
  br label %done
done:
  ret void
}

; End the frames of the first `count` devices, whose results nobody gets, and let go of their arguments.
define internal void @undo(ptr %executable, ptr %lists, ptr %frames, i64 %slots, i64 %count, i1 %with_arenas) nounwind noinline optnone {
entry:
  %parameters = load i64, ptr %executable
  %results_at = getelementptr i64, ptr %executable, i64 1
  %results = load i64, ptr %results_at
  %rows_at = getelementptr i64, ptr %executable, i64 8
  %rows = load ptr, ptr %rows_at
  %out_rows_at = getelementptr i64, ptr %executable, i64 9
  %out_rows = load ptr, ptr %out_rows_at
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %gone ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %done
one:
  %slot = mul i64 %n, %slots
  %frame = getelementptr ptr, ptr %frames, i64 %slot
  br i1 %with_arenas, label %arena, label %rest
arena:
  call void @end_arena(ptr %executable, ptr %frame)
  br label %rest
rest:
  %frame_out = getelementptr ptr, ptr %frame, i64 %parameters
  call void @drop_results(ptr %frame_out, ptr %out_rows, i64 %results)
  %list_at = getelementptr ptr, ptr %lists, i64 %n
  %arguments = load ptr, ptr %list_at
  call void @let_go(ptr %arguments, ptr %rows, i64 %parameters)
  br label %gone
gone:
  %next = add i64 %n, 1
  br label %each
done:
  ret void
}

; Whether the frames of all devices say that their runs are complete.
define internal i1 @complete(ptr %executable, ptr %frames, i64 %slots, i64 %count) nounwind noinline optnone {
entry:
  %last = sub i64 %slots, 2
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %done
one:
  %slot = mul i64 %n, %slots
  %word = add i64 %slot, %last
  %status_at = getelementptr i64, ptr %frames, i64 %word
  %status = load i64, ptr %status_at
  %good = icmp eq i64 %status, ${COMPLETE}
  %next = add i64 %n, 1
  br i1 %good, label %each, label %bad
bad:
  ret i1 false
done:
  ret i1 true
}

; Buffers for the results of a device, and what becomes of its arguments.
define internal void @hand_over(ptr %executable, ptr %arguments, ptr %frame, ptr %out_list, ptr %memory) nounwind noinline optnone {
entry:
  %parameters = load i64, ptr %executable
  %results_at = getelementptr i64, ptr %executable, i64 1
  %results = load i64, ptr %results_at
  %rows_at = getelementptr i64, ptr %executable, i64 8
  %rows = load ptr, ptr %rows_at
  %out_rows_at = getelementptr i64, ptr %executable, i64 9
  %out_rows = load ptr, ptr %out_rows_at
  %frame_out = getelementptr ptr, ptr %frame, i64 %parameters
  br label %wrap
wrap:
  %w = phi i64 [ 0, %entry ], [ %w_next, %wrapped ]
  %w_more = icmp ult i64 %w, %results
  br i1 %w_more, label %result, label %after
result:
  %w_row = mul i64 %w, 5
  %w_row_at = getelementptr i64, ptr %out_rows, i64 %w_row
  %w_type = load i64, ptr %w_row_at
  %w_rank_at = getelementptr i64, ptr %w_row_at, i64 1
  %w_rank = load i64, ptr %w_rank_at
  %w_dims_at = getelementptr i64, ptr %w_row_at, i64 2
  %w_dims = load ptr, ptr %w_dims_at
  %w_bytes_at = getelementptr i64, ptr %w_row_at, i64 3
  %w_bytes = load i64, ptr %w_bytes_at
  %w_held_at = getelementptr i64, ptr %w_row_at, i64 4
  %w_held = load i64, ptr %w_held_at
  %w_is_held = icmp sge i64 %w_held, 0
  br i1 %w_is_held, label %moved, label %made
moved:
  %from_at = getelementptr ptr, ptr %arguments, i64 %w_held
  %from = load ptr, ptr %from_at
  %moved_at = getelementptr i64, ptr %from, i64 7
  %moved_storage = load ptr, ptr %moved_at
  %gone_at = getelementptr i64, ptr %from, i64 8
  store atomic i64 1, ptr %gone_at release, align 8
  store atomic i64 1, ptr %moved_storage release, align 8
  %moved_buffer = call ptr @around(i64 %w_type, i64 %w_rank, ptr %w_dims, i64 %w_bytes, ptr %memory, ptr %moved_storage)
  br label %wrapped
made:
  %w_data_at = getelementptr ptr, ptr %frame_out, i64 %w
  %w_data = load ptr, ptr %w_data_at
  %made_buffer = call ptr @new_buffer(i64 %w_type, i64 %w_rank, ptr %w_dims, ptr %w_data, i64 %w_bytes, ptr %memory, ptr @owned, ptr null)
  br label %wrapped
wrapped:
  %w_buffer = phi ptr [ %moved_buffer, %moved ], [ %made_buffer, %made ]
  %w_at = getelementptr ptr, ptr %out_list, i64 %w
  store ptr %w_buffer, ptr %w_at
  %w_next = add i64 %w, 1
  br label %wrap
after:
  %k = phi i64 [ 0, %wrap ], [ %k_next, %settled ]
  %k_more = icmp ult i64 %k, %parameters
  br i1 %k_more, label %settle, label %done
settle:
  %k_row = mul i64 %k, 3
  %k_mode_word = add i64 %k_row, 2
  %k_mode_at = getelementptr i64, ptr %rows, i64 %k_mode_word
  %k_mode = load i64, ptr %k_mode_at
  %k_moved = icmp eq i64 %k_mode, 1
  br i1 %k_moved, label %settled, label %remaining
remaining:
  %k_buffer_at = getelementptr ptr, ptr %arguments, i64 %k
  %k_buffer = load ptr, ptr %k_buffer_at
  %k_storage_at = getelementptr i64, ptr %k_buffer, i64 7
  %k_storage = load ptr, ptr %k_storage_at
  %k_claimed = icmp eq i64 %k_mode, 3
  br i1 %k_claimed, label %unclaim, label %release
unclaim:
  store atomic i64 1, ptr %k_storage release, align 8
  br label %delete
release:
  call void @unref(ptr %k_storage)
  br label %settled
delete:
  call void @give_up(ptr %k_buffer)
  br label %settled
settled:
  %k_next = add i64 %k, 1
  br label %after
done:
  ret void
}

define ptr @LoadedExecutable_Execute(ptr %args) nounwind noinline optnone {
entry:
  %executable_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__executable}
  %executable = load ptr, ptr %executable_at
  %direct_at = getelementptr i64, ptr %executable, i64 10
  %direct = load i64, ptr %direct_at
  %devices_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__num_devices}
  %devices = load i64, ptr %devices_at
  %count_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__num_args}
  %count = load i64, ptr %count_at
  %parameters = load i64, ptr %executable
  %on_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__execute_device}
  %on = load ptr, ptr %on_at
  %options_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__options}
  %options = load ptr, ptr %options_at
  %kept_at = getelementptr i8, ptr %options, i64 ${ExecuteOptions__num_non_donatable_input_indices}
  %kept = load i64, ptr %kept_at
  %is_direct = icmp eq i64 %direct, 1
  %for_at = getelementptr i64, ptr %executable, i64 17
  %for = load i64, ptr %for_at
  %so_many = icmp eq i64 %devices, %for
  %right = icmp eq i64 %count, %parameters
  %anywhere = icmp eq ptr %on, null
  %all_donatable = icmp eq i64 %kept, 0
  %a = and i1 %is_direct, %so_many
  %b = and i1 %right, %anywhere
  %c = and i1 %a, %b
  %usual = and i1 %c, %all_donatable
  br i1 %usual, label %begin, label %slow
slow:
  %slow_at = getelementptr i64, ptr %executable, i64 5
  %function_slow = load ptr, ptr %slow_at
  %answer = call ptr @python(ptr %function_slow, ptr %args)
  %left = call ptr @settled(ptr %answer, i64 ${INTERRUPTED})
  ret ptr %left
begin:
  %lists_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__argument_lists}
  %lists = load ptr, ptr %lists_at
  %results_at = getelementptr i64, ptr %executable, i64 1
  %results = load i64, ptr %results_at
  %leaves = add i64 %parameters, %results
  %slots = add i64 %leaves, 4
  %all_slots = mul i64 %slots, %devices
  %frames = alloca ptr, i64 %all_slots, align 16
  br label %each
each:
  %p = phi i64 [ 0, %begin ], [ %p_next, %prepared ]
  %p_more = icmp ult i64 %p, %devices
  br i1 %p_more, label %device, label %run
device:
  %p_list_at = getelementptr ptr, ptr %lists, i64 %p
  %p_arguments = load ptr, ptr %p_list_at
  %p_slot = mul i64 %p, %slots
  %p_frame = getelementptr ptr, ptr %frames, i64 %p_slot
  %problem = call i64 @prepare(ptr %executable, ptr %p_arguments, ptr %p_frame)
  %fine = icmp eq i64 %problem, 0
  br i1 %fine, label %prepared, label %take_back
prepared:
  %p_next = add i64 %p, 1
  br label %each
take_back:
  call void @undo(ptr %executable, ptr %lists, ptr %frames, i64 %slots, i64 %p, i1 true)
  %unusual = icmp eq i64 %problem, -1
  br i1 %unusual, label %slow, label %exhausted
exhausted:
  %no_memory = call ptr @out_of_memory(i64 %problem)
  ret ptr %no_memory
run:
  %group_at = getelementptr i64, ptr %executable, i64 18
  %group = load ptr, ptr %group_at
  %single = icmp eq ptr %group, null
  %started = call i64 @hlo_clock()
  br i1 %single, label %alone, label %together
alone:
  %entry_at = getelementptr i64, ptr %executable, i64 2
  %function = load ptr, ptr %entry_at
  call void %function(ptr %frames)
  br label %ran
together:
  %group_function = load ptr, ptr %group
  %accepted = call i64 %group_function(ptr %group, ptr %frames, i64 %slots)
  %refused = icmp eq i64 %accepted, 0
  br i1 %refused, label %return_all, label %ran
return_all:
  call void @undo(ptr %executable, ptr %lists, ptr %frames, i64 %slots, i64 %devices, i1 true)
  br label %slow
ran:
  %ended = call i64 @hlo_clock()
  br label %arenas
arenas:
  %r = phi i64 [ 0, %ran ], [ %r_next, %arena ]
  %r_more = icmp ult i64 %r, %devices
  br i1 %r_more, label %arena, label %look
arena:
  %r_slot = mul i64 %r, %slots
  %r_frame = getelementptr ptr, ptr %frames, i64 %r_slot
  call void @end_arena(ptr %executable, ptr %r_frame)
  %r_next = add i64 %r, 1
  br label %arenas
look:
  %complete = call i1 @complete(ptr %executable, ptr %frames, i64 %slots, i64 %devices)
  br i1 %complete, label %note, label %ended_early
ended_early:
  %error = call ptr @why()
  %interrupted = icmp eq ptr %error, null
  br i1 %interrupted, label %note, label %failure
failure:
  call void @undo(ptr %executable, ptr %lists, ptr %frames, i64 %slots, i64 %devices, i1 false)
  ret ptr %error
note:
  %took = sub i64 %ended, %started
  %runs_at = getelementptr i64, ptr %executable, i64 11
  %runs_before = atomicrmw add ptr %runs_at, i64 1 monotonic
  %time_at = getelementptr i64, ptr %executable, i64 12
  %time_before = atomicrmw add ptr %time_at, i64 %took monotonic
  %out_lists_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__output_lists}
  %out_lists = load ptr, ptr %out_lists_at
  %memories_at = getelementptr i64, ptr %executable, i64 7
  %memories = load ptr, ptr %memories_at
  %events_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Execute__device_complete_events}
  %events = load ptr, ptr %events_at
  %unasked = icmp eq ptr %events, null
  br label %wrap
wrap:
  %w = phi i64 [ 0, %note ], [ %w_next, %wrapped ]
  %w_more = icmp ult i64 %w, %devices
  br i1 %w_more, label %give, label %finish
give:
  %w_list_at = getelementptr ptr, ptr %lists, i64 %w
  %w_arguments = load ptr, ptr %w_list_at
  %w_slot = mul i64 %w, %slots
  %w_frame = getelementptr ptr, ptr %frames, i64 %w_slot
  %w_out_at = getelementptr ptr, ptr %out_lists, i64 %w
  %w_out = load ptr, ptr %w_out_at
  %w_memory_at = getelementptr ptr, ptr %memories, i64 %w
  %w_memory = load ptr, ptr %w_memory_at
  call void @hand_over(ptr %executable, ptr %w_arguments, ptr %w_frame, ptr %w_out, ptr %w_memory)
  br i1 %unasked, label %wrapped, label %event
event:
  %event_at = getelementptr ptr, ptr %events, i64 %w
  store ptr @ready, ptr %event_at
  br label %wrapped
wrapped:
  %w_next = add i64 %w, 1
  br label %wrap
finish:
  ret ptr null
}

; Executables end in threads of JAX's own, perhaps while the interpreter ends, too: nothing here waits for its lock.
; What has no references any more is put on a list, from which Python takes it when it next compiles.

@ended = internal global ptr null

define internal void @let_executable_go(ptr %executable) nounwind noinline optnone {
entry:
  %references_at = getelementptr i64, ptr %executable, i64 15
  %next_at = getelementptr i64, ptr %executable, i64 16
  %before = atomicrmw sub ptr %references_at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %first, label %done
first:
  %seen = load atomic ptr, ptr @ended monotonic, align 8
  br label %push
push:
  %head = phi ptr [ %seen, %first ], [ %newer, %push ]
  store ptr %head, ptr %next_at
  %result = cmpxchg ptr @ended, ptr %head, ptr %executable acq_rel monotonic
  %newer = extractvalue { ptr, i1 } %result, 0
  %in = extractvalue { ptr, i1 } %result, 1
  br i1 %in, label %done, label %push
done:
  ret void
}

; The list of executables without references, which is empty then.
define ptr @ended_executables() nounwind noinline optnone {
  %list = atomicrmw xchg ptr @ended, ptr null acq_rel
  ret ptr %list
}

define ptr @Executable_Destroy(ptr %args) nounwind noinline optnone {
  %executable_at = getelementptr i8, ptr %args, i64 ${Executable_Destroy__executable}
  %executable = load ptr, ptr %executable_at
  call void @let_executable_go(ptr %executable)
  ret ptr null
}

define ptr @LoadedExecutable_Destroy(ptr %args) nounwind noinline optnone {
  %executable_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_Destroy__executable}
  %executable = load ptr, ptr %executable_at
  call void @let_executable_go(ptr %executable)
  ret ptr null
}

define ptr @LoadedExecutable_GetExecutable(ptr %args) nounwind noinline optnone {
  %loaded_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_GetExecutable__loaded_executable}
  %executable_at = getelementptr i8, ptr %args, i64 ${LoadedExecutable_GetExecutable__executable}
  %executable = load ptr, ptr %loaded_at
  %references_at = getelementptr i64, ptr %executable, i64 15
  %before = atomicrmw add ptr %references_at, i64 1 acq_rel
  store ptr %executable, ptr %executable_at
  ret ptr null
}

; Contexts of executions hold nothing that hlotool needs: one serves all.
define ptr @ExecuteContext_Create(ptr %args) nounwind noinline optnone {
  %context_at = getelementptr i8, ptr %args, i64 ${ExecuteContext_Create__context}
  store ptr @ready, ptr %context_at
  ret ptr null
}

define ptr @ExecuteContext_Destroy(ptr %args) nounwind noinline optnone {
  ret ptr null
}
