
; A number of the thread that this is, as Python has it on every system (threading.get_ident).

declare i${LONG} @PyThread_get_thread_ident()
define internal i64 @hlo_thread() nounwind {
  %thread = tail call i${LONG} @PyThread_get_thread_ident()
  ${WIDEN}
  ret i64 %number
}
