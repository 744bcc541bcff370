package api

import (
	"context"

	"pave/api/gen"
	"pave/governance"
)

// ListWebhooks lists subscriptions.
func (h *handlers) ListWebhooks(ctx context.Context, _ gen.ListWebhooksRequestObject) (gen.ListWebhooksResponseObject, error) {
	all, err := h.s.deps.Webhooks.Webhooks(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return gen.ListWebhooks200JSONResponse{Items: list(all, func(w governance.Webhook) gen.Webhook { return webhookOf(&w) })}, nil
}

// CreateWebhook subscribes a URL.
func (h *handlers) CreateWebhook(ctx context.Context, r gen.CreateWebhookRequestObject) (gen.CreateWebhookResponseObject, error) {
	req := governance.WebhookRequest{URL: &r.Body.URL}
	if r.Body.Events != nil {
		events := list(r.Body.Events, func(e gen.WebhookEvent) string { return string(e) })
		req.Events = &events
	}
	if r.Body.Secret != "" {
		req.Secret = &r.Body.Secret
	}
	w, secret, err := h.s.deps.Webhooks.CreateWebhook(ctx, actorFrom(ctx), req)
	if err != nil {
		return nil, err
	}
	return gen.CreateWebhook201JSONResponse{Body: gen.WebhookCreated{Webhook: webhookOf(w), Secret: secret},
		Headers: gen.CreateWebhook201ResponseHeaders{ETag: etag(w.Revision), Location: "/api/v1/webhooks/" + w.ID}}, nil
}

// GetWebhook reads a subscription.
func (h *handlers) GetWebhook(ctx context.Context, r gen.GetWebhookRequestObject) (gen.GetWebhookResponseObject, error) {
	w, err := h.s.deps.Webhooks.Webhook(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return gen.GetWebhook200JSONResponse{WebhookAnswerJSONResponse: webhookAnswer(w)}, nil
}

// UpdateWebhook changes a subscription.
func (h *handlers) UpdateWebhook(ctx context.Context, r gen.UpdateWebhookRequestObject) (gen.UpdateWebhookResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	req := governance.WebhookRequest{URL: r.Body.URL, Secret: r.Body.Secret, IfRevision: revision}
	if r.Body.Events != nil {
		events := list(*r.Body.Events, func(e gen.WebhookEvent) string { return string(e) })
		req.Events = &events
	}
	if r.Body.State != nil {
		state := governance.WebhookState(*r.Body.State)
		req.State = &state
	}
	w, err := h.s.deps.Webhooks.UpdateWebhook(ctx, actorFrom(ctx), r.ID, req)
	if err != nil {
		return nil, err
	}
	return gen.UpdateWebhook200JSONResponse{WebhookAnswerJSONResponse: webhookAnswer(w)}, nil
}

// DeleteWebhook ends a subscription.
func (h *handlers) DeleteWebhook(ctx context.Context, r gen.DeleteWebhookRequestObject) (gen.DeleteWebhookResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	if err := h.s.deps.Webhooks.DeleteWebhook(ctx, actorFrom(ctx), r.ID, revision); err != nil {
		return nil, err
	}
	return gen.DeleteWebhook204Response{}, nil
}

// ListDeliveries pages the log of a webhook.
func (h *handlers) ListDeliveries(ctx context.Context, r gen.ListDeliveriesRequestObject) (gen.ListDeliveriesResponseObject, error) {
	page, err := h.s.deps.Webhooks.Deliveries(ctx, actorFrom(ctx), r.ID, pageSize(r.Params.Limit), r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	return gen.ListDeliveries200JSONResponse{Items: list(page.Items, deliveryOf), NextCursor: page.Next}, nil
}

// TestWebhook sends a test event.
func (h *handlers) TestWebhook(ctx context.Context, r gen.TestWebhookRequestObject) (gen.TestWebhookResponseObject, error) {
	d, err := h.s.deps.Webhooks.TestWebhook(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return gen.TestWebhook202JSONResponse(deliveryOf(d)), nil
}

// Redeliver sends a delivery again.
func (h *handlers) Redeliver(ctx context.Context, r gen.RedeliverRequestObject) (gen.RedeliverResponseObject, error) {
	d, err := h.s.deps.Webhooks.Redeliver(ctx, actorFrom(ctx), r.ID, r.Delivery)
	if err != nil {
		return nil, err
	}
	return gen.Redeliver202JSONResponse(deliveryOf(d)), nil
}

func webhookAnswer(w *governance.Webhook) gen.WebhookAnswerJSONResponse {
	return gen.WebhookAnswerJSONResponse{Body: webhookOf(w), Headers: gen.WebhookAnswerResponseHeaders{ETag: etag(w.Revision)}}
}

func webhookOf(w *governance.Webhook) gen.Webhook {
	return gen.Webhook{ID: w.ID, Revision: w.Revision, URL: w.URL, Events: list(w.Events, func(e string) gen.WebhookEvent { return gen.WebhookEvent(e) }),
		State: gen.WebhookState(w.State), Reason: w.Reason, FailingSince: utc(w.Failing), CreatedBy: w.CreatedBy, CreatedAt: utc(w.CreatedAt)}
}

func deliveryOf(d governance.Delivery) gen.Delivery {
	out := gen.Delivery{ID: d.ID, Event: d.Event, State: gen.DeliveryState(d.State), Attempts: d.Attempts, At: utc(d.At), LastAt: utc(d.LastAt),
		Status: d.Status, Error: d.Error, Body: d.Body}
	if d.State == governance.DeliveryPending {
		out.NextAt = utc(d.NextAt)
	}
	return out
}
