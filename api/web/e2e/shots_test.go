//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// ids of objects that pages are opened with.
type ids struct{ proposal, open, flow, run, failed, waiting, session, tool, hook string }

// ids are those of the demo's objects.
func (s *service) ids() (i ids) {
	s.t.Helper()
	var proposals struct{ Items []struct{ ID, State string } }
	s.call("GET", "/api/v1/proposals?limit=100", "", nil, &proposals)
	var runs struct{ Items []struct{ ID, Flow string } }
	s.call("GET", "/api/v1/runs?limit=1&status=succeeded", "", nil, &runs)
	require.NotEmpty(s.t, runs.Items)
	i = ids{flow: runs.Items[0].Flow, run: runs.Items[0].ID, session: "ticket-0018", tool: "get_order"}
	for _, p := range proposals.Items {
		switch {
		case p.State == "promoted" && i.proposal == "":
			i.proposal = p.ID
		case p.State == "proposed" && i.open == "":
			i.open = p.ID
		}
	}
	require.NotEmpty(s.t, i.proposal)
	require.NotEmpty(s.t, i.open)
	return i
}

// furnish adds to the demo's data what it lacks: a remark, a run that failed and one that waits, a webhook whose
// deliveries fail, data that could not be used, a flow out of service.
func (s *service) furnish(shop *shop) ids {
	s.t.Helper()
	i := s.ids()
	s.declare(shop)
	s.flow("look_up_stock", "stock", "flaky")
	s.flow("pay_for_stock", "stock", "pay")
	s.flow("old_stock", "stock")
	i.failed, i.waiting = s.run("look_up_stock", "person:rob"), s.run("pay_for_stock", "person:rob")
	var v struct{ Revision int64 }
	s.call("GET", "/api/v1/flows/old_stock", "", nil, &v)
	s.call("PUT", "/api/v1/flows/old_stock/versions/1.0.0/status", "", map[string]any{"status": "needs_review", "reason": "the tool stock answers with another schema"}, nil, "If-Match", etag(v.Revision))
	var hook struct{ Webhook struct{ ID string } }
	s.call("POST", "/api/v1/webhooks", "", map[string]any{"url": shop.web.URL + "/nowhere"}, &hook)
	i.hook = hook.Webhook.ID
	s.call("POST", "/api/v1/webhooks/"+i.hook+"/test", "", nil, nil)
	s.call("POST", "/api/v1/proposals/"+i.open+"/comments", "person:erin", map[string]any{"body": "Does every order have a payment?", "pointer": "/steps/1/input_mapping/payment_id"}, nil)
	s.call("POST", "/api/v1/tool-calls", "", []map[string]any{{"session_id": "s1", "tool": "get_order", "args": map[string]any{}}, {"session_id": "s1"}}, nil)
	resp, err := http.Post(s.url+"/v1/traces", "application/json", nil) // nobody's: refused, and nothing of the page's
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	return i
}

type place struct{ name, path string }

func (i ids) places() []place {
	return []place{
		{"overview", "/"}, {"proposals", "/proposals?state=all"}, {"promoted", "/proposals/" + i.proposal}, {"review", "/proposals/" + i.open}, {"flows", "/flows"}, {"flow", "/flows/" + i.flow},
		{"runs", "/runs"}, {"run", "/runs/" + i.run + "?step=2"}, {"sessions", "/sessions"}, {"session", "/sessions/" + i.session}, {"patterns", "/patterns"},
		{"tools", "/tools"}, {"tool", "/tools/" + i.tool}, {"audit", "/audit"}, {"keys", "/settings/keys"}, {"policy", "/settings/policy"}, {"webhooks", "/settings/webhooks"},
		{"data", "/settings/data"}, {"service", "/settings/service"},
	}
}

// furnished are the places that only a furnished service has.
func (i ids) furnished() []place {
	return append(i.places(), place{"review-yaml", "/proposals/" + i.open + "?tab=yaml"}, place{"review-edit", "/proposals/" + i.open + "?tab=edit"},
		place{"failed", "/runs/" + i.failed + "?step=2"}, place{"waiting", "/runs/" + i.waiting}, place{"needs-review", "/flows/old_stock"}, place{"flow-runs", "/flows/" + i.flow + "?tab=runs"},
		place{"flow-steps", "/flows/" + i.flow + "?tab=steps"}, place{"deliveries", "/settings/webhooks?hook=" + i.hook})
}

// shots says which pictures are kept: PAVE_SHOTS is their folder, PAVE_SHOTS_OF a regular expression of their names.
var shots = struct {
	dir string
	of  *regexp.Regexp
}{os.Getenv("PAVE_SHOTS"), regexp.MustCompile(os.Getenv("PAVE_SHOTS_OF"))}

// fits checks that nothing is wider than the window at three widths, and keeps pictures in both themes.
func (p *page) fits(name string) {
	p.t.Helper()
	if shots.dir != "" && !shots.of.MatchString(name) {
		return
	}
	for _, width := range []int64{1440, 1024, 768} {
		p.do(chromedp.EmulateViewport(width, 900))
		// once charts have measured themselves
		p.until(`[document.documentElement, document.querySelector('main')].every((e) => e.scrollWidth <= e.clientWidth)`)
		if shots.dir == "" {
			continue
		}
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			time.Sleep(100 * time.Millisecond) // charts measure themselves
			require.NoError(p.t, os.WriteFile(filepath.Join(shots.dir, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), p.picture(), 0o600))
		}
	}
	p.do(chromedp.EmulateViewport(1440, 900))
}

func (p *page) theme(theme string) {
	p.t.Helper()
	eval[any](p, fmt.Sprintf(`document.documentElement.dataset.theme = %q`, theme))
}

// Every page at three widths in both themes: nothing is wider than the window.
func TestEveryPageFitsEveryWidth(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	at := s.furnish(shop).furnished()
	p := s.open(s.admin)
	for _, at := range at {
		if shots.dir != "" && !shots.of.MatchString(at.name) {
			continue
		}
		p.visit(at.path)
		p.settled()
		p.fits(at.name)
	}
}
