//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func etag(revision int64) string { return fmt.Sprintf(`"%d"`, revision) }

// status asks who a key is.
func (s *service) status(key string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/api/v1/me", nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	return resp.StatusCode
}

// retype replaces what the field with the label holds, by keys.
func (p *page) retype(label, text string) {
	p.t.Helper()
	eval[any](p, fmt.Sprintf(`[...document.querySelectorAll('label')].find((l) => l.innerText.startsWith(%q)).querySelector('input').select()`, label))
	p.press(text)
}

// A key is made, rotated while both are valid, and revoked.
func TestRotatingAKey(t *testing.T) {
	s := serve(t, false)
	p := s.open(s.admin)
	p.visit("/settings/keys")
	p.settled()
	p.click("button", "New key…")
	p.dialog()
	p.press("service:agents")
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.do(chromedp.WaitVisible(".secret"))
	secret := func() string { return eval[string](p, `document.querySelector('.secret').innerText`) }
	first := secret()
	p.accessible("a new key")
	p.click("button", "Done")
	p.sees("service:agents")
	p.do(chromedp.Click(`//tr[contains(., "service:agents")]//button[contains(., "rotate")]`))
	p.dialog()
	p.do(chromedp.Evaluate[chromedp.Void](`{ const e = document.querySelector('dialog select'); e.value = '3600'; e.dispatchEvent(new Event('change', {bubbles: true})) }`))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.do(chromedp.WaitVisible(".secret"))
	second := secret()
	require.NotEqual(t, first, second)
	p.click("button", "Done")
	p.until(`[...document.querySelectorAll('tbody tr')].filter((r) => r.innerText.includes('service:agents') && r.innerText.includes('valid')).length === 2`)
	require.Equal(t, 200, s.status(first))
	require.Equal(t, 200, s.status(second))
	eval[any](p, fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].find((r) => %q.startsWith(r.querySelector('code').innerText)).querySelector('button[aria-label^=Revoke]').click()`, first))
	p.dialog()
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.sees("that ended")
	require.Equal(t, 401, s.status(first))
	require.Equal(t, 200, s.status(second))
}

// A payload is pasted, and what would be hidden of it is marked; what is no JSON is said before anything is sent.
func TestPreviewOfRedaction(t *testing.T) {
	s := serve(t, false, "--retention-days", "30")
	p := s.open(s.admin)
	p.visit("/settings/data")
	p.sees("30 days after their start", "Everything that was sent could be used")
	p.do(chromedp.SendKeys(".card textarea", `{"tool": "charge"`))
	p.sees("not JSON")
	require.True(t, eval[bool](p, `document.querySelector('.card form button[type=submit]').disabled`))
	p.do(chromedp.SendKeys(".card textarea", `, "args": {"api_key": "sk-live-51H8aXq0123456789abcdefgh", "note": "<b>plain</b>"}}`))
	p.click("button", "Show what would be stored")
	p.sees("1 value hidden", "/args/api_key", "<b>plain</b>")
	p.until(`document.querySelector('.preview .redacted').innerText.includes('[redacted:')`)
	require.NotContains(t, eval[string](p, `document.querySelector('.preview').innerText`), "sk-live")
	p.accessible("a redaction preview")
}

// Sessions are deleted from the page, with a receipt.
func TestDeletingSessions(t *testing.T) {
	s := serve(t, true)
	p := s.open(s.admin)
	p.visit("/settings/data")
	p.settled()
	p.click("button", "Delete sessions…")
	p.dialog()
	p.do(chromedp.SendKeys("dialog textarea", "ticket-0018 ticket-0019"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.sees("2 sessions with", "gone for good")
	p.click("button", "Done")
	p.visit("/sessions/ticket-0018")
	p.sees("Not found")
}

// A webhook is made on its page and tested; its log shows the delivery, what was sent, and one that went wrong and is
// sent again.
func TestDeliveriesOfAWebhook(t *testing.T) {
	got := make(chan string, 10)
	answers := make(chan int, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("Pave-Signature") + " " + string(body)
		w.WriteHeader(<-answers)
	}))
	t.Cleanup(target.Close)
	s := serve(t, false, "--egress-allow", strings.TrimPrefix(target.URL, "http://"))
	p := s.open(s.admin)
	p.visit("/settings/webhooks")
	p.sees("Nobody is told of events yet")
	p.click("button", "New webhook…")
	p.dialog()
	p.press(target.URL + "/hook")
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.do(chromedp.WaitVisible(".secret"))
	p.click("button", "Done")
	p.sees(target.URL + "/hook")
	answers <- http.StatusInternalServerError
	p.click("button", "test")
	p.sees("Deliveries to", "webhook.test", "500")
	require.Contains(t, <-got, "v1=")
	p.until(`new URLSearchParams(location.search).has('hook')`)
	p.accessible("deliveries of a webhook")
	answers <- http.StatusOK
	p.click("button", "send again")
	p.sees("delivered", "200")
	require.Contains(t, <-got, "webhook.test")
	p.click("button", "body")
	p.dialog()
	p.sees("webhook.test")
	p.click("button", "Close")
	p.click("button", "pause")
	p.sees("paused")
}

// What is wrong in a policy is not saved; what is right is, with its revision.
func TestChangingThePolicy(t *testing.T) {
	s := serve(t, false)
	p := s.open(s.admin)
	p.visit("/settings/policy")
	p.settled()
	p.retype("write", "30")
	p.click("button", "Save")
	require.True(t, eval[bool](p, `document.querySelector('form input:invalid') !== null`), "the browser says which field is wrong")
	p.retype("write", "3")
	p.retype("One approver of", "person:dora, person:erin")
	p.click("button", "Save")
	p.until(`[...document.querySelectorAll('form button[type=submit]')].every((b) => b.disabled)`)
	var policy struct {
		Approvals         map[string]int
		RequiredReviewers []string `json:"required_reviewers"`
	}
	require.Eventually(t, func() bool {
		s.call("GET", "/api/v1/policies", "", nil, &policy)
		return policy.Approvals["write"] == 3
	}, 5*time.Second, 50*time.Millisecond)
	require.Equal(t, []string{"person:dora", "person:erin"}, policy.RequiredReviewers)

	q := s.open(s.key("person:rita", "read"))
	q.visit("/settings/policy")
	q.settled()
	q.sees(`no scope "admin"`)
	require.True(t, eval[bool](q, `[...document.querySelectorAll('form input')].every((e) => e.matches(':disabled'))`))
}
