
; Sleep for some microseconds, as POSIX has it.

declare i32 @usleep(i32)
define internal void @hlo_nap(i32 %microseconds) nounwind {
  %ignored = tail call i32 @usleep(i32 %microseconds)
  ret void
}
