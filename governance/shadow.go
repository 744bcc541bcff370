package governance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"pave/governance/store"
)

// MinShadowExact is what the lower bound of a shadow's exactness must reach: 73 predictions without a miss do.
const MinShadowExact = 0.95

// ShadowResult is what a draft or a flow version predicted on live sessions, since its content was approved. At every
// place where an agent went the flow's way, the arguments that the flow derives were compared with the agent's.
type ShadowResult struct {
	Digest   string
	Since    time.Time
	Updated  time.Time
	Sessions int // live sessions that called its first tool
	// Windows are the walks of its path, Exact those in which every argument was as predicted.
	Windows, Exact int
	// Given is set of a flow that takes whole calls and predicts none: Windows are the walks in which callers could have given
	// several, Exact those whose calls the flow would have made as they were.
	Given bool `json:",omitempty"`
	// DestructiveMismatches counts calls with side effects that diverging runs would have made.
	DestructiveMismatches int
	// Recent are the last walks, the newest last, at most RecentWalks: 'x' exact, '.' not.
	Recent string
}

// RecentWalks is how many walks conformance is taken over.
const RecentWalks = 50

// Passed says whether the promotion condition holds, and if not why: the Wilson lower bound (95 %) of exactness is at
// least MinShadowExact, and nothing with side effects would have been done that the agents did not do.
func (r *ShadowResult) Passed() (ok bool, reason string) {
	low := wilsonLow(r.Exact, r.Windows)
	switch {
	case r.DestructiveMismatches > 0:
		return false, fmt.Sprintf("%d calls with side effects would have been made that the agents did not make", r.DestructiveMismatches)
	case low < MinShadowExact && r.Given:
		return false, fmt.Sprintf("callers could have given several calls, all as they were made, in %d of %d walks, which proves %.1f %%, not %.0f %%",
			r.Exact, r.Windows, 100*low, 100*MinShadowExact)
	case low < MinShadowExact:
		return false, fmt.Sprintf("%d of %d walks were as predicted, which proves %.1f %%, not %.0f %%", r.Exact, r.Windows, 100*low, 100*MinShadowExact)
	}
	return true, ""
}

// Conformance is the share of exact walks among the recent ones; known only when there are RecentWalks of them.
func (r *ShadowResult) Conformance() (share float64, known bool) {
	if len(r.Recent) < RecentWalks {
		return 0, false
	}
	exact := 0
	for _, walk := range r.Recent {
		if walk == 'x' {
			exact++
		}
	}
	return float64(exact) / float64(len(r.Recent)), true
}

// wilsonLow is the lower bound of the 95 % Wilson score interval of right out of n.
func wilsonLow(right, n int) float64 {
	if n == 0 {
		return 0
	}
	const z = 1.959963984540054 // the normal quantile of 0.975
	p, m := float64(right)/float64(n), float64(n)
	return (p + z*z/(2*m) - z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))) / (1 + z*z/m)
}

// shadowOfVersion names the result of a flow version.
func shadowOfVersion(name, version string) string { return "flow/" + name + "@" + version }

// findings reads what was found out about the draft as it is now.
func (e *entry) findings(r *store.Reader) (err error) {
	if e.Check, err = checkIn(r, e.Tenant, e.ID, e.Digest); err != nil {
		return err
	}
	e.Shadow, err = shadowIn(r, e.Tenant, "proposal/"+e.ID, e.Digest)
	return err
}

// shadowIn reads the result of an object's content, nil when there is none.
func shadowIn(r *store.Reader, tenant, object, digest string) (*ShadowResult, error) {
	body, err := r.Shadow(tenant, object)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	result := new(ShadowResult)
	if err := json.Unmarshal(body, result); err != nil {
		return nil, fmt.Errorf("stored shadow of %s: %w", object, err)
	}
	if result.Digest != digest { // of an earlier draft
		return nil, nil
	}
	return result, nil
}
