; A call of a compiled program by XLA: see hlotool/jax/foreign.py.  Offsets are those of XLA_FFI_CallFrame.  A program is
; these words:
;
;   0 parameters  1 results  2 entry function  3 arena bytes  4 constants  5 runs

@programs = external global i8
@first = external global i64

declare ptr @otherwise(ptr)
declare ptr @ended(ptr)
declare ptr @hlo_malloc(ptr, i64)
declare void @hlo_free(ptr, ptr, i64)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Clear()
declare void @PyErr_SetInterrupt()

define ptr @hlo_foreign(ptr %call) nounwind {
entry:
  %extension_at = getelementptr i8, ptr %call, i64 8
  %extension = load ptr, ptr %extension_at
  %plain = icmp eq ptr %extension, null
  %stage_at = getelementptr i8, ptr %call, i64 32
  %stage = load i32, ptr %stage_at
  %executes = icmp eq i32 %stage, ${EXECUTE}
  %usual = and i1 %plain, %executes
  br i1 %usual, label %find, label %slow
slow:
  %answer = call ptr @otherwise(ptr %call)
  ret ptr %answer
find:
  %attributes_at = getelementptr i8, ptr %call, i64 160
  %attributes = load ptr, ptr %attributes_at
  %attribute = load ptr, ptr %attributes
  %value_at = getelementptr i8, ptr %attribute, i64 8
  %value = load ptr, ptr %value_at
  %number = load i64, ptr %value
  %begin = load i64, ptr @first
  %index = sub i64 %number, %begin
  %known = icmp ult i64 %index, ${MOST}
  br i1 %known, label %look, label %slow
look:
  %program_at = getelementptr ptr, ptr @programs, i64 %index
  %program = load atomic ptr, ptr %program_at acquire, align 8
  %none = icmp eq ptr %program, null
  br i1 %none, label %slow, label %check
check:
  %parameters = load i64, ptr %program
  %results_at = getelementptr i64, ptr %program, i64 1
  %results = load i64, ptr %results_at
  %given_at = getelementptr i8, ptr %call, i64 56
  %given = load i64, ptr %given_at
  %wanted_at = getelementptr i8, ptr %call, i64 96
  %wanted = load i64, ptr %wanted_at
  %same_parameters = icmp eq i64 %parameters, %given
  %same_results = icmp eq i64 %results, %wanted
  %fits = and i1 %same_parameters, %same_results
  br i1 %fits, label %make, label %slow
make:
  %arena_bytes_at = getelementptr i64, ptr %program, i64 3
  %arena_bytes = load i64, ptr %arena_bytes_at
  %arena = call ptr @hlo_malloc(ptr null, i64 %arena_bytes)
  %exhausted = icmp eq ptr %arena, null
  br i1 %exhausted, label %slow, label %frame
frame:
  %leaves = add i64 %parameters, %results
  %words = add i64 %leaves, 4
  %frame_at = alloca ptr, i64 %words, align 16
  %arguments_at = getelementptr i8, ptr %call, i64 72
  %arguments = load ptr, ptr %arguments_at
  %returns_at = getelementptr i8, ptr %call, i64 112
  %returns = load ptr, ptr %returns_at
  br label %each
each:
  %n = phi i64 [ 0, %frame ], [ %next, %one ]
  %more = icmp ult i64 %n, %leaves
  br i1 %more, label %one, label %run
one:
  %is_argument = icmp ult i64 %n, %parameters
  %result = sub i64 %n, %parameters
  %list = select i1 %is_argument, ptr %arguments, ptr %returns
  %place = select i1 %is_argument, i64 %n, i64 %result
  %buffer_at = getelementptr ptr, ptr %list, i64 %place
  %buffer = load ptr, ptr %buffer_at
  %data_at = getelementptr i8, ptr %buffer, i64 24
  %data = load ptr, ptr %data_at
  %leaf_at = getelementptr ptr, ptr %frame_at, i64 %n
  store ptr %data, ptr %leaf_at
  %next = add i64 %n, 1
  br label %each
run:
  %arena_at = getelementptr ptr, ptr %frame_at, i64 %leaves
  store ptr %arena, ptr %arena_at
  %constants_from = getelementptr i64, ptr %program, i64 4
  %constants = load ptr, ptr %constants_from
  %constants_at = getelementptr ptr, ptr %arena_at, i64 1
  store ptr %constants, ptr %constants_at
  %status_at = getelementptr ptr, ptr %arena_at, i64 2
  store i64 0, ptr %status_at
  %polled_at = getelementptr ptr, ptr %arena_at, i64 3
  store i64 0, ptr %polled_at
  %function_at = getelementptr i64, ptr %program, i64 2
  %function = load ptr, ptr %function_at
  call void %function(ptr %frame_at)
  call void @hlo_free(ptr null, ptr %arena, i64 %arena_bytes)
  %status = load i64, ptr %status_at
  %complete = icmp eq i64 %status, ${COMPLETE}
  br i1 %complete, label %done, label %stopped
done:
  %runs_at = getelementptr i64, ptr %program, i64 5
  %before = atomicrmw add ptr %runs_at, i64 1 monotonic
  ret ptr null
stopped:
  ; Ctrl-C: it is raised again where Python is next, when XLA has said that the call failed.
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Clear()
  call void @PyErr_SetInterrupt()
  call void @PyGILState_Release(i32 %state)
  %error = call ptr @ended(ptr %call)
  ret ptr %error
}
