; Why a team stops, of one worker or of several: here, and in programs for C. Offsets: dialects/abi.py.

; Whether the call is cancelled or has met an error.
define internal i1 @mlc_team_stops(ptr %ctx) {
  %site.at = getelementptr i8, ptr %ctx, i64 40
  %site = load atomic i64, ptr %site.at monotonic, align 8
  %failed = icmp ne i64 %site, 0
  %cancel.at = getelementptr i8, ptr %ctx, i64 24
  %counter = load ptr, ptr %cancel.at, align 8
  %base.at = getelementptr i8, ptr %ctx, i64 32
  %base = load i64, ptr %base.at, align 8
  %now = load atomic i64, ptr %counter monotonic, align 8
  %cancelled = icmp ne i64 %now, %base
  %stop = or i1 %failed, %cancelled
  ret i1 %stop
}
