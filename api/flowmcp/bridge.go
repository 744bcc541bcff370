package flowmcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bridge serves one client over near with the tools of the server at far, until the client goes: for clients that start
// programs, where the flows are served by another process. Calls, progress, cancellation and changes of the list pass
// through.
func Bridge(ctx context.Context, far, near mcp.Transport, version string) error {
	b := &bridge{server: mcp.NewServer(&mcp.Implementation{Name: "pave", Version: version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}})}
	client := mcp.NewClient(&mcp.Implementation{Name: "pave-bridge", Version: version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(ctx context.Context, _ *mcp.ToolListChangedRequest) {
			go func() { _ = b.list(context.WithoutCancel(ctx)) }() // the next change tries again
		},
		ProgressNotificationHandler: func(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
			for session := range b.server.Sessions() { // there is one, whose token it is
				_ = session.NotifyProgress(ctx, r.Params)
			}
		},
	})
	session, err := client.Connect(ctx, far, nil)
	if err != nil {
		return fmt.Errorf("connect to the server of flows: %w", err)
	}
	defer func() { _ = session.Close() }()
	b.far = session
	if err := b.list(ctx); err != nil {
		return fmt.Errorf("list flows: %w", err)
	}
	return b.server.Run(ctx, near)
}

type bridge struct {
	server *mcp.Server
	far    *mcp.ClientSession
	mu     sync.Mutex
	names  map[string]bool
}

// list takes over the tools of the far side.
func (b *bridge) list(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := map[string]bool{}
	for tool, err := range b.far.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		now[tool.Name] = true
		b.server.AddTool(tool, b.call)
	}
	for name := range b.names {
		if !now[name] {
			b.server.RemoveTools(name)
		}
	}
	b.names = now
	return nil
}

func (b *bridge) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	meta := mcp.Meta{}
	for _, key := range []string{"progressToken", "traceparent", "tracestate"} { // what else there is belongs to this connection
		if v, ok := req.Params.Meta[key]; ok {
			meta[key] = v
		}
	}
	return b.far.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: req.Params.Name, Arguments: req.Params.Arguments})
}
