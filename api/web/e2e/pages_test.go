//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Signing in with a key gives a cookie that scripts cannot read; signing out ends it.
func TestSigningInAndOut(t *testing.T) {
	s := serve(t, true)
	p := s.open("")
	p.visit("/proposals?state=all")
	p.do(chromedp.WaitVisible("input[type=password]"), chromedp.SendKeys("input[type=password]", "pave_wrong\r"))
	p.sees("unauth")
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("input[type=password]").select()`), chromedp.SendKeys("input[type=password]", s.admin+"\r"))
	p.sees("track_parcel_by_email") // the address was kept
	require.Empty(t, eval[string](p, "document.cookie"))
	require.Equal(t, 200, wait[int](p, `fetch('/api/v1/me').then((r) => r.status)`))
	p.do(chromedp.Click(".who summary"))
	p.click("button", "Sign out")
	p.do(chromedp.WaitVisible("input[type=password]"))
	require.Equal(t, 401, wait[int](p, `fetch('/api/v1/me').then((r) => r.status)`))
}

// What does not exist, and a service that stops answering, are said in plain words.
func TestErrorsAreSaid(t *testing.T) {
	s := serve(t, true)
	p := s.open(s.admin)
	for _, path := range []string{"/proposals/nothing", "/flows/nothing", "/runs/nothing", "/sessions/nothing", "/tools/nothing"} {
		p.visit(path)
		p.settled()
		p.sees("Not found")
	}
	p.visit("/no/such/page")
	p.sees("There is no page at this address")
	p.visit("/flows")
	p.sees("track_parcel_by_email")
	s.stop()
	p.click("a", "Audit")
	p.sees("The service does not answer")
}

// The overview says of each agent how often it called flows and how often it still walked their paths.
func TestAdoptionByAgent(t *testing.T) {
	s := serve(t, true)
	var report struct {
		Items []struct {
			Agent string
		}
	}
	s.call("GET", "/api/v1/reports/adoption-by-agent", "", nil, &report)
	require.NotEmpty(t, report.Items)
	p := s.open(s.admin)
	p.visit("/?range=")
	p.settled()
	p.sees("Adoption by agent", report.Items[0].Agent)
	rows := eval[int](p, `[...document.querySelectorAll('section.card')].filter((c) => c.textContent.includes('Adoption by agent')).at(-1).querySelectorAll('tbody tr').length`)
	agents := map[string]bool{}
	for _, item := range report.Items {
		agents[item.Agent] = true
	}
	require.Equal(t, len(agents), rows)
}

// While data is read a page shows that it loads, and what is shown then does not move what was there.
func TestPagesLoadWithoutJumps(t *testing.T) {
	s := serve(t, true)
	p := s.open(s.admin)
	for _, at := range s.ids().places() {
		p.visit(at.path)
		p.settled()
		shift := wait[float64](p, `new Promise((done) => { let sum = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) sum += e.value }).observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(sum), 50) })`)
		paint := eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0`)
		t.Logf("%-10s layout shift %.3f, first contentful paint %4.0f ms", at.name, shift, paint)
		require.Less(t, shift, 0.1, at.name) // the bound that browsers call good
	}
}

// A flow is run from the form that its input schema makes, its steps come live, and it is replayed.
func TestRunningAFlow(t *testing.T) {
	s := serve(t, true)
	id := s.submit("person:carol", "shipment_of_order")
	for i := range s.proposal(id).Needs {
		s.call("POST", "/api/v1/proposals/"+id+"/reviews", fmt.Sprintf("person:reviewer%d", i), map[string]any{"verdict": "approve", "digest": s.proposal(id).Digest}, nil,
			"If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
	}
	s.call("POST", "/api/v1/proposals/"+id+"/promote", "", map[string]any{}, nil, "If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
	p := s.open(s.key("person:rob", "read", "run"))
	p.visit("/flows/shipment_of_order")
	p.settled()
	p.click("button", "Run…")
	p.dialog()
	p.do(chromedp.SendKeys(`dialog [name="order_id"]`, s.order()))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`location.pathname.startsWith('/ui/runs/')`)
	p.sees("succeeded", "2 steps", "get_shipment")
	p.click("button", "Replay and compare")
	p.sees("no difference")
	p.do(chromedp.Click(`.timeline li:nth-child(2) button`))
	p.sees("Inputs", "Outputs")
	p.until(`new URLSearchParams(location.search).get('step') === '2'`)
	p.click("button", "Context")
	p.sees("this step wrote: shipment")
}

// Ten thousand rows: few are in the document, the last is reached.
func TestTenThousandRows(t *testing.T) {
	const rows = 10_000
	s := serve(t, false)
	for from := 0; from < rows; from += 2500 {
		var batch []map[string]any
		for i := from; i < from+2500; i++ {
			batch = append(batch, map[string]any{"session_id": fmt.Sprintf("row-%05d", i), "tool": "get_order", "agent": "a", "args": map[string]any{"n": i},
				"start": fmt.Sprintf("2026-11-%02dT%02d:%02d:%02dZ", 1+i/1000, i/60/60%24, i/60%60, i%60)})
		}
		s.call("POST", "/api/v1/tool-calls?assemble="+fmt.Sprint(from+2500 == rows), "", batch, nil)
	}
	p := s.open(s.admin)
	p.visit("/sessions")
	p.sees("row-")
	most := 0
	for range 200 {
		p.until(`(() => { const t = document.querySelector('.table'); t.scrollTop = t.scrollHeight; return true })()`)
		wait[any](p, `new Promise((done) => setTimeout(done, 30))`)
		most = max(most, eval[int](p, `document.querySelectorAll('.table tbody tr').length`))
		if eval[string](p, `document.querySelector('.table table').getAttribute('aria-rowcount')`) == fmt.Sprint(rows+1) {
			break
		}
	}
	require.Less(t, most, 150, "rows in the document")
	require.Equal(t, rows, eval[int](p, `Math.round((document.querySelector('.table').scrollHeight - 32) / 34)`))
	p.until(`(() => { const t = document.querySelector('.table'); t.scrollTop = t.scrollHeight; return t.innerText.includes('row-00000') })()`)
}

// The browser is told to run nothing but the built files, whatever a page shows.
func TestPolicyOfThePages(t *testing.T) {
	s := serve(t, false)
	for _, path := range []string{"/ui/", "/ui/proposals/x", "/ui/assets/none.js"} {
		resp, err := http.Get(s.url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		policy := resp.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.False(t, strings.Contains(policy, "unsafe"), policy)
	}
}

// order is the id of an order that an agent looked up.
func (s *service) order() string {
	s.t.Helper()
	var page struct{ Items []struct{ ID string } }
	s.call("GET", "/api/v1/sessions?tool=get_order&limit=20", "", nil, &page)
	for _, item := range page.Items {
		var session struct {
			Runs []struct {
				Calls []struct {
					Tool, Status string
					Args         map[string]any
				}
			}
		}
		s.call("GET", "/api/v1/sessions/"+item.ID, "", nil, &session)
		for _, run := range session.Runs {
			for _, c := range run.Calls {
				if order, ok := c.Args["order_id"].(string); ok && c.Tool == "get_order" && c.Status == "ok" {
					return order
				}
			}
		}
	}
	s.t.Fatal("no agent looked up an order")
	return ""
}
