package runs

import (
	"context"
	"math"
	"slices"

	"pave/executor"
	"pave/governance"
)

// maxProfiled bounds how many runs a profile reads, the newest ones.
const maxProfiled = 1000

// Profile is how long the runs of a flow and their steps took.
type Profile struct {
	Flow    string
	Version string // "" is all versions
	Runs    int    // that were read; dry runs are left out
	Failed  int
	Total   Durations
	Steps   []StepProfile // by step position and tool
}

// StepProfile is one step over the runs.
type StepProfile struct {
	StepIndex int
	StepID    string
	ToolName  string
	Durations
	Calls     int // records, of whatever outcome; the durations are of those that were neither skipped nor cached
	Failed    int
	Skipped   int
	Cached    int
	Retries   int
	Fallbacks int
}

// Durations are in milliseconds. Percentiles are by linear interpolation between the nearest ranks, StdDev is that of
// the sample. Unsteady says that StdDev is more than half of Mean.
type Durations struct {
	Count    int
	P50      float64
	P95      float64
	P99      float64
	Mean     float64
	StdDev   float64
	Max      float64
	Unsteady bool
}

// Profile profiles the newest runs of a flow, at most a thousand; version "" takes all versions.
func (s *Service) Profile(ctx context.Context, actor governance.Actor, name, version string) (*Profile, error) {
	if _, err := s.catalogue.Flow(ctx, actor, name, version); err != nil {
		return nil, err
	}
	p := newProfiler(name, version)
	filter := Filter{Flow: name, Limit: 500}
	for {
		page, err := s.list(ctx, actor, filter, true)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if p.out.Runs < maxProfiled {
				p.add(&page.Items[i])
			}
		}
		if page.Next == "" || p.out.Runs >= maxProfiled {
			return p.finish(), nil
		}
		filter.Cursor = page.Next
	}
}

type profiler struct {
	out    Profile
	totals []float64
	steps  map[stepKey]*stepSamples
}

type stepKey struct {
	index    int
	id, tool string
}

type stepSamples struct {
	StepProfile
	millis []float64
}

func newProfiler(name, version string) *profiler {
	return &profiler{out: Profile{Flow: name, Version: version}, steps: map[stepKey]*stepSamples{}}
}

func (p *profiler) add(run *Run) {
	if run.Result == nil || run.Ended.IsZero() || run.DryRun || p.out.Version != "" && run.Version != p.out.Version {
		return
	}
	p.out.Runs++
	if run.State == executor.StatusFailed {
		p.out.Failed++
	}
	p.totals = append(p.totals, run.Result.TotalDurationMS)
	for i := range run.Result.ExecutionLog {
		r := &run.Result.ExecutionLog[i]
		key := stepKey{r.StepIndex, r.StepID, r.ToolName}
		if key.index < 0 || r.ToolName == run.Flow { // a check of the whole flow
			continue
		}
		s := p.steps[key]
		if s == nil {
			s = &stepSamples{StepProfile: StepProfile{StepIndex: r.StepIndex, StepID: r.StepID, ToolName: r.ToolName}}
			p.steps[key] = s
		}
		s.Calls++
		s.Retries += r.RetryCount
		count(&s.Failed, !r.Success)
		count(&s.Skipped, r.Skipped)
		count(&s.Cached, r.Cached)
		count(&s.Fallbacks, r.FallbackUsed)
		if !r.Skipped && !r.Cached {
			s.millis = append(s.millis, r.DurationMS)
		}
	}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

func (p *profiler) finish() *Profile {
	p.out.Total = durations(p.totals)
	for _, s := range p.steps {
		s.Durations = durations(s.millis)
		p.out.Steps = append(p.out.Steps, s.StepProfile)
	}
	slices.SortFunc(p.out.Steps, func(a, b StepProfile) int {
		if a.StepIndex != b.StepIndex {
			return a.StepIndex - b.StepIndex
		}
		return slices.Compare([]string{a.StepID, a.ToolName}, []string{b.StepID, b.ToolName})
	})
	return &p.out
}

func durations(millis []float64) Durations {
	n := len(millis)
	if n == 0 {
		return Durations{}
	}
	slices.Sort(millis)
	d := Durations{Count: n, P50: percentile(millis, 0.50), P95: percentile(millis, 0.95), P99: percentile(millis, 0.99), Max: millis[n-1]}
	for _, v := range millis {
		d.Mean += v / float64(n)
	}
	if n > 1 {
		sum := 0.0
		for _, v := range millis {
			sum += (v - d.Mean) * (v - d.Mean)
		}
		d.StdDev = math.Sqrt(sum / float64(n-1))
	}
	d.Unsteady = d.StdDev > d.Mean/2
	return d
}

// percentile interpolates between the ranks around q of sorted values.
func percentile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
