package governance

import (
	"context"
	"fmt"
	"time"

	"pave/governance/store"
)

// DueDelivery is a delivery that is to be sent now, with what sending takes.
type DueDelivery struct {
	Tenant, ID, Webhook, Event string
	URL, Secret                string
	Body                       []byte
	Attempts                   int // made already

	row store.DeliveryRow
}

// DeliveryOutcome is what came of an attempt. Retry is the pause before the next one; after DisableAfter of nothing but
// failures the webhook is disabled.
type DeliveryOutcome struct {
	Delivered           bool
	Status              int
	Error               string
	Retry, DisableAfter time.Duration
}

// DueDeliveries lists what is to be sent now to active webhooks, of all tenants, at most limit.
func (s *Service) DueDeliveries(ctx context.Context, limit int) (out []DueDelivery, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		rows, err := r.DueDeliveries(s.now().UTC(), string(WebhookActive), limit)
		for _, row := range rows {
			out = append(out, DueDelivery{Tenant: row.Tenant, ID: row.ID, Webhook: row.Webhook, Event: row.Event, URL: row.URL, Secret: row.Secret,
				Body: row.Body, Attempts: row.Attempts, row: row})
		}
		return err
	})
	return out, visible(err)
}

// EndDelivery stores the outcome of an attempt. A webhook that fails for too long is disabled, with an audit event.
func (s *Service) EndDelivery(ctx context.Context, d DueDelivery, out DeliveryOutcome) error {
	system := Actor{Tenant: d.Tenant, Principal: SystemPrincipal, Scopes: []Scope{ScopeAdmin}}
	return s.transact(ctx, system, func(c *change) error {
		row := d.row
		row.Attempts, row.LastAt, row.Status, row.Error = d.Attempts+1, c.at, out.Status, out.Error
		row.NextAt = c.at.Add(out.Retry)
		if out.Delivered {
			row.State = DeliveryDelivered
		}
		if err := c.UpdateDelivery(d.Tenant, row); err != nil {
			return err
		}
		hook, err := c.Tx.Webhook(d.Tenant, d.Webhook)
		if err != nil {
			return notFound(err, "there is no webhook %q any more", d.Webhook)
		}
		switch {
		case out.Delivered && hook.Failing.IsZero():
			return nil
		case out.Delivered:
			return c.WebhookFailing(d.Tenant, hook.ID, time.Time{})
		case hook.Failing.IsZero():
			return c.WebhookFailing(d.Tenant, hook.ID, c.at)
		case c.at.Sub(hook.Failing) < out.DisableAfter || hook.State != string(WebhookActive):
			return nil
		}
		hook.State, hook.Reason = string(WebhookDisabled), fmt.Sprintf("every attempt since %s failed, the last: %s", hook.Failing.Format(time.RFC3339), out.Error)
		if err := c.Tx.UpdateWebhook(d.Tenant, hook, hook.Revision); err != nil {
			return err
		}
		return c.audit("webhook.disable", "webhook/"+hook.ID, map[string]any{"reason": hook.Reason})
	})
}
