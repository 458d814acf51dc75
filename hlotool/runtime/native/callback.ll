; From compiled code back into Python, and how an execution ends: see hlotool/runtime/callback.py.

@hlo_look = external global i8
@hlo_aside_at = global ptr null

declare void @Py_DecRef(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyGILState_GetThisThreadState()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define i64 @hlo_host(ptr %callable, ptr %table) nounwind {
entry:
  %address = ptrtoint ptr %callable to i64
  %tag = and i64 %address, 1
  %native = icmp ne i64 %tag, 0
  br i1 %native, label %record, label %python
record:
  %start = getelementptr i8, ptr %callable, i64 -1
  %function = load ptr, ptr %start
  %given = call i64 %function(ptr %start, ptr %table)
  ret i64 %given
python:
  %aside = load atomic ptr, ptr @hlo_aside_at monotonic, align 8
  %here = icmp eq ptr %aside, null
  br i1 %here, label %direct, label %elsewhere
direct:
  %said = call i64 @hlo_python(ptr %callable, ptr %table)
  ret i64 %said
elsewhere:
  %told = call i64 %aside(ptr @hlo_python, ptr %callable, ptr %table)
  ret i64 %told
}

; Call a Python object, on the stack of the thread.
define internal i64 @hlo_python(ptr %callable, ptr %table) nounwind {
entry:
  %state = call i32 @PyGILState_Ensure()
  %number = call ptr @PyLong_FromVoidPtr(ptr %table)
  %none = icmp eq ptr %number, null
  br i1 %none, label %leave, label %call
call:
  %result = call ptr @PyObject_CallOneArg(ptr %callable, ptr %number)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %leave, label %done
done:
  call void @Py_DecRef(ptr %result)
  br label %leave
leave:
  %status = phi i64 [ 0, %entry ], [ 0, %call ], [ ${COMPLETE}, %done ]
  call void @PyGILState_Release(i32 %state)
  ret i64 %status
}

; A record of its own address, a Python object, and the address of another record, or 0, which is called in its place.
define i64 @hlo_shortcut(ptr %record, ptr %table) nounwind {
entry:
  %short_at = getelementptr i64, ptr %record, i64 2
  %short = load atomic ptr, ptr %short_at monotonic, align 8
  %none = icmp eq ptr %short, null
  br i1 %none, label %long, label %quick
quick:
  %function = load ptr, ptr %short
  %given = tail call i64 %function(ptr %short, ptr %table)
  ret i64 %given
long:
  %callable_at = getelementptr i64, ptr %record, i64 1
  %callable = load ptr, ptr %callable_at
  %said = tail call i64 @hlo_host(ptr %callable, ptr %table)
  ret i64 %said
}

define i32 @hlo_poll(ptr %status, ptr %name) nounwind {
entry:
  %old = load atomic i64, ptr %status monotonic, align 8
  %over = icmp ne i64 %old, 0
  br i1 %over, label %stop, label %look
look:
  %now = call i64 @hlo_clock()
  %last = getelementptr i64, ptr %status, i64 1
  %before = load atomic i64, ptr %last monotonic, align 8
  %passed = sub i64 %now, %before
  %early = icmp ult i64 %passed, ${NANOSECONDS}
  br i1 %early, label %wait, label %note
note:
  %known = call ptr @PyGILState_GetThisThreadState()
  %worker = icmp eq ptr %known, null
  br i1 %worker, label %go, label %turn
turn:
  store atomic i64 %now, ptr %last monotonic, align 8
  %first = icmp eq i64 %before, 0
  br i1 %first, label %go, label %ask
ask:
  %done = call i64 @hlo_host(ptr @hlo_look, ptr %name)
  %fine = icmp eq i64 %done, ${COMPLETE}
  br i1 %fine, label %go, label %raised
raised:
  store atomic i64 ${STOPPED}, ptr %status monotonic, align 8
  br label %stop
wait:
  ret i32 -1
go:
  ret i32 0
stop:
  ret i32 1
}

define void @hlo_enter(ptr %function, ptr %frame) nounwind {
  %thread = call ptr @PyEval_SaveThread()
  call void %function(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}
