package governance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"pave/governance/store"
)

// Usage is what one principal did in a time, and with how many keys.
type Usage struct {
	Principal string
	Keys      int       // that are valid now
	LastUsed  time.Time // of any of its keys; zero when none was
	Runs      int64     // flow runs that it started, dry runs left out
	Succeeded int64     // of these
	DryRuns   int64
	Changes   int64 // audited, without starts of runs and calls over MCP
}

// Usage lists who used the installation in [from, to), zero leaves a side open: every principal that has a key, ran a flow or
// changed something, by name.
func (s *Service) Usage(ctx context.Context, actor Actor, from, to time.Time) ([]Usage, error) {
	found := map[string]*Usage{}
	of := func(name string) *Usage {
		if found[name] == nil {
			found[name] = &Usage{Principal: name}
		}
		return found[name]
	}
	err := s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		clear(found)
		keys, err := r.Keys(tenant)
		if err != nil {
			return err
		}
		now := s.now()
		for _, key := range keys {
			u := of(key.Principal)
			if validKey(key, now) {
				u.Keys++
			}
			if key.LastUsed.After(u.LastUsed) {
				u.LastUsed = key.LastUsed
			}
		}
		runs, err := r.RunsByCaller(tenant, from, to)
		if err != nil {
			return err
		}
		for _, row := range runs {
			u := of(row.Caller)
			u.Runs, u.Succeeded, u.DryRuns = row.Runs, row.Succeeded, row.DryRuns
		}
		changes, err := r.AuditByActor(tenant, from, to)
		if err != nil {
			return err
		}
		for name, n := range changes {
			of(name).Changes = n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]Usage, 0, len(found))
	for _, u := range slices.SortedFunc(maps.Values(found), func(a, b *Usage) int { return cmp.Compare(a.Principal, b.Principal) }) {
		out = append(out, *u)
	}
	return out, nil
}
