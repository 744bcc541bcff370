package bench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pave/analyzer"
	"pave/analyzer/replay"
	"pave/flows"
	"pave/ingest"
	"pave/observer"
)

// Replay measures proposals on sessions that they were not made from.
type Replay struct {
	Data      string  // folder of recorded sessions, a file per domain
	Test      string  // folder to score on; "" splits Data by task
	TrainFrac float64 // share of the tasks of Data to propose from, 0..1
	Export    string  // folder to write the scored flows to; "" is none
}

// Run implements Runner.
func (b Replay) Run(ctx context.Context, env Env) (any, error) {
	if b.Test == "" && (b.TrainFrac <= 0 || b.TrainFrac >= 1) {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("--train-frac is %g; give a share between 0 and 1, or a folder to test on", b.TrainFrac))
	}
	if err := b.checkExport(); err != nil {
		return nil, err
	}
	domains, err := b.read(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := b.checkSplit(domains); err != nil {
		return nil, err
	}
	for i := range domains {
		if err := domains[i].propose(ctx, env); err != nil {
			return nil, fmt.Errorf("%s: %w", domains[i].name, err)
		}
	}
	report := &replayReport{missed: map[[2]string]*replayMissed{}, res: ReplayResult{Head: env.head("replay"), Rules: map[string]replay.Floor{}}}
	for i, p := range points {
		var floor replay.Floor
		if p.floor > 0 {
			floor = chooseFloor(domains, p.floor)
		}
		report.res.Rules[p.name] = floor
		env.note("%s: %+v", p.name, floor)
		choose(domains, i, floor)
	}
	for i := range domains {
		env.note("scoring %s", domains[i].name)
		if err := domains[i].score(report); err != nil {
			return nil, fmt.Errorf("%s: %w", domains[i].name, err)
		}
	}
	if b.Export != "" {
		if err := exportFlows(b.Export, domains); err != nil {
			return nil, err
		}
	}
	return report.result(), nil
}

// checkExport refuses what could not be written to before the work is done.
func (b Replay) checkExport() error {
	if b.Export == "" {
		return nil
	}
	left, err := os.ReadDir(b.Export)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("%s is no folder that can be read; export to a new folder", b.Export))
	case len(left) > 0:
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("%s is not empty; export to a new folder", b.Export))
	}
	return nil
}

// checkSplit refuses a split with an empty side: all its figures would be zero.
func (b Replay) checkSplit(domains []replayDomain) error {
	train, test := 0, 0
	for i := range domains {
		train += len(domains[i].train)
		test += len(domains[i].test)
	}
	if train > 0 && test > 0 {
		return nil
	}
	message := fmt.Sprintf("of the sessions of %s %d are to propose from and %d to score on; give more tasks, another --train-frac, or a folder to test on", b.Data, train, test)
	if b.Test != "" {
		message = fmt.Sprintf("%s has %d sessions to propose from and %s %d to score on; both need some", b.Data, train, b.Test, test)
	}
	return flows.NewError(flows.CodeInvalid, message)
}

// points are the operating points: the share of predicted arguments that must be right.
var points = [...]struct {
	name  string
	floor float64
}{{"no_floor", 0}, {"floor_97", 0.97}, {"floor_99", 0.99}}

// replayDomain is one file of sessions, split.
type replayDomain struct {
	name        string
	train, test []recordedSession
	all         proposals        // from the whole training part
	loose       proposals        // the same where exactness is not asked for
	folds       [folds]proposals // each from the training part without one fold
	chosen      [len(points)]selection
}

// folds is the number of parts in the cross-validation on the training part.
const folds = 5

// proposals are flows with the sessions that they came from and those kept back.
type proposals struct {
	flows       []*flows.Flow
	compiled    []*replay.Flow
	from, other []*replay.Session
	ranking     *replay.Ranking      // by what they save on the sessions that they came from
	outcomes    []replay.FlowOutcome // on those sessions
	matches     *replay.Matches      // of the flows on both: rules are tried on them many times
}

// read loads the folders and splits their sessions.
func (b Replay) read(ctx context.Context, env Env) ([]replayDomain, error) {
	data, err := readDomains(ctx, env, b.Data)
	if err != nil {
		return nil, err
	}
	out := make([]replayDomain, len(data))
	at := map[string]int{}
	for i, d := range data {
		out[i].name = d.name
		at[d.name] = i
		for _, s := range d.sessions {
			if b.Test != "" || taskHash("dev:", s.task)%100 < uint32(100*b.TrainFrac+0.5) {
				out[i].train = append(out[i].train, s)
			} else {
				out[i].test = append(out[i].test, s)
			}
		}
	}
	if b.Test == "" {
		return out, nil
	}
	test, err := readDomains(ctx, env, b.Test)
	if err != nil {
		return nil, err
	}
	for _, d := range test {
		i, known := at[d.name]
		if !known {
			i = len(out)
			out = append(out, replayDomain{name: d.name}) // nothing to propose from: scored with no flows
		}
		out[i].test = append(out[i].test, d.sessions...)
	}
	return out, nil
}

// taskHash divides tasks: the first eight hexadecimal digits of a SHA-256.
func taskHash(salt, task string) uint32 {
	sum := sha256.Sum256([]byte(salt + task))
	return binary.BigEndian.Uint32(sum[:4])
}

// mostProposals is how many flows of one domain are looked at: all that save anything.
const mostProposals = 1000

// propose mines the training part, and each of its folds' rest.
func (d *replayDomain) propose(ctx context.Context, env Env) (err error) {
	env.note("proposing from %s: %d sessions, %d for the test", d.name, len(d.train), len(d.test))
	// What a flow adds to others is found when it is known which of them are taken.
	all := observer.Options{MinGain: -1, MaxPatterns: mostProposals}
	if d.all, err = propose(ctx, d.train, nil, all); err != nil {
		return err
	}
	if d.loose, err = propose(ctx, d.train, nil, observer.Options{Exactness: -1, MinGain: -1, MaxPatterns: mostProposals}); err != nil {
		return err
	}
	for f := range d.folds {
		var from, other []recordedSession
		for _, s := range d.train {
			if taskHash("fold:", s.task)%folds == uint32(f) {
				other = append(other, s)
			} else {
				from = append(from, s)
			}
		}
		if d.folds[f], err = propose(ctx, from, other, all); err != nil {
			return err
		}
	}
	return nil
}

// propose runs a whole pass over sessions, as the service does, and scores what it proposes on the sessions.
func propose(ctx context.Context, from, other []recordedSession, options observer.Options) (proposals, error) {
	p := proposals{matches: replay.NewMatches()}
	sessions := make([]ingest.Session, len(from))
	tools := analyzer.NewInferrer()
	for i, s := range from {
		sessions[i] = *s.Session
		tools.ObserveSession(s.Session)
		p.from = append(p.from, s.ready)
	}
	for _, s := range other {
		p.other = append(p.other, s.ready)
	}
	src := observer.NewMemory(sessions)
	options.Effects = func(tool string) bool { return !replay.ReadOnly(tool) } // recorded calls carry no safety
	mined, err := observer.Mine(ctx, src, options)
	if err != nil {
		return p, err
	}
	candidates, err := analyzer.Propose(ctx, mined, analyzer.NewCatalogue(nil, withSafety(tools.Tools())), src, analyzer.Options{MaxChains: -1, Values: tools, Secondary: true})
	if err != nil {
		return p, err
	}
	for i := range candidates {
		p.flows = append(p.flows, candidates[i].Flow)
	}
	p.compiled = make([]*replay.Flow, len(p.flows))
	for i, f := range p.flows {
		if p.compiled[i], err = replay.Compile(f); err != nil {
			return p, fmt.Errorf("flow %s: %w", f.Name, err)
		}
	}
	p.ranking = replay.NewRanking(p.compiled, p.from, p.matches)
	p.outcomes = p.ranking.ByFlow
	return p, nil
}

// withSafety marks the tools that only read, by the verb rule.
func withSafety(tools []*flows.Tool) []*flows.Tool {
	for _, t := range tools {
		if replay.ReadOnly(t.Name) {
			t.Safety = &flows.SafetyContract{SideEffects: flows.EffectRead}
		}
	}
	return tools
}
