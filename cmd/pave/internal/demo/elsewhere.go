package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	worker "pave/api/snippets/worker/go"
)

// Two of the desk's tools are not called over HTTP by flows: one is a function of a worker process, one the tool of an
// MCP server. Both ask the desk, so that its log has every call.

// ServeCarrier serves the tool track_parcel over MCP on listen until ctx ends or stdin closes.
func ServeCarrier(ctx context.Context, listen, desk string, in io.Reader, out io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "carrier", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "track_parcel", Description: "Where a parcel is, as its carrier says.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: json.RawMessage(`{"type":"object","properties":{"carrier":{"type":"string"},"tracking_number":{"type":"string"}},"required":["carrier","tracking_number"]}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			raw, err := ask(ctx, desk, "track_parcel", r.Params.Arguments)
			if err != nil {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
			}
			return &mcp.CallToolResult{StructuredContent: raw, Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}}, nil
		})
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	web := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)}
	ctx, cancel := untilClosed(ctx, in)
	defer cancel()
	go func() {
		<-ctx.Done()
		web.Close()
	}()
	fmt.Fprintf(out, "carrier: serving on http://%s\n", l.Addr())
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServePayments is a worker of the pool payments: it serves the function get_payment until ctx ends or stdin closes.
func ServePayments(ctx context.Context, pave, key, desk string, in io.Reader, out io.Writer) error {
	ctx, cancel := untilClosed(ctx, in)
	defer cancel()
	fmt.Fprintf(out, "worker: serving on %s\n", pave)
	return worker.Serve(ctx, pave, "payments", map[string]func(context.Context, json.RawMessage) (any, error){
		"get_payment": func(ctx context.Context, input json.RawMessage) (any, error) {
			return ask(ctx, desk, "get_payment", input)
		},
	}, key)
}

// ask calls a tool of the desk.
func ask(ctx context.Context, desk, tool string, input json.RawMessage) (json.RawMessage, error) {
	var args map[string]any
	if err := json.Unmarshal(input, &args); err != nil {
		return nil, err
	}
	raw, failure, err := (&deskClient{desk, http.DefaultClient}).call(ctx, tool, args)
	if err == nil && failure != "" {
		err = errors.New(failure)
	}
	return raw, err
}

// untilClosed ends with ctx or when in closes, which means that the parent is gone.
func untilClosed(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
