package flowmcp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// caller handles the calls of one flow.
func (s *Server) caller(o *runs.Offer) mcp.ToolHandler {
	flow := o.Flow
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		actor, err := s.admit(ctx, req, flow.Name)
		if err != nil {
			return nil, err
		}
		input, err := arguments(req.Params.Arguments)
		if err != nil {
			return refusal(flow, err), nil
		}
		run := runs.Request{Flow: flow.Name, Input: input, TraceID: traceOf(req)}
		if run.DynamicParams, err = s.params(ctx, actor, flow, req); err != nil {
			return refusal(flow, err), nil
		}
		ctx, run.OnEvent = s.progress(ctx, req)
		done, err := s.run(ctx, actor, run)
		if err != nil {
			return refusal(flow, err), nil
		}
		return answer(done), nil
	}
}

// admit is the gate of a call: who it is was found out before, and so was that it does not come too often; here is
// whether the caller may run flows. Every decision is kept.
func (s *Server) admit(ctx context.Context, req *mcp.CallToolRequest, flow string) (governance.Actor, error) {
	actor, ok := actorOf(ctx, req.Extra)
	if !ok {
		s.audit.add(governance.GateDecision{Action: "mcp.call", Object: "flow/" + flow, Reason: "CW-E045 nobody was authenticated"})
		return actor, &jsonrpc.Error{Code: codeUnauthenticated, Message: "CW-E045: the call has no authenticated caller"}
	}
	allowed := actor.Has(governance.ScopeRun)
	d := governance.GateDecision{Actor: actor.Principal, Action: "mcp.call", Object: "flow/" + flow, Allowed: allowed}
	if !allowed {
		d.Reason = "CW-E047 the key lacks the scope run"
	}
	s.audit.add(d)
	if !allowed {
		return actor, &jsonrpc.Error{Code: codeForbidden, Message: `CW-E047: this needs the scope "run"`}
	}
	return actor, nil
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
func (s *Server) params(ctx context.Context, actor governance.Actor, flow *flows.Flow, req *mcp.CallToolRequest) (map[string]any, error) {
	if len(flow.DynamicParams) == 0 {
		return nil, nil
	}
	out := map[string]any{}
	for _, name := range flow.DynamicParams {
		secret, bound := s.opts.Params[actor.Principal][name]
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
		if req.Extra != nil {
			if v := req.Extra.Header.Get(HeaderParam + name); v != "" {
				out[name] = v
				continue
			}
		}
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the flow needs %s, which is no argument: the operator binds it to the caller's key, or the client sends the header %s%s", name, HeaderParam, name))
	}
	return out, nil
}

// traceOf is the trace that the call belongs to: of its metadata, else of the request's header.
func traceOf(req *mcp.CallToolRequest) string {
	parent, _ := req.Params.Meta["traceparent"].(string)
	if parent == "" && req.Extra != nil {
		parent = req.Extra.Header.Get("Traceparent")
	}
	return TraceID(parent)
}

// TraceID is the trace id of a W3C traceparent, "" when it is not one.
func TraceID(parent string) string {
	parts := strings.Split(strings.TrimSpace(parent), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || strings.Trim(parts[1], "0") == "" {
		return ""
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return ""
	}
	return strings.ToLower(parts[1])
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

// run runs a flow, waiting a while where too many go on already.
func (s *Server) run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error) {
	began := time.Now()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		run, err := s.opts.Runs.Run(ctx, actor, req)
		if flows.CodeOf(err) != flows.CodeFull || time.Since(began) > patience {
			return run, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
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
	raw := value.Encode(map[string]any{"flow_stopped": Stopped(run.State, run.ID, c)})
	return &mcp.CallToolResult{Meta: meta, IsError: run.State != executor.StatusHandedBack, StructuredContent: json.RawMessage(raw),
		Content: []mcp.Content{&mcp.TextContent{Text: c.Text()}, &mcp.TextContent{Text: string(raw)}}}
}

// Stopped is a continuation as a JSON object.
func Stopped(status, runID string, c *runs.Continuation) map[string]any {
	done := make([]any, len(c.Done))
	for i, d := range c.Done {
		done[i] = map[string]any{"step": d.Step, "tool": d.Tool, "outputs": d.Outputs}
	}
	remaining := make([]any, len(c.Remaining))
	for i, name := range c.Remaining {
		remaining[i] = name
	}
	out := map[string]any{"status": status, "run_id": runID, "reason": c.Reason, "done": done, "remaining": remaining, "known": nil, "next": nil}
	if c.Known != nil {
		out["known"] = c.Known
	}
	if c.Next != nil {
		next := map[string]any{"step": c.Next.Step, "tool": c.Next.Tool, "inputs": nil}
		if c.Next.Inputs != nil {
			next["inputs"] = c.Next.Inputs
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
