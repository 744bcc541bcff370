package app

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"pave/governance"
	"pave/ingest"
)

// flowNames knows every flow that was ever promoted, so that an agent's own telemetry about the call of a flow is not
// taken for the call of a tool, and mined.
type flowNames struct {
	gate   *governance.Service
	prefix string // of flows over MCP
	names  atomic.Pointer[map[string]bool]

	changes atomic.Int64 // of the catalogue
	seen    atomic.Int64 // changes that names knows
	mu      sync.Mutex   // held while names are read; who asks meanwhile waits for them
}

func newFlowNames(prefix string) *flowNames {
	f := &flowNames{prefix: prefix}
	f.names.Store(&map[string]bool{})
	f.changes.Store(1)
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
	if f.gate == nil || f.seen.Load() == f.changes.Load() {
		return *f.names.Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.changes.Load()
	if f.seen.Load() == changes {
		return *f.names.Load()
	}
	reader := governance.Actor{Tenant: tenant, Principal: governance.SystemPrincipal, Scopes: []governance.Scope{governance.ScopeRead}}
	versions, err := f.gate.Flows(context.Background(), reader)
	if err == nil { // else the next one asks again
		names := make(map[string]bool, len(versions))
		for i := range versions {
			names[versions[i].Flow.Name] = true
		}
		f.names.Store(&names)
		f.seen.Store(changes)
	}
	return *f.names.Load()
}
