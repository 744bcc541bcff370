package analyzer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/observer"
)

// overlaps answers from a table "producer pointer consumer argument".
type overlaps map[string]float64

func (o overlaps) Overlap(producer, pointer, consumer, argument string) (float64, bool) {
	share, ok := o[strings.Join([]string{producer, pointer, consumer, argument}, " ")]
	return share, ok
}

func cold(t *testing.T, mined *observer.Result, values Overlaps, tools ...*flows.Tool) []Candidate {
	t.Helper()
	candidates, err := Propose(context.Background(), mined, NewCatalogue(tools, nil), nil, Options{Values: values})
	require.NoError(t, err)
	var out []Candidate
	for i := range candidates {
		if candidates[i].Source == SourceAnalyzer {
			checkCandidate(t, &candidates[i])
			out = append(out, candidates[i])
		}
	}
	return out
}

func keys(candidates []Candidate) []string {
	var out []string
	for _, c := range candidates {
		out = append(out, strings.TrimPrefix(c.PatternKey, "analyzer/linear/"))
	}
	return out
}

var desk = []*flows.Tool{
	tool("get_order", object("order_id"), object("order_id", "shipment_id", "status", "total:number"), flows.EffectRead),
	tool("get_shipment", object("shipment_id"), object("shipment_id", "carrier", "tracking_number"), flows.EffectRead),
	tool("track_parcel", object("carrier", "tracking_number"), object("location"), flows.EffectRead),
	tool("get_time", object(), object("now"), flows.EffectRead),
	tool("set_status", object("status"), object("ok:boolean"), flows.EffectWrite),
}

func TestColdChains(t *testing.T) {
	got := cold(t, &observer.Result{}, nil, desk...)
	// Three tools save more than two; get_time needs nothing, so it follows nothing; "status" is too generic.
	require.Equal(t, []string{"get_order>get_shipment>track_parcel"}, keys(got))
	c := got[0]
	assert.Equal(t, 4.0, c.Score, "two identifiers")
	assert.Equal(t, []SchemaEdge{
		{Producer: "get_order", OutputField: "/shipment_id", Consumer: "get_shipment", InputField: "shipment_id", Rule: ruleName},
		{Producer: "get_shipment", OutputField: "/carrier", Consumer: "track_parcel", InputField: "carrier", Rule: ruleName},
		{Producer: "get_shipment", OutputField: "/tracking_number", Consumer: "track_parcel", InputField: "tracking_number", Rule: ruleName},
	}, c.Evidence.SchemaEdges)
	assert.Zero(t, c.Savings.LLMCallsPerRun.Known)
	assert.Contains(t, c.Savings.Basis, "not observed")
	assert.Equal(t, flows.Mapping{{Target: "carrier", Value: flows.Pointer("/shipment/carrier")}, {Target: "tracking_number", Value: flows.Pointer("/shipment/tracking_number")}}, c.Flow.Steps[2].InputMapping)
	assert.JSONEq(t, `{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"],"additionalProperties":false}`, string(c.Flow.InputSchema))
}

func TestColdChainsLeaveOutWhatIsKnown(t *testing.T) {
	mined := pair("get_order", "get_shipment")
	result := &observer.Result{Patterns: []observer.Pattern{mined}}
	assert.Equal(t, []string{"get_order>get_shipment>track_parcel"}, keys(cold(t, result, nil, desk...)), "longer than what was mined")
	result.Patterns[0].Tools = []string{"get_order", "get_shipment", "track_parcel"}
	assert.Equal(t, []string{"get_shipment>track_parcel"}, keys(cold(t, &observer.Result{Blocked: []observer.Blocked{{
		Tools: []string{"get_order", "get_shipment"}, Reason: "choice", Step: 1, Arg: "shipment_id"}}}, nil, desk...)), "the model chooses the shipment")
	assert.Empty(t, keys(cold(t, result, nil, desk...)))
}

func TestColdChainRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		tools []*flows.Tool
		value overlaps
		want  []string
	}{
		{"types must agree", []*flows.Tool{
			tool("a", object("x_key"), object("user_id:integer"), flows.EffectRead), tool("b", object("user_id"), object("z"), flows.EffectRead)}, nil, nil},
		{"an integer is a number", []*flows.Tool{
			tool("a", object("x_key"), object("user_id:integer"), flows.EffectRead), tool("b", object("user_id:number"), object("z"), flows.EffectRead)}, nil, []string{"a>b"}},
		{"case and separators do not count", []*flows.Tool{
			tool("a", object("x_key"), object("userId"), flows.EffectRead), tool("b", object("user_id"), object("z"), flows.EffectRead)}, nil, []string{"a>b"}},
		{"all required inputs must come from somewhere", []*flows.Tool{
			tool("a", object("x_key"), object("user_id"), flows.EffectRead), tool("b", object("user_id", "colour"), object("z"), flows.EffectRead)}, nil, nil},
		{"the first tool's own inputs pass through", []*flows.Tool{
			tool("a", object("colour"), object("user_id"), flows.EffectRead), tool("b", object("user_id", "colour"), object("z"), flows.EffectRead)}, nil, []string{"a>b"}},
		{"what a tool was given is no result", []*flows.Tool{
			tool("a", object("user_id"), object("user_id", "n:integer"), flows.EffectRead), tool("b", object("user_id"), object("z"), flows.EffectRead)}, nil, nil},
		{"an id is that of the tool's noun", []*flows.Tool{
			tool("find_order", object("email"), object("id", "total:number"), flows.EffectRead), tool("b", object("order_id"), object("z"), flows.EffectRead)}, nil, []string{"find_order>b"}},
		{"a bare result is what the tool's name says", []*flows.Tool{
			tool("find_user_id_by_email", object("email"), object("result"), flows.EffectRead), tool("b", object("user_id"), object("z"), flows.EffectRead)}, nil, []string{"find_user_id_by_email>b"}},
		{"nested fields count", []*flows.Tool{
			tool("a", object("x_key"), `{"type":"object","properties":{"owner":{"type":"object","properties":{"user_id":{"type":"string"}},"required":["user_id"]}},"required":["owner"]}`, flows.EffectRead),
			tool("b", object("user_id"), object("z"), flows.EffectRead)}, nil, []string{"a>b"}},
		{"a look-up of what is known already is none", []*flows.Tool{
			tool("get_user", object("user_id"), object("email", "user_id"), flows.EffectRead), tool("find_user_id_by_email", object("email"), object("result"), flows.EffectRead)}, nil, nil},
		{"values that never met are no edge", []*flows.Tool{
			tool("a", object("x_key"), object("user_id"), flows.EffectRead), tool("b", object("user_id"), object("z"), flows.EffectRead)}, overlaps{"a /user_id b user_id": 0}, nil},
		{"values that met more often come first", []*flows.Tool{
			tool("a", object("x_key"), object("user_id"), flows.EffectRead), tool("b", object("user_id"), object("y"), flows.EffectRead),
			tool("c", object("user_id"), object("z"), flows.EffectRead)}, overlaps{"a /user_id b user_id": 0.1, "a /user_id c user_id": 0.9}, []string{"a>c", "a>b"}},
		{"an effect in the middle goes last", []*flows.Tool{
			tool("a", object("x_key"), object("user_id"), flows.EffectRead), tool("b", object("user_id"), object("order_id"), flows.EffectDestructive),
			tool("c", object("order_id"), object("z"), flows.EffectRead)}, nil, []string{"a>b", "a>b>c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var values Overlaps
			if c.value != nil {
				values = c.value
			}
			assert.Equal(t, c.want, keys(cold(t, &observer.Result{}, values, c.tools...)))
		})
	}
}

func TestColdChainsAreCapped(t *testing.T) {
	var tools []*flows.Tool
	for i := range 40 {
		tools = append(tools, tool(fmt.Sprintf("get_thing%d", i), object(fmt.Sprintf("k%d_id", i)), object(fmt.Sprintf("k%d_id", (i+1)%40)), flows.EffectRead))
	}
	assert.Len(t, cold(t, &observer.Result{}, nil, tools...), 10)
	// Every tool of a thousand returns and wants the same field: that name means nothing.
	tools = nil
	for i := range 1000 {
		tools = append(tools, tool(fmt.Sprintf("t%d", i), object("shared_id", fmt.Sprintf("own%d", i)), object(fmt.Sprintf("out%d", i)), ""))
		tools = append(tools, tool(fmt.Sprintf("p%d", i), object(fmt.Sprintf("q%d", i)), object("shared_id"), ""))
	}
	assert.Empty(t, cold(t, &observer.Result{}, nil, tools...))
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		tools string
		name  string
		keys  string
	}{
		{"find_user_id_by_name_zip get_user_details", "user_by_name_zip", "user_id user"},
		{"get_user_details get_reservation_details", "reservation_from_user", "user reservation"},
		{"get_order cancel_order", "cancel_order_after_get", "order order_2"},
		{"get_order_details get_order_details get_order_details", "order_x3", "order order_2 order_3"},
		{"book_reservation get_reservation_details", "book_reservation_then_reservation", "reservation reservation_2"},
		{"kb__searchArticles kb__getArticle", "article_from_articles", "articles article"},
		{"list_all_airports search", "search_from_airports", "airports search"},
		{"get_order issue_refund send_message", "issue_refund_and_send_message_from_order", "order refund message"},
		{"find_user_by_email cancel_order update_ticket get_order", "cancel_order_and_order_by_email", "user order ticket order_2"},
		{"cancel_order_by_id get_status", "cancel_order_and_status_by_id", "order status"},
		{"get_user delete_user send_message cancel_order", "delete_user_and_cancel_order_from_user", "user user_2 message order"},
		{"get_order update_order send_message", "send_message_from_order", "order order_2 message"},
		{"get_user order_status get_account", "account_from_user", "user status account"},
		{"lookup execute_payment notify_user", "execute_payment_and_notify_user_from_lookup", "lookup execute_payment user"},
	} {
		tools := strings.Fields(c.tools)
		assert.Equal(t, c.keys, strings.Join(outputKeys(tools, nil), " "), c.tools)
		assert.Equal(t, c.name, flowName(tools), c.tools)
	}
	assert.Equal(t, []string{"user_result"}, outputKeys([]string{"get_user"}, []string{"user"}))
	assert.Equal(t, []string{"get", "user", "details", "v2"}, words("srv.getUserDetails-v2"))

	a, b := strings.Fields("find_x_by_y get_m get_z"), strings.Fields("find_x_by_y get_n get_z")
	names := uniqueNames([]string{"k1", "k2"}, [][]string{a, b})
	assert.Equal(t, []string{"z_by_y", "z_by_y_via_n"}, names)
	assert.Equal(t, []string{"z_by_y_via_n", "z_by_y"}, uniqueNames([]string{"k2", "k1"}, [][]string{b, a}), "order does not matter")
	long := uniqueNames([]string{"k"}, [][]string{{strings.Repeat("update_every_thing_", 10), "get_" + strings.Repeat("long_", 30)}})
	assert.LessOrEqual(t, len(long[0]), maxFlowName)
}
