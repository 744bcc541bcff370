package loop

import (
	"maps"

	"pave/analyzer"
	"pave/governance"
	"pave/observer"
)

// maxGone is how many deleted sessions are kept in mind; after more the next pass is a full one.
const maxGone = 100_000

// Deleted notes that sessions were deleted, so that neither the pass that runs nor one that goes on from an earlier one
// brings back what it read of them.
func (l *Loop) Deleted(sessions []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gone)+len(sessions) > maxGone {
		l.lost = true
		return
	}
	if l.gone == nil {
		l.gone = map[string]bool{}
	}
	for _, id := range sessions {
		l.gone[id] = true
	}
}

// remember begins anew: what is read from now on holds nothing that was deleted before.
func (l *Loop) remember() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.lost = nil, false
}

// forgot reports whether more sessions were deleted than are known.
func (l *Loop) forgot() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// strip takes the deleted sessions out of what a pass found.
func (l *Loop) strip(result *observer.Result, candidates []analyzer.Candidate) {
	l.mu.Lock()
	gone := maps.Clone(l.gone)
	l.mu.Unlock()
	if len(gone) == 0 || result == nil {
		return
	}
	for i := range result.Patterns {
		governance.StripPattern(&result.Patterns[i], gone)
	}
	for i := range candidates {
		if p := candidates[i].Evidence.Pattern; p != nil {
			governance.StripPattern(p, gone)
		}
	}
}
