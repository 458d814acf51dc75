
; A clock of nanoseconds that never goes back, as Python has it on every system (time.perf_counter_ns).

declare i32 @PyTime_PerfCounterRaw(ptr)
define internal i64 @hlo_clock() nounwind {
  %clock = alloca i64
  %ok = call i32 @PyTime_PerfCounterRaw(ptr %clock)
  %time = load i64, ptr %clock
  ret i64 %time
}
