
; A clock of nanoseconds that never goes back, as POSIX has it.

declare i32 @clock_gettime(i32, ptr)
define internal i64 @hlo_clock() nounwind {
  %clock = alloca { i64, i64 }
  %ok = call i32 @clock_gettime(i32 ${MONOTONIC}, ptr %clock)
  %seconds = load i64, ptr %clock
  %fraction_at = getelementptr i64, ptr %clock, i64 1
  %fraction = load i64, ptr %fraction_at
  %scaled = mul i64 %seconds, 1000000000
  %time = add i64 %scaled, %fraction
  ret i64 %time
}
