; Constants that are part of the library.

define internal i32 @constants_of(ptr %context, ptr %to) nounwind {
  store ptr @constants, ptr %to
  ret i32 0
}
define i32 @${NAME}_weights_check(ptr %weights, ${SIZE_TYPE} %bytes) nounwind {
  ret i32 0
}
