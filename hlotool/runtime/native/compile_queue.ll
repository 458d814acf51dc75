; Units compiled while others are being written, without the GIL: see hlotool/runtime/compile_queue.py.

declare ptr @LLVMPY_ContextCreate()
declare void @LLVMPY_ContextDispose(ptr)
declare ptr @LLVMPY_ParseAssembly(ptr, ptr, ptr)
declare i32 @LLVMPY_VerifyModule(ptr, ptr)
declare void @LLVMPY_DisposeModule(ptr)
declare ptr @LLVMPY_TargetMachineEmitToMemory(ptr, ptr, i32, ptr)
declare void @LLVMPY_DisposeString(ptr)
declare ptr @LLVMPY_CreatePipelineTuningOptions()
declare void @LLVMPY_DisposePipelineTuningOptions(ptr)
declare ptr @LLVMPY_CreatePassBuilder(ptr, ptr)
declare void @LLVMPY_DisposePassBuilder(ptr)
declare ptr @LLVMPY_CreateNewModulePassManager()
declare void @LLVMPY_DisposeNewModulePassManger(ptr)
declare void @LLVMPY_RunNewModulePassManager(ptr, ptr, ptr)
${declarations}
define void @hlo_compile_start(ptr %thread, ptr %queue, ptr %usual, ptr %quick) nounwind {
  store ptr %queue, ptr %thread
  %second = getelementptr i64, ptr %thread, i64 1
  store ptr %usual, ptr %second
  %third = getelementptr i64, ptr %thread, i64 2
  store ptr %quick, ptr %third
  %word = getelementptr i64, ptr %thread, i64 3
  call void @hlo_start(ptr %word, ptr @work, ptr %thread)
  ret void
}
define internal ptr @work(ptr %thread) nounwind {
  %queue = load ptr, ptr %thread
  %second = getelementptr i64, ptr %thread, i64 1
  %usual = load ptr, ptr %second
  %third = getelementptr i64, ptr %thread, i64 2
  %quick = load ptr, ptr %third
  call void @hlo_compile_all(ptr %queue, ptr %usual, ptr %quick)
  %word = getelementptr i64, ptr %thread, i64 3
  call void @hlo_end(ptr %word)
  ret ptr null
}
define void @hlo_compile_join(ptr %thread) nounwind {
  %word = getelementptr i64, ptr %thread, i64 3
  call void @hlo_join(ptr %word)
  ret void
}
define void @hlo_compile_add(ptr %queue) nounwind {
  %there = getelementptr i64, ptr %queue, i64 1
  %before = atomicrmw add ptr %there, i64 1 release
  ret void
}
define void @hlo_compile_close(ptr %queue, i64 %abandon) nounwind {
entry:
  %all = icmp eq i64 %abandon, 0
  br i1 %all, label %close, label %forget
forget:
  %there = getelementptr i64, ptr %queue, i64 1
  store atomic i64 0, ptr %there release, align 8
  br label %close
close:
  %closed = getelementptr i64, ptr %queue, i64 2
  store atomic i64 1, ptr %closed release, align 8
  ret void
}
define void @hlo_compile_all(ptr %queue, ptr %usual, ptr %quick) nounwind {
entry:
  %message = alloca ptr
  %there = getelementptr i64, ptr %queue, i64 1
  %closed = getelementptr i64, ptr %queue, i64 2
  %jobs = getelementptr i64, ptr %queue, i64 3
  br label %take
take:
  %number = atomicrmw add ptr %queue, i64 1 monotonic
  br label %look
look:
  %last = load atomic i64, ptr %closed acquire, align 8
  %count = load atomic i64, ptr %there acquire, align 8
  %given = icmp slt i64 %number, %count
  br i1 %given, label %work, label %wait
wait:
  %over = icmp ne i64 %last, 0
  br i1 %over, label %leave, label %sleep
sleep:
  call void @hlo_nap(i32 50)
  br label %look
work:
  %job = getelementptr [4 x ptr], ptr %jobs, i64 %number
  %text = load ptr, ptr %job
  %kind = getelementptr i64, ptr %job, i64 1
  %hurry = load i64, ptr %kind
  %hurries = icmp ne i64 %hurry, 0
  %emitter = select i1 %hurries, ptr %quick, ptr %usual
  %context = call ptr @LLVMPY_ContextCreate()
  store ptr null, ptr %message
  %module = call ptr @LLVMPY_ParseAssembly(ptr %context, ptr %text, ptr %message)
  call void @forget(ptr %message)
  %parsed = icmp ne ptr %module, null
  br i1 %parsed, label %verify, label %end
verify:
  %wrong = call i32 @LLVMPY_VerifyModule(ptr %module, ptr %message)
  call void @forget(ptr %message)
  %right = icmp eq i32 %wrong, 0
  br i1 %right, label %choose, label %dispose
choose:
  %depth = getelementptr i64, ptr %job, i64 2
  %promoted = load i64, ptr %depth
  %plain = icmp eq i64 %promoted, 0
  br i1 %plain, label %emit, label %optimise
optimise:
  call void @promote(ptr %module, ptr %emitter)
  br label %emit
emit:
  %object = call ptr @LLVMPY_TargetMachineEmitToMemory(ptr %emitter, ptr %module, i32 1, ptr %message)
  call void @forget(ptr %message)
  %result = getelementptr ptr, ptr %job, i64 3
  store ptr %object, ptr %result
  br label %dispose
dispose:
  call void @LLVMPY_DisposeModule(ptr %module)
  br label %end
end:
  call void @LLVMPY_ContextDispose(ptr %context)
  br label %take
leave:
  ret void
}
define internal void @promote(ptr %module, ptr %emitter) nounwind {
entry:
  %options = call ptr @LLVMPY_CreatePipelineTuningOptions()
  %builder = call ptr @LLVMPY_CreatePassBuilder(ptr %emitter, ptr %options)
  %manager = call ptr @LLVMPY_CreateNewModulePassManager()
${passes}
  call void @LLVMPY_RunNewModulePassManager(ptr %manager, ptr %module, ptr %builder)
  call void @LLVMPY_DisposeNewModulePassManger(ptr %manager)
  call void @LLVMPY_DisposePassBuilder(ptr %builder)
  call void @LLVMPY_DisposePipelineTuningOptions(ptr %options)
  ret void
}
define internal void @forget(ptr %message) nounwind {
  %text = load ptr, ptr %message
  %none = icmp eq ptr %text, null
  br i1 %none, label %end, label %dispose
dispose:
  call void @LLVMPY_DisposeString(ptr %text)
  store ptr null, ptr %message
  br label %end
end:
  ret void
}
