; Whether scalable vectors have ${VSCALE} times 128 bits: 0, or -1 where there are none, or others.

declare i64 @llvm.read_register.i64(metadata)
declare i64 @llvm.vscale.i64()
!features = !{!0}
!0 = !{!"ID_AA64PFR0_EL1"}

define internal i32 @level() nounwind {
entry:
  %features = call i64 @llvm.read_register.i64(metadata !0)
  %vectors = lshr i64 %features, 32
  %sve = and i64 %vectors, 15
  %there = icmp ne i64 %sve, 0
  br i1 %there, label %ask, label %no
ask:
  %scale = call i64 @vector_scale()
  %right = icmp eq i64 %scale, ${VSCALE}
  br i1 %right, label %yes, label %no
yes:
  ret i32 0
no:
  ret i32 -1
}

define internal i64 @vector_scale() noinline nounwind "target-features"="+sve" {
  %scale = call i64 @llvm.vscale.i64()
  ret i64 %scale
}
