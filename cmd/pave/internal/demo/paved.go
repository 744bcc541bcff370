package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/api/gen"
)

// ticketsEach is how many more tickets each of the four agents works after the promotion.
const ticketsEach = 8

// pavedPath lets the agents go on: two of them got the flows as tools over MCP and call them, two still walk by hand.
// What a flow answers is compared with what the walk by hand gives on the twin desk.
func (d *demo) pavedPath(ctx context.Context) error {
	client := &http.Client{Transport: keyed{d.keys["paved"]}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "support-agent", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: d.serve.addr + "/mcp", HTTPClient: client, MaxRetries: -1}, nil)
	if err != nil {
		return fmt.Errorf("connect to /mcp: %w", err)
	}
	defer session.Close()
	flow, err := d.agentsWay(ctx, session)
	if err != nil {
		return err
	}
	fresh, wrong, byFlow, hand, slipped := d.world.Customers[customers-freshCustomers:], 0, 0, 0, 0
	for i, name := range agentNames {
		tel, err := newTelemetry(ctx, d.serve.addr, d.keys["agents"], name, dialect(i%2))
		if err != nil {
			return err
		}
		a := &agent{desk: &deskClient{d.desk.addr, http.DefaultClient}, tel: tel, rand: rand.New(rand.NewPCG(seed, uint64(300+i)))}
		for t := range ticketsEach {
			c := fresh[(i*ticketsEach+t)%len(fresh)]
			known := facts(c, d.world.Orders[c.OrderIDs[0]])
			talk := &dialogue{agent: a, ctx: ctx, conv: a.tel.start(fmt.Sprintf("after-%s-%02d", name, t), time.Now()), said: fmt.Sprintf("I am %s. Please look into order %s.", known["email"], known["order_id"])}
			if i%2 == 1 {
				talk.walk(flow.tools, known)
				hand++
				if talk.slipped {
					slipped++
				}
			} else {
				ok, err := d.callFlow(ctx, session, talk, flow, known)
				if err != nil {
					return errors.Join(err, tel.close(ctx))
				}
				if byFlow++; !ok {
					wrong++
				}
			}
			talk.answer()
			talk.conv.end()
			if talk.err != nil {
				return errors.Join(talk.err, tel.close(ctx))
			}
		}
		if err := tel.close(ctx); err != nil {
			return err
		}
	}
	d.runs += byFlow
	d.mismatch += wrong
	d.paved = adoption{flow: flow.name, calls: byFlow, walks: hand, slipped: slipped}
	fmt.Fprintf(d.Out, "%d tickets by one flow call each, %d outputs equal an agent's by hand, %d differ; %d tickets walked by hand\n", byFlow, byFlow-wrong, wrong, hand)
	_, err = d.cli.quiet(ctx, "", "mine")
	return err
}

// agentsWay is the longest of the promoted flows that an agent is offered as tools.
func (d *demo) agentsWay(ctx context.Context, session *mcp.ClientSession) (*promotion, error) {
	offered := map[string]bool{}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		offered[tool.Name] = true
	}
	var flow *promotion
	for i := range d.promoted {
		if p := &d.promoted[i]; offered[p.name] && (flow == nil || len(p.tools) > len(flow.tools)) {
			flow = p
		}
	}
	if flow == nil {
		return nil, errors.New("no promoted flow is offered over MCP")
	}
	fmt.Fprintf(d.Out, "/mcp offers %d of %d flows (those that only read); the agents' way is %s\n", len(offered), len(d.promoted), flow.name)
	return flow, nil
}

// adoption is who did what on the paved path.
type adoption struct {
	flow         string
	calls, walks int
	slipped      int // walks that another call may have broken in two, which then are none
}

// adopted checks that the report knows what half of the agents called as a flow and what the others still walked by hand.
func (d *demo) adopted(ctx context.Context) error {
	answer, err := d.api.GetReportWithResponse(ctx, "adoption-by-agent", &gen.GetReportParams{})
	if err != nil || answer.JSON200 == nil {
		return errors.Join(err, errors.New("the report of adoption could not be read"))
	}
	var report struct {
		Items []struct {
			Flow      string `json:"flow"`
			Agent     string `json:"agent"`
			FlowCalls int    `json:"flow_calls"`
			Walks     int    `json:"walks"`
		}
	}
	if err := json.Unmarshal(answer.Body, &report); err != nil {
		return err
	}
	seen := adoption{flow: d.paved.flow}
	for _, row := range report.Items {
		i := slices.Index(agentNames, row.Agent)
		switch {
		case row.Flow != d.paved.flow:
		case i < 0, i%2 == 0 && row.Walks > 0, i%2 == 1 && row.FlowCalls > 0:
			return fmt.Errorf("the report says that agent %q made %d calls of flow %s and walked %d times by hand, which it did not", row.Agent, row.FlowCalls, row.Flow, row.Walks)
		default:
			seen.calls, seen.walks = seen.calls+row.FlowCalls, seen.walks+row.Walks
		}
	}
	if seen.calls != d.paved.calls || seen.walks > d.paved.walks || seen.walks < d.paved.walks-d.paved.slipped {
		return fmt.Errorf("of flow %s the agents made %d calls and %d walks by hand; the report has %d and %d", d.paved.flow, d.paved.calls, d.paved.walks, seen.calls, seen.walks)
	}
	return nil
}

// callFlow is one turn in which the agent calls a flow as it calls any tool.
func (d *demo) callFlow(ctx context.Context, session *mcp.ClientSession, talk *dialogue, flow *promotion, known map[string]any) (equal bool, err error) {
	args := map[string]any{}
	for _, k := range flow.inputs {
		args[k] = known[k]
	}
	talk.think()
	began := time.Now()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: flow.name, Arguments: args})
	if err != nil {
		return false, fmt.Errorf("call flow %s over MCP: %w", flow.name, err)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return false, err
	}
	talk.calls++
	talk.conv.toolCall(fmt.Sprintf("call_%d", talk.calls), flow.name, args, raw, "", time.Since(began))
	talk.conv.now = talk.conv.now.Add(time.Since(began))
	talk.seen += len(raw)
	hand, err := byHand(ctx, &deskClient{d.twin.addr, http.DefaultClient}, flow.tools, known)
	if err != nil {
		return false, fmt.Errorf("%s by hand: %w", flow.name, err)
	}
	output, _ := res.StructuredContent.(map[string]any)
	equal = !res.IsError && len(output) > 0
	for _, v := range output {
		equal = equal && partOf(v, hand)
	}
	if !equal {
		fmt.Fprintf(d.Out, "differs: %s with %s: %s\n by hand: %s\n", flow.name, mustJSON(args), raw, mustJSON(hand))
	}
	return equal, nil
}

// walk calls the tools of a flow one by one, a model call before each.
func (d *dialogue) walk(tools []string, known map[string]any) {
	memory := map[string]any{}
	for k, v := range known {
		memory[k] = v
	}
	for _, tool := range tools {
		args := map[string]any{}
		for _, name := range parameters[tool] {
			args[name] = memory[name]
		}
		for k, v := range d.step(tool, args) {
			memory[k] = v
		}
	}
}

// keyed sends an API key with each request.
type keyed struct{ key string }

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}
