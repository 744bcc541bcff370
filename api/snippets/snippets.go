// Package snippets holds short programs that people copy: workers that serve tools, agents that call flows, telemetry
// that reaches pave. Each is run against the real service by a test, or says in its first lines that it is not.
package snippets

import "embed"

// Files are the snippets by path, such as "worker/python/pave_worker.py".
//
//go:embed worker agents
var Files embed.FS
