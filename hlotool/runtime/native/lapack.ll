; Calls of LAPACK for a batch of matrices: see hlotool/runtime/lapack.py, which says what the words of a record are.

declare ptr @calloc(i64, i64)
declare void @free(ptr)

define i64 @hlo_lapack(ptr %record, ptr %table) nounwind {
entry:
  %bytes_at = getelementptr i64, ptr %record, i64 1
  %bytes = load i64, ptr %bytes_at
  %batch_at = getelementptr i64, ptr %record, i64 2
  %batch = load i64, ptr %batch_at
  %ins_at = getelementptr i64, ptr %record, i64 3
  %ins = load i64, ptr %ins_at
  %in_at = getelementptr i64, ptr %record, i64 4
  %in = load ptr, ptr %in_at
  %outs_at = getelementptr i64, ptr %record, i64 5
  %outs = load i64, ptr %outs_at
  %out_at = getelementptr i64, ptr %record, i64 6
  %out = load ptr, ptr %out_at
  %callee_at = getelementptr i64, ptr %record, i64 7
  %callee = load ptr, ptr %callee_at
  %words = getelementptr i64, ptr %record, i64 8
  %scratch = call ptr @calloc(i64 %bytes, i64 1)
  %none = icmp eq ptr %scratch, null
  br i1 %none, label %fail, label %each
each:
  %b = phi i64 [ 0, %entry ], [ %b.next, %call.done ]
  %over = icmp sge i64 %b, %batch
  br i1 %over, label %end, label %in.head
in.head:
  %i = phi i64 [ 0, %each ], [ %i.next, %in.body ]
  %in.over = icmp sge i64 %i, %ins
  br i1 %in.over, label %call.now, label %in.body
in.body:
  %in.offset = mul i64 %i, 8
  %in.copy = getelementptr i64, ptr %in, i64 %in.offset
  call void @copy_one(ptr %in.copy, ptr %table, ptr %scratch, i64 %b, i1 true)
  %i.next = add i64 %i, 1
  br label %in.head
call.now:
${ARGUMENTS}
  call void %callee(${PASSED})
  br label %out.head
out.head:
  %o = phi i64 [ 0, %call.now ], [ %o.next, %out.body ]
  %out.over = icmp sge i64 %o, %outs
  br i1 %out.over, label %call.done, label %out.body
out.body:
  %out.offset = mul i64 %o, 8
  %out.copy = getelementptr i64, ptr %out, i64 %out.offset
  call void @copy_one(ptr %out.copy, ptr %table, ptr %scratch, i64 %b, i1 false)
  %o.next = add i64 %o, 1
  br label %out.head
call.done:
  %b.next = add i64 %b, 1
  br label %each
end:
  call void @free(ptr %scratch)
  ret i64 ${COMPLETE}
fail:
  ret i64 0
}

; Between a row-major matrix of an argument and a column-major one in the scratch memory, either way.
define internal void @copy_one(ptr %copy, ptr %table, ptr %scratch, i64 %b, i1 %in) nounwind {
entry:
  %number = load i64, ptr %copy
  %slot = getelementptr ptr, ptr %table, i64 %number
  %array = load ptr, ptr %slot
  %offset_at = getelementptr i64, ptr %copy, i64 1
  %offset = load i64, ptr %offset_at
  %rows_at = getelementptr i64, ptr %copy, i64 2
  %rows = load i64, ptr %rows_at
  %columns_at = getelementptr i64, ptr %copy, i64 3
  %columns = load i64, ptr %columns_at
  %size_at = getelementptr i64, ptr %copy, i64 4
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %copy, i64 5
  %stride = load i64, ptr %stride_at
  %moved = mul i64 %stride, %b
  %theirs = getelementptr i8, ptr %array, i64 %moved
  %ours = getelementptr i8, ptr %scratch, i64 %offset
  %theirs.row = mul i64 %columns, %size
  %ours.column = mul i64 %rows, %size
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.done ]
  %r.over = icmp sge i64 %r, %rows
  br i1 %r.over, label %end, label %column
column:
  %c = phi i64 [ 0, %row ], [ %c.next, %moved.on ]
  %c.over = icmp sge i64 %c, %columns
  br i1 %c.over, label %row.done, label %element
element:
  %t.row = mul i64 %r, %theirs.row
  %t.column = mul i64 %c, %size
  %t.offset = add i64 %t.row, %t.column
  %t = getelementptr i8, ptr %theirs, i64 %t.offset
  %o.column = mul i64 %c, %ours.column
  %o.row = mul i64 %r, %size
  %o.offset = add i64 %o.column, %o.row
  %o = getelementptr i8, ptr %ours, i64 %o.offset
  %from = select i1 %in, ptr %t, ptr %o
  %to = select i1 %in, ptr %o, ptr %t
  switch i64 %size, label %four [ i64 8, label %eight
                                  i64 16, label %sixteen ]
four:
  %word = load i32, ptr %from, align 4
  store i32 %word, ptr %to, align 4
  br label %moved.on
eight:
  %double = load i64, ptr %from, align 4
  store i64 %double, ptr %to, align 4
  br label %moved.on
sixteen:
  %quad = load <2 x i64>, ptr %from, align 8
  store <2 x i64> %quad, ptr %to, align 8
  br label %moved.on
moved.on:
  %c.next = add i64 %c, 1
  br label %column
row.done:
  %r.next = add i64 %r, 1
  br label %row
end:
  ret void
}
