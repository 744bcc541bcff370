package flowmcp

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
	"pave/governance/runs"
)

// HeaderParam is the beginning of the headers that carry dynamic params.
const HeaderParam = "Pave-Param-"

// Codes of the gate's refusals, as JSON-RPC errors carry them.
const (
	codeUnauthenticated = -32045 // CW-E045
	codeForbidden       = -32047 // CW-E047
)

// flowCall is one call of a flow, however it came in.
type flowCall struct {
	flow   *flows.Flow
	actor  governance.Actor
	known  bool // who calls was authenticated
	input  map[string]any
	bad    error // why there is no input
	meta   map[string]any
	header http.Header // nil over standard input and output
	// session is that of the protocol, "" when it has no name.
	session string
}

// caller handles the calls of one flow that come through the library.
func (s *Server) caller(o *runs.Offer) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := &flowCall{flow: o.Flow, meta: req.Params.Meta}
		c.actor, c.known = actorOf(ctx, req.Extra)
		c.input, c.bad = arguments(req.Params.Arguments)
		if req.Extra != nil {
			c.header = req.Extra.Header
		}
		if c.session = req.Session.ID(); c.session == "" {
			c.session, _ = ctx.Value(stdioKey{}).(string)
		}
		ctx, onEvent := s.progress(ctx, req)
		return s.perform(ctx, c, onEvent)
	}
}

// perform lets a call through the gate and runs the flow. An error is a refusal of the gate; all else is told to the
// model.
func (s *Server) perform(ctx context.Context, c *flowCall, onEvent func(executor.Event)) (*mcp.CallToolResult, error) {
	if err := s.admit(c); err != nil {
		return nil, err
	}
	if c.bad != nil {
		return refusal(c.flow, c.bad), nil
	}
	params, err := s.params(ctx, c)
	if err != nil {
		return refusal(c.flow, err), nil
	}
	req := runs.Request{Flow: c.flow.Name, SessionID: c.session, Input: c.input, DynamicParams: params, OnEvent: onEvent}
	req.TraceID, req.ParentSpanID = c.trace()
	done, err := s.run(ctx, c.actor, req)
	if flows.CodeOf(err) == flows.CodeOutsideRollout {
		return byHand(c, err), nil
	}
	if err != nil {
		return refusal(c.flow, err), nil
	}
	return answer(done), nil
}

// admit is the gate of a call: who it is was found out before, and so was that it does not come too often; here is
// whether the caller may run flows. Every decision is kept.
func (s *Server) admit(c *flowCall) error {
	d := governance.GateDecision{Actor: c.actor.Principal, Action: "mcp.call", Object: "flow/" + c.flow.Name}
	var refused *jsonrpc.Error
	switch {
	case !c.known:
		d.Reason = "CW-E045 nobody was authenticated"
		refused = &jsonrpc.Error{Code: codeUnauthenticated, Message: "CW-E045: the call has no authenticated caller"}
	case !c.actor.Has(governance.ScopeRun):
		d.Reason = "CW-E047 the key lacks the scope run"
		refused = &jsonrpc.Error{Code: codeForbidden, Message: `CW-E047: this needs the scope "run"`}
	}
	d.Allowed = refused == nil
	s.audit.add(d)
	if refused != nil {
		return refused
	}
	return nil
}

func arguments(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	v, err := value.Decode(raw)
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "the arguments are not JSON that can be taken: "+err.Error())
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, flows.NewError(flows.CodeInvalid, "the arguments must be an object")
	}
	return object, nil
}

// params are the flow's dynamic params: secrets of the server that are bound to the caller, else headers of the request.
func (s *Server) params(ctx context.Context, c *flowCall) (map[string]any, error) {
	if len(c.flow.DynamicParams) == 0 {
		return nil, nil
	}
	out := map[string]any{}
	for _, name := range c.flow.DynamicParams {
		secret, bound := s.opts.Params[c.actor.Principal][name]
		if !bound {
			secret, bound = s.opts.Params["*"][name]
		}
		if bound {
			v, err := s.opts.Secret(ctx, secret)
			if err != nil {
				return nil, flows.NewError(flows.CodeUnavailable, fmt.Sprintf("the secret for %s is not available where pave runs", name))
			}
			out[name] = v
			continue
		}
		if v := c.header.Get(HeaderParam + name); v != "" {
			out[name] = v
			continue
		}
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the flow needs %s, which is no argument: the operator binds it to the caller's key, or the client sends the header %s%s", name, HeaderParam, name))
	}
	return out, nil
}

// trace is the trace and the span that the call belongs to: of its metadata, else of the request's header.
func (c *flowCall) trace() (traceID, spanID string) {
	parent, _ := c.meta["traceparent"].(string)
	if parent == "" {
		parent = c.header.Get("Traceparent")
	}
	return TraceOf(parent)
}

// TraceOf are the ids of a W3C traceparent, "" when it is not one.
func TraceOf(parent string) (traceID, spanID string) {
	parts := strings.Split(strings.TrimSpace(parent), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isID(parts[1], 32) {
		return "", ""
	}
	if isID(parts[2], 16) {
		spanID = strings.ToLower(parts[2])
	}
	return strings.ToLower(parts[1]), spanID
}

// isID reports n hex digits that are not all zero.
func isID(text string, n int) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == n && strings.Trim(text, "0") != ""
}

// progress tells a client that asked for it how far the run is: finished steps, and what tools say of themselves.
func (s *Server) progress(ctx context.Context, req *mcp.CallToolRequest) (context.Context, func(executor.Event)) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return ctx, nil
	}
	total, done := 0, 0
	tell := func(at float64, message string) {
		p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: at, Total: float64(total), Message: message}
		if err := req.Session.NotifyProgress(ctx, p); err != nil {
			s.log.DebugContext(ctx, "progress could not be sent", "error", err)
		}
	}
	said := make(chan string, 1) // of tools, passed on with the next step; a slow client holds no tool up
	ctx = bind.WithProgress(ctx, func(p bind.Progress) {
		select {
		case said <- fmt.Sprintf("%s: %s", p.Tool, p.Message):
		default:
		}
	})
	return ctx, func(ev executor.Event) {
		switch ev.Kind {
		case executor.EventFlowStart:
			total = ev.TotalSteps
		case executor.EventStepEnd:
			done++
			message := ev.ToolName + " is done"
			select {
			case last := <-said:
				message += " (" + last + ")"
			default:
			}
			tell(float64(done), message)
		}
	}
}

// How long a call waits for a place among the runs before it is refused.
const (
	patience  = 30 * time.Second
	firstWait = 5 * time.Millisecond
	lastWait  = 200 * time.Millisecond
)

// run runs a flow, waiting a while where too many go on already: in line behind the caller's own, and then for the others.
func (s *Server) run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	places := s.limits.of(owner(actor)).places
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-patient.Done():
		return nil, cmp.Or(ctx.Err(), error(flows.NewError(flows.CodeFull, fmt.Sprintf("%d runs of %s are going on; retry later", cap(places), actor.Principal))))
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		run, err := s.opts.Runs.Run(ctx, actor, req)
		if code := flows.CodeOf(err); code != flows.CodeFull && code != flows.CodeRateLimited {
			return run, err
		}
		select {
		case <-patient.Done():
			return nil, cmp.Or(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// answer is a run as the result of a call: what returns projects, structured and as text; or how to go on.
func answer(run *runs.Run) *mcp.CallToolResult {
	meta := mcp.Meta{"pave/run_id": run.ID, "pave/status": run.State, "pave/flow": run.Flow + "@" + run.Version}
	if run.State == executor.StatusSucceeded {
		raw := json.RawMessage(value.Encode(run.Result.FinalOutput))
		return &mcp.CallToolResult{Meta: meta, StructuredContent: raw, Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}}
	}
	c := run.Continuation
	if c == nil {
		c = &runs.Continuation{Reason: "the run is " + run.State}
	}
	return stopped(meta, run.State, run.ID, c)
}

func stopped(meta mcp.Meta, status, runID string, c *runs.Continuation) *mcp.CallToolResult {
	raw := value.Encode(map[string]any{"flow_stopped": Stopped(status, runID, c)})
	return &mcp.CallToolResult{Meta: meta, IsError: status != executor.StatusHandedBack, StructuredContent: json.RawMessage(raw),
		Content: []mcp.Content{&mcp.TextContent{Text: c.Text()}, &mcp.TextContent{Text: string(raw)}}}
}

// byHand answers a call that a rollout leaves out as a flow answers that stops before its first step: there is one list of
// tools for all, and agents know how to go on from there. Nothing failed, and there is no run.
func byHand(c *flowCall, err error) *mcp.CallToolResult {
	meta := mcp.Meta{"pave/status": string(flows.CodeOutsideRollout), "pave/flow": c.flow.Name + "@" + c.flow.Version}
	return stopped(meta, executor.StatusHandedBack, "", runs.NotStarted(c.flow, err.Error(), c.input))
}

// Stopped is a continuation as a JSON object; runID "" is none.
func Stopped(status, runID string, c *runs.Continuation) map[string]any {
	done := make([]any, len(c.Done))
	for i, d := range c.Done {
		done[i] = map[string]any{"step": d.Step, "tool": d.Tool, "outputs": d.Outputs}
	}
	remaining := make([]any, len(c.Remaining))
	for i, name := range c.Remaining {
		remaining[i] = name
	}
	out := map[string]any{"status": status, "reason": c.Reason, "done": done, "remaining": remaining, "known": nil, "next": nil}
	if runID != "" {
		out["run_id"] = runID
	}
	if c.Known != nil {
		out["known"] = c.Known
	}
	if c.Next != nil {
		next := map[string]any{"step": c.Next.Step, "tool": c.Next.Tool, "inputs": nil}
		if c.Next.Inputs != nil {
			next["inputs"] = c.Next.Inputs
		}
		if c.Next.MayHaveHappened {
			next["may_have_happened"] = true
		}
		out["next"] = next
	}
	return out
}

// refusal answers a call whose run did not start, so that the model reads why. Internal errors say nothing of
// themselves.
func refusal(flow *flows.Flow, err error) *mcp.CallToolResult {
	message := "flow " + flow.Name + " could not be run now; call its steps by hand"
	known := new(flows.Error)
	if errors.As(err, &known) {
		message = fmt.Sprintf("flow %s was not run (%s): %s", flow.Name, known.Code, known.Message)
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}
