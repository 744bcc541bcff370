//go:build e2e

package e2e

import (
	"context"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axe is the accessibility checker's script, "" when it is not installed.
var axe = func() string {
	raw, err := os.ReadFile("../node_modules/axe-core/axe.min.js")
	if err != nil {
		return ""
	}
	return string(raw)
}()

type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// accessible checks the page as it is now against WCAG 2.2 A and AA.
func (p *page) accessible(name string) {
	p.t.Helper()
	p.axe(name, `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']`)
}

// bothThemes checks the page, and in the dark theme what differs there: its contrasts.
func (p *page) bothThemes(name string) {
	p.t.Helper()
	p.theme("light")
	p.accessible(name + ", light")
	p.theme("dark")
	p.axe(name+", dark", `{type: 'rule', values: ['color-contrast']}`)
}

func (p *page) axe(name, rules string) {
	p.t.Helper()
	if axe == "" {
		return // TestAxeIsThere says so
	}
	if !eval[bool](p, `'axe' in window`) {
		p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[any](axe+";true"))
			return err
		}))
	}
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]violation](
		`axe.run(document, {runOnly: `+rules+`}).then((r) => r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map((n) => ({HTML: n.html.slice(0, 200), FailureSummary: n.failureSummary}))})))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		p.failed(err)
	}
	for _, v := range found {
		for _, n := range v.Nodes {
			p.t.Errorf("%s: %s (%s): %s\n  %s\n  %s", name, v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary)
		}
	}
}

func TestAxeIsThere(t *testing.T) {
	if axe == "" {
		if os.Getenv("PAVE_FORBID_SKIPS") == "1" {
			t.Fatal("axe-core is required here: make web")
		}
		t.Skip("no accessibility checks: axe-core is not installed; to enable them: make web")
	}
}

// Every page in both themes passes axe, and so do its dialogs.
func TestEveryPageIsAccessible(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	i := s.furnish(shop)
	p := s.open(s.admin)
	for _, at := range i.furnished() {
		p.visit(at.path)
		p.settled()
		p.bothThemes(at.name)
	}
	for _, d := range []struct{ name, path, button string }{
		{"new-key", "/settings/keys", "New key…"}, {"rotate", "/settings/keys", "rotate"}, {"run-form", "/flows/" + i.flow, "Run…"}, {"disable", "/flows/" + i.flow, "Disable…"}, {"search", "/", "Search"},
		{"approve", "/proposals/" + i.open, "Approve"}, {"reject", "/proposals/" + i.open, "Reject"}, {"changes", "/proposals/" + i.open, "Changes"},
		{"webhook", "/settings/webhooks", "New webhook…"}, {"delete", "/settings/data", "Delete sessions…"}, {"resume", "/runs/" + i.failed, "Resume…"},
	} {
		p.visit(d.path)
		p.settled()
		p.click("button", d.button)
		p.dialog()
		p.accessible(d.path + " " + d.button)
		if shots.dir != "" {
			p.fits("dialog-" + d.name)
		}
	}
	require.False(t, t.Failed())
}
