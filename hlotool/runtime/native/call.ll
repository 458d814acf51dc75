; The short way from a Python call into compiled code: see hlotool/runtime/fastcall.py, which gives the offsets in
; NumPy's arrays and the words of the table.

@hlo_handler = external global i8
@array_type = external global i8

declare ptr @hlo_malloc(ptr, i64)
declare void @hlo_free(ptr, ptr, i64)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()

; Whether `object` is exactly the array that `row` describes: its data, else null.
define internal ptr @fit(ptr %object, ptr %row, i64 %mask) nounwind {
entry:
  %type_at = getelementptr i8, ptr %object, i64 ${TYPE}
  %type = load ptr, ptr %type_at
  %is_array = icmp eq ptr %type, @array_type
  br i1 %is_array, label %array, label %no
array:
  %dtype_at = getelementptr i8, ptr %object, i64 ${DTYPE}
  %dtype = load ptr, ptr %dtype_at
  %wanted = load ptr, ptr %row
  %same_dtype = icmp eq ptr %dtype, %wanted
  %rank_at = getelementptr i8, ptr %object, i64 ${RANK}
  %rank32 = load i32, ptr %rank_at
  %rank = zext i32 %rank32 to i64
  %wanted_rank_at = getelementptr i64, ptr %row, i64 1
  %wanted_rank = load i64, ptr %wanted_rank_at
  %same_rank = icmp eq i64 %rank, %wanted_rank
  %flags_at = getelementptr i8, ptr %object, i64 ${FLAGS}
  %flags = load i32, ptr %flags_at
  %needed = and i32 %flags, ${DENSE}
  %dense = icmp eq i32 %needed, ${DENSE}
  %data_at = getelementptr i8, ptr %object, i64 ${DATA}
  %data = load ptr, ptr %data_at
  %address = ptrtoint ptr %data to i64
  %low = and i64 %address, %mask
  %on_line = icmp eq i64 %low, 0
  %a = and i1 %same_dtype, %same_rank
  %b = and i1 %dense, %on_line
  %all = and i1 %a, %b
  br i1 %all, label %shape, label %no
shape:
  %dimensions_at = getelementptr i8, ptr %object, i64 ${DIMENSIONS}
  %dimensions = load ptr, ptr %dimensions_at
  %expected_at = getelementptr i64, ptr %row, i64 2
  %expected = load ptr, ptr %expected_at
  br label %each
each:
  %i = phi i64 [ 0, %shape ], [ %next, %equal ]
  %more = icmp ult i64 %i, %rank
  br i1 %more, label %compare, label %yes
compare:
  %x_at = getelementptr i64, ptr %dimensions, i64 %i
  %x = load i64, ptr %x_at
  %y_at = getelementptr i64, ptr %expected, i64 %i
  %y = load i64, ptr %y_at
  %match = icmp eq i64 %x, %y
  br i1 %match, label %equal, label %no
equal:
  %next = add i64 %i, 1
  br label %each
yes:
  ret ptr %data
no:
  ret ptr null
}

; A new array as `row` describes, in recycled memory that it gives back by itself; null with an exception set.
define internal ptr @make(ptr %row) nounwind {
entry:
  %dtype = load ptr, ptr %row
  %rank_at = getelementptr i64, ptr %row, i64 1
  %rank = load i64, ptr %rank_at
  %rank32 = trunc i64 %rank to i32
  %dimensions_at = getelementptr i64, ptr %row, i64 2
  %dimensions = load ptr, ptr %dimensions_at
  %size_at = getelementptr i64, ptr %row, i64 3
  %size = load i64, ptr %size_at
  %data = call ptr @hlo_malloc(ptr null, i64 %size)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %full, label %wrap
full:
  %error = call ptr @PyErr_NoMemory()
  ret ptr null
wrap:
  call void @Py_IncRef(ptr %dtype)
  %array = call ptr @PyArray_NewFromDescr(
    ptr @array_type, ptr %dtype, i32 %rank32, ptr %dimensions, ptr null, ptr %data, i32 1281, ptr null)
  %refused = icmp eq ptr %array, null
  br i1 %refused, label %undo, label %own
undo:
  call void @hlo_free(ptr null, ptr %data, i64 0)
  ret ptr null
own:
  call void @Py_IncRef(ptr @hlo_handler)
  %handler_at = getelementptr i8, ptr %array, i64 ${HANDLER}
  store ptr @hlo_handler, ptr %handler_at
  %flags_at = getelementptr i8, ptr %array, i64 ${FLAGS}
  %flags = load i32, ptr %flags_at
  %owning = or i32 %flags, ${OWNS_DATA}
  store i32 %owning, ptr %flags_at
  ret ptr %array
}

; Whether the `count` arguments in `list` can be written to, and share no byte with another one.
define internal i1 @apart(ptr %args, ptr %frame, ptr %rows, i64 %parameters, ptr %list, i64 %count) nounwind {
entry:
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %n_next, %following ]
  %n_more = icmp ult i64 %n, %count
  br i1 %n_more, label %written, label %yes
written:
  %number_at = getelementptr i64, ptr %list, i64 %n
  %number = load i64, ptr %number_at
  %object_at = getelementptr ptr, ptr %args, i64 %number
  %object = load ptr, ptr %object_at
  %flags_at = getelementptr i8, ptr %object, i64 ${FLAGS}
  %flags = load i32, ptr %flags_at
  %writeable = and i32 %flags, ${WRITEABLE}
  %fixed = icmp eq i32 %writeable, 0
  br i1 %fixed, label %no, label %place
place:
  %start_at = getelementptr i64, ptr %frame, i64 %number
  %start = load i64, ptr %start_at
  %word = mul i64 %number, 4
  %bytes_word = add i64 %word, 3
  %bytes_at = getelementptr i64, ptr %rows, i64 %bytes_word
  %bytes = load i64, ptr %bytes_at
  %end = add i64 %start, %bytes
  br label %inputs
inputs:
  %i = phi i64 [ 0, %place ], [ %i_next, %next ]
  %i_more = icmp ult i64 %i, %parameters
  br i1 %i_more, label %input, label %following
input:
  %i_start_at = getelementptr i64, ptr %frame, i64 %i
  %i_start = load i64, ptr %i_start_at
  %i_word = mul i64 %i, 4
  %i_bytes_word = add i64 %i_word, 3
  %i_bytes_at = getelementptr i64, ptr %rows, i64 %i_bytes_word
  %i_bytes = load i64, ptr %i_bytes_at
  %i_end = add i64 %i_start, %i_bytes
  %other = icmp ne i64 %i, %number
  %ahead = icmp ult i64 %start, %i_end
  %behind = icmp ult i64 %i_start, %end
  %meet = and i1 %ahead, %behind
  %shared = and i1 %meet, %other
  br i1 %shared, label %no, label %next
next:
  %i_next = add i64 %i, 1
  br label %inputs
following:
  %n_next = add i64 %n, 1
  br label %each
yes:
  ret i1 true
no:
  ret i1 false
}

define ptr @hlo_call(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %table_at = getelementptr i8, ptr %self, i64 ${DATA}
  %table = load ptr, ptr %table_at
  %parameters = load i64, ptr %table
  %outputs_at = getelementptr i64, ptr %table, i64 1
  %outputs = load i64, ptr %outputs_at
  %mask_at = getelementptr i64, ptr %table, i64 6
  %mask = load i64, ptr %mask_at
  %written_at = getelementptr i64, ptr %table, i64 8
  %written = load i64, ptr %written_at
  %rows = getelementptr i64, ptr %table, i64 11
  %leaves = add i64 %parameters, %outputs
  %slots = add i64 %leaves, 4
  %frame = alloca ptr, i64 %slots, align 16
  %right = icmp eq i64 %count, %parameters
  br i1 %right, label %inputs, label %slow
inputs:
  %i = phi i64 [ 0, %entry ], [ %i_next, %fits ]
  %i_more = icmp ult i64 %i, %parameters
  br i1 %i_more, label %input, label %given
input:
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at
  %i_word = mul i64 %i, 4
  %i_row = getelementptr i64, ptr %rows, i64 %i_word
  %data = call ptr @fit(ptr %object, ptr %i_row, i64 %mask)
  %misfit = icmp eq ptr %data, null
  br i1 %misfit, label %slow, label %fits
fits:
  %i_at = getelementptr ptr, ptr %frame, i64 %i
  store ptr %data, ptr %i_at
  %i_next = add i64 %i, 1
  br label %inputs
given:
  %none_written = icmp eq i64 %written, 0
  br i1 %none_written, label %create, label %look
look:
  %list_at = getelementptr i64, ptr %table, i64 9
  %list = load ptr, ptr %list_at
  %free = call i1 @apart(ptr %args, ptr %frame, ptr %rows, i64 %parameters, ptr %list, i64 %written)
  br i1 %free, label %create, label %slow
slow:
  %callable_at = getelementptr i64, ptr %table, i64 7
  %callable = load ptr, ptr %callable_at
  %converted = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %count, ptr null)
  ret ptr %converted
create:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %fail, label %results
fail:
  ret ptr null
results:
  %o = phi i64 [ 0, %create ], [ %o_next, %made ]
  %o_more = icmp ult i64 %o, %outputs
  br i1 %o_more, label %result, label %arena
result:
  %leaf = add i64 %parameters, %o
  %o_word = mul i64 %leaf, 4
  %o_row = getelementptr i64, ptr %rows, i64 %o_word
  %o_dtype = load ptr, ptr %o_row
  %is_argument = icmp eq ptr %o_dtype, null
  br i1 %is_argument, label %take, label %fresh
take:
  %taken_at = getelementptr i64, ptr %o_row, i64 1
  %taken_number = load i64, ptr %taken_at
  %taken_from = getelementptr ptr, ptr %args, i64 %taken_number
  %taken = load ptr, ptr %taken_from
  call void @Py_IncRef(ptr %taken)
  br label %made
fresh:
  %new = call ptr @make(ptr %o_row)
  %no_array = icmp eq ptr %new, null
  br i1 %no_array, label %drop, label %made
made:
  %array = phi ptr [ %taken, %take ], [ %new, %fresh ]
  %stored = call i32 @PyTuple_SetItem(ptr %tuple, i64 %o, ptr %array)
  %o_data_at = getelementptr i8, ptr %array, i64 ${DATA}
  %o_data = load ptr, ptr %o_data_at
  %o_at = getelementptr ptr, ptr %frame, i64 %leaf
  store ptr %o_data, ptr %o_at
  %o_next = add i64 %o, 1
  br label %results
drop:
  call void @Py_DecRef(ptr %tuple)
  ret ptr null
arena:
  %arena_bytes_at = getelementptr i64, ptr %table, i64 3
  %arena_bytes = load i64, ptr %arena_bytes_at
  %no_arena = icmp eq i64 %arena_bytes, 0
  br i1 %no_arena, label %run, label %reserve
reserve:
  %reserved = call ptr @hlo_malloc(ptr null, i64 %arena_bytes)
  %exhausted = icmp eq ptr %reserved, null
  br i1 %exhausted, label %exhaust, label %run
exhaust:
  %error = call ptr @PyErr_NoMemory()
  br label %drop
run:
  %base = phi ptr [ null, %arena ], [ %reserved, %reserve ]
  %base_at = getelementptr ptr, ptr %frame, i64 %leaves
  store ptr %base, ptr %base_at
  %constants_from = getelementptr i64, ptr %table, i64 4
  %constants = load ptr, ptr %constants_from
  %last = add i64 %leaves, 1
  %constants_at = getelementptr ptr, ptr %frame, i64 %last
  store ptr %constants, ptr %constants_at
  %status_number = add i64 %leaves, 2
  %status_at = getelementptr ptr, ptr %frame, i64 %status_number
  store [2 x i64] zeroinitializer, ptr %status_at
  %function_at = getelementptr i64, ptr %table, i64 2
  %function = load ptr, ptr %function_at
  %release_at = getelementptr i64, ptr %table, i64 5
  %release = load i64, ptr %release_at
  %releases = icmp ne i64 %release, 0
  br i1 %releases, label %unlocked, label %locked
locked:
  call void %function(ptr %frame)
  br label %after
unlocked:
  %thread = call ptr @PyEval_SaveThread()
  call void %function(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %after
after:
  br i1 %no_arena, label %done, label %return_arena
return_arena:
  call void @hlo_free(ptr null, ptr %base, i64 0)
  br label %done
done:
  %status = load i64, ptr %status_at
  %complete = icmp eq i64 %status, ${COMPLETE}
  br i1 %complete, label %good, label %ended
good:
  ret ptr %tuple
ended:
  call void @Py_DecRef(ptr %tuple)
  %raised = call ptr @PyErr_Occurred()
  %known = icmp ne ptr %raised, null
  br i1 %known, label %give_up, label %explain
explain:
  %incomplete_at = getelementptr i64, ptr %table, i64 10
  %incomplete = load ptr, ptr %incomplete_at
  %nothing = call ptr @PyObject_Vectorcall(ptr %incomplete, ptr null, i64 0, ptr null)
  br label %give_up
give_up:
  ret ptr null
}
