package app

import (
	"context"
	"strings"
	"sync/atomic"

	"pave/governance"
	"pave/ingest"
)

// flowNames knows every flow that was ever promoted, so that an agent's own telemetry about the call of a flow is not
// taken for the call of a tool, and mined.
type flowNames struct {
	gate   *governance.Service
	prefix string // of flows over MCP
	stale  atomic.Bool
	names  atomic.Pointer[map[string]bool]
}

func newFlowNames(prefix string) *flowNames {
	f := &flowNames{prefix: prefix}
	f.names.Store(&map[string]bool{})
	f.stale.Store(true)
	return f
}

// classify marks the call of a flow. The call of a tool that a run's own telemetry reports is marked already.
func (f *flowNames) classify(tenant string, e *ingest.Event) {
	if e.Kind != ingest.KindToolCall || e.Call == nil || e.OriginKind != ingest.OriginAgent {
		return
	}
	if f.is(tenant, e.Call.Tool) {
		e.OriginKind = ingest.OriginFlowCall
	}
}

// is compares a name as agents report it: bare, or behind the name of an MCP server, as in mcp__pave__refund, pave.refund
// and pave__refund.
func (f *flowNames) is(tenant, tool string) bool {
	names := f.current(tenant)
	if len(names) == 0 {
		return false
	}
	for _, separator := range []string{"", "__", ".", "/", ":"} {
		name := tool
		if separator != "" {
			i := strings.LastIndex(tool, separator)
			if i < 0 || !strings.Contains(strings.ToLower(tool[:i]), "pave") {
				continue
			}
			name = tool[i+len(separator):]
		}
		if names[name] || f.prefix != "" && names[strings.TrimPrefix(name, f.prefix)] {
			return true
		}
	}
	return false
}

func (f *flowNames) current(tenant string) map[string]bool {
	if f.gate != nil && f.stale.Swap(false) {
		reader := governance.Actor{Tenant: tenant, Principal: governance.SystemPrincipal, Scopes: []governance.Scope{governance.ScopeRead}}
		versions, err := f.gate.Flows(context.Background(), reader)
		if err != nil {
			f.stale.Store(true)
		} else {
			names := make(map[string]bool, len(versions))
			for i := range versions {
				names[versions[i].Flow.Name] = true
			}
			f.names.Store(&names)
		}
	}
	return *f.names.Load()
}
