; What the plug-in's objects are, and the functions of its table that JAX calls all the time: see
; hlotool/jax/pjrt/native.py.  Objects are words of 64 bits:
;
;   storage  0 references  1 data  2 the function (data, argument) that ends it  3 its argument
;   buffer   0 type  1 rank  2 dimensions  3 data  4 bytes  5 device  6 memory  7 storage  8 deleted?
;            9 minor to major (null: row-major)  10 ...  12... dimensions, and then the layout
;   event    0 callbacks (1: it is ready)  1 references
;   waiting  0 next  1 callback  2 argument
;   error    0 code  1 bytes of the message  2... the message
;   device   0 its memory
;   memory   0 its device  1 its number  2 its kind  3 how long that is
;
; A reference more than one on a storage, also while a program reads it, keeps others from writing to it.

@size_of = external global [64 x i64]
@ready = global [2 x i64] [i64 1, i64 1099511627776], align 64

declare noalias ptr @hlo_malloc(ptr, i64)
declare void @hlo_free(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
@slow_from_host = external global i8
@slow_to_host = external global i8
declare ptr @out_of_memory(i64)

define void @owned(ptr %data, ptr %argument) nounwind noinline optnone {
  call void @hlo_free(ptr null, ptr %data, i64 0)
  ret void
}

define void @unref(ptr %storage) nounwind noinline optnone {
entry:
  %before = atomicrmw sub ptr %storage, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %end, label %done
end:
  %data_at = getelementptr i64, ptr %storage, i64 1
  %data = load ptr, ptr %data_at
  %function_at = getelementptr i64, ptr %storage, i64 2
  %function = load ptr, ptr %function_at
  %argument_at = getelementptr i64, ptr %storage, i64 3
  %argument = load ptr, ptr %argument_at
  call void %function(ptr %data, ptr %argument)
  call void @hlo_free(ptr null, ptr %storage, i64 0)
  br label %done
done:
  ret void
}

; A buffer for `data`, which `function` ends; null when there is no memory.  The dimensions are copied.
define ptr @new_buffer(i64 %type, i64 %rank, ptr %dims, ptr %data, i64 %bytes, ptr %memory, ptr %function, ptr %argument) nounwind noinline optnone {
entry:
  %storage = call ptr @hlo_malloc(ptr null, i64 64)
  %no_storage = icmp eq ptr %storage, null
  br i1 %no_storage, label %fail, label %fill
fail:
  ret ptr null
fill:
  store i64 1, ptr %storage
  %data_at = getelementptr i64, ptr %storage, i64 1
  store ptr %data, ptr %data_at
  %function_at = getelementptr i64, ptr %storage, i64 2
  store ptr %function, ptr %function_at
  %argument_at = getelementptr i64, ptr %storage, i64 3
  store ptr %argument, ptr %argument_at
  %buffer = call ptr @around(i64 %type, i64 %rank, ptr %dims, i64 %bytes, ptr %memory, ptr %storage)
  %no_buffer = icmp eq ptr %buffer, null
  br i1 %no_buffer, label %drop, label %done
drop:
  call void @hlo_free(ptr null, ptr %storage, i64 0)
  ret ptr null
done:
  ret ptr %buffer
}

; A buffer that takes over one reference on `storage`.
define internal ptr @around(i64 %type, i64 %rank, ptr %dims, i64 %bytes, ptr %memory, ptr %storage) nounwind noinline optnone {
entry:
  %dim_bytes = mul i64 %rank, 8
  %both = mul i64 %rank, 16
  %size = add i64 %both, 96
  %buffer = call ptr @hlo_malloc(ptr null, i64 %size)
  %none = icmp eq ptr %buffer, null
  br i1 %none, label %fail, label %fill
fail:
  ret ptr null
fill:
  store i64 %type, ptr %buffer
  %rank_at = getelementptr i64, ptr %buffer, i64 1
  store i64 %rank, ptr %rank_at
  %dims_at = getelementptr i64, ptr %buffer, i64 2
  %inside = getelementptr i64, ptr %buffer, i64 12
  store ptr %inside, ptr %dims_at
  %copied = call ptr @memcpy(ptr %inside, ptr %dims, i64 %dim_bytes)
  %from = getelementptr i64, ptr %storage, i64 1
  %data = load ptr, ptr %from
  %data_at = getelementptr i64, ptr %buffer, i64 3
  store ptr %data, ptr %data_at
  %bytes_at = getelementptr i64, ptr %buffer, i64 4
  store i64 %bytes, ptr %bytes_at
  %device = load ptr, ptr %memory
  %device_at = getelementptr i64, ptr %buffer, i64 5
  store ptr %device, ptr %device_at
  %memory_at = getelementptr i64, ptr %buffer, i64 6
  store ptr %memory, ptr %memory_at
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  store ptr %storage, ptr %storage_at
  %deleted_at = getelementptr i64, ptr %buffer, i64 8
  store i64 0, ptr %deleted_at
  %layout_at = getelementptr i64, ptr %buffer, i64 9
  store ptr null, ptr %layout_at
  ret ptr %buffer
}

; ---- buffers

; The buffer gives up its memory, once.
define internal void @give_up(ptr %buffer) nounwind noinline optnone {
entry:
  %deleted_at = getelementptr i64, ptr %buffer, i64 8
  %before = atomicrmw xchg ptr %deleted_at, i64 1 acq_rel
  %first = icmp eq i64 %before, 0
  br i1 %first, label %drop, label %done
drop:
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  %storage = load ptr, ptr %storage_at
  call void @unref(ptr %storage)
  br label %done
done:
  ret void
}

define ptr @Buffer_Delete(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %buffer = load ptr, ptr %at
  call void @give_up(ptr %buffer)
  ret ptr null
}

define ptr @Buffer_Destroy(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %buffer = load ptr, ptr %at
  call void @give_up(ptr %buffer)
  call void @hlo_free(ptr null, ptr %buffer, i64 0)
  ret ptr null
}

define ptr @Buffer_IncreaseExternalReferenceCount(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %buffer = load ptr, ptr %at
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  %storage = load ptr, ptr %storage_at
  %before = atomicrmw add ptr %storage, i64 1 acq_rel
  ret ptr null
}

define ptr @Buffer_DecreaseExternalReferenceCount(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %buffer = load ptr, ptr %at
  %storage_at = getelementptr i64, ptr %buffer, i64 7
  %storage = load ptr, ptr %storage_at
  call void @unref(ptr %storage)
  ret ptr null
}

define ptr @Buffer_ReadyEvent(ptr %args) nounwind noinline optnone {
  %event_at = getelementptr i8, ptr %args, i64 ${Buffer_ReadyEvent__event}
  store ptr @ready, ptr %event_at
  ret ptr null
}

define ptr @Buffer_IsOnCpu(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 ${Buffer_IsOnCpu__is_on_cpu}
  store i8 1, ptr %at
  ret ptr null
}

define ptr @Buffer_DynamicDimensionIndices(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 ${Buffer_DynamicDimensionIndices__dynamic_dim_indices}
  store ptr null, ptr %at
  %count_at = getelementptr i8, ptr %args, i64 ${Buffer_DynamicDimensionIndices__num_dynamic_dims}
  store i64 0, ptr %count_at
  ret ptr null
}

; ---- errors

define void @Error_Destroy(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  call void @hlo_free(ptr null, ptr %error, i64 0)
  ret void
}

define void @Error_Message(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  %size_at = getelementptr i64, ptr %error, i64 1
  %size = load i64, ptr %size_at
  %text = getelementptr i64, ptr %error, i64 2
  %message_at = getelementptr i8, ptr %args, i64 ${Error_Message__message}
  store ptr %text, ptr %message_at
  %message_size_at = getelementptr i8, ptr %args, i64 ${Error_Message__message_size}
  store i64 %size, ptr %message_size_at
  ret void
}

define ptr @Error_GetCode(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  %code = load i32, ptr %error
  %code_at = getelementptr i8, ptr %args, i64 ${Error_GetCode__code}
  store i32 %code, ptr %code_at
  ret ptr null
}

; ---- events

define ptr @new_event(i64 %references) nounwind noinline optnone {
  %event = call ptr @hlo_malloc(ptr null, i64 64)
  store i64 0, ptr %event
  %count_at = getelementptr i64, ptr %event, i64 1
  store i64 %references, ptr %count_at
  ret ptr %event
}

define internal void @forget_event(ptr %event) nounwind noinline optnone {
entry:
  %count_at = getelementptr i64, ptr %event, i64 1
  %before = atomicrmw sub ptr %count_at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %end, label %done
end:
  call void @hlo_free(ptr null, ptr %event, i64 0)
  br label %done
done:
  ret void
}

; The end of a storage that somebody waits for.
define void @fire(ptr %data, ptr %event) nounwind noinline optnone {
entry:
  %waiting = atomicrmw xchg ptr %event, ptr inttoptr (i64 1 to ptr) acq_rel
  br label %each
each:
  %node = phi ptr [ %waiting, %entry ], [ %next, %one ]
  %over = icmp ule ptr %node, inttoptr (i64 1 to ptr)
  br i1 %over, label %done, label %one
one:
  %next = load ptr, ptr %node
  %callback_at = getelementptr i64, ptr %node, i64 1
  %callback = load ptr, ptr %callback_at
  %argument_at = getelementptr i64, ptr %node, i64 2
  %argument = load ptr, ptr %argument_at
  call void @hlo_free(ptr null, ptr %node, i64 0)
  call void %callback(ptr null, ptr %argument)
  br label %each
done:
  call void @forget_event(ptr %event)
  ret void
}

define ptr @Event_Destroy(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %event = load ptr, ptr %at
  call void @forget_event(ptr %event)
  ret ptr null
}

define ptr @Event_Error(ptr %args) nounwind noinline optnone {
  ret ptr null
}

define ptr @Event_IsReady(ptr %args) nounwind noinline optnone {
  %at = getelementptr i8, ptr %args, i64 16
  %event = load ptr, ptr %at
  %state = load atomic i64, ptr %event acquire, align 8
  %is = icmp eq i64 %state, 1
  %byte = zext i1 %is to i8
  %ready_at = getelementptr i8, ptr %args, i64 ${Event_IsReady__is_ready}
  store i8 %byte, ptr %ready_at
  ret ptr null
}

define ptr @Event_Await(ptr %args) nounwind noinline optnone {
entry:
  %at = getelementptr i8, ptr %args, i64 16
  %event = load ptr, ptr %at
  br label %look
look:
  %state = load atomic i64, ptr %event acquire, align 8
  %is = icmp eq i64 %state, 1
  br i1 %is, label %done, label %sleep
sleep:
  call void @hlo_nap(i32 100)
  br label %look
done:
  ret ptr null
}

define ptr @Event_OnReady(ptr %args) nounwind noinline optnone {
entry:
  %at = getelementptr i8, ptr %args, i64 16
  %event = load ptr, ptr %at
  %callback_at = getelementptr i8, ptr %args, i64 ${Event_OnReady__callback}
  %callback = load ptr, ptr %callback_at
  %argument_at = getelementptr i8, ptr %args, i64 ${Event_OnReady__user_arg}
  %argument = load ptr, ptr %argument_at
  %state = load atomic i64, ptr %event acquire, align 8
  %is = icmp eq i64 %state, 1
  br i1 %is, label %now, label %later
now:
  call void %callback(ptr null, ptr %argument)
  ret ptr null
later:
  %node = call ptr @hlo_malloc(ptr null, i64 64)
  %node_callback = getelementptr i64, ptr %node, i64 1
  store ptr %callback, ptr %node_callback
  %node_argument = getelementptr i64, ptr %node, i64 2
  store ptr %argument, ptr %node_argument
  br label %try
try:
  %head = load atomic i64, ptr %event acquire, align 8
  %over = icmp eq i64 %head, 1
  br i1 %over, label %late, label %push
push:
  store i64 %head, ptr %node
  %number = ptrtoint ptr %node to i64
  %swapped = cmpxchg ptr %event, i64 %head, i64 %number acq_rel acquire
  %won = extractvalue { i64, i1 } %swapped, 1
  br i1 %won, label %done, label %try
late:
  call void @hlo_free(ptr null, ptr %node, i64 0)
  call void %callback(ptr null, ptr %argument)
  br label %done
done:
  ret ptr null
}

; ---- from and to arrays of the host

define ptr @Client_BufferFromHostBuffer(ptr %args) nounwind noinline optnone {
entry:
  %layout_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__device_layout}
  %layout = load ptr, ptr %layout_at
  %type_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__type}
  %type32 = load i32, ptr %type_at
  %type = zext i32 %type32 to i64
  %item_at = getelementptr [64 x i64], ptr @size_of, i64 0, i64 %type
  %item = load i64, ptr %item_at
  %plain = icmp eq ptr %layout, null
  %known = icmp ne i64 %item, 0
  %usual = and i1 %plain, %known
  br i1 %usual, label %dense, label %slow
slow:
  %answer = call ptr @python(ptr @slow_from_host, ptr %args)
  ret ptr %answer
dense:
  %rank_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__num_dims}
  %rank = load i64, ptr %rank_at
  %dims_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__dims}
  %dims = load ptr, ptr %dims_at
  %strided_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__num_byte_strides}
  %strided = load i64, ptr %strided_at
  %strides_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__byte_strides}
  %strides = load ptr, ptr %strides_at
  br label %each
each:
  %left = phi i64 [ %rank, %dense ], [ %n, %fits ]
  %bytes = phi i64 [ %item, %dense ], [ %larger, %fits ]
  %over = icmp eq i64 %left, 0
  br i1 %over, label %place, label %one
one:
  %n = sub i64 %left, 1
  %dim_at = getelementptr i64, ptr %dims, i64 %n
  %dim = load i64, ptr %dim_at
  %larger = mul i64 %bytes, %dim
  %unsaid = icmp eq i64 %strided, 0
  %single = icmp ule i64 %dim, 1
  %free = or i1 %unsaid, %single
  br i1 %free, label %fits, label %compare
compare:
  %stride_at = getelementptr i64, ptr %strides, i64 %n
  %stride = load i64, ptr %stride_at
  %same = icmp eq i64 %stride, %bytes
  %nothing = icmp eq i64 %bytes, 0
  %close = or i1 %same, %nothing
  br i1 %close, label %fits, label %slow
fits:
  br label %each
place:
  %memory_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__memory}
  %memory_given = load ptr, ptr %memory_at
  %device_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__device}
  %device = load ptr, ptr %device_at
  %no_memory = icmp eq ptr %memory_given, null
  br i1 %no_memory, label %of_device, label %semantics
of_device:
  %memory_of = load ptr, ptr %device
  br label %semantics
semantics:
  %memory = phi ptr [ %memory_given, %place ], [ %memory_of, %of_device ]
  %data_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__data}
  %data = load ptr, ptr %data_at
  %how_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__host_buffer_semantics}
  %how = load i32, ptr %how_at
  %shareable = icmp uge i32 %how, 2
  %address = ptrtoint ptr %data to i64
  %off = and i64 %address, 63
  %aligned = icmp eq i64 %off, 0
  %some = icmp ne i64 %bytes, 0
  %good = and i1 %aligned, %some
  %share = and i1 %shareable, %good
  %done_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__done_with_host_buffer}
  %buffer_at = getelementptr i8, ptr %args, i64 ${Client_BufferFromHostBuffer__buffer}
  br i1 %share, label %shared, label %copy
shared:
  %event = call ptr @new_event(i64 2)
  %view = call ptr @new_buffer(i64 %type, i64 %rank, ptr %dims, ptr %data, i64 %bytes, ptr %memory, ptr @fire, ptr %event)
  store ptr %event, ptr %done_at
  store ptr %view, ptr %buffer_at
  ret ptr null
copy:
  %fresh = call ptr @hlo_malloc(ptr null, i64 %bytes)
  %none = icmp eq ptr %fresh, null
  br i1 %none, label %exhausted, label %fill
exhausted:
  %error = call ptr @out_of_memory(i64 %bytes)
  ret ptr %error
fill:
  %copied = call ptr @memcpy(ptr %fresh, ptr %data, i64 %bytes)
  %buffer = call ptr @new_buffer(i64 %type, i64 %rank, ptr %dims, ptr %fresh, i64 %bytes, ptr %memory, ptr @owned, ptr null)
  store ptr @ready, ptr %done_at
  store ptr %buffer, ptr %buffer_at
  ret ptr null
}

define ptr @Buffer_ToHostBuffer(ptr %args) nounwind noinline optnone {
entry:
  %at = getelementptr i8, ptr %args, i64 ${Buffer_ToHostBuffer__src}
  %buffer = load ptr, ptr %at
  %layout_at = getelementptr i8, ptr %args, i64 ${Buffer_ToHostBuffer__host_layout}
  %layout = load ptr, ptr %layout_at
  %target_at = getelementptr i8, ptr %args, i64 ${Buffer_ToHostBuffer__dst}
  %target = load ptr, ptr %target_at
  %size_at = getelementptr i8, ptr %args, i64 ${Buffer_ToHostBuffer__dst_size}
  %size = load i64, ptr %size_at
  %bytes_at = getelementptr i64, ptr %buffer, i64 4
  %bytes = load i64, ptr %bytes_at
  %deleted_at = getelementptr i64, ptr %buffer, i64 8
  %deleted = load i64, ptr %deleted_at
  %own_layout_at = getelementptr i64, ptr %buffer, i64 9
  %own_layout = load ptr, ptr %own_layout_at
  %plain = icmp eq ptr %layout, null
  %row_major = icmp eq ptr %own_layout, null
  %alive = icmp eq i64 %deleted, 0
  %fits = icmp uge i64 %size, %bytes
  %somewhere = icmp ne ptr %target, null
  %a = and i1 %plain, %row_major
  %b = and i1 %alive, %fits
  %c = and i1 %a, %b
  %usual = and i1 %c, %somewhere
  br i1 %usual, label %copy, label %slow
slow:
  %answer = call ptr @python(ptr @slow_to_host, ptr %args)
  ret ptr %answer
copy:
  %data_at = getelementptr i64, ptr %buffer, i64 3
  %data = load ptr, ptr %data_at
  %copied = call ptr @memcpy(ptr %target, ptr %data, i64 %bytes)
  %event_at = getelementptr i8, ptr %args, i64 ${Buffer_ToHostBuffer__event}
  store ptr @ready, ptr %event_at
  ret ptr null
}
