package store

import (
	"strings"
	"time"
)

// WebhookRow is one subscription.
type WebhookRow struct {
	ID        string
	Revision  int64
	URL       string
	Events    []string // none: all
	Secret    string
	State     string
	Reason    string
	Failing   time.Time // since when every attempt failed; zero when the last one did not
	CreatedBy string
	CreatedAt time.Time
}

// DeliveryRow is one event on its way to one webhook. Tenant, URL and Secret are set by DueDeliveries only.
type DeliveryRow struct {
	Tenant, URL, Secret string
	ID                  string
	Webhook             string
	Event               string
	Body                []byte
	State               string
	Attempts            int
	NextAt, LastAt      time.Time
	Status              int
	Error               string
	At                  time.Time
}

const webhookColumns = `id, revision, url, events, secret, state, reason, failing, created_by, created_at`

func scanWebhook(s scanner) (w WebhookRow, err error) {
	var events string
	var failing, created int64
	err = s.Scan(&w.ID, &w.Revision, &w.URL, &events, &w.Secret, &w.State, &w.Reason, &failing, &w.CreatedBy, &created)
	w.Events, w.Failing, w.CreatedAt = strings.Fields(events), fromMicros(failing), fromMicros(created)
	return w, err
}

// Webhooks lists the subscriptions of a tenant, oldest first.
func (r *Reader) Webhooks(tenant string) ([]WebhookRow, error) {
	return collect(r, scanWebhook, `SELECT `+webhookColumns+` FROM webhooks WHERE tenant = ? ORDER BY created_at, id`, tenant)
}

// Webhook reads one. Errors: ErrNotFound.
func (r *Reader) Webhook(tenant, id string) (WebhookRow, error) {
	return first(collect(r, scanWebhook, `SELECT `+webhookColumns+` FROM webhooks WHERE tenant = ? AND id = ?`, tenant, id))
}

// InsertWebhook stores a new subscription.
func (tx *Tx) InsertWebhook(tenant string, w WebhookRow) error {
	_, err := tx.exec(`INSERT INTO webhooks (tenant, `+webhookColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, tenant, w.ID, w.Revision, w.URL,
		strings.Join(w.Events, " "), w.Secret, w.State, w.Reason, micros(w.Failing), w.CreatedBy, micros(w.CreatedAt))
	return err
}

// UpdateWebhook stores w over the row of revision ifRevision; its revision becomes one higher. Errors: ErrStale.
func (tx *Tx) UpdateWebhook(tenant string, w WebhookRow, ifRevision int64) error {
	return tx.swap(`UPDATE webhooks SET revision = revision + 1, url = ?, events = ?, secret = ?, state = ?, reason = ?, failing = ?
		WHERE tenant = ? AND id = ? AND revision = ?`, w.URL, strings.Join(w.Events, " "), w.Secret, w.State, w.Reason, micros(w.Failing),
		tenant, w.ID, ifRevision)
}

// WebhookFailing notes since when attempts fail; zero when one succeeded. It is no change of the subscription.
func (tx *Tx) WebhookFailing(tenant, id string, since time.Time) error {
	_, err := tx.exec(`UPDATE webhooks SET failing = ? WHERE tenant = ? AND id = ?`, micros(since), tenant, id)
	return err
}

// DeleteWebhook removes a subscription with its deliveries.
func (tx *Tx) DeleteWebhook(tenant, id string) error {
	if _, err := tx.exec(`DELETE FROM deliveries WHERE tenant = ? AND webhook = ?`, tenant, id); err != nil {
		return err
	}
	_, err := tx.exec(`DELETE FROM webhooks WHERE tenant = ? AND id = ?`, tenant, id)
	return err
}

const deliveryColumns = `id, webhook, event, body, state, attempts, next_at, last_at, status, error, at`

func scanDelivery(s scanner, more ...any) (d DeliveryRow, err error) {
	var next, last, at int64
	err = s.Scan(append([]any{&d.ID, &d.Webhook, &d.Event, &d.Body, &d.State, &d.Attempts, &next, &last, &d.Status, &d.Error, &at}, more...)...)
	d.NextAt, d.LastAt, d.At = fromMicros(next), fromMicros(last), fromMicros(at)
	return d, err
}

// InsertDelivery stores an event for a webhook; one that is there already stays as it is.
func (tx *Tx) InsertDelivery(tenant string, d DeliveryRow) error {
	_, err := tx.exec(`INSERT INTO deliveries (tenant, `+deliveryColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		tenant, d.ID, d.Webhook, d.Event, d.Body, d.State, d.Attempts, micros(d.NextAt), micros(d.LastAt), d.Status, d.Error, micros(d.At))
	return err
}

// Deliveries pages what went or goes to a webhook, newest first. Errors: ErrCursor.
func (r *Reader) Deliveries(tenant, webhook string, limit int, cursor string) (Page[DeliveryRow], error) {
	return readPage(r, pageQuery{table: "deliveries", columns: deliveryColumns, where: []string{"tenant = ?", "webhook = ?"},
		args: []any{tenant, webhook}, sort: "at", order: order{expr: "at", desc: true}, limit: limit, cursor: cursor},
		func(s scanner, key *float64, id *string) (DeliveryRow, error) { return scanDelivery(s, key, id) })
}

// Delivery reads one. Errors: ErrNotFound.
func (r *Reader) Delivery(tenant, webhook, id string) (DeliveryRow, error) {
	return first(collect(r, func(s scanner) (DeliveryRow, error) { return scanDelivery(s) },
		`SELECT `+deliveryColumns+` FROM deliveries WHERE tenant = ? AND webhook = ? AND id = ?`, tenant, webhook, id))
}

// DueDeliveries lists what is to be sent by a time to webhooks in a state, of all tenants, the longest due first.
func (r *Reader) DueDeliveries(now time.Time, state string, limit int) ([]DeliveryRow, error) {
	return collect(r, func(s scanner) (d DeliveryRow, err error) {
		var tenant, url, secret string
		d, err = scanDelivery(s, &tenant, &url, &secret)
		d.Tenant, d.URL, d.Secret = tenant, url, secret
		return d, err
	}, `SELECT d.id, d.webhook, d.event, d.body, d.state, d.attempts, d.next_at, d.last_at, d.status, d.error, d.at, d.tenant, w.url, w.secret
		FROM deliveries d JOIN webhooks w ON w.tenant = d.tenant AND w.id = d.webhook
		WHERE d.state = 'pending' AND d.next_at <= ? AND w.state = ? ORDER BY d.next_at LIMIT ?`, micros(now), state, limit)
}

// UpdateDelivery stores the outcome of an attempt, or a new plan.
func (tx *Tx) UpdateDelivery(tenant string, d DeliveryRow) error {
	_, err := tx.exec(`UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, last_at = ?, status = ?, error = ? WHERE tenant = ? AND id = ?`,
		d.State, d.Attempts, micros(d.NextAt), micros(d.LastAt), d.Status, d.Error, tenant, d.ID)
	return err
}

// DropDeliveries removes delivered ones that are older than a time, and returns how many.
func (tx *Tx) DropDeliveries(before time.Time) (int64, error) {
	return tx.exec(`DELETE FROM deliveries WHERE state = 'delivered' AND at < ?`, micros(before))
}
