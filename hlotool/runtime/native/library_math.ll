; What processors without instructions for it would ask the C library for, or the compiler's: rounding to whole numbers, a
; multiplication and addition that round once, products of 128 bits.  The names are those of these libraries, as LLVM
; calls them so; here they are the library's own.

; In words of 32 bits, whose products fit into 64.
define i128 @__multi3(i128 %a, i128 %b) nounwind {
  %al = trunc i128 %a to i64
  %bl = trunc i128 %b to i64
  %as = lshr i128 %a, 64
  %bs = lshr i128 %b, 64
  %ah = trunc i128 %as to i64
  %bh = trunc i128 %bs to i64
  %a0 = and i64 %al, 4294967295
  %b0 = and i64 %bl, 4294967295
  %a1 = lshr i64 %al, 32
  %b1 = lshr i64 %bl, 32
  %p00 = mul i64 %a0, %b0
  %p01 = mul i64 %a0, %b1
  %p10 = mul i64 %a1, %b0
  %p11 = mul i64 %a1, %b1
  %c00 = lshr i64 %p00, 32
  %l01 = and i64 %p01, 4294967295
  %l10 = and i64 %p10, 4294967295
  %m0 = add i64 %c00, %l01
  %middle = add i64 %m0, %l10
  %l00 = and i64 %p00, 4294967295
  %up = shl i64 %middle, 32
  %low = or i64 %up, %l00
  %h01 = lshr i64 %p01, 32
  %h10 = lshr i64 %p10, 32
  %carry = lshr i64 %middle, 32
  %h0 = add i64 %p11, %h01
  %h1 = add i64 %h0, %h10
  %h2 = add i64 %h1, %carry
  %x0 = mul i64 %ah, %bl
  %x1 = mul i64 %al, %bh
  %h3 = add i64 %h2, %x0
  %high = add i64 %h3, %x1
  %wide_low = zext i64 %low to i128
  %wide_high = zext i64 %high to i128
  %shifted = shl i128 %wide_high, 64
  %product = or i128 %shifted, %wide_low
  ret i128 %product
}

define internal float @wholef(float %x) nounwind {
  %n = fptosi float %x to i32
  %w = sitofp i32 %n to float
  ret float %w
}
define internal i1 @is_wholef(float %x) nounwind {
  %size = call float @llvm.fabs.f32(float %x)
  %small = fcmp olt float %size, 0x4160000000000000
  %large = xor i1 %small, true
  ret i1 %large
}
define float @floorf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %w = call float @wholef(float %x)
  %over = fcmp ogt float %w, %x
  %step = select i1 %over, float 1.0, float 0.0
  %r = fsub float %w, %step
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @ceilf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %w = call float @wholef(float %x)
  %under = fcmp olt float %w, %x
  %step = select i1 %under, float 1.0, float 0.0
  %r = fadd float %w, %step
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @truncf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %w = call float @wholef(float %x)
  %r = fadd float %w, 0.0
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @roundf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %w = call float @wholef(float %x)
  %rest = fsub float %x, %w
  %part = call float @llvm.fabs.f32(float %rest)
  %half = fcmp oge float %part, 0.5
  %unit = call float @llvm.copysign.f32(float 1.0, float %x)
  %step = select i1 %half, float %unit, float 0.0
  %r = fadd float %w, %step
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @roundevenf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %shift = call float @llvm.copysign.f32(float 0x4160000000000000, float %x)
  %there = fadd float %x, %shift
  %r = fsub float %there, %shift
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @rintf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %shift = call float @llvm.copysign.f32(float 0x4160000000000000, float %x)
  %there = fadd float %x, %shift
  %r = fsub float %there, %shift
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define float @nearbyintf(float %x) nounwind {
entry:
  %done = call i1 @is_wholef(float %x)
  br i1 %done, label %same, label %round
same:
  ret float %x
round:
  %shift = call float @llvm.copysign.f32(float 0x4160000000000000, float %x)
  %there = fadd float %x, %shift
  %r = fsub float %there, %shift
  %signed = call float @llvm.copysign.f32(float %r, float %x)
  ret float %signed
}
define internal double @whole(double %x) nounwind {
  %n = fptosi double %x to i64
  %w = sitofp i64 %n to double
  ret double %w
}
define internal i1 @is_whole(double %x) nounwind {
  %size = call double @llvm.fabs.f64(double %x)
  %small = fcmp olt double %size, 0x4330000000000000
  %large = xor i1 %small, true
  ret i1 %large
}
define double @floor(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %w = call double @whole(double %x)
  %over = fcmp ogt double %w, %x
  %step = select i1 %over, double 1.0, double 0.0
  %r = fsub double %w, %step
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @ceil(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %w = call double @whole(double %x)
  %under = fcmp olt double %w, %x
  %step = select i1 %under, double 1.0, double 0.0
  %r = fadd double %w, %step
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @trunc(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %w = call double @whole(double %x)
  %r = fadd double %w, 0.0
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @round(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %w = call double @whole(double %x)
  %rest = fsub double %x, %w
  %part = call double @llvm.fabs.f64(double %rest)
  %half = fcmp oge double %part, 0.5
  %unit = call double @llvm.copysign.f64(double 1.0, double %x)
  %step = select i1 %half, double %unit, double 0.0
  %r = fadd double %w, %step
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @roundeven(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %shift = call double @llvm.copysign.f64(double 0x4330000000000000, double %x)
  %there = fadd double %x, %shift
  %r = fsub double %there, %shift
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @rint(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %shift = call double @llvm.copysign.f64(double 0x4330000000000000, double %x)
  %there = fadd double %x, %shift
  %r = fsub double %there, %shift
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
define double @nearbyint(double %x) nounwind {
entry:
  %done = call i1 @is_whole(double %x)
  br i1 %done, label %same, label %round
same:
  ret double %x
round:
  %shift = call double @llvm.copysign.f64(double 0x4330000000000000, double %x)
  %there = fadd double %x, %shift
  %r = fsub double %there, %shift
  %signed = call double @llvm.copysign.f64(double %r, double %x)
  ret double %signed
}
; The sum of an exact product in f64 and a number, rounded to odd there, so that rounding it once more is as rounding
; once (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008).
define float @fmaf(float %a, float %b, float %c) nounwind {
entry:
  %x = fpext float %a to double
  %y = fpext float %b to double
  %z = fpext float %c to double
  %p = fmul double %x, %y
  %s = fadd double %p, %z
  %back = fsub double %s, %p
  %other = fsub double %s, %back
  %lost_p = fsub double %p, %other
  %lost_z = fsub double %z, %back
  %lost = fadd double %lost_p, %lost_z
  %inexact = fcmp one double %lost, 0.0
  %bits = bitcast double %s to i64
  %low = and i64 %bits, 1
  %even = icmp eq i64 %low, 0
  %odd = and i1 %inexact, %even
  %up = fcmp ogt double %lost, 0.0
  %positive = icmp sge i64 %bits, 0
  %outwards = icmp eq i1 %up, %positive
  %step = select i1 %outwards, i64 1, i64 -1
  %moved = add i64 %bits, %step
  %chosen = select i1 %odd, i64 %moved, i64 %bits
  %sum = bitcast i64 %chosen to double
  %r = fptrunc double %sum to float
  ret float %r
}
; In whole numbers of 256 bits: the product of the significands 56 bits up, beside that of the third number, which are
; added exactly, but for what is so far below that it only breaks ties.
define double @fma(double %a, double %b, double %c) nounwind {
entry:
  %plain = fmul double %a, %b
  %sum = fadd double %plain, %c
  %ba = bitcast double %a to i64
  %bb = bitcast double %b to i64
  %bc = bitcast double %c to i64
  %aa = and i64 %ba, 9223372036854775807
  %ab = and i64 %bb, 9223372036854775807
  %ac = and i64 %bc, 9223372036854775807
  %wa = icmp uge i64 %aa, 9218868437227405312
  %wb = icmp uge i64 %ab, 9218868437227405312
  %wc = icmp uge i64 %ac, 9218868437227405312
  %za = icmp eq i64 %aa, 0
  %zb = icmp eq i64 %ab, 0
  %zc = icmp eq i64 %ac, 0
  %o1 = or i1 %wa, %wb
  %o2 = or i1 %za, %zb
  %o3 = or i1 %o1, %wc
  %easy = or i1 %o2, %o3
  br i1 %easy, label %simple, label %product
simple:
  %quiet = fadd double %c, 0.0
  %factors = or i1 %o1, %o2
  %known = select i1 %factors, double %sum, double %quiet
  ret double %known
product:
  br i1 %zc, label %multiply, label %exact
multiply:
  ret double %plain
exact:
  %ua = call { i64, i64 } @significand(i64 %aa)
  %ub = call { i64, i64 } @significand(i64 %ab)
  %uc = call { i64, i64 } @significand(i64 %ac)
  %ma = extractvalue { i64, i64 } %ua, 0
  %ea = extractvalue { i64, i64 } %ua, 1
  %mb = extractvalue { i64, i64 } %ub, 0
  %eb = extractvalue { i64, i64 } %ub, 1
  %mc = extractvalue { i64, i64 } %uc, 0
  %ec = extractvalue { i64, i64 } %uc, 1
  %ja = zext i64 %ma to i128
  %jb = zext i64 %mb to i128
  %jp = mul i128 %ja, %jb
  %p0 = zext i128 %jp to i256
  %p1 = shl i256 %p0, 56
  %ep = add i64 %ea, %eb
  %ex0 = sub i64 %ep, 56
  %s = sub i64 %ec, %ex0
  %far = icmp sgt i64 %s, 200
  %p = select i1 %far, i256 1, i256 %p1
  %exf = sub i64 %ec, 200
  %ex = select i1 %far, i64 %exf, i64 %ex0
  %sf = select i1 %far, i64 200, i64 %s
  %c0 = zext i64 %mc to i256
  %left = icmp sge i64 %sf, 0
  %sl = select i1 %left, i64 %sf, i64 0
  %negated = sub i64 0, %sf
  %right0 = call i64 @llvm.smin.i64(i64 %negated, i64 64)
  %sr = select i1 %left, i64 0, i64 %right0
  %slw = zext i64 %sl to i256
  %srw = zext i64 %sr to i256
  %c1 = shl i256 %c0, %slw
  %c2 = lshr i256 %c1, %srw
  %c3 = shl i256 %c2, %srw
  %gone = icmp ne i256 %c3, %c1
  %sticky = zext i1 %gone to i256
  %c4 = or i256 %c2, %sticky
  %signs = xor i64 %ba, %bb
  %negative_p = icmp slt i64 %signs, 0
  %negative_c = icmp slt i64 %bc, 0
  %np = sub i256 0, %p
  %vp = select i1 %negative_p, i256 %np, i256 %p
  %nc = sub i256 0, %c4
  %vc = select i1 %negative_c, i256 %nc, i256 %c4
  %total = add i256 %vp, %vc
  %nothing = icmp eq i256 %total, 0
  br i1 %nothing, label %zero, label %round
zero:
  ret double 0.0
round:
  %negative = icmp slt i256 %total, 0
  %nt = sub i256 0, %total
  %m = select i1 %negative, i256 %nt, i256 %total
  %lz = call i256 @llvm.ctlz.i256(i256 %m, i1 true)
  %lz64 = trunc i256 %lz to i64
  %keep = sub i64 203, %lz64
  %tiny = sub i64 -1074, %ex
  %r0 = call i64 @llvm.smax.i64(i64 %keep, i64 %tiny)
  %r = call i64 @llvm.smin.i64(i64 %r0, i64 255)
  %down = icmp sgt i64 %r, 0
  br i1 %down, label %shorten, label %lengthen
lengthen:
  %up = sub i64 0, %r
  %upw = zext i64 %up to i256
  %q1 = shl i256 %m, %upw
  br label %pack
shorten:
  %rw = zext i64 %r to i256
  %q0 = lshr i256 %m, %rw
  %kept = shl i256 %q0, %rw
  %rest = sub i256 %m, %kept
  %r1 = sub i256 %rw, 1
  %half = shl i256 1, %r1
  %more = icmp ugt i256 %rest, %half
  %tie = icmp eq i256 %rest, %half
  %bit = trunc i256 %q0 to i1
  %uneven = and i1 %tie, %bit
  %adds = or i1 %more, %uneven
  %one = zext i1 %adds to i256
  %q2 = add i256 %q0, %one
  br label %pack
pack:
  %q = phi i256 [ %q1, %lengthen ], [ %q2, %shorten ]
  %q64 = trunc i256 %q to i64
  %e = add i64 %ex, %r
  %biased = add i64 %e, 1074
  %high = icmp sgt i64 %biased, 2045
  %field = call i64 @llvm.smin.i64(i64 %biased, i64 2046)
  %placed = shl i64 %field, 52
  %bits0 = add i64 %placed, %q64
  %over = icmp uge i64 %bits0, 9218868437227405312
  %infinite = or i1 %high, %over
  %bits1 = select i1 %infinite, i64 9218868437227405312, i64 %bits0
  %sign = select i1 %negative, i64 -9223372036854775808, i64 0
  %bits = or i64 %bits1, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
; Long division: eleven bits of the quotient at a time, of which none is kept.
define double @fmod(double %x, double %y) nounwind {
entry:
  %bx = bitcast double %x to i64
  %by = bitcast double %y to i64
  %ax = and i64 %bx, 9223372036854775807
  %ay = and i64 %by, 9223372036854775807
  %zero = icmp eq i64 %ay, 0
  %endless = icmp uge i64 %ax, 9218868437227405312
  %nan = icmp ugt i64 %ay, 9218868437227405312
  %o1 = or i1 %zero, %endless
  %invalid = or i1 %o1, %nan
  br i1 %invalid, label %none, label %valid
none:
  %product = fmul double %x, %y
  %nothing = fdiv double %product, %product
  ret double %nothing
valid:
  %less = icmp ult i64 %ax, %ay
  br i1 %less, label %same, label %divide
same:
  ret double %x
divide:
  %ux = call { i64, i64 } @significand(i64 %ax)
  %uy = call { i64, i64 } @significand(i64 %ay)
  %mx = extractvalue { i64, i64 } %ux, 0
  %ex = extractvalue { i64, i64 } %ux, 1
  %my = extractvalue { i64, i64 } %uy, 0
  %ey = extractvalue { i64, i64 } %uy, 1
  %d0 = sub i64 %ex, %ey
  %r0 = urem i64 %mx, %my
  br label %step
step:
  %d = phi i64 [ %d0, %divide ], [ %d1, %more ]
  %r = phi i64 [ %r0, %divide ], [ %r1, %more ]
  %goes = icmp sgt i64 %d, 0
  br i1 %goes, label %more, label %done
more:
  %k = call i64 @llvm.smin.i64(i64 %d, i64 11)
  %wide = shl i64 %r, %k
  %r1 = urem i64 %wide, %my
  %d1 = sub i64 %d, %k
  br label %step
done:
  %exact = icmp eq i64 %r, 0
  br i1 %exact, label %whole, label %pack
whole:
  %signed = call double @llvm.copysign.f64(double 0.0, double %x)
  ret double %signed
pack:
  %lz = call i64 @llvm.ctlz.i64(i64 %r, i1 true)
  %up = sub i64 %lz, 11
  %high = sub i64 %ey, %up
  %e = call i64 @llvm.smax.i64(i64 %high, i64 -1074)
  %left = sub i64 %ey, %e
  %right = sub i64 %e, %ey
  %left_by = call i64 @llvm.smax.i64(i64 %left, i64 0)
  %right_by = call i64 @llvm.smax.i64(i64 %right, i64 0)
  %m0 = shl i64 %r, %left_by
  %m = lshr i64 %m0, %right_by
  %field = add i64 %e, 1074
  %placed = shl i64 %field, 52
  %bits0 = add i64 %placed, %m
  %sign = and i64 %bx, -9223372036854775808
  %bits = or i64 %bits0, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
define float @fmodf(float %x, float %y) nounwind {
  %a = fpext float %x to double
  %b = fpext float %y to double
  %r = call double @fmod(double %a, double %b)
  %f = fptrunc double %r to float
  ret float %f
}
; A positive number as 53 bits, the first of which is set, and the power of two that they are times.
define internal { i64, i64 } @significand(i64 %bits) nounwind {
  %field = lshr i64 %bits, 52
  %fraction = and i64 %bits, 4503599627370495
  %small = icmp eq i64 %field, 0
  %whole = or i64 %fraction, 4503599627370496
  %m0 = select i1 %small, i64 %fraction, i64 %whole
  %f0 = select i1 %small, i64 1, i64 %field
  %lz = call i64 @llvm.ctlz.i64(i64 %m0, i1 true)
  %up = sub i64 %lz, 11
  %m = shl i64 %m0, %up
  %e0 = sub i64 %f0, 1075
  %e = sub i64 %e0, %up
  %r0 = insertvalue { i64, i64 } undef, i64 %m, 0
  %r = insertvalue { i64, i64 } %r0, i64 %e, 1
  ret { i64, i64 } %r
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i256 @llvm.ctlz.i256(i256, i1)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare float @llvm.copysign.f32(float, float)
declare double @llvm.copysign.f64(double, double)
