package observer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"pave/flows/value"
)

// record is what one sampled occurrence says about the arguments of a pattern.
type record struct {
	session string
	window  window
	steps   []stepRecord
	// without is set where the sample's optional step was left out; before is the result of the step before that, where the
	// sample keeps it.
	without bool
	before  *nodeSet
}

// calls is the number of calls in the log, a loop being one.
func (r *record) calls() int {
	if r.without {
		return len(r.steps) - 1
	}
	return len(r.steps)
}

type stepRecord struct {
	args   []argRecord // by name
	result columns     // for the chance control
}

type argRecord struct {
	name    string
	list    *argRecord // the values of all calls of the step as one list, for a step that runs once per element
	varies  bool       // list: not all are equal
	hash    uint64
	value   any
	sources []source // earlier values of the window that equal this one
	begins  []source // list: lists of the window that start with this one
	origin  origin
	inner   place  // originInner: where the value was found
	told    []told // selections of its element or member by what the user had written
	hints   []hint // sources where enough lists show that they are
	// shape and leaves are set for objects and lists: the value with numbers in place of its leaves, and these, by number.
	shape  any
	leaves []argRecord
}

// source is a place that an argument may be copied from: a node of an earlier step's result or an earlier step's
// argument.
type source struct {
	step int
	arg  string // set for an argument
	path uint32 // a node of the result
	// each is set for a list whose elements are taken one by one; sub is the place in each element.
	each bool
	sub  string
	// derived is the number of a derivation from what the window holds, 0 for none; then only step is set beside it.
	derived uint32
}

// origin says how a value could be known to the caller of a flow, the most knowable first.
type origin uint8

const (
	originTrivial origin = iota // null, boolean, empty: nothing to know
	originText                  // in what the user had written
	originEarlier               // in a result or argument before the window
	originFirst                 // an argument of the first step
	originWritten               // free text that does not draw on inner results
	originNowhere               // made up by the model, and too short to be free text
	originInner                 // appears in a result inside the window only: a choice
	originClasses = iota
)

// known reports whether a caller could give the value before the first step.
func (o origin) known() bool { return o < originNowhere }

// place is a node of an inner result; path is general.
type place struct {
	step int
	path string
}

// sessionView decodes the calls of one session once, as far as occurrences ask for them.
type sessionView struct {
	session *keptSession
	miner   *inference
	calls   [][]*callView // by run
}

// callView is a decoded call. args is nil when they were not recorded or are no object.
type callView struct {
	args   map[string]any
	names  []string
	hashes []uint64
	result *nodeSet
}

func (m *inference) view(t *keptSession) *sessionView {
	v := &sessionView{session: t, miner: m, calls: make([][]*callView, len(t.runs))}
	for r := range t.runs {
		v.calls[r] = make([]*callView, len(t.runs[r].calls))
	}
	return v
}

func (v *sessionView) call(run, i int) *callView {
	if c := v.calls[run][i]; c != nil {
		return c
	}
	args, result := v.session.payloads(run, i)
	c := &callView{result: &nodeSet{}}
	v.calls[run][i] = c
	if args, ok := decodeArgs(args); ok {
		c.args = args
		c.names = sortedKeys(args)
		for _, name := range c.names {
			c.hashes = append(c.hashes, hashOf(v.miner.seed, args[name]))
		}
	}
	if len(result) > 0 {
		if result, err := value.Decode(result); err == nil {
			c.result = v.miner.flatten(result)
			v.miner.dropped += c.result.dropped
		}
	}
	return c
}

// decodeArgs reads recorded arguments; null is no arguments. ok is false when they were not recorded or cannot be
// arguments of a tool.
func decodeArgs(raw json.RawMessage) (args map[string]any, ok bool) {
	if len(raw) == 0 {
		return nil, false
	}
	v, err := value.Decode(raw)
	if err != nil {
		return nil, false
	}
	if v == nil {
		return map[string]any{}, true
	}
	args, ok = v.(map[string]any)
	return args, ok
}

// record examines one occurrence of a sample. ok is false when the session no longer has these calls or lacks arguments, and
// where a loop has more calls than values are read of a result.
func (v *sessionView) record(o Occurrence, w window, s *sample) (rec record, ok bool) {
	if o.RunIndex >= len(v.calls) || len(o.Calls) > v.miner.options.MaxLeaves {
		return record{}, false
	}
	x := &examination{view: v, run: o.RunIndex, at: o.Steps(), each: s.each}
	x.first, x.wave = o.Calls[0], -1
	for _, c := range o.Calls {
		if c >= len(v.calls[x.run]) {
			return record{}, false
		}
		x.first = min(x.first, c)
		if view := v.call(x.run, c); view.args == nil {
			return record{}, false
		}
	}
	x.wave = v.session.runs[x.run].calls[x.first].wave
	rec = record{session: o.SessionID, window: w, steps: make([]stepRecord, len(x.at))}
	for k := range x.at {
		if x.leftOut(k) {
			rec.without = true
		} else if rec.steps[k], ok = x.step(k); !ok {
			return record{}, false
		}
	}
	if s.optional > 0 || s.kept {
		rec.before = x.result(max(0, s.optional-1))
	}
	return rec, true
}

// examination is the work on one occurrence.
type examination struct {
	view  *sessionView
	run   int
	at    [][]int // positions of the calls of each step
	each  []bool
	first int // the earliest of them
	wave  int // and its turn

	results []*nodeSet // of steps that run once per element: the list of their results
	text    []string   // user texts before the window
	textSet bool
}

// call is the first call of a step.
func (x *examination) call(k int) *callView {
	if x.leftOut(k) {
		return &callView{result: &nodeSet{}}
	}
	return x.view.call(x.run, x.at[k][0])
}

func (x *examination) leftOut(k int) bool { return len(x.at[k]) == 0 }

func (x *examination) runsEach(k int) bool { return x.each != nil && x.each[k] }

// result is what a step gave: of one that runs once per element, the list of all results, each as it enters a context.
func (x *examination) result(k int) *nodeSet {
	if !x.runsEach(k) {
		return x.call(k).result
	}
	if x.results == nil {
		x.results = make([]*nodeSet, len(x.at))
	}
	if x.results[k] == nil {
		var all []any
		for _, at := range x.at[k] {
			v := x.view.call(x.run, at).whole()
			if _, ok := v.(map[string]any); !ok {
				v = map[string]any{wrapKey: v}
			}
			all = append(all, v)
		}
		x.results[k] = x.view.miner.flatten(all)
	}
	return x.results[k]
}

// wrapKey is where a result that is no object lies in a context.
const wrapKey = "result"

// whole is the result itself, nil when it was not recorded.
func (c *callView) whole() any {
	if len(c.result.values) == 0 {
		return nil
	}
	return c.result.values[0]
}

// sees reports whether step k was decided after all results of step j were there.
func (x *examination) sees(k, j int) bool {
	if x.leftOut(j) {
		return false
	}
	calls := x.view.session.runs[x.run].calls
	return calls[x.at[j][len(x.at[j])-1]].wave < calls[x.at[k][0]].wave
}

// step examines a step. ok is false where calls of a step that runs once per element differ in which arguments they
// have.
func (x *examination) step(k int) (rec stepRecord, ok bool) {
	c := x.call(k)
	rec = stepRecord{args: make([]argRecord, len(c.names)), result: x.result(k).columns}
	for i, name := range c.names {
		a := argRecord{name: name, hash: c.hashes[i], value: c.args[name], origin: originFirst}
		if k > 0 {
			a.sources = x.sources(k, name, a.value, a.hash)
			a.hints = append(x.lasts(a.sources), x.sizes(k, a.value)...)
			a.sources = append(a.sources, x.derivations(k, a.value, a.hash, a.sources)...)
			if a.origin, a.inner = x.origin(k, a.value); a.origin > originText {
				a.told = x.told(a.sources)
			}
			x.takeApart(k, &a)
		}
		rec.args[i] = a
	}
	if !x.runsEach(k) {
		return rec, true
	}
	for _, at := range x.at[k][1:] {
		if !slices.Equal(x.view.call(x.run, at).names, c.names) {
			return rec, false
		}
	}
	for i := range rec.args {
		rec.args[i].list = x.list(k, i)
	}
	return rec, true
}

// maxMatches bounds the equal nodes of one result that are considered for one argument.
const maxMatches = 32

// sources lists the earlier values that equal v. Values that carry no information are matched only where the names
// agree, since they are equal everywhere.
func (x *examination) sources(k int, name string, v any, hash uint64) []source {
	var out []source
	paths := x.view.miner.paths
	trivial := uninformative(v)
	for j := range k {
		c := x.call(j)
		for i, arg := range c.names {
			if !x.runsEach(j) && c.hashes[i] == hash && (!trivial || sameName(arg, name)) && value.Equal(c.args[arg], v) {
				out = append(out, source{step: j, arg: arg})
			}
		}
		if !x.sees(k, j) {
			continue
		}
		matches := 0
		result := x.result(j)
		result.find(v, hash, func(n int) bool {
			path := result.paths[n]
			if trivial {
				if _, _, last := paths.shape(path); !sameName(last, name) {
					return true
				}
			}
			out = append(out, source{step: j, path: path})
			matches++
			return matches < maxMatches
		})
	}
	return out
}

// origin finds out whether the caller of a flow could know v, an argument of step k > 0.
func (x *examination) origin(k int, v any) (origin, place) {
	switch v := v.(type) {
	case nil, bool:
		return originTrivial, place{}
	case string:
		if v == "" {
			return originTrivial, place{}
		}
	case []any, map[string]any:
		return x.containerOrigin(k, v)
	}
	return x.scalarOrigin(k, v)
}

func (x *examination) scalarOrigin(k int, v any) (origin, place) {
	hash := hashOf(x.view.miner.seed, v)
	text := scalarText(v)
	switch {
	case x.userWrote(text):
		return originText, place{}
	case x.happenedBefore(v, hash):
		return originEarlier, place{}
	case slices.Contains(x.call(0).hashes, hash):
		return originFirst, place{}
	}
	if p, ok := x.innerPlace(k, v, hash, text); ok {
		return originInner, p
	}
	if s, ok := v.(string); ok && isFreeText(s) && !x.drawsOnInner(k, s) {
		return originWritten, place{}
	}
	return originNowhere, place{}
}

// containerOrigin is that of the least knowable part; an equal whole before the window makes it known.
func (x *examination) containerOrigin(k int, v any) (origin, place) {
	if hash := hashOf(x.view.miner.seed, v); x.happenedBefore(v, hash) {
		return originEarlier, place{}
	}
	worst, where := originTrivial, place{}
	consider := func(part any) {
		if o, p := x.origin(k, part); o > worst {
			worst, where = o, p
		}
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			consider(e)
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			consider(v[name])
		}
	}
	return worst, where
}

// userWrote looks for the value in what the user had written before the window.
func (x *examination) userWrote(text string) bool {
	if !x.textSet {
		x.textSet = true
		for r := range x.run + 1 {
			for _, u := range x.view.session.runs[r].users {
				if r < x.run || u.Before <= x.first {
					x.text = append(x.text, u.Text)
				}
			}
		}
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(x.text, func(t string) bool { return mentions(t, text) })
}

// maxContextCalls bounds how many calls before a window are searched for a value.
const maxContextCalls = 256

// happenedBefore looks for the value in the arguments and results of the calls before the window, those of other
// turns only: what one turn asks for together is decided together.
func (x *examination) happenedBefore(v any, hash uint64) bool {
	left := maxContextCalls
	trace := rawTrace(v)
	for r := x.run; r >= 0; r-- {
		calls := x.view.session.runs[r].calls
		last := len(calls)
		if r == x.run {
			last = x.first
		}
		for i := last - 1; i >= 0 && left > 0; i-- {
			if r == x.run && calls[i].wave == x.wave {
				continue
			}
			left--
			if args, result := x.view.session.payloads(r, i); trace != nil && !bytes.Contains(args, trace) && !bytes.Contains(result, trace) {
				continue
			}
			c := x.view.call(r, i)
			if slices.Contains(c.hashes, hash) || c.result.holds(v, hash) {
				return true
			}
		}
	}
	return false
}

// rawTrace returns bytes that any JSON text with v in it contains, nil when that is not certain: they save decoding
// calls that cannot have it.
func rawTrace(v any) []byte {
	switch v := v.(type) {
	case string:
		for i := range len(v) {
			if c := v[i]; c < ' ' || c >= 0x7f || strings.IndexByte(`"\/<>&'`, c) >= 0 {
				return nil
			}
		}
		return []byte(v)
	case int64:
		if v > -1e6 && v < 1e6 { // larger ones may be written with an exponent
			return value.Encode(v)
		}
	}
	return nil
}

// innerPlace looks for the value in the results inside the window that step k could see, latest first: as a node, as
// an object key, or inside a text.
func (x *examination) innerPlace(k int, v any, hash uint64, text string) (place, bool) {
	paths := x.view.miner.paths
	for j := k - 1; j >= 0; j-- {
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		if n := result.first(v, hash); n >= 0 {
			return place{j, paths.pointer(result.paths[n], true)}, true
		}
		if slices.Contains(result.keys, hash) {
			return place{j, "the keys"}, true
		}
		for n, inner := range result.values {
			if s, ok := inner.(string); ok && len(s) > len(text) && mentions(s, text) {
				return place{j, paths.pointer(result.paths[n], true)}, true
			}
		}
	}
	return place{}, false
}

// drawsOnInner reports whether a free text quotes a value of an inner result that was not known before.
func (x *examination) drawsOnInner(k int, text string) bool {
	for j := range k {
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		for n, inner := range result.values {
			quoted := scalarText(inner)
			if len(quoted) < 3 || !mentions(text, quoted) {
				continue
			}
			if !x.userWrote(quoted) && !x.happenedBefore(inner, result.hashes[n]) {
				return true
			}
		}
	}
	return false
}
