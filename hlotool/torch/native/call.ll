; The short way from tensors into compiled code: see hlotool/torch/fastcall.py, which gives the words of the table.

@true_object = external global i8
@false_object = external global i8

declare ptr @tensor_data(ptr)
declare ptr @hlo_malloc(ptr, i64)
declare void @hlo_free(ptr, ptr, i64)
declare void @Py_IncRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()

; Runs the code with tensors for parameters and results: True; False where one of them has not the memory for it.
define ptr @hlo_call_tensors(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %table_at = getelementptr i8, ptr %self, i64 ${DATA}
  %table = load ptr, ptr %table_at
  %leaves = load i64, ptr %table
  %mask_at = getelementptr i64, ptr %table, i64 5
  %mask = load i64, ptr %mask_at
  %tensor_at = getelementptr i64, ptr %table, i64 7
  %tensor = load ptr, ptr %tensor_at
  %parameter_at = getelementptr i64, ptr %table, i64 8
  %parameter = load ptr, ptr %parameter_at
  %sizes = getelementptr i64, ptr %table, i64 9
  %slots = add i64 %leaves, 4
  %frame = alloca ptr, i64 %slots, align 16
  %right = icmp eq i64 %count, %leaves
  br i1 %right, label %each, label %no
each:
  %i = phi i64 [ 0, %entry ], [ %next, %fits ]
  %more = icmp ult i64 %i, %leaves
  br i1 %more, label %argument, label %arena
argument:
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at
  %type_at = getelementptr i8, ptr %object, i64 ${TYPE}
  %type = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %type, %tensor
  %is_parameter = icmp eq ptr %type, %parameter
  %known_type = or i1 %is_tensor, %is_parameter
  br i1 %known_type, label %look, label %no
look:
  %data = call ptr @tensor_data(ptr %object)
  %address = ptrtoint ptr %data to i64
  %low = and i64 %address, %mask
  %on_line = icmp eq i64 %low, 0
  %missing = icmp eq ptr %data, null
  %size_at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size_at
  %needed = icmp ne i64 %size, 0
  %lacks = and i1 %missing, %needed
  %has = xor i1 %lacks, true
  %good = and i1 %on_line, %has
  br i1 %good, label %fits, label %no
fits:
  %place = getelementptr ptr, ptr %frame, i64 %i
  store ptr %data, ptr %place
  %next = add i64 %i, 1
  br label %each
no:
  call void @Py_IncRef(ptr @false_object)
  ret ptr @false_object
arena:
  %arena_bytes_at = getelementptr i64, ptr %table, i64 2
  %arena_bytes = load i64, ptr %arena_bytes_at
  %no_arena = icmp eq i64 %arena_bytes, 0
  br i1 %no_arena, label %run, label %reserve
reserve:
  %reserved = call ptr @hlo_malloc(ptr null, i64 %arena_bytes)
  %exhausted = icmp eq ptr %reserved, null
  br i1 %exhausted, label %exhaust, label %run
exhaust:
  %error = call ptr @PyErr_NoMemory()
  ret ptr null
run:
  %base = phi ptr [ null, %arena ], [ %reserved, %reserve ]
  %base_at = getelementptr ptr, ptr %frame, i64 %leaves
  store ptr %base, ptr %base_at
  %constants_from = getelementptr i64, ptr %table, i64 3
  %constants = load ptr, ptr %constants_from
  %last = add i64 %leaves, 1
  %constants_at = getelementptr ptr, ptr %frame, i64 %last
  store ptr %constants, ptr %constants_at
  %status_number = add i64 %leaves, 2
  %status_at = getelementptr ptr, ptr %frame, i64 %status_number
  store [2 x i64] zeroinitializer, ptr %status_at
  %function_at = getelementptr i64, ptr %table, i64 1
  %function = load ptr, ptr %function_at
  %release_at = getelementptr i64, ptr %table, i64 4
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
  br i1 %complete, label %yes, label %ended
yes:
  call void @Py_IncRef(ptr @true_object)
  ret ptr @true_object
ended:
  %raised = call ptr @PyErr_Occurred()
  %known = icmp ne ptr %raised, null
  br i1 %known, label %give_up, label %explain
explain:
  %incomplete_at = getelementptr i64, ptr %table, i64 6
  %incomplete = load ptr, ptr %incomplete_at
  %nothing = call ptr @PyObject_Vectorcall(ptr %incomplete, ptr null, i64 0, ptr null)
  br label %give_up
give_up:
  ret ptr null
}
