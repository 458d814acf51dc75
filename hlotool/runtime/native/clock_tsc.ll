
; The processor's own counter, where it runs at one rate on all cores: a look takes a third of the time.  What comes
; before it is done by then: a step that waits for memory would else be through before what it waits for is there, and
; the next one would be said to take as long.

declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.lfence()
define internal i64 @hlo_clock() nounwind {
  call void @llvm.x86.sse2.lfence()
  %ticks = call i64 @llvm.readcyclecounter()
  ret i64 %ticks
}
