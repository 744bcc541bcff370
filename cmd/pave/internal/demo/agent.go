package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pave/cmd/pave/internal/demo/desk"
)

// deskClient calls the desk's tools over HTTP, as an agent's tool code does.
type deskClient struct {
	base string
	http *http.Client
}

// route says how a tool is reached; path placeholders and query values come from the arguments.
type route struct {
	method, path string
	query        []string
}

var routes = map[string]route{
	"find_customer_by_email":    {"GET", "/customers", []string{"email"}},
	"find_customer_by_name_zip": {"GET", "/customers-by-name", []string{"first_name", "last_name", "zip"}},
	"get_customer":              {"GET", "/customers/{customer_id}", nil},
	"get_order":                 {"GET", "/orders/{order_id}", nil},
	"get_shipment":              {"GET", "/shipments/{shipment_id}", nil},
	"track_parcel":              {"GET", "/parcels/{carrier}/{tracking_number}", nil},
	"get_payment":               {"GET", "/payments/{payment_id}", nil},
	"get_product":               {"GET", "/products/{sku}", nil},
	"get_supplier":              {"GET", "/suppliers/{supplier_id}", nil},
	"search_articles":           {"GET", "/articles", []string{"query"}},
	"get_article":               {"GET", "/articles/{article_id}", nil},
	"get_time":                  {"GET", "/clock", nil},
	"issue_refund":              {"POST", "/refunds", nil},
	"create_return_label":       {"POST", "/returns", nil},
	"send_message":              {"POST", "/messages", nil},
}

// call runs one tool. failure is the tool's own error text; err means that the desk could not be reached.
func (d *deskClient) call(ctx context.Context, tool string, args map[string]any) (result json.RawMessage, failure string, err error) {
	rt := routes[tool]
	path := rt.path
	for k, v := range args {
		path = strings.ReplaceAll(path, "{"+k+"}", url.PathEscape(fmt.Sprint(v)))
	}
	if len(rt.query) > 0 {
		q := url.Values{}
		for _, k := range rt.query {
			q.Set(k, fmt.Sprint(args[k]))
		}
		path += "?" + q.Encode()
	}
	var body io.Reader
	if rt.method == "POST" {
		body = bytes.NewReader(mustJSON(args))
	}
	req, err := http.NewRequestWithContext(ctx, rt.method, d.base+path, body)
	if err != nil {
		return nil, "", err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, "", err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Sprintf("HTTP %d: %s", resp.StatusCode, bytes.TrimSpace(b)), nil
	}
	return b, "", nil
}

// agent is a scripted agent: it decides what a model would decide, calls real tools, and reports telemetry.
type agent struct {
	desk *deskClient
	tel  *telemetry
	rand *rand.Rand
}

// dialogue is one ticket being worked on.
type dialogue struct {
	*agent
	ctx     context.Context
	conv    *conversation
	calls   int
	slipped bool   // a call that belongs to nothing slipped in between
	seen    int    // bytes of results since the last model call
	said    string // user text since the last model call
	err     error
}

// think is the model call before each step; noise calls slip in the way they do in real sessions.
func (d *dialogue) think() {
	d.conv.modelCall(d.said, d.seen, time.Duration(900+d.rand.IntN(2200))*time.Millisecond)
	d.said, d.seen = "", 0
}

// step is one assistant turn with one tool call. It returns the decoded result, nil when the tool failed.
func (d *dialogue) step(tool string, args map[string]any) map[string]any {
	if d.err != nil {
		return nil
	}
	if d.rand.IntN(25) == 0 {
		d.slipped = true
		d.think()
		d.invoke("get_time", map[string]any{})
	}
	d.think()
	res, failure := d.invoke(tool, args)
	if strings.HasPrefix(failure, "HTTP 503") { // the agent tries again, as agents do
		d.think()
		res, _ = d.invoke(tool, args)
	}
	if res != nil && d.rand.IntN(30) == 0 { // and sometimes asks twice for what it knows
		d.think()
		res, _ = d.invoke(tool, args)
	}
	return res
}

// parallel is one assistant turn with several tool calls.
func (d *dialogue) parallel(tools []string, args []map[string]any) {
	if d.err != nil {
		return
	}
	d.think()
	start, last := d.conv.now, d.conv.now
	for i := range tools {
		d.conv.now = start
		d.invoke(tools[i], args[i])
		if d.conv.now.After(last) {
			last = d.conv.now
		}
	}
	d.conv.now = last
}

func (d *dialogue) invoke(tool string, args map[string]any) (map[string]any, string) {
	start := time.Now()
	res, failure, err := d.desk.call(d.ctx, tool, args)
	if err != nil {
		d.err = err
		return nil, err.Error()
	}
	took := time.Since(start)
	d.calls++
	d.conv.toolCall(fmt.Sprintf("call_%d", d.calls), tool, args, res, failure, took)
	d.conv.now = d.conv.now.Add(took)
	d.seen += len(res) + len(failure)
	if failure != "" {
		return nil, failure
	}
	var v map[string]any
	if err := json.Unmarshal(res, &v); err != nil {
		d.err = fmt.Errorf("%s answered something that is not a JSON object: %w", tool, err)
		return nil, err.Error()
	}
	return v, ""
}

// answer is the text answer that ends a turn of the conversation.
func (d *dialogue) answer() { d.think() }

// user is the next message of the customer.
func (d *dialogue) user(text string) {
	d.said = text
	d.conv.now = d.conv.now.Add(time.Duration(10+d.rand.IntN(50)) * time.Second)
}

// work handles one ticket and returns the number of tool calls made.
func (a *agent) work(ctx context.Context, tk ticket, at time.Time) (int, error) {
	d := &dialogue{agent: a, ctx: ctx, conv: a.tel.start(tk.session, at)}
	d.said = tk.text
	tk.kind.script(d, tk)
	d.conv.end()
	return d.calls, d.err
}

// ticket is one customer request: what the customer wrote and the facts it is about.
type ticket struct {
	session  string
	kind     *ticketKind
	text     string
	customer *desk.Customer
	order    *desk.Order
}
