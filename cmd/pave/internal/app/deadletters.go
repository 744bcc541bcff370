package app

import (
	"context"
	"fmt"

	"pave/flows"
	"pave/ingest/deadletter"
	"pave/ingest/otlp"
)

// deadLetters are the requests that could not be read, for those who look after them.
type deadLetters struct {
	store    *deadletter.Store
	receiver *otlp.Handler
}

// Count implements api.DeadLetters.
func (d *deadLetters) Count() int {
	count, _, _ := d.store.Stats()
	return count
}

// List returns up to limit letters of the tenant after the one with the id, oldest first, without their bodies.
func (d *deadLetters) List(tenant, after string, limit int) (letters []deadletter.Letter, err error) {
	for _, id := range d.store.IDs() {
		if id <= after {
			continue
		}
		if len(letters) == limit {
			break
		}
		l, err := d.store.Get(id)
		switch flows.CodeOf(err) {
		case flows.CodeNotFound: // it made room for a newer one
			continue
		case flows.CodeInvalid: // sealed with a key that is gone
			l = deadletter.Letter{ID: id, Tenant: tenant, Reason: err.Error()}
		default:
			if err != nil {
				return nil, err
			}
		}
		if l.Tenant == tenant {
			l.Size, l.Body = len(l.Body), nil
			letters = append(letters, l)
		}
	}
	return letters, nil
}

// Retry takes a letter as if it were sent now, and removes it when that goes well. It says what became of its records.
func (d *deadLetters) Retry(ctx context.Context, tenant, id string) (otlp.Stats, error) {
	l, err := d.store.Get(id)
	if err != nil {
		return otlp.Stats{}, err
	}
	if l.Tenant != tenant {
		return otlp.Stats{}, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no dead letter %.80q", id))
	}
	stats, err := d.receiver.Replay(ctx, l)
	if err != nil {
		return stats, err
	}
	return stats, d.store.Delete(id)
}

// Delete removes a letter of the tenant.
func (d *deadLetters) Delete(tenant, id string) error {
	l, err := d.store.Get(id)
	if code := flows.CodeOf(err); err != nil && code != flows.CodeInvalid {
		return err
	}
	if err == nil && l.Tenant != tenant {
		return flows.NewError(flows.CodeNotFound, fmt.Sprintf("no dead letter %.80q", id))
	}
	return d.store.Delete(id)
}
