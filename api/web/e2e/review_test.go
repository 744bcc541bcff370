//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

type proposal struct {
	ID, State, Digest string
	Approvals, Needs  int
	Revision          int
	Reviews           []struct {
		Principal, Verdict, Comment, Feedback string
		Dismissed                             bool
	}
	Flow json.RawMessage
}

func (s *service) proposal(id string) (p proposal) {
	s.t.Helper()
	s.call("GET", "/api/v1/proposals/"+id, "", nil, &p)
	return p
}

// submit puts a flow of two of the demo's tools into the queue, as somebody.
func (s *service) submit(as, name string) string {
	s.t.Helper()
	var p proposal
	s.call("POST", "/api/v1/proposals", as, map[string]any{"flow": map[string]any{
		"format_version": "1.1", "type": "Flow", "name": name, "description": "The shipment of an order.", "on_failure": "hand_back", "on_context_collision": "error",
		"input_schema": map[string]any{"type": "object", "properties": map[string]any{"order_id": map[string]any{"type": "string"}}, "required": []any{"order_id"}, "additionalProperties": false},
		"steps": []any{
			map[string]any{"tool_name": "get_order", "input_mapping": map[string]any{"order_id": "order_id"}, "output_as": "order"},
			map[string]any{"tool_name": "get_shipment", "input_mapping": map[string]any{"shipment_id": "/order/shipment_id"}, "output_as": "shipment"},
		},
		"returns": map[string]any{"shipment": "shipment"},
	}}, &p)
	return p.ID
}

// What would run is drawn as it is: order, conditions, loops, and a line from everything that a value is made of.
func TestDrawingOfAProposal(t *testing.T) {
	s := serve(t, true)
	var created proposal
	step := func(id, tool string, more map[string]any) map[string]any {
		out := map[string]any{"step_id": id, "tool_name": tool, "output_as": id}
		for name, v := range more {
			out[name] = v
		}
		return out
	}
	s.call("POST", "/api/v1/proposals", "person:carol", map[string]any{"flow": map[string]any{
		"format_version": "1.1", "type": "DAGFlow", "name": "drawn_whole", "version": "0.1.0", "description": "All that a drawing shows.", "on_context_collision": "error",
		"input_schema": map[string]any{"type": "object", "properties": map[string]any{"order_id": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}}, "required": []any{"order_id", "kind"}},
		"steps": []any{
			step("first", "get_order", map[string]any{"input_mapping": map[string]any{"order_id": "order_id"}}),
			step("every", "get_order", map[string]any{"depends_on": []any{"first"}, "for_each": "/first/parts", "as": "part", "input_mapping": map[string]any{"order_id": "/part/id"}}),
			step("chosen", "get_order", map[string]any{"depends_on": []any{"first"}, "input_mapping": map[string]any{"order_id": map[string]any{"$expr": "first.parts.filter(e, e.kind == kind)[0].id"}},
				"branches": []any{map[string]any{"predicate": `chosen["state"] == "sent"`, "target_step_id": "sent"}}, "default_next": "unsent"}),
			step("sent", "get_shipment", map[string]any{"depends_on": []any{"chosen"}, "input_mapping": map[string]any{"shipment_id": "/chosen/shipment_id"}}),
			step("unsent", "get_order", map[string]any{"depends_on": []any{"chosen"}, "guard": "kind != None", "input_mapping": map[string]any{"order_id": "order_id"}}),
		},
		"returns": map[string]any{"chosen": "chosen"},
	}}, &created)
	p := s.open(s.key("person:dora", "read", "review"))
	p.visit("/proposals/" + created.ID)
	p.sees("What will run")
	boxes := eval[[]string](p, `[...document.querySelectorAll('.will-run .box:not(.box-input)')].map((b) => [b.querySelector('.box-no').textContent, ...[...b.querySelectorAll('.box-head .dim, .box-guard, .map-arg')].map((e) => e.textContent)].join('|'))`)
	require.Equal(t, []string{"1|order_id", "2|after 1|for each|order_id", "3|after 1|order_id", `4|after 3|if chosen["state"] == "sent"|shipment_id`, "5|after 3|otherwise|if kind != None|order_id"}, boxes)
	// 1: the input; 2: the list; 3: the list and the input that tells the element; 4: the branch and the copy; 5: the branch,
	// the guard and the input.
	require.Equal(t, 9, eval[int](p, `document.querySelectorAll('.will-run svg g.edge').length`))
	tops := eval[[]int](p, `[...document.querySelectorAll('.will-run .box:not(.box-input)')].map((b) => b.offsetTop)`)
	require.Equal(t, tops[1], tops[2], "steps of one level stand beside each other")
	require.Equal(t, tops[3], tops[4])
	require.Less(t, tops[2], tops[3])
}

// The whole review with keys alone: to the queue, through it, a remark, the approval, its confirmation.
func TestReviewByKeyboard(t *testing.T) {
	s := serve(t, true)
	first := s.submit("person:carol", "keyboard_one")
	second := s.submit("person:carol", "keyboard_two")
	p := s.open(s.key("person:dora", "read", "review"))
	p.visit("/proposals?q=keyboard_")
	p.sees("keyboard_one", "keyboard_two")
	ids := eval[[]string](p, `[...document.querySelectorAll('tbody a[href*="/proposals/"]')].map((a) => a.pathname.split('/').pop())`)
	require.ElementsMatch(t, []string{first, second}, ids)
	p.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	p.shortcut("j")
	p.until(`document.querySelectorAll('tbody tr')[1].classList.contains('at')`)
	p.press("\r")
	p.until(fmt.Sprintf(`location.pathname === '/ui/proposals/%s'`, ids[1]))
	p.sees("What will run", "Why believe it", "2 of 2")
	p.shortcut("m")
	p.until(`document.activeElement.id === 'comment'`)
	p.press("is the order id always known?")
	p.press("\t")
	p.press(" ")
	p.sees("is the order id always known?", "person:dora")
	p.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	p.shortcut("a")
	p.dialog()
	p.press("read it all")
	p.press("\t")
	p.press("\r")
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("approved")
	got := s.proposal(ids[1])
	require.Equal(t, "approved", got.State)
	require.Len(t, got.Reviews, 1)
	require.Equal(t, "person:dora", got.Reviews[0].Principal)
	require.Equal(t, "read it all", got.Reviews[0].Comment)
	p.shortcut("k")
	p.until(fmt.Sprintf(`location.pathname === '/ui/proposals/%s'`, ids[0]))
	p.until(fmt.Sprintf(`document.querySelector('h1')?.innerText === %q && document.querySelectorAll('.decide button:enabled').length === 3`,
		map[string]string{first: "keyboard_one", second: "keyboard_two"}[ids[0]]))
	p.shortcut("r")
	p.dialog()
	p.press("not worth a flow")
	p.press("\t")
	p.press("\r")
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("rejected")
	require.Equal(t, "rejected", s.proposal(ids[0]).State)
}

// The same with the mouse: hovering lights up, changes are requested, the draft is edited with its check beside it, and
// the approval that was there is gone; then two people approve and a third promotes.
func TestReviewByMouse(t *testing.T) {
	s := serve(t, true)
	id := s.submit("person:carol", "mouse_one")
	s.call("POST", "/api/v1/proposals/"+id+"/reviews", "person:erin", map[string]any{"verdict": "approve", "digest": s.proposal(id).Digest}, nil,
		"If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
	p := s.open(s.key("person:dora", "read", "review", "propose"))
	p.visit("/proposals/" + id)
	p.settled()
	p.sees("mouse_one", "approved")

	p.do(chromedp.ScrollIntoView(`[data-mapping="1/shipment_id"]`))
	box := eval[[]float64](p, `(() => { const r = document.querySelector('[data-mapping="1/shipment_id"]').getBoundingClientRect(); return [r.x + 20, r.y + 8] })()`)
	p.do(chromedp.MouseEvent("mouseMoved", box[0], box[1]))
	p.until(`document.querySelector('.hot-evidence').innerText.includes('shipment_id')`)
	p.until(`document.querySelectorAll('.edge.hot').length === 1`)

	p.click("button", "Changes")
	p.dialog()
	p.do(chromedp.SendKeys("dialog textarea", "the payment is not needed"))
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("changes requested", "the payment is not needed")
	got := s.proposal(id)
	require.Equal(t, "changes_requested", got.State)
	require.Equal(t, "mapping_wrong", got.Reviews[len(got.Reviews)-1].Feedback)

	p.click("button", "Edit")
	p.sees("compiles", "Golden tests")
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('.edit summary')][0].click()`))
	p.do(chromedp.WaitVisible(".code-edit"))
	edited := strings.Replace(string(got.Flow), `"/order/shipment_id"`, `"/order/nothing"`, 1)
	require.NotEqual(t, string(got.Flow), edited)
	set := func(text string) {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		eval[any](p, fmt.Sprintf(`(() => { const e = document.querySelector('.code-edit'); e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})) })()`, quoted))
	}
	set("{")
	p.sees("This is not JSON")
	set(edited)
	p.until(`document.querySelector('.checked').innerText.includes('does not compile') || /Exact\s+0 of/.test(document.querySelector('.checked').innerText)`)
	require.Equal(t, got.Digest, s.proposal(id).Digest, "nothing is saved yet")
	set(strings.Replace(string(got.Flow), `"name":`, `"description":"Where an order is.","name":`, 1))
	p.until(`!document.querySelector('.checked').innerText.includes('does not compile') && document.querySelector('.checked').innerText.includes('Golden tests')`)
	p.click("button", "Save the draft")
	p.until(`document.querySelector('.review-side').innerText.includes('somebody else must approve')`)
	after := s.proposal(id)
	require.NotEqual(t, got.Digest, after.Digest)
	require.Zero(t, after.Approvals)
	require.True(t, after.Reviews[0].Dismissed)
	p.sees("dismissed")

	q := s.open(s.key("person:erin", "read", "review", "promote"))
	q.visit("/proposals/" + id)
	q.settled()
	for s.proposal(id).State != "approved" {
		before := s.proposal(id).Approvals
		q.click("button", "Approve")
		q.dialog()
		q.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
		q.until(`!document.querySelector('dialog[open]')`)
		require.Greater(t, s.proposal(id).Approvals, before)
	}
	q.click("button", "Promote")
	q.sees("promoted as")
	var v struct {
		Status string
		Active bool
	}
	s.call("GET", "/api/v1/flows/mouse_one", "", nil, &v)
	require.Equal(t, "active", v.Status)
}

// Several at once: marked with the mouse, rejected with one reason.
func TestBulkRejection(t *testing.T) {
	s := serve(t, true)
	ids := []string{s.submit("person:carol", "bulk_one"), s.submit("person:carol", "bulk_two"), s.submit("person:carol", "bulk_three")}
	p := s.open(s.key("person:dora", "read", "review"))
	p.visit("/proposals?q=bulk_")
	p.sees("bulk_three")
	p.do(chromedp.Click(`input[aria-label="Mark bulk_one"]`), chromedp.Click(`input[aria-label="Mark bulk_two"]`))
	p.sees("2 marked proposals")
	p.click("button", "Reject…")
	p.dialog()
	p.do(chromedp.SendKeys("dialog textarea", "twins of another"), chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.until(`!document.body.innerText.includes('bulk_one') && document.body.innerText.includes('bulk_three')`)
	require.Equal(t, "rejected", s.proposal(ids[0]).State)
	require.Equal(t, "rejected", s.proposal(ids[1]).State)
	require.Equal(t, "proposed", s.proposal(ids[2]).State)
	p.click("button", "Save filter")
	p.visit("/")
	p.visit("/proposals")
	p.do(chromedp.Click(".saved a"))
	p.until(`new URLSearchParams(location.search).get('q') === 'bulk_'`)
}

// Several at once by keys alone: marked, approved with one comment, sent with Ctrl and Enter.
func TestBulkApprovalByKeyboard(t *testing.T) {
	s := serve(t, true)
	ids := []string{s.submit("person:carol", "marked_one"), s.submit("person:carol", "marked_two"), s.submit("person:carol", "marked_three")}
	p := s.open(s.key("person:dora", "read", "review"))
	p.visit("/proposals?q=marked_")
	p.sees("marked_one", "marked_two", "marked_three")
	order := eval[[]string](p, `[...document.querySelectorAll('tbody a[href*="/proposals/"]')].map((a) => a.pathname.split('/').pop())`)
	require.ElementsMatch(t, ids, order)
	p.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	p.shortcut("x")
	p.shortcut("j")
	p.shortcut("x")
	p.sees("2 marked proposals")
	p.shortcut("a")
	p.dialog()
	p.press("the same two calls each")
	eval[any](p, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true}))`)
	p.until(`!document.querySelector('dialog[open]')`)
	for i, id := range order {
		require.Equal(t, map[bool]string{true: "approved", false: "proposed"}[i < 2], s.proposal(id).State)
	}
}

// A reviewer says what a tool does whose safety nobody declared, with the approval and a reason; others see who reads.
func TestDeclaringSafetyInAReview(t *testing.T) {
	shop := openShop(t)
	s := serve(t, true, "--egress-allow", shop.host())
	s.call("PUT", "/api/v1/tools/riddle", "", map[string]any{"kind": "Tool", "name": "riddle",
		"input_schema":  map[string]any{"type": "object", "properties": map[string]any{"sku": map[string]any{"type": "string"}}, "required": []any{"sku"}},
		"output_schema": map[string]any{"type": "object"}, "binding": map[string]any{"kind": "http", "method": "GET", "url": shop.web.URL + "/stock?sku={sku}"}}, nil)
	id := s.draft("riddle_me", "riddle")
	require.Equal(t, 2, s.proposal(id).Needs, "what is not known counts as external")
	p := s.open(s.key("person:dora", "read", "review"))
	p.visit("/proposals/" + id)
	p.settled()
	p.click("button", "I read it")
	p.sees("You read it until")
	q := s.open(s.key("person:erin", "read", "review"))
	q.visit("/proposals/" + id)
	q.sees("person:dora reads it until")
	p.click("button", "Approve")
	p.dialog()
	eval[any](p, `(() => { const e = document.querySelector('dialog select'); e.value = 'read'; e.dispatchEvent(new Event('change', {bubbles: true})) })()`)
	p.until(`document.querySelector('dialog button[type=submit]').disabled`) // until it is said how that is known
	p.retype("How you know", "its code is ours")
	p.accessible("approval with a declaration")
	p.do(chromedp.Click(`dialog button[type=submit]`, chromedp.NodeEnabled))
	p.until(`!document.querySelector('dialog[open]')`)
	p.sees("approved")
	var tool struct{ Safety string }
	s.call("GET", "/api/v1/tools/riddle", "", nil, &tool)
	require.Equal(t, "read", tool.Safety)
	require.Equal(t, 1, s.proposal(id).Needs)
	require.Equal(t, "approved", s.proposal(id).State)
}

// Who may not review sees everything and can decide nothing.
func TestReadersDecideNothing(t *testing.T) {
	s := serve(t, true)
	id := s.submit("person:carol", "look_only")
	p := s.open(s.key("person:rita", "read"))
	p.visit("/proposals/" + id)
	p.settled()
	p.sees("look_only", `no scope "review"`)
	require.True(t, eval[bool](p, `[...document.querySelectorAll('.decide button')].length === 3 && [...document.querySelectorAll('.decide button')].every((b) => b.disabled)`))
	p.shortcut("a")
	require.False(t, eval[bool](p, `Boolean(document.querySelector('dialog[open]'))`))
	p.visit("/audit")
	p.sees("You may not see or do this", "admin")
	p.visit("/settings/keys")
	p.sees("You may not see or do this")
}
