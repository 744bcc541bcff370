//go:build e2e

package e2e

import (
	"context"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// answering makes what every later page of the tab gets of the API, but for who is signed in, by a script.
func (p *page) answering(script string) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
			Source: `{ const real = window.fetch; window.fetch = (url, init) => String(url).endsWith('/api/v1/me') ? real(url, init) : (` + script + `)(url, init) }`})
		return err
	}))
}

// looks checks a state: what it says, its accessibility in both themes, its width.
func (p *page) looks(name string, says ...string) {
	p.t.Helper()
	p.sees(says...)
	p.bothThemes(name)
	p.fits(name)
}

// While nothing has answered, every page shows that it loads, and none shows what it does not know.
func TestEveryPageLoading(t *testing.T) {
	s := serve(t, true)
	places := s.ids().places()
	p := s.open(s.admin)
	p.answering(`() => new Promise(() => {})`)
	for _, at := range places {
		p.visit(at.path)
		p.until(`Boolean(document.querySelector('main .loading'))`)
		require.NotContains(t, eval[string](p, `document.querySelector('main').innerText`), "NaN", at.name)
		p.accessible("loading-" + at.name)
		p.fits("loading-" + at.name)
	}
}

// When the service fails, every page says so and how to find it in the log, and can be tried again.
func TestEveryPageFailing(t *testing.T) {
	s := serve(t, true)
	places := s.ids().places()
	p := s.open(s.admin)
	p.answering(`async () => new Response(JSON.stringify({type: 'urn:pave:problem:internal', title: 'Internal error', status: 500, code: 'internal', detail: 'The store does not answer.', instance: '0190-test'}), {status: 500, headers: {'Content-Type': 'application/problem+json'}})`)
	for _, at := range places {
		if at.name == "service" { // which says what it knows without the API
			continue
		}
		p.visit(at.path)
		p.looks("failing-"+at.name, "The store does not answer.", "0190-test", "Try again")
		require.NotContains(t, eval[string](p, `document.querySelector('main').innerText`), "nothing is wrong", at.name)
	}
}

// Who may only record sees on every page what is missing to see it.
func TestEveryPageRefused(t *testing.T) {
	s := serve(t, true)
	places := s.ids().places()
	p := s.open(s.key("service:agents", "ingest"))
	for _, at := range places {
		if at.name == "service" { // everybody may know its version
			continue
		}
		p.visit(at.path)
		p.looks("refused-"+at.name, "You may not see or do this")
		require.False(t, eval[bool](p, `[...document.querySelectorAll('main button')].some((b) => b.innerText === 'Try again')`), at.name)
	}
}

// Every page without any data says what it is for, and so do the sign-in and addresses that lead nowhere.
func TestEveryPageEmpty(t *testing.T) {
	s := serve(t, false)
	q := s.open("")
	q.visit("/")
	q.do(chromedp.WaitVisible("input[type=password]"))
	q.looks("signin", "API key")
	q.do(chromedp.SendKeys("input[type=password]", "pave_wrong\r"))
	q.looks("signin-refused", "unauth")
	p := s.open(s.admin)
	for _, at := range []struct {
		place
		says string
	}{
		{place{"overview", "/"}, "Nothing is recorded yet"}, {place{"proposals", "/proposals"}, "Nothing waits for a decision"}, {place{"flows", "/flows"}, "No flow has been promoted yet"},
		{place{"runs", "/runs"}, "No run is recorded here"}, {place{"sessions", "/sessions"}, "No session is recorded yet"}, {place{"patterns", "/patterns"}, "No call is recorded yet"},
		{place{"tools", "/tools"}, "No tool is known yet"}, {place{"policy", "/settings/policy"}, "Approvals by the effects"}, {place{"webhooks", "/settings/webhooks"}, "Nobody is told of events yet"},
		{place{"data", "/settings/data"}, "Everything that was sent could be used"}, {place{"nowhere", "/no/such/page"}, "There is no page at this address"}, {place{"missing", "/proposals/nothing"}, "Not found"},
	} {
		p.visit(at.path)
		p.settled()
		p.looks("empty-"+at.name, at.says)
	}
	// the overview turns into the first session by itself
	p.visit("/")
	p.sees("waiting for the first session", s.url+"/v1/traces", "make demo")
	s.call("POST", "/api/v1/tool-calls?assemble=true", "", []map[string]any{{"session_id": "s1", "tool": "get_order", "args": map[string]any{"order_id": "o-1"}, "agent": "first", "start": "2026-11-30T10:00:00Z"}}, nil)
	p.until(`!document.body.innerText.includes('Nothing is recorded yet')`)
}
