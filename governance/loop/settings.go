package loop

import (
	"time"

	"pave/observer"
)

// Settings say when passes begin by themselves, what they may take, and the thresholds of mining. A zero field means
// its default, which is in parentheses.
type Settings struct {
	// Interval is the time after which a pass begins when anything was recorded since the last one (15m); a negative one
	// turns off all passes that nobody asked for.
	Interval time.Duration
	// AfterSessions is how many sessions, assembled since the last pass, make one begin before that (50).
	AfterSessions int
	// MinPause is the least time between two passes (1m). Beside it a pass is followed by a pause of nine times its own
	// duration, so that mining takes a tenth of the time at most.
	MinPause time.Duration
	// FullEvery and FullGrowth make the next pass a full one: so long after the last (24h), or when the recorded calls have
	// grown by that share since (0.1). Below FullBelow calls every pass is full (100,000).
	FullEvery  time.Duration
	FullGrowth float64
	FullBelow  int
	// MaxTime ends a pass that takes longer (30m).
	MaxTime time.Duration
	// Chains and ChainDepth bound the candidates from tool schemas alone: how many (10; negative: none) and of how many
	// tools (3).
	Chains, ChainDepth int
	// Observer has the thresholds; its Filter and Progress are not used.
	Observer observer.Options
}

func (s Settings) withDefaults() Settings {
	duration := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	number := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	duration(&s.Interval, 15*time.Minute)
	duration(&s.MinPause, time.Minute)
	duration(&s.FullEvery, 24*time.Hour)
	duration(&s.MaxTime, 30*time.Minute)
	number(&s.AfterSessions, 50)
	number(&s.FullBelow, 100_000)
	if s.FullGrowth == 0 {
		s.FullGrowth = 0.1
	}
	return s
}
