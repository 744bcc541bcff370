//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// startRun opens a flow's page and runs it from its form.
func (p *page) startRun(flow string) {
	p.t.Helper()
	p.visit("/flows/" + flow)
	p.settled()
	p.click("button", "Run…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog [name="sku"]`, "A-1"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`location.pathname.startsWith('/ui/runs/')`)
}

// A run waits for a person, who sees why and with which arguments; one call is approved and goes on, one is denied.
func TestApprovingACall(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.declare(shop)
	s.flow("pay_for_stock", "stock", "pay")
	rob := s.open(s.key("person:rob", "read", "run"))
	rob.startRun("pay_for_stock")
	rob.sees("awaiting approval", "waits for a decision", "money leaves the house", "A-1")
	require.True(t, eval[bool](rob, `[...document.querySelectorAll('.approval button')].filter((b) => /Approve|Deny/.test(b.innerText)).every((b) => b.disabled)`), "who started it may not decide")
	at := eval[string](rob, `location.pathname.replace('/ui', '')`)

	dora := s.open(s.key("person:dora", "read", "review"))
	dora.visit("/runs?status=awaiting_approval")
	dora.sees("pay_for_stock")
	dora.visit(at)
	dora.sees("waits for a decision", "live", "1 of 2 done")
	dora.do(chromedp.SendKeys(`.approval input`, "within the budget"))
	dora.click("button", "Approve the call")
	dora.sees("approved", "within the budget", "succeeded")
	rob.sees("succeeded", "2 steps") // over server-sent events

	denied := s.run("pay_for_stock", "person:rob")
	dora.visit("/runs/" + denied)
	dora.sees("waits for a decision")
	dora.click("button", "Deny")
	dora.sees("denied", "An approval was denied")
}

// A run that hangs is cancelled from its page while its steps come live, and resumed from its checkpoint.
func TestCancellingAndResuming(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host(), "--runs-keep-checkpoints", "1h")
	s.declare(shop)
	s.flow("wait_for_stock", "stock", "wait")
	p := s.open(s.key("person:rob", "read", "run"))
	p.startRun("wait_for_stock")
	p.sees("1 of 2 done", "live")
	p.until(`[...document.querySelectorAll('.timeline li')].some((e) => e.innerText.includes('wait') && e.innerText.includes('running'))`)
	p.click("button", "Cancel the run")
	p.sees("cancelled")
	require.Equal(t, int64(1), shop.count.Load())
	shop.free()
	p.click("button", "Resume…")
	p.dialog()
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("succeeded")
	require.Equal(t, int64(1), shop.count.Load(), "what had run was not run again")
}

// A replay shows what is different now beside what was recorded.
func TestReplayShowsDifferences(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.declare(shop)
	s.flow("count_stock", "stock")
	p := s.open(s.key("person:rob", "read", "run"))
	p.startRun("count_stock")
	p.sees("succeeded")
	require.Equal(t, int64(1), shop.count.Load())
	p.click("button", "Replay and compare")
	p.sees("difference")
	cells := eval[[]string](p, `[...[...document.querySelectorAll('tbody tr')].find((r) => r.innerText.includes('outputs.left')).cells].map((c) => c.innerText.trim())`)
	require.Equal(t, []string{"1 stock", "outputs.left", "1", "2"}, cells)
	p.accessible("replay with differences")
}

// A flow of two versions: what is different, going back with a reason, out of service and in again, and what the
// overview says meanwhile.
func TestGoingBackAndDisabling(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.declare(shop)
	s.flow("look_up_stock", "stock")
	s.flow("look_up_stock", "stock", "flaky")
	p := s.open(s.admin)
	p.visit("/flows/look_up_stock")
	p.settled()
	versions := eval[[]string](p, `[...document.querySelectorAll('aside tbody a')].map((a) => a.innerText)`)
	require.Len(t, versions, 2)
	p.click("button", "Diff")
	p.until(`document.querySelector('.diff-added')?.innerText.includes('flaky') || [...document.querySelectorAll('.diff-added')].some((e) => e.innerText.includes('flaky'))`)

	p.visit("/flows/look_up_stock/" + versions[1])
	p.settled()
	p.sees("not the active version")
	p.click("button", "Go back to this version…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog textarea`, "the new tool is out of order"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("a run without a version takes this one")
	var v struct {
		Active         bool
		Status, Reason string
	}
	s.call("GET", "/api/v1/flows/look_up_stock/versions/"+versions[0], "", nil, &v)
	require.Equal(t, "needs_review", v.Status)
	require.Contains(t, v.Reason, "the new tool is out of order")

	p.click("button", "Disable…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog textarea`, "stock-taking"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("stock-taking", "disabled")
	s.call("GET", "/api/v1/flows/look_up_stock/versions/"+versions[1], "", nil, &v)
	require.Equal(t, "disabled", v.Status)
	p.click("button", "Activate…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog textarea`, "counted"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]') && document.querySelector('.lead').innerText.includes('active')`)
	s.call("GET", "/api/v1/flows/look_up_stock/versions/"+versions[1], "", nil, &v)
	require.Equal(t, "active", v.Status)
}

// A new version serves a share of the callers, which is raised to all.
func TestRollingOut(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.declare(shop)
	s.flow("look_up_stock", "stock")
	id := s.draft("look_up_stock", "stock", "stock")
	s.approve(id)
	p := s.open(s.admin)
	p.visit("/proposals/" + id)
	p.settled()
	p.do(chromedp.SetValue(`.promote select`, "0.1"))
	eval[any](p, `document.querySelector('.promote select').dispatchEvent(new Event('change', {bubbles: true}))`)
	p.click("button", "Promote")
	p.sees("promoted as")
	p.visit("/flows/look_up_stock")
	p.settled()
	p.sees("serves 10 % of the callers, 1.0.0 the others")
	require.Equal(t, []string{"10 %", "90 %"}, eval[[]string](p, `[...document.querySelectorAll('aside tbody td.num')].map((e) => e.innerText)`))
	p.click("button", "Roll out…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog textarea`, "nothing failed"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("a run without a version takes this one")
	var v struct {
		Share   float64
		Rollout *struct{}
	}
	s.call("GET", "/api/v1/flows/look_up_stock", "", nil, &v)
	require.Equal(t, 1.0, v.Share)
	require.Nil(t, v.Rollout)
}

// The overview names what is wrong: a flow out of service with its reason, one that fails, data that could not be used;
// each leads to the page that says more.
func TestOverviewNamesProblems(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.declare(shop)
	s.flow("try_stock", "flaky")
	s.flow("old_stock", "stock")
	s.run("try_stock", "")
	var v struct{ Revision int64 }
	s.call("GET", "/api/v1/flows/old_stock", "", nil, &v)
	s.call("PUT", "/api/v1/flows/old_stock/versions/1.0.0/status", "", map[string]any{"status": "needs_review", "reason": "its tool changed"}, nil, "If-Match", etag(v.Revision))
	s.call("POST", "/api/v1/tool-calls", "", []map[string]any{{"session_id": "s1", "tool": "get_order", "args": map[string]any{}}, {"session_id": "s1"}}, nil)
	p := s.open(s.admin)
	p.visit("/")
	p.settled()
	p.sees("old_stock 1.0.0 needs review: its tool changed", "try_stock: 1 of 1 run failed", "1 record dropped", "proposal to decide")
	p.click("a", "why")
	p.until(`location.pathname === '/ui/settings/data'`)
	p.sees("What could not be used", "JSON", "not of the form that is asked for", "1 record", "for ever")
	p.visit("/")
	p.click("a", "which")
	p.until(`location.pathname === '/ui/runs'`)
	p.sees("try_stock", "failed")
	require.NotContains(t, eval[string](p, `document.querySelector('.table').innerText`), "succeeded")
}

// The chart of the overview can count the different tools of each day, which the report tells.
func TestOverviewCountsTheToolsOfADay(t *testing.T) {
	s := serve(t, true)
	var report struct{ Tools []struct{ Tools int } }
	s.call("GET", "/api/v1/reports/activity", "", nil, &report)
	require.NotEmpty(t, report.Tools)
	p := s.open(s.admin)
	p.visit("/")
	p.settled()
	p.click("button", "Tools")
	p.until(`location.search.includes('chart=tools')`)
	p.sees("different tools called")
	label := eval[string](p, `document.querySelector('.chart svg').getAttribute('aria-label')`)
	days := strings.Split(strings.TrimPrefix(label, "tools: "), ", ")
	require.Len(t, days, len(report.Tools), label)
	for i, day := range days {
		require.True(t, strings.HasSuffix(day, fmt.Sprint(" ", report.Tools[i].Tools)), "%s, %v", day, report.Tools[i])
	}
}
