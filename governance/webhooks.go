package governance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/governance/store"
)

// Events that webhooks may have.
const (
	EventProposalCreated  = "proposal.created"
	EventReviewSubmitted  = "review.submitted"
	EventProposalApproved = "proposal.approved"
	EventFlowPromoted     = "flow.promoted"
	EventFlowRollout      = "flow.rollout_changed"
	EventFlowRolledBack   = "flow.rolled_back"
	EventFlowNeedsReview  = "flow.needs_review"
	EventRunFailed        = "run.failed"
	EventDrift            = "drift.detected"
	EventTest             = "webhook.test" // on demand only
)

// WebhookEvents lists the events that a webhook may subscribe to.
var WebhookEvents = []string{EventProposalCreated, EventReviewSubmitted, EventProposalApproved, EventFlowPromoted, EventFlowRollout,
	EventFlowRolledBack, EventFlowNeedsReview, EventRunFailed, EventDrift}

// eventOf is the event that an audited action is, beside proposal.approved, which is a state.
var eventOf = map[string]string{
	"proposal.create": EventProposalCreated, "proposal.submit": EventProposalCreated,
	"proposal.approve": EventReviewSubmitted, "proposal.reject": EventReviewSubmitted, "proposal.request_changes": EventReviewSubmitted,
	"flow.promote": EventFlowPromoted, "flow.rollout": EventFlowRollout, "flow.rollback": EventFlowRolledBack, "flow.watch": EventFlowNeedsReview, "flow.drift": EventDrift,
}

// WebhookState says whether a webhook gets events.
type WebhookState string

const (
	WebhookActive   WebhookState = "active"
	WebhookPaused   WebhookState = "paused"   // by a person; events wait
	WebhookDisabled WebhookState = "disabled" // after a day of failures; events wait
)

// Webhook is a subscription of a URL to events. Events empty means all of WebhookEvents.
type Webhook struct {
	ID        string
	Revision  int64
	URL       string
	Events    []string
	State     WebhookState
	Reason    string // why it is disabled
	Failing   time.Time
	CreatedBy string
	CreatedAt time.Time
}

// Delivery is one event on its way to a webhook, or there. State is pending, delivered or failed.
type Delivery struct {
	ID             string
	Event          string
	State          string
	Attempts       int
	NextAt, LastAt time.Time
	Status         int // HTTP status of the last attempt, 0 without an answer
	Error          string
	At             time.Time
	Body           json.RawMessage
}

// States of a Delivery.
const (
	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
)

// WebhookRequest makes or changes a webhook; nil fields stay as they are, and a new one takes the defaults: all events,
// active, a secret that is made here.
type WebhookRequest struct {
	URL        *string
	Events     *[]string
	Secret     *string
	State      *WebhookState // active or paused
	IfRevision int64
}

// minWebhookSecret is the least length of a secret, in bytes.
const minWebhookSecret = 16

// checkURL refuses what cannot be sent to. Where a name leads to is checked at every delivery.
func (s *Service) checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || len(text) > 2048 {
		return flows.NewError(flows.CodeInvalid, "url: use http(s)://host/path without a user",
			flows.ErrorDetail{Pointer: "/url", Code: "invalid", Detail: "http(s)://host/path"})
	}
	if s.reach == nil {
		return nil
	}
	if err := s.reach(u); err != nil {
		code := flows.CodeEgressDenied
		if known := new(flows.Error); errors.As(err, &known) {
			code = known.Code
		}
		return &flows.Error{Code: code, Message: "url: " + err.Error(), Err: err,
			Details: []flows.ErrorDetail{{Pointer: "/url", Code: string(code), Detail: err.Error()}}}
	}
	return nil
}

func (s *Service) checkWebhook(r *WebhookRequest) error {
	if r.URL != nil {
		if err := s.checkURL(*r.URL); err != nil {
			return err
		}
	}
	if r.Events != nil {
		for i, event := range *r.Events {
			if !slices.Contains(WebhookEvents, event) {
				return flows.NewError(flows.CodeInvalid, fmt.Sprintf("event %q: use %s", event, strings.Join(WebhookEvents, ", ")),
					flows.ErrorDetail{Pointer: fmt.Sprintf("/events/%d", i), Code: "invalid", Detail: strings.Join(WebhookEvents, ", ")})
			}
		}
	}
	if r.Secret != nil && (len(*r.Secret) < minWebhookSecret || len(*r.Secret) > 256) {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("a secret has %d to 256 bytes", minWebhookSecret),
			flows.ErrorDetail{Pointer: "/secret", Code: "length", Detail: fmt.Sprintf("%d to 256 bytes", minWebhookSecret)})
	}
	if r.State != nil && *r.State != WebhookActive && *r.State != WebhookPaused {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("state %q: use active or paused", *r.State),
			flows.ErrorDetail{Pointer: "/state", Code: "invalid", Detail: "active or paused"})
	}
	return nil
}

// apply writes what the request sets over a row.
func (r *WebhookRequest) apply(row *store.WebhookRow) {
	if r.URL != nil {
		row.URL = *r.URL
	}
	if r.Events != nil {
		row.Events = slices.Compact(slices.Sorted(slices.Values(*r.Events)))
	}
	if r.Secret != nil {
		row.Secret = *r.Secret
	}
	if r.State != nil {
		if row.State != string(*r.State) {
			row.Reason, row.Failing = "", time.Time{}
		}
		row.State = string(*r.State)
	}
}

// CreateWebhook subscribes a URL. secret is the key of the signatures; it is told here only.
func (s *Service) CreateWebhook(ctx context.Context, actor Actor, req WebhookRequest) (w *Webhook, secret string, err error) {
	if req.URL == nil {
		return nil, "", flows.NewError(flows.CodeInvalid, "a webhook needs a url", flows.ErrorDetail{Pointer: "/url", Code: "missing", Detail: "where to send"})
	}
	if err := s.checkWebhook(&req); err != nil {
		return nil, "", err
	}
	err = s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row := store.WebhookRow{ID: s.newID(), Revision: 1, Secret: newSecret(), State: string(WebhookActive), CreatedBy: actor.Principal, CreatedAt: c.at}
		req.apply(&row)
		w, secret = webhookOf(row), row.Secret
		if err := c.InsertWebhook(c.tenant, row); err != nil {
			return err
		}
		return c.audit("webhook.create", "webhook/"+row.ID, map[string]any{"url": row.URL, "events": row.Events})
	})
	return w, secret, err
}

func newSecret() string {
	var raw [keySecretLen]byte
	_, _ = rand.Read(raw[:]) // crypto/rand never fails
	return "whsec_" + idEncoding.EncodeToString(raw[:])
}

func webhookOf(row store.WebhookRow) *Webhook {
	return &Webhook{ID: row.ID, Revision: row.Revision, URL: row.URL, Events: row.Events, State: WebhookState(row.State), Reason: row.Reason,
		Failing: row.Failing, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt}
}

// Webhooks lists the subscriptions, oldest first.
func (s *Service) Webhooks(ctx context.Context, actor Actor) (out []Webhook, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Webhooks(tenant)
		for _, row := range rows {
			out = append(out, *webhookOf(row))
		}
		return err
	})
	return out, err
}

// Webhook reads one.
func (s *Service) Webhook(ctx context.Context, actor Actor, id string) (w *Webhook, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := webhookIn(r, tenant, id)
		w = webhookOf(row)
		return err
	})
	return w, err
}

func webhookIn(r *store.Reader, tenant, id string) (store.WebhookRow, error) {
	row, err := r.Webhook(tenant, id)
	return row, notFound(err, "there is no webhook %q", id)
}

// UpdateWebhook changes a subscription; to make a disabled one active again sends what waits.
func (s *Service) UpdateWebhook(ctx context.Context, actor Actor, id string, req WebhookRequest) (w *Webhook, err error) {
	if err := s.checkWebhook(&req); err != nil {
		return nil, err
	}
	err = s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row, err := webhookIn(&c.Reader, c.tenant, id)
		if err != nil {
			return err
		}
		if err := checkRevision("webhook "+id, req.IfRevision, row.Revision); err != nil {
			return err
		}
		was := row.Revision
		req.apply(&row)
		if err := c.Tx.UpdateWebhook(c.tenant, row, was); err != nil {
			return err
		}
		row.Revision = was + 1
		w = webhookOf(row)
		return c.audit("webhook.update", "webhook/"+id, map[string]any{"url": row.URL, "events": row.Events, "state": row.State, "new_secret": req.Secret != nil})
	})
	return w, err
}

// DeleteWebhook ends a subscription; what waits for it is dropped.
func (s *Service) DeleteWebhook(ctx context.Context, actor Actor, id string, ifRevision int64) error {
	return s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row, err := webhookIn(&c.Reader, c.tenant, id)
		if err != nil {
			return err
		}
		if err := checkRevision("webhook "+id, ifRevision, row.Revision); err != nil {
			return err
		}
		if err := c.Tx.DeleteWebhook(c.tenant, id); err != nil {
			return err
		}
		return c.audit("webhook.delete", "webhook/"+id, map[string]any{"url": row.URL})
	})
}

// Deliveries pages the log of a webhook, newest first.
func (s *Service) Deliveries(ctx context.Context, actor Actor, id string, limit int, cursor string) (page Page[Delivery], err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		if _, err := webhookIn(r, tenant, id); err != nil {
			return err
		}
		rows, err := r.Deliveries(tenant, id, limit, cursor)
		page.Next = rows.Next
		for _, row := range rows.Items {
			page.Items = append(page.Items, deliveryOf(row))
		}
		return err
	})
	return page, err
}

func deliveryOf(row store.DeliveryRow) Delivery {
	return Delivery{ID: row.ID, Event: row.Event, State: row.State, Attempts: row.Attempts, NextAt: row.NextAt, LastAt: row.LastAt, Status: row.Status,
		Error: row.Error, At: row.At, Body: row.Body}
}

// TestWebhook sends a webhook.test event to a webhook, whatever it subscribes to.
func (s *Service) TestWebhook(ctx context.Context, actor Actor, id string) (d Delivery, err error) {
	err = s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row, err := webhookIn(&c.Reader, c.tenant, id)
		if err != nil {
			return err
		}
		sent, err := c.deliver(row, EventTest, "webhook/"+id, map[string]any{"message": "a test, asked for by " + actor.Principal})
		if err != nil {
			return err
		}
		d = deliveryOf(sent)
		return c.audit("webhook.test", "webhook/"+id, map[string]any{"delivery": d.ID})
	})
	return d, err
}

// Redeliver sends a delivery again, whatever became of it.
func (s *Service) Redeliver(ctx context.Context, actor Actor, webhook, id string) (d Delivery, err error) {
	err = s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row, err := c.Delivery(c.tenant, webhook, id)
		if err != nil {
			return notFound(err, "there is no delivery %q of webhook %q", id, webhook)
		}
		row.State, row.NextAt = DeliveryPending, c.at
		d = deliveryOf(row)
		if err := c.UpdateDelivery(c.tenant, row); err != nil {
			return err
		}
		return c.audit("webhook.redeliver", "webhook/"+webhook, map[string]any{"delivery": id})
	})
	return d, err
}

// notify writes an event into the outbox of every webhook that wants it, in the transaction of what it tells of.
func (c *change) notify(event, object string, detail any) error {
	hooks, err := c.Webhooks(c.tenant)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		if len(hook.Events) > 0 && !slices.Contains(hook.Events, event) {
			continue
		}
		if _, err := c.deliver(hook, event, object, detail); err != nil {
			return err
		}
	}
	return nil
}

// FailedRun is what webhooks are told of a run that failed.
type FailedRun struct {
	ID, Flow, Version, Caller string
	At                        time.Time
}

// RunFailed writes the event of a failed run into the outbox, in the transaction that writes the run's end: neither is
// there without the other.
func (s *Service) RunFailed(tx *store.Tx, tenant string, run FailedRun) error {
	c := &change{Tx: tx, s: s, actor: systemActor(tenant), tenant: tenant, at: run.At}
	return c.notify(EventRunFailed, "run/"+run.ID, map[string]any{"flow": run.Flow, "version": run.Version, "caller": run.Caller})
}

// deliver writes one event for one webhook.
func (c *change) deliver(hook store.WebhookRow, event, object string, detail any) (store.DeliveryRow, error) {
	d := store.DeliveryRow{ID: c.s.newID(), Webhook: hook.ID, Event: event, State: DeliveryPending, NextAt: c.at, At: c.at}
	body, err := json.Marshal(map[string]any{"id": d.ID, "event": event, "at": c.at.Truncate(time.Millisecond), "tenant": c.tenant,
		"actor": c.actor.Principal, "object": object, "detail": detail})
	if err != nil {
		return d, fmt.Errorf("encode event %s: %w", event, err)
	}
	d.Body = body
	return d, c.InsertDelivery(c.tenant, d)
}
