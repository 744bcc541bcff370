package observer

import (
	"context"
	"fmt"
	"time"

	"pave/ingest"
)

// Log is a normalised log in memory, for measurements of counting alone. It is read-only and safe for concurrent use.
type Log struct {
	calls   *calls
	options Options
}

// Load reads and normalises the sequences as Mine does.
func Load(ctx context.Context, src Source, options Options) (*Log, error) {
	o := options.withDefaults()
	raw, names, err := readAll(ctx, src, o)
	if err != nil {
		return nil, err
	}
	return &Log{calls: normalise(raw, names, toolSet(o.SkipTools)), options: o}, nil
}

// Count counts the frequent sequences, with occurrences and distinct sessions, and returns how many there are by
// length (index = length).
func (l *Log) Count() []int {
	table := count(l.calls, l.options.MaxLength, l.options.minSessions(len(l.calls.sessions)))
	return table.sizes()
}

// Stretches calls fn with the tools of each stretch by their numbers, and the number of its session. The slice is
// valid until fn returns.
func (l *Log) Stretches(fn func(session uint32, tools []uint32)) {
	for s := range l.calls.stretches() {
		from, to := l.calls.starts[s], l.calls.starts[s+1]
		fn(l.calls.session(uint32(s)), l.calls.tok[from:to])
	}
}

// Tools are the names by number.
func (l *Log) Tools() []string { return l.calls.tools }

// readAll reads the sequences and the names of their tools.
func readAll(ctx context.Context, src Source, o Options) (*rawSequences, []string, error) {
	raw, err := readSequences(ctx, src, o)
	if err != nil {
		return nil, nil, fmt.Errorf("read sequences: %w", err)
	}
	names, err := src.ToolNames(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read tool names: %w", err)
	}
	if len(raw.tools) > 0 && int(raw.maxTool) >= len(names) {
		return nil, nil, fmt.Errorf("sequences name tool %d of %d", raw.maxTool, len(names))
	}
	raw.mark(names, o.Since)
	return raw, names, nil
}

// flagEarlier marks calls of a tool as it was before an incompatible change, while a pass reads; no store keeps it.
const flagEarlier ingest.CallFlag = 1 << 7

// flagNotMined is what keeps a call out of patterns.
const flagNotMined = ingest.FlagNotAgent | flagEarlier

// mark tells the calls of tools from before the times given, by when their sequence began; of one without a time it is not
// known.
func (raw *rawSequences) mark(names []string, since map[string]time.Time) {
	if len(since) == 0 {
		return
	}
	from := make([]int64, len(names))
	for i, name := range names {
		if at, changed := since[name]; changed {
			from[i] = at.Unix()
		}
	}
	for _, s := range raw.seqs {
		for i := s.from; s.start != 0 && i < s.to; i++ {
			if s.start < from[raw.tools[i]] {
				raw.flags[i] |= flagEarlier
			}
		}
	}
}
