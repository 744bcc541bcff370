package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type webhooksCmd struct {
	Create     webhooksCreateCmd     `cmd:"" help:"Subscribe a URL to events; its secret is printed once."`
	List       webhooksListCmd       `cmd:"" help:"List webhooks."`
	Show       webhooksShowCmd       `cmd:"" help:"Show a webhook."`
	Update     webhooksUpdateCmd     `cmd:"" help:"Change, pause or reactivate a webhook."`
	Delete     webhooksDeleteCmd     `cmd:"" help:"End a webhook; what waits for it is dropped."`
	Deliveries webhooksDeliveriesCmd `cmd:"" help:"What went or goes to a webhook, newest first."`
	Test       webhooksTestCmd       `cmd:"" help:"Send a webhook.test event."`
	Redeliver  webhooksRedeliverCmd  `cmd:"" help:"Send a delivery again."`
}

type webhooksCreateCmd struct {
	URL    string   `arg:"" help:"Where events are posted. Addresses outside of the public network need --egress-allow of the server."`
	Events []string `help:"Only these events: proposal.created, review.submitted, proposal.approved, flow.promoted, flow.rollout_changed, flow.rolled_back, flow.needs_review, run.failed, drift.detected." env:"PAVE_EVENTS"`
	Secret string   `help:"Key of the signatures, at least 16 bytes; without it one is made." env:"PAVE_SECRET"`
}

// Run subscribes.
func (c *webhooksCreateCmd) Run(e *env) error {
	body := gen.WebhookCreate{URL: c.URL, Secret: c.Secret}
	for _, event := range c.Events {
		body.Events = append(body.Events, gen.WebhookEvent(event))
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.CreateWebhookWithResponse(e.ctx, nil, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			fmt.Fprintf(e.err, "webhook %s; its secret, shown once:\n", resp.JSON201.Webhook.ID)
			_, err := fmt.Fprintln(w, resp.JSON201.Secret)
			return err
		})
	})
}

type webhooksListCmd struct{}

// Run lists webhooks.
func (webhooksListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListWebhooksWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return webhookTable(w, resp.JSON200.Items...) })
	})
}

func webhookTable(w io.Writer, hooks ...gen.Webhook) error {
	t := output.NewTable(w, "ID", "URL", "EVENTS", "STATE", "FAILING SINCE", "REASON")
	t.Otherwise("no webhook")
	for _, h := range hooks {
		events := make([]string, len(h.Events))
		for i, event := range h.Events {
			events[i] = string(event)
		}
		which := strings.Join(events, ",")
		if which == "" {
			which = "all"
		}
		t.Row(h.ID, h.URL, which, string(h.State), when(h.FailingSince), h.Reason)
	}
	return t.Flush()
}

type webhooksShowCmd struct {
	ID string `arg:"" help:"The webhook's id."`
}

// Run shows a webhook.
func (c *webhooksShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetWebhookWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return webhookTable(w, *resp.JSON200) })
	})
}

type webhooksUpdateCmd struct {
	ID     string   `arg:"" help:"The webhook's id."`
	URL    *string  `help:"Another URL." env:"PAVE_WEBHOOK_URL"`
	Events []string `help:"Only these events from now on." env:"PAVE_EVENTS" xor:"events"`
	All    bool     `help:"All events from now on." env:"PAVE_ALL_EVENTS" xor:"events"`
	Secret *string  `help:"Another key of the signatures." env:"PAVE_SECRET"`
	State  string   `help:"active or paused." enum:",active,paused" default:"" env:"PAVE_WEBHOOK_STATE"`
}

// Run changes the webhook as it is now.
func (c *webhooksUpdateCmd) Run(e *env) error {
	if c.URL == nil && c.Secret == nil && c.State == "" && !c.All && len(c.Events) == 0 {
		return errUsage("give --url, --events, --all, --secret or --state")
	}
	body := gen.WebhookUpdate{URL: c.URL, Secret: c.Secret}
	if len(c.Events) > 0 || c.All {
		events := []gen.WebhookEvent{}
		for _, event := range c.Events {
			events = append(events, gen.WebhookEvent(event))
		}
		body.Events = &events
	}
	if c.State != "" {
		state := gen.WebhookUpdateState(c.State)
		body.State = &state
	}
	return e.withClient(func(cl *client) error {
		now, err := check(cl.GetWebhookWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		resp, err := check(cl.UpdateWebhookWithResponse(e.ctx, c.ID, &gen.UpdateWebhookParams{IfMatch: etag(now.JSON200.Revision)}, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return webhookTable(w, *resp.JSON200) })
	})
}

type webhooksDeleteCmd struct {
	ID string `arg:"" help:"The webhook's id."`
}

// Run ends the webhook.
func (c *webhooksDeleteCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		now, err := check(cl.GetWebhookWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		_, err = check(cl.DeleteWebhookWithResponse(e.ctx, c.ID, &gen.DeleteWebhookParams{IfMatch: etag(now.JSON200.Revision)}))
		return err
	})
}

type webhooksDeliveriesCmd struct {
	ID string `arg:"" help:"The webhook's id."`
	pageFlags
}

// Run lists deliveries.
func (c *webhooksDeliveriesCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListDeliveriesWithResponse(e.ctx, c.ID, &gen.ListDeliveriesParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			if err := deliveryTable(w, resp.JSON200.Items...); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

func deliveryTable(w io.Writer, deliveries ...gen.Delivery) error {
	t := output.NewTable(w, "ID", "EVENT", "AT", "STATE", "ATTEMPTS", "STATUS", "NEXT", "ERROR")
	t.Otherwise("no delivery")
	for _, d := range deliveries {
		status := "-"
		if d.Status != 0 {
			status = fmt.Sprint(d.Status)
		}
		t.Row(d.ID, d.Event, when(d.At), string(d.State), fmt.Sprint(d.Attempts), status, when(d.NextAt), d.Error)
	}
	return t.Flush()
}

type webhooksTestCmd struct {
	ID string `arg:"" help:"The webhook's id."`
}

// Run sends a test.
func (c *webhooksTestCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.TestWebhookWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return deliveryTable(w, *resp.JSON202) })
	})
}

type webhooksRedeliverCmd struct {
	ID       string `arg:"" help:"The webhook's id."`
	Delivery string `arg:"" help:"The delivery's id."`
}

// Run sends a delivery again.
func (c *webhooksRedeliverCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.RedeliverWithResponse(e.ctx, c.ID, c.Delivery))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return deliveryTable(w, *resp.JSON202) })
	})
}
