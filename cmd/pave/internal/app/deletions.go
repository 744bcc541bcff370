package app

import (
	"context"
	"time"

	"pave/api"
	"pave/governance"
	"pave/ingest"
)

// deletions removes recorded sessions for the API.
type deletions struct {
	gate *governance.Service
	from governance.Eraser
}

var _ api.Deletions = (*deletions)(nil)

// DeleteSessions implements api.Deletions.
func (d *deletions) DeleteSessions(ctx context.Context, actor governance.Actor, req governance.DeletionRequest) (*governance.DeletionReceipt, error) {
	return d.gate.DeleteSessions(ctx, actor, d.from, req)
}

// How often old sessions are looked for, and how many are deleted at a time, so that the store is not held up for long.
const (
	expireEvery = 10 * time.Minute
	expireMax   = 5000
)

// expire deletes sessions that started longer ago than the retention, at every tick until ctx ends.
func (a *App) expire(ctx context.Context, tick <-chan time.Time) {
	actor := governance.Actor{Tenant: ingest.DefaultTenant, Principal: governance.RetentionPrincipal, Scopes: governance.AllScopes}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick:
			receipt, err := a.gate.DeleteSessions(ctx, actor, a.sessions(), governance.DeletionRequest{To: now.Add(-a.opts.Service.Retention), Max: expireMax})
			if err != nil {
				if ctx.Err() == nil {
					a.log.WarnContext(ctx, "delete what is older than the retention", "error", err)
				}
				continue
			}
			a.expired.WithLabelValues("sessions").Add(float64(receipt.Sessions))
			a.expired.WithLabelValues("events").Add(float64(receipt.Events))
			if receipt.Sessions > 0 {
				a.log.InfoContext(ctx, "deleted what is older than the retention", "sessions", receipt.Sessions, "events", receipt.Events, "deletion", receipt.ID)
			}
		}
	}
}
