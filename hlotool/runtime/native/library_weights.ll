; Constants in a file: see hlotool/runtime/aot/weights.py.
;
; A call looks at the head; whoever reads the file has all of it checked, once.

define internal i32 @constants_of(ptr %context, ptr %to) nounwind {
  %weights = load ptr, ptr %context
  %wrong = call i32 @head_check(ptr %weights)
  %data = getelementptr i8, ptr %weights, i64 ${HEAD}
  store ptr %data, ptr %to
  ret i32 %wrong
}

define internal i32 @head_check(ptr %weights) nounwind {
start:
  %none = icmp eq ptr %weights, null
  br i1 %none, label %fail, label %place
place:
  %address = ptrtoint ptr %weights to i64
  %low = and i64 %address, ${LESS}
  %crooked = icmp ne i64 %low, 0
  br i1 %crooked, label %fail, label %begin
begin:
  %magic = load i64, ptr %weights
  %own = icmp eq i64 %magic, ${MAGIC}
  br i1 %own, label %form, label %fail
form:
  %version_at = getelementptr i64, ptr %weights, i64 1
  %version = load i64, ptr %version_at
  %known = icmp eq i64 %version, ${VERSION}
  br i1 %known, label %extent, label %fail
extent:
  %size_at = getelementptr i64, ptr %weights, i64 2
  %size = load i64, ptr %size_at
  %whole = icmp eq i64 %size, ${SIZE}
  br i1 %whole, label %code, label %fail
code:
  %first_at = getelementptr i64, ptr %weights, i64 3
  %first = load i64, ptr %first_at
  %second_at = getelementptr i64, ptr %weights, i64 4
  %second = load i64, ptr %second_at
  %one = icmp eq i64 %first, ${FIRST}
  %other = icmp eq i64 %second, ${SECOND}
  %same = and i1 %one, %other
  %result = select i1 %same, i32 0, i32 ${WEIGHTS_OTHER}
  ret i32 %result
fail:
  %why = phi i32 [ ${NO_WEIGHTS}, %start ], [ ${WEIGHTS_MISALIGNED}, %place ], [ ${WEIGHTS_MAGIC}, %begin ],
                 [ ${WEIGHTS_VERSION}, %form ], [ ${WEIGHTS_SIZE}, %extent ]
  ret i32 %why
}

define i32 @${NAME}_weights_check(ptr %weights, ${SIZE_TYPE} %bytes) nounwind {
start:
  %none = icmp eq ptr %weights, null
  br i1 %none, label %fail, label %room
room:
  %head = icmp uge ${SIZE_TYPE} %bytes, ${HEAD}
  br i1 %head, label %check, label %fail
check:
  %wrong = call i32 @head_check(ptr %weights)
  %bad = icmp ne i32 %wrong, 0
  br i1 %bad, label %fail, label %length
length:
  %whole = icmp eq ${SIZE_TYPE} %bytes, ${FILE}
  br i1 %whole, label %hash, label %fail
hash:
  %data = getelementptr i8, ptr %weights, i64 ${HEAD}
  br label %word
word:
  %n = phi i64 [ 0, %hash ], [ %n1, %word ]
  %total = phi i64 [ 0, %hash ], [ %total1, %word ]
  %word_at = getelementptr i64, ptr %data, i64 %n
  %w = load i64, ptr %word_at
  %n1 = add i64 %n, 1
  %salt = mul i64 %n1, ${M0}
  %z0 = xor i64 %w, %salt
  %s0 = lshr i64 %z0, 30
  %x0 = xor i64 %z0, %s0
  %z1 = mul i64 %x0, ${M1}
  %s1 = lshr i64 %z1, 27
  %x1 = xor i64 %z1, %s1
  %z2 = mul i64 %x1, ${M2}
  %s2 = lshr i64 %z2, 31
  %mixed = xor i64 %z2, %s2
  %total1 = add i64 %total, %mixed
  %more = icmp ult i64 %n1, ${WORDS}
  br i1 %more, label %word, label %compare
compare:
  %hash_at = getelementptr i64, ptr %weights, i64 5
  %wanted = load i64, ptr %hash_at
  %same = icmp eq i64 %wanted, %total1
  %result = select i1 %same, i32 0, i32 ${WEIGHTS_HASH}
  ret i32 %result
fail:
  %why = phi i32 [ ${NO_WEIGHTS}, %start ], [ ${WEIGHTS_SIZE}, %room ], [ %wrong, %check ], [ ${WEIGHTS_SIZE}, %length ]
  ret i32 %why
}
