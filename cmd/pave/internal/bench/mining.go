package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"pave/analyzer/baseline"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/observer"
	"pave/observer/planted"
)

// Mining measures mining generated calls: sequences and values come from a real event store.
type Mining struct {
	Calls int
	// CountOnly records sequences without values, which takes a fraction of the time, and leaves out what needs values.
	CountOnly bool
}

// MiningResult is `pave bench mining`. pass_cpu_s is everything after the store is filled: reading sequences,
// counting, selection, data flow, and keeping counts by day; incremental_cpu_s is the pass after it, with one call in a
// hundred new. Filling is not counted. Without values dataflow_cpu_s and pass_cpu_s are 0 and the incremental pass goes on from
// a count. Times that are short are the median of three runs; peaks are of the process, with the store's cache, while that part
// went on.
type MiningResult struct {
	Head
	Calls               int     `json:"calls"`
	Sessions            int     `json:"sessions"`
	CountCPUS           float64 `json:"count_cpu_s"`
	StoreCountCPUS      float64 `json:"store_count_cpu_s"`
	StoreCountPeakRSSMB float64 `json:"store_count_peak_rss_mb"`
	DataflowCPUS        float64 `json:"dataflow_cpu_s"`
	PassCPUS            float64 `json:"pass_cpu_s"`
	PassPeakRSSMB       float64 `json:"pass_peak_rss_mb"`
	TallyCPUS           float64 `json:"tally_cpu_s"` // of the pass: counting every day and keeping the counts
	IncrementalCPUS     float64 `json:"incremental_cpu_s"`
	IncrementalPct      float64 `json:"incremental_pct"` // of pass_cpu_s
	IncrementalPeakMB   float64 `json:"incremental_peak_rss_mb"`
	IncrementalCalls    int     `json:"incremental_calls"`
	IncrementalDays     int     `json:"incremental_days"`
	Days                int     `json:"days"`
	Patterns            int     `json:"patterns"`
	FrequentSequences   int     `json:"frequent_sequences"`

	Baselines MiningBaselines `json:"baselines"`
}

// MiningBaselines are other ways to count the same sequences, in the same process: 2 to 8 tools each.
type MiningBaselines struct {
	ReferenceObserverCPUS  float64 `json:"reference_observer_cpu_s"`
	ReferenceObserverCalls int     `json:"reference_observer_calls"`
	StringMapCPUS          float64 `json:"string_map_cpu_s"`
	StringMapCalls         int     `json:"string_map_calls"`
}

// The workload: sessions spread over days, of which the last calls are new after the pass.
const (
	miningDays      = 100
	newShare        = 100 // one in so many
	maxBaselineLen  = 8
	referenceCalls  = 100_000
	stringMapCalls  = 1_000_000
	countRepeats    = 3
	miningSupport   = 0.001  // of the sessions
	baselineSupport = 3      // occurrences that the reference observer asks for
	leastCalls      = 10_000 // of a generated log: below, a hundredth of its sessions is a handful, and few flows repeat
)

var miningStart = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

// Run implements Runner.
func (b Mining) Run(ctx context.Context, env Env) (_ any, err error) {
	if err := atLeast("--calls", b.Calls, leastCalls); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	res := MiningResult{Head: env.head("mining"), Days: miningDays}
	log := b.generate()
	ids := log.SessionIDs()
	old := len(ids) - len(ids)/newShare
	res.Calls, res.Sessions = log.Calls, old
	if err := b.inMemory(ctx, env, log, &res); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, filepath.Join(dir, "events.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fresh, err := b.fill(ctx, env, db, log, old)
	if err != nil {
		return nil, err
	}
	log = nil
	debug.FreeOSMemory()
	if err := b.fromStore(ctx, env, db, &res, fresh); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return res, nil
}

// generate makes the log, the same at every call.
func (b Mining) generate() *planted.Log {
	return planted.Generate(planted.Options{Calls: b.Calls * newShare / (newShare - 1), Noise: planted.DefaultNoise})
}

// inMemory counts the log in memory, and lets the baselines count.
func (b Mining) inMemory(ctx context.Context, env Env, log *planted.Log, res *MiningResult) error {
	env.note("counting %d calls in memory", log.Calls)
	loaded, err := observer.Load(ctx, log, observer.Options{MinShare: miningSupport})
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	var sizes []int
	used, err := medianCPU(func() error { sizes = loaded.Count(); return nil })
	if err != nil {
		return err
	}
	res.CountCPUS = used.Seconds()
	for _, n := range sizes[min(2, len(sizes)):] {
		res.FrequentSequences += n
	}
	env.note("the baselines")
	used, res.Baselines.StringMapCalls = stringMap(loaded, stringMapCalls)
	res.Baselines.StringMapCPUS = used.Seconds()
	used, res.Baselines.ReferenceObserverCalls, err = referenceObserver(loaded, referenceCalls)
	res.Baselines.ReferenceObserverCPUS = used.Seconds()
	return err
}

// fromStore measures passes from the store. fresh records what is new after the full one.
func (b Mining) fromStore(ctx context.Context, env Env, db store.Store, res *MiningResult, fresh func() error) error {
	src := tenantSource{db, assembly.Loader{Store: db}}
	countOnly := observer.Options{MinShare: miningSupport, MaxEvaluated: -1}
	env.note("counting from the store")
	peak := resetPeakRSS()
	var last *observer.Result
	counted, _, err := measure(func() (err error) { last, err = observer.Mine(ctx, src, countOnly); return err })
	if err != nil {
		return err
	}
	res.StoreCountCPUS, res.StoreCountPeakRSSMB = counted.Seconds(), peak()
	options, pass := countOnly, counted
	peak = freshPeakRSS()
	if !b.CountOnly {
		env.note("a whole pass from the store")
		options = observer.Options{MinShare: miningSupport}
		pass, _, err = measure(func() (err error) { last, err = observer.Mine(ctx, src, options); return err })
		if err != nil {
			return err
		}
		res.DataflowCPUS = (pass - counted).Seconds()
	}
	env.note("keeping counts by day")
	tally, _, err := measure(func() error { return last.Track(ctx, src) })
	if err != nil {
		return err
	}
	res.TallyCPUS, res.PassCPUS, res.PassPeakRSSMB, res.Patterns = tally.Seconds(), (pass + tally).Seconds(), peak(), len(last.Patterns)
	if err := fresh(); err != nil {
		return err
	}
	env.note("an incremental pass")
	var inc observer.Increment
	peak = freshPeakRSS()
	used, _, err := measure(func() (err error) { _, inc, err = observer.Update(ctx, src, last, options); return err })
	if err != nil {
		return err
	}
	res.IncrementalCPUS, res.IncrementalPct = used.Seconds(), 100*used.Seconds()/res.PassCPUS
	res.IncrementalCalls, res.IncrementalDays, res.IncrementalPeakMB = inc.Calls, inc.Days, peak()
	return nil
}

// freshPeakRSS is resetPeakRSS without what earlier measurements left to the collector.
func freshPeakRSS() (peak func() float64) {
	debug.FreeOSMemory()
	return resetPeakRSS()
}

// medianCPU is the middle CPU time of countRepeats runs.
func medianCPU(f func() error) (time.Duration, error) {
	var times []time.Duration
	for range countRepeats {
		used, _, err := measure(f)
		if err != nil {
			return 0, err
		}
		times = append(times, used)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// stringMap counts sequences of 2 to 8 tools in a map by their names, as a direct port would, over stretches of at least
// limit calls.
func stringMap(log *observer.Log, limit int) (used time.Duration, calls int) {
	names := log.Tools()
	used, _, _ = measure(func() error {
		counts := map[string]int{}
		log.Stretches(func(_ uint32, tools []uint32) {
			if calls >= limit {
				return
			}
			calls += len(tools)
			for i := range tools {
				key := names[tools[i]]
				for j := i + 1; j < len(tools) && j < i+maxBaselineLen; j++ {
					key += "\x00" + names[tools[j]]
					counts[key]++
				}
			}
		})
		return nil
	})
	return used, calls
}

// referenceObserver counts and collapses as the base system's observer does, over stretches of at least limit calls.
func referenceObserver(log *observer.Log, limit int) (used time.Duration, calls int, err error) {
	names := log.Tools()
	o, err := baseline.NewObserver(nil)
	if err != nil {
		return 0, 0, err
	}
	log.Stretches(func(_ uint32, tools []uint32) {
		if calls >= limit {
			return
		}
		calls += len(tools)
		t := baseline.Trace{ID: fmt.Sprint("t", calls)}
		for _, tool := range tools {
			t.Steps = append(t.Steps, baseline.Step{Tool: names[tool]})
		}
		o.Add(t)
	})
	opts := baseline.DefaultObserverOptions()
	longest := maxBaselineLen
	opts.MaxLength, opts.MinOccurrences = &longest, baselineSupport
	used, _, err = measure(func() error { _, err := o.SuggestFlows(opts); return err })
	return used, calls, err
}

// tenantSource reads one tenant's sessions from an event store.
type tenantSource struct {
	store.Store
	loader assembly.Loader
}

var _ observer.TallySource = tenantSource{}

func (s tenantSource) Sequences(ctx context.Context, f store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	return s.Store.Sequences(ctx, ingest.DefaultTenant, f, fn)
}

func (s tenantSource) ToolNames(ctx context.Context) ([]string, error) {
	return s.Store.ToolNames(ctx, ingest.DefaultTenant)
}

func (s tenantSource) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	return s.loader.Sessions(ctx, ingest.DefaultTenant, ids, fn)
}

func (s tenantSource) Days(ctx context.Context) ([]store.Day, error) {
	return s.Store.Days(ctx, ingest.DefaultTenant)
}

func (s tenantSource) Tally(ctx context.Context) (store.Tally, error) {
	return s.Store.Tally(ctx, ingest.DefaultTenant)
}

func (s tenantSource) PutTally(ctx context.Context, t store.Tally) error {
	return s.Store.PutTally(ctx, ingest.DefaultTenant, t)
}

// fill records the first old sessions of the log, and returns what records the rest.
func (b Mining) fill(ctx context.Context, env Env, db store.Store, log *planted.Log, old int) (rest func() error, err error) {
	ids := log.SessionIDs()
	sessions := len(ids)
	starts := func(i int) time.Time {
		return miningStart.Add(time.Duration(float64(i) / float64(sessions) * float64(miningDays*24*time.Hour)))
	}
	if b.CountOnly {
		rows, err := sequenceRows(ctx, log, starts)
		if err != nil {
			return nil, err
		}
		env.note("recording %d sequences", old)
		names, _ := log.ToolNames(ctx)
		late := slices.Clone(rows[old:])
		return func() error { return putRows(ctx, db, late, names) }, putRows(ctx, db, rows[:old], names)
	}
	f := &filler{env: env, db: db}
	for i, id := range ids[:old] {
		if err := f.record(ctx, log, id, starts(i)); err != nil {
			return nil, err
		}
	}
	return func() error {
		log := b.generate() // kept until now it would count as memory of the passes before
		late := &filler{env: env, db: db}
		for i, id := range log.SessionIDs()[old:] {
			if err := late.record(ctx, log, id, starts(old+i)); err != nil {
				return err
			}
		}
		return late.finish(ctx)
	}, f.finish(ctx)
}

// sequenceRow is a sequence with the time of its session.
type sequenceRow struct {
	seq   ingest.Sequence
	start time.Time
}

func sequenceRows(ctx context.Context, log *planted.Log, starts func(i int) time.Time) (rows []sequenceRow, err error) {
	err = log.Sequences(ctx, store.SequenceFilter{}, func(s *ingest.Sequence) error {
		rows = append(rows, sequenceRow{*s, starts(len(rows))})
		return nil
	})
	return rows, err
}

func putRows(ctx context.Context, db store.Store, rows []sequenceRow, names []string) error {
	for batch := range slices.Chunk(rows, 2000) {
		put := make([]store.SessionRow, len(batch))
		for i, r := range batch {
			tools := make([]string, len(r.seq.Tools))
			for k, t := range r.seq.Tools {
				tools[k] = names[t]
			}
			put[i] = store.SessionRow{ID: r.seq.SessionID, Summary: ingest.SessionSummary{ID: r.seq.SessionID, Start: r.start, ToolCalls: len(tools)},
				Sequences: []store.NamedSequence{{Agent: r.seq.Agent, Start: r.start, Tools: tools, Turns: r.seq.Turns, Flags: r.seq.Flags}}}
		}
		if err := db.PutSessions(ctx, ingest.DefaultTenant, put); err != nil {
			return err
		}
	}
	return nil
}

// filler records sessions as events and assembles them at the end.
type filler struct {
	env    Env
	db     store.Store
	events []ingest.Event
	done   int
}

const fillBatch = 5000

func (f *filler) record(ctx context.Context, log *planted.Log, id string, start time.Time) error {
	err := log.Sessions(ctx, []string{id}, func(s *ingest.Session) error {
		f.events = append(f.events, eventsOf(s, start)...)
		return nil
	})
	if err != nil || len(f.events) < fillBatch {
		return err
	}
	return f.flush(ctx)
}

func (f *filler) flush(ctx context.Context) error {
	for batch := range slices.Chunk(f.events, fillBatch) {
		ingest.Identify(batch)
		if err := f.db.Append(ctx, ingest.DefaultTenant, batch); err != nil {
			return err
		}
		if before := f.done; (before+len(batch))/500_000 > before/500_000 {
			f.env.note("recorded %d events", before+len(batch))
		}
		f.done += len(batch)
	}
	f.events = nil
	return nil
}

func (f *filler) finish(ctx context.Context) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	f.env.note("assembling sessions")
	_, err := assembly.New(f.db, assembly.Options{}).Run(ctx, ingest.DefaultTenant, time.Time{})
	return err
}

// eventsOf writes a generated session down as the events that would have been received, a second apart.
func eventsOf(s *ingest.Session, start time.Time) []ingest.Event {
	var out []ingest.Event
	for _, run := range s.Runs {
		users := run.Users
		for i, c := range run.Calls {
			for len(users) > 0 && users[0].Before <= i {
				out = append(out, ingest.Event{Kind: ingest.KindUserMessage, Turn: c.Turn, HasTurn: true, User: &ingest.UserMessage{Text: users[0].Text}})
				users = users[1:]
			}
			call := c.ToolCall
			call.CallID = fmt.Sprint("c", i)
			out = append(out, ingest.Event{Kind: ingest.KindToolCall, Turn: c.Turn, HasTurn: true, Call: &call})
		}
	}
	for i := range out {
		e := &out[i]
		e.Origin, e.SessionID, e.Source, e.OriginKind, e.Received = "session:"+s.ID, s.ID, "bench", ingest.OriginAgent, miningStart
		e.Seq, e.HasSeq, e.Start = int64(i), true, start.Add(time.Duration(i)*time.Second)
	}
	return out
}
