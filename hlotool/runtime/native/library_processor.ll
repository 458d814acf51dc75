; Which of the processors that the code was made for this one is like: the last whose features it has.
;
; The answer is kept in a word that only ever goes from zero to that one number, whoever writes it: threads need not
; agree on who is first, and there is no constructor that would have to run before the first call.

@known = internal global i32 0
@features = internal constant [${LEVELS} x [${WORDS} x i32]] [${FEATURES}]

define internal i32 @level() nounwind {
entry:
  %before = load atomic i32, ptr @known monotonic, align 4
  %fresh = icmp eq i32 %before, 0
  br i1 %fresh, label %find, label %give
give:
  %level = sub i32 %before, 2
  ret i32 %level
find:
  %found = call i32 @find_level()
  %kept = add i32 %found, 2
  store atomic i32 %kept, ptr @known monotonic, align 4
  ret i32 %found
}

define internal i32 @find_level() noinline nounwind {
entry:
  %has = alloca [${WORDS} x i32], align 16
  call void @ask_processor(ptr %has)
  br label %each
each:
  %n = phi i32 [ ${LAST}, %entry ], [ %n1, %next ]
  %none = icmp slt i32 %n, 0
  br i1 %none, label %leave, label %words
words:
  br label %word
word:
  %w = phi i32 [ 0, %words ], [ %w1, %word ]
  %all = phi i1 [ true, %words ], [ %both, %word ]
  %wanted_at = getelementptr [${WORDS} x i32], ptr @features, i32 %n, i32 %w
  %wanted = load i32, ptr %wanted_at
  %has_at = getelementptr i32, ptr %has, i32 %w
  %there = load i32, ptr %has_at
  %common = and i32 %wanted, %there
  %enough = icmp eq i32 %common, %wanted
  %both = and i1 %all, %enough
  %w1 = add i32 %w, 1
  %more = icmp ult i32 %w1, ${WORDS}
  br i1 %more, label %word, label %next
next:
  %n1 = sub i32 %n, 1
  br i1 %both, label %leave, label %each
leave:
  %found = phi i32 [ -1, %each ], [ %n, %next ]
  ret i32 %found
}

; What CPUID tells, in words: leaf 1 (c, d), leaf 7 (b, c, d), leaf 7.1 (a), leaf 80000001 (c); last which registers the
; system saves for the process (XGETBV), or nothing where it does not say.
define internal void @ask_processor(ptr %has) nounwind {
entry:
  %got = alloca [4 x i32], align 16
  %c = getelementptr i32, ptr %got, i64 2
  %b = getelementptr i32, ptr %got, i64 1
  %d = getelementptr i32, ptr %got, i64 3
  store [${WORDS} x i32] zeroinitializer, ptr %has
  call x86_64_sysvcc void @cpuid(i32 0, i32 0, ptr %got)
  %most = load i32, ptr %got
  call x86_64_sysvcc void @cpuid(i32 1, i32 0, ptr %got)
  %one_c = load i32, ptr %c
  store i32 %one_c, ptr %has
  %one_d = load i32, ptr %d
  %at1 = getelementptr i32, ptr %has, i64 1
  store i32 %one_d, ptr %at1
  %deep = icmp uge i32 %most, 7
  br i1 %deep, label %seven, label %extended
seven:
  call x86_64_sysvcc void @cpuid(i32 7, i32 0, ptr %got)
  %seven_b = load i32, ptr %b
  %at2 = getelementptr i32, ptr %has, i64 2
  store i32 %seven_b, ptr %at2
  %seven_c = load i32, ptr %c
  %at3 = getelementptr i32, ptr %has, i64 3
  store i32 %seven_c, ptr %at3
  %seven_d = load i32, ptr %d
  %at4 = getelementptr i32, ptr %has, i64 4
  store i32 %seven_d, ptr %at4
  %subleaves = load i32, ptr %got
  %more = icmp ne i32 %subleaves, 0
  br i1 %more, label %seven_one, label %extended
seven_one:
  call x86_64_sysvcc void @cpuid(i32 7, i32 1, ptr %got)
  %seven_one_a = load i32, ptr %got
  %at5 = getelementptr i32, ptr %has, i64 5
  store i32 %seven_one_a, ptr %at5
  br label %extended
extended:
  call x86_64_sysvcc void @cpuid(i32 -2147483648, i32 0, ptr %got)
  %last = load i32, ptr %got
  %known = icmp ugt i32 %last, -2147483648
  br i1 %known, label %extended_one, label %saved
extended_one:
  call x86_64_sysvcc void @cpuid(i32 -2147483647, i32 0, ptr %got)
  %extended_c = load i32, ptr %c
  %at6 = getelementptr i32, ptr %has, i64 6
  store i32 %extended_c, ptr %at6
  br label %saved
saved:
  %saves = and i32 %one_c, 134217728
  %says = icmp ne i32 %saves, 0
  br i1 %says, label %registers, label %leave
registers:
  %kept = call x86_64_sysvcc i32 @xgetbv()
  %at7 = getelementptr i32, ptr %has, i64 7
  store i32 %kept, ptr %at7
  br label %leave
leave:
  ret void
}

; Machine code, as LLVM takes such instructions from assemblers only, which are not always there.
; push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx;
; mov [r8+12], edx; pop rbx; ret
define internal x86_64_sysvcc void @cpuid(i32 %leaf, i32 %subleaf, ptr %to) noinline nounwind prologue [27 x i8] c"\53\49\89\D0\89\F8\89\F1\0F\A2\41\89\00\41\89\58\04\41\89\48\08\41\89\50\0C\5B\C3" {
  unreachable
}
; xor ecx, ecx; xgetbv; ret
define internal x86_64_sysvcc i32 @xgetbv() noinline nounwind prologue [6 x i8] c"\31\C9\0F\01\D0\C3" {
  unreachable
}
