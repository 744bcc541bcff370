package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"

	"pave/api/gen"
	"pave/cmd/pave/internal/demo/desk"
)

// promotion is a flow that was promoted here, with what the demo needs to try it.
type promotion struct {
	name   string
	tools  []string
	inputs []string
}

// maxPromoted bounds how many mined flows are promoted.
const maxPromoted = 4

// review shows what is in the queue, approves as two reviewers, and promotes: the best mined proposals whose
// inputs a ticket knows, and one of the analyzer's schema chains. Another chain is rejected with a reason.
func (d *demo) review(ctx context.Context) error {
	shown := map[gen.ProposalSource]bool{}
	for _, source := range []gen.ProposalSource{"miner", "analyzer"} {
		limit := maxPromoted
		if source == "analyzer" {
			limit = 1
		}
		r, err := d.api.ListProposalsWithResponse(ctx, &gen.ListProposalsParams{Source: source, Limit: 100})
		if err != nil {
			return err
		}
		if r.JSON200 == nil {
			return fmt.Errorf("list proposals: %s", r.Body)
		}
		for _, p := range r.JSON200.Items {
			inputs, err := d.inputsOf(ctx, p.ID)
			if err != nil {
				return err
			}
			if len(p.Unbound) > 0 || !d.knows(inputs) {
				continue
			}
			if limit == 0 {
				if source == "analyzer" { // the reviewer's other answer
					return d.cli.show(ctx, "alice", "proposals", "reject", p.ID, "--reason", "nobody asks the desk for this")
				}
				break
			}
			limit--
			if !shown[source] {
				shown[source] = true
				if err := d.cli.show(ctx, "alice", "proposals", "show", p.ID); err != nil {
					return err
				}
			}
			if err := d.promote(ctx, p); err != nil {
				return err
			}
			d.promoted = append(d.promoted, promotion{p.FlowName, p.Tools, inputs})
		}
		if !shown[source] {
			return fmt.Errorf("no proposal of the %s can be promoted", source)
		}
	}
	return nil
}

// promote approves as as many reviewers as the policy wants and promotes.
func (d *demo) promote(ctx context.Context, p gen.ProposalSummary) error {
	for _, reviewer := range []string{"alice", "bob"}[:p.Needs] {
		if err := d.cli.show(ctx, reviewer, "proposals", "approve", p.ID, "--comment", "checked the evidence"); err != nil {
			return err
		}
	}
	return d.cli.show(ctx, "alice", "promote", p.ID)
}

func (d *demo) inputsOf(ctx context.Context, id string) ([]string, error) {
	r, err := d.api.GetProposalWithResponse(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.JSON200 == nil {
		return nil, fmt.Errorf("get proposal: %s", r.Body)
	}
	var f struct {
		InputSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"input_schema"`
	}
	if err := json.Unmarshal(r.JSON200.Flow, &f); err != nil {
		return nil, err
	}
	var names []string
	for k := range f.InputSchema.Properties {
		names = append(names, k)
	}
	return names, nil
}

// facts are what a caller of a flow knows from a fresh ticket.
func facts(c *desk.Customer, o *desk.Order) map[string]any {
	return map[string]any{
		"email": c.Email, "first_name": c.Name.First, "last_name": c.Name.Last, "zip": c.Address.Zip,
		"order_id": o.ID, "sku": o.Items[0].SKU,
	}
}

func (d *demo) knows(inputs []string) bool {
	known := facts(d.world.Customers[0], d.world.Orders[d.world.Customers[0].OrderIDs[0]])
	for _, in := range inputs {
		if _, ok := known[in]; !ok {
			return false
		}
	}
	return true
}

// runFlows runs every promoted flow on fresh tickets through the API. Each order is used once, because some
// flows pay money back.
func (d *demo) runFlows(ctx context.Context) error {
	fresh := d.world.Customers[customers-freshCustomers:]
	var orders []*desk.Order
	owner := map[string]*desk.Customer{}
	for _, c := range fresh {
		for _, id := range c.OrderIDs {
			orders = append(orders, d.world.Orders[id])
			owner[id] = c
		}
	}
	rand.New(rand.NewPCG(seed, 2)).Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	before, err := d.deskLog(ctx, d.desk)
	if err != nil {
		return err
	}
	steps, next := 0, 0
	for _, p := range d.promoted {
		wrong := 0
		for range d.RunsEach {
			if next == len(orders) {
				return errors.New("no fresh tickets left; ask for fewer runs")
			}
			o := orders[next]
			next++
			n, ok, err := d.compareRun(ctx, p, facts(owner[o.ID], o))
			if err != nil {
				return err
			}
			steps += n
			if !ok {
				wrong++
			}
		}
		d.runs += d.RunsEach
		d.mismatch += wrong
		fmt.Fprintf(d.Out, "%-40s %d runs, %d outputs equal an agent's by hand, %d differ\n", p.name, d.RunsEach, d.RunsEach-wrong, wrong)
	}
	after, err := d.deskLog(ctx, d.desk)
	if err != nil {
		return err
	}
	if after-before != steps {
		return fmt.Errorf("runs recorded %d tool steps, the desk's own log has %d", steps, after-before)
	}
	return nil
}

// runRecord is the part of a run's record that is compared.
type runRecord struct {
	FinalOutput  map[string]any `json:"final_output"`
	ExecutionLog []stepRecord   `json:"execution_log"`
}

type stepRecord struct {
	ToolName string         `json:"tool_name"`
	Outputs  map[string]any `json:"outputs"`
}

// compareRun runs the flow once, does the same by hand on the twin desk, and compares every step's output and
// that what the caller gets comes from them. It returns the number of executed steps.
func (d *demo) compareRun(ctx context.Context, p promotion, known map[string]any) (int, bool, error) {
	input := map[string]any{}
	for _, k := range p.inputs {
		input[k] = known[k]
	}
	r, err := d.api.RunFlowWithResponse(ctx, p.name, &gen.RunFlowParams{}, gen.RunRequest{Input: mustJSON(input)})
	if err != nil {
		return 0, false, err
	}
	if r.JSON200 == nil {
		return 0, false, fmt.Errorf("run %s: %s", p.name, r.Body)
	}
	var rec runRecord
	if err := json.Unmarshal(r.JSON200.Record, &rec); err != nil {
		return 0, false, err
	}
	hand, err := byHand(ctx, &deskClient{d.twin.addr, http.DefaultClient}, p.tools, known)
	if err != nil {
		return 0, false, fmt.Errorf("%s by hand: %w", p.name, err)
	}
	equal := r.JSON200.Status == "succeeded" && len(rec.ExecutionLog) == len(hand) && len(rec.FinalOutput) > 0
	// Steps that need nothing of each other may be recorded in another order than an agent's.
	for i := 0; equal && i < len(hand); i++ {
		equal = slices.ContainsFunc(rec.ExecutionLog, func(step stepRecord) bool {
			return step.ToolName == p.tools[i] && reflect.DeepEqual(step.Outputs, hand[i])
		})
	}
	for _, v := range rec.FinalOutput {
		equal = equal && partOf(v, hand)
	}
	if !equal {
		fmt.Fprintf(d.Out, "differs: %s with %s: %s\n by hand: %s\n", p.name, mustJSON(input), r.Body, mustJSON(hand))
	}
	return len(rec.ExecutionLog), equal, nil
}

// partOf says whether v is one of the results, or a field of one.
func partOf(v any, results []map[string]any) bool {
	for _, r := range results {
		if reflect.DeepEqual(v, any(r)) {
			return true
		}
		for _, f := range r {
			if reflect.DeepEqual(v, f) {
				return true
			}
		}
	}
	return false
}

// byHand calls the tools one by one as an agent does: every argument is something the agent knows from the
// ticket or has read in an answer, by its name on the desk.
func byHand(ctx context.Context, at *deskClient, tools []string, known map[string]any) ([]map[string]any, error) {
	memory := map[string]any{"reason": "damaged"}
	for k, v := range known {
		memory[k] = v
	}
	var out []map[string]any
	for _, tool := range tools {
		args := map[string]any{}
		for _, p := range parameters[tool] {
			args[p] = memory[p]
		}
		raw, failure, err := at.call(ctx, tool, args)
		if err != nil {
			return nil, err
		}
		if failure != "" {
			return nil, fmt.Errorf("%s: %s", tool, failure)
		}
		var res map[string]any
		if err := json.Unmarshal(raw, &res); err != nil {
			return nil, err
		}
		out = append(out, res)
		for k, v := range res {
			memory[k] = v
		}
		switch tool { // what the desk's rules say a message refers to
		case "get_order":
			memory["email"] = res["contact_email"]
		case "issue_refund":
			memory["template"], memory["reference"] = "refund_issued", res["refund_id"]
		case "create_return_label":
			memory["template"], memory["reference"] = "return_label", res["label_id"]
		}
	}
	return out, nil
}

// parameters of the desk's tools.
var parameters = map[string][]string{
	"find_customer_by_email":    {"email"},
	"find_customer_by_name_zip": {"first_name", "last_name", "zip"},
	"get_customer":              {"customer_id"},
	"get_order":                 {"order_id"},
	"get_shipment":              {"shipment_id"},
	"track_parcel":              {"carrier", "tracking_number"},
	"get_payment":               {"payment_id"},
	"get_product":               {"sku"},
	"get_supplier":              {"supplier_id"},
	"search_articles":           {"query"},
	"get_article":               {"article_id"},
	"get_time":                  {},
	"issue_refund":              {"payment_id", "amount", "reason"},
	"create_return_label":       {"order_id", "carrier"},
	"send_message":              {"email", "template", "reference"},
}
