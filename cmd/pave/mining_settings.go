package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"pave/cmd/pave/internal/output"
	"pave/governance/loop"
	"pave/observer"
)

// miningSettings are the settings of mining: mining: in the settings file, --mining-... and PAVE_MINING_... elsewhere.
// Zero is the default, which the texts name. `pave mine --settings` prints them all.
type miningSettings struct {
	Interval      time.Duration `help:"serve: a pass begins this long after the last when anything was recorded since; negative: none by itself." env:"PAVE_MINING_INTERVAL" default:"15m" hidden:""`
	AfterSessions int           `help:"serve: so many newly assembled sessions make a pass begin before that." env:"PAVE_MINING_AFTER_SESSIONS" default:"50" hidden:""`
	MinPause      time.Duration `help:"serve: least time between passes; nine times the duration of the last one when that is more." env:"PAVE_MINING_MIN_PAUSE" default:"1m" hidden:""`
	FullEvery     time.Duration `help:"serve: passes between two full ones are incremental, so long." env:"PAVE_MINING_FULL_EVERY" default:"24h" hidden:""`
	FullGrowth    float64       `help:"serve: share by which calls may grow until the next full pass." env:"PAVE_MINING_FULL_GROWTH" default:"0.1" hidden:""`
	FullBelow     int           `help:"serve: up to so many calls every pass is full." env:"PAVE_MINING_FULL_BELOW" default:"100000" hidden:""`
	MaxTime       time.Duration `help:"A pass that takes longer is ended." env:"PAVE_MINING_MAX_TIME" default:"30m" hidden:""`
	MaxCalls      int           `help:"Calls read, about 30 bytes of memory each; of more, the latest sessions." env:"PAVE_MINING_MAX_CALLS" default:"20000000" hidden:""`

	SkipTools []string `help:"Tools left out as if they had not been called." env:"PAVE_MINING_SKIP_TOOLS" placeholder:"TOOL" hidden:""`
	KeepNoise bool     `help:"Do not look for tools that agents call anywhere, to leave them out where that gives better flows." env:"PAVE_MINING_KEEP_NOISE" hidden:""`

	MinSessions    int     `help:"Distinct sessions that a path needs." env:"PAVE_MINING_MIN_SESSIONS" default:"3" hidden:""`
	MinShare       float64 `help:"And the share of all sessions." env:"PAVE_MINING_MIN_SHARE" default:"0.001" hidden:""`
	MaxLength      int     `help:"Longest path, in calls." env:"PAVE_MINING_MAX_LENGTH" default:"16" hidden:""`
	Delta          float64 `help:"A path is left to a longer one that has all but this share of its occurrences." env:"PAVE_MINING_DELTA" default:"0.2" hidden:""`
	Fdr            float64 `help:"False discovery rate of the tests against chance, per length." env:"PAVE_MINING_FDR" default:"0.01" hidden:""`
	MaxEvaluated   int     `help:"Paths whose values are examined; 0: 500, or 1,500 with at most 5,000 sessions." env:"PAVE_MINING_MAX_EVALUATED" default:"0" hidden:""`
	MaxPatterns    int     `help:"Patterns kept of a pass." env:"PAVE_MINING_MAX_PATTERNS" default:"200" hidden:""`
	MaxBlocked     int     `help:"Paths that are not paved kept of a pass." env:"PAVE_MINING_MAX_BLOCKED" default:"100" hidden:""`
	SampleSessions int     `help:"Of more sessions a sample of so many, or of more where rare paths need it, is looked at, and all are counted; negative: always all." env:"PAVE_MINING_SAMPLE_SESSIONS" default:"50000" hidden:""`
	MaxSamples     int     `help:"Occurrences of a path examined; 0: 200, or 64 with more than 5,000 sessions." env:"PAVE_MINING_MAX_SAMPLES" default:"0" hidden:""`
	PerSession     int     `help:"Of these at most from one session." env:"PAVE_MINING_PER_SESSION" default:"2" hidden:""`
	MaxLeaves      int     `help:"Values read of one result; loops of more calls are counted only." env:"PAVE_MINING_MAX_LEAVES" default:"2000" hidden:""`
	MinHeld        float64 `help:"Wilson lower bound of the rate at which a mapping must hold, with 22 occurrences or more; with fewer it must always." env:"PAVE_MINING_MIN_HELD" default:"0.85" hidden:""`
	Exactness      float64 `help:"Share of its predictions in which a mapping must be right on sessions that it was not found in." env:"PAVE_MINING_EXACTNESS" default:"0.97" hidden:""`
	MinExact       float64 `help:"Share of the occurrences in which a mapping must be right." env:"PAVE_MINING_MIN_EXACT" default:"0.95" hidden:""`
	MinSure        float64 `help:"The same where an input would do as well, or where it takes one element of a list." env:"PAVE_MINING_MIN_SURE" default:"0.97" hidden:""`
	MinKnowable    float64 `help:"Share of the occurrences in which an input must have been known before the first step." env:"PAVE_MINING_MIN_KNOWABLE" default:"0.8" hidden:""`
	ChanceLevel    float64 `help:"Significance of a mapping against chance." env:"PAVE_MINING_CHANCE_LEVEL" default:"0.001" hidden:""`
	ConstSessions  int     `help:"Distinct sessions that a constant needs." env:"PAVE_MINING_CONST_SESSIONS" default:"5" hidden:""`
	ConstAgents    int     `help:"And distinct agents, where as many are known." env:"PAVE_MINING_CONST_AGENTS" default:"3" hidden:""`
	MinAlways      int     `help:"Where a tool changes something: distinct sessions of a constant, or different values of a copy, without exception, for callers who know the value not to be asked." env:"PAVE_MINING_MIN_ALWAYS" default:"22" hidden:""`
	Chains         int     `help:"Candidates from tool schemas alone, a queue of their own; negative: none." env:"PAVE_MINING_CHAINS" default:"10" hidden:""`
	ChainDepth     int     `help:"Tools of such a candidate at most." env:"PAVE_MINING_CHAIN_DEPTH" default:"3" hidden:""`
}

// observer are the thresholds of a pass.
func (s *miningSettings) observer() observer.Options {
	return observer.Options{
		MaxCalls: s.MaxCalls, SkipTools: s.SkipTools, SkipNoise: !s.KeepNoise,
		MinSessions: s.MinSessions, MinShare: s.MinShare, MaxLength: s.MaxLength, Delta: s.Delta, FDR: s.Fdr, MaxEvaluated: max(0, s.MaxEvaluated),
		MaxPatterns: s.MaxPatterns, MaxBlocked: s.MaxBlocked, SampleSessions: s.SampleSessions, MaxSamples: s.MaxSamples, PerSession: s.PerSession, MaxLeaves: s.MaxLeaves,
		MinHeld: s.MinHeld, Exactness: s.Exactness, MinExact: s.MinExact, MinSure: s.MinSure, MinKnowable: s.MinKnowable,
		ChanceLevel: s.ChanceLevel, ConstSession: s.ConstSessions, ConstAgents: s.ConstAgents,
		MinAlways: s.MinAlways,
	}
}

// loop are the settings of the loop.
func (s *miningSettings) loop() loop.Settings {
	return loop.Settings{
		Interval: s.Interval, AfterSessions: s.AfterSessions, MinPause: s.MinPause, FullEvery: s.FullEvery, FullGrowth: s.FullGrowth,
		FullBelow: s.FullBelow, MaxTime: s.MaxTime, Chains: s.Chains, ChainDepth: s.ChainDepth, Observer: s.observer(),
	}
}

// check lists what is wrong, by the key paths of the settings file.
func (s *miningSettings) check(fault func(key, format string, args ...any)) {
	for _, share := range []struct {
		key   string
		value float64
	}{{"min_share", s.MinShare}, {"delta", s.Delta}, {"fdr", s.Fdr}, {"min_held", s.MinHeld}, {"exactness", s.Exactness}, {"min_exact", s.MinExact},
		{"min_sure", s.MinSure}, {"min_knowable", s.MinKnowable}, {"chance_level", s.ChanceLevel}} {
		if share.value < 0 || share.value > 1 {
			fault("mining."+share.key, "%v is not between 0 and 1", share.value)
		}
	}
	if s.MaxLength != 0 && (s.MaxLength < 2 || s.MaxLength > 16) {
		fault("mining.max_length", "%d is not between 2 and 16", s.MaxLength)
	}
	for _, count := range []struct {
		key   string
		value int
	}{{"after_sessions", s.AfterSessions}, {"full_below", s.FullBelow}, {"max_calls", s.MaxCalls}, {"min_sessions", s.MinSessions}, {"max_evaluated", s.MaxEvaluated},
		{"max_patterns", s.MaxPatterns}, {"max_blocked", s.MaxBlocked}, {"sample_sessions", s.SampleSessions}, {"max_samples", s.MaxSamples}, {"per_session", s.PerSession},
		{"max_leaves", s.MaxLeaves}, {"const_sessions", s.ConstSessions}, {"const_agents", s.ConstAgents},
		{"min_always", s.MinAlways}} {
		if count.value < 0 {
			fault("mining."+count.key, "%d is negative", count.value)
		}
	}
	for _, span := range []struct {
		key   string
		value time.Duration
	}{{"min_pause", s.MinPause}, {"full_every", s.FullEvery}, {"max_time", s.MaxTime}} {
		if span.value < 0 {
			fault("mining."+span.key, "%v is negative", span.value)
		}
	}
}

// usable is a usage error that lists what is wrong, nil when nothing is.
func (s *miningSettings) usable() error {
	var problems []string
	s.check(func(key, format string, args ...any) {
		problems = append(problems, key+": "+fmt.Sprintf(format, args...))
	})
	return settingsError(problems)
}

// miningSetting is one setting as it is in force.
type miningSetting struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

// list describes every setting.
func (s *miningSettings) list() []miningSetting {
	var out []miningSetting
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := "mining." + strings.ToLower(strings.TrimPrefix(f.Tag.Get("env"), "PAVE_MINING_"))
		value := v.Field(i).Interface()
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		out = append(out, miningSetting{Key: key, Value: value, Default: f.Tag.Get("default"), Help: f.Tag.Get("help")})
	}
	return out
}

func printMiningSettings(w io.Writer, settings []miningSetting) error {
	t := output.NewTable(w, "SETTING", "VALUE", "WHAT IT IS")
	for _, s := range settings {
		t.Row(s.Key, fmt.Sprint(s.Value), s.Help)
	}
	return t.Flush()
}
