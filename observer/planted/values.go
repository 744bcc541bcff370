package planted

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"pave/ingest"
)

// Kind is the true source of a planted argument.
type Kind string

// Sources of planted arguments.
const (
	Pointer Kind = "pointer" // a field of an earlier step's result
	Index   Kind = "index"   // a field of one element of a list in an earlier step's result
	Const   Kind = "const"
	Input   Kind = "input" // the user's words; always so for a flow's first step

	// With Options.Rich:
	Map      Kind = "map"      // a field of each element of a list: the step is called once for each
	Template Kind = "template" // fixed text around one or two fields
	Cast     Kind = "cast"     // a number as text, or digits as a number
	Select   Kind = "select"   // a field of the element whose name is what the first step was asked for
)

// Arg is one argument of a planted step and where its value comes from.
type Arg struct {
	Name     string
	Kind     Kind
	Step     int    // the producing step; not for Const and Input
	Pointer  string // JSON pointer into its result; * stands for an element
	Second   string // Template: pointer of the second field, "" when there is one only
	Value    string // Const; Template: the text before the first field
	Optional bool   // sometimes left out
}

// Shares of the kinds in percent; the rest are inputs.
const (
	constPercent   = 20
	pointerPercent = 60
	indexPercent   = 13
)

func plantArgs(r *rand.Rand, steps int) [][]Arg {
	args := make([][]Arg, steps)
	args[0] = []Arg{{Name: "query", Kind: Input}}
	for k := 1; k < steps; k++ {
		for a := range 1 + r.IntN(2) {
			arg := Arg{Name: fmt.Sprintf("arg_%d", a)}
			producer := k - 1
			if r.IntN(3) == 0 {
				producer = r.IntN(k)
			}
			switch p := r.IntN(100); {
			case p < constPercent:
				arg.Kind, arg.Value = Const, fmt.Sprintf("mode-%c%c", 'a'+rune(r.IntN(26)), 'a'+rune(r.IntN(26)))
			case p < constPercent+pointerPercent:
				arg.Kind, arg.Step, arg.Pointer = Pointer, producer, [...]string{"/id", "/owner/ref"}[r.IntN(2)]
			case p < constPercent+pointerPercent+indexPercent:
				arg.Kind, arg.Step, arg.Pointer = Index, producer, fmt.Sprintf("/items/%d/sku", r.IntN(2))
			default:
				arg.Kind = Input
			}
			args[k] = append(args[k], arg)
		}
	}
	return args
}

// Shares of the kinds of Options.Rich in percent, as the published protocol has them; the rest are inputs. Maps are
// drawn per step, so that they are about as many of the arguments.
const (
	richConst    = 15
	richPointer  = 45
	richIndex    = 10
	richTemplate = 8
	richCast     = 5
	richSelect   = 2
	richRest     = richConst + richPointer + richIndex + richTemplate + richCast + richSelect + 5

	mapPercent      = 15
	optionalPercent = 10
	absentPercent   = 40 // of the calls leave an optional argument out
)

func plantRich(r *rand.Rand, steps int) [][]Arg {
	args := make([][]Arg, steps)
	args[0] = []Arg{{Name: "query", Kind: Input}}
	producers := []int{0} // steps that are no loops
	for k := 1; k < steps; k++ {
		from := func() int {
			if r.IntN(3) == 0 {
				return producers[r.IntN(len(producers))]
			}
			return producers[len(producers)-1]
		}
		loop := r.IntN(100) < mapPercent
		if loop {
			args[k] = append(args[k], Arg{Name: "each", Kind: Map, Step: from(), Pointer: "/items/*/sku"})
		}
		for a := range 1 + r.IntN(2) {
			if loop && a > 0 {
				break
			}
			args[k] = append(args[k], plantOne(r, fmt.Sprintf("arg_%d", a), from()))
		}
		if !loop {
			producers = append(producers, k)
		}
	}
	return args
}

func plantOne(r *rand.Rand, name string, producer int) Arg {
	arg := Arg{Name: name, Step: producer, Optional: r.IntN(100) < optionalPercent}
	fields := [...]string{"/id", "/owner/ref"}
	p := r.IntN(richRest)
	below := func(share int) bool { p -= share; return p < 0 }
	switch {
	case below(richConst):
		arg.Kind, arg.Step, arg.Value = Const, 0, fmt.Sprintf("mode-%c%c", 'a'+rune(r.IntN(26)), 'a'+rune(r.IntN(26)))
		if r.IntN(4) == 0 {
			arg.Value = [...]string{"open", "closed", "pending"}[r.IntN(3)] // which results hold by chance
		}
	case below(richPointer):
		arg.Kind, arg.Pointer = Pointer, fields[r.IntN(2)]
	case below(richIndex):
		arg.Kind, arg.Pointer = Index, fmt.Sprintf("/items/%d/sku", r.IntN(2))
	case below(richTemplate):
		arg.Kind, arg.Pointer, arg.Value = Template, fields[r.IntN(2)], fmt.Sprintf("re%c:", 'a'+rune(r.IntN(26)))
		if r.IntN(2) == 0 {
			arg.Second = "/number"
		}
	case below(richCast):
		arg.Kind, arg.Pointer = Cast, [...]string{"/number", "/code"}[r.IntN(2)]
	case below(richSelect):
		arg.Kind, arg.Pointer = Select, "/items/*/sku"
	default:
		arg.Kind, arg.Step = Input, 0
	}
	return arg
}

// result is what every generated tool answers: identifiers, a list, and the fields of little information that make
// chance matches.
type result struct {
	id, owner string
	skus      []string
	rest      uint32 // status, active, count, quantities
	echo      bool   // a distractor: sometimes the id once more

	rich         bool
	names        []string // of the elements
	number, code int
	wanted       int // the element whose name was asked for
}

// minItems is the least number of elements of a result's list.
const minItems = 2

func newResult(r *rand.Rand) *result {
	out := &result{id: fresh(r, "id"), owner: fresh(r, "ow"), rest: r.Uint32(), echo: r.IntN(5) == 0}
	for range minItems + r.IntN(2) {
		out.skus = append(out.skus, fresh(r, "sku"))
	}
	return out
}

// newRich makes a result with a list of this many elements (0: as chance has it), one of which has the name asked for
// ("": none).
func newRich(r *rand.Rand, items int, asked string) *result {
	out := &result{id: fresh(r, "id"), owner: fresh(r, "ow"), rest: r.Uint32(), echo: r.IntN(5) == 0, rich: true,
		number: 100_000 + r.IntN(900_000), code: 100_000 + r.IntN(900_000)}
	if items == 0 {
		items = minItems + r.IntN(3)
	}
	for range items {
		out.skus = append(out.skus, fresh(r, "sku"))
		out.names = append(out.names, fresh(r, "nm"))
	}
	if out.wanted = r.IntN(items); asked != "" {
		out.names[out.wanted] = asked
	}
	return out
}

// encode writes the result as JSON.
func (res *result) encode() json.RawMessage {
	b := make([]byte, 0, 256)
	b = append(b, `{"id":"`...)
	b = append(b, res.id...)
	b = append(b, `","owner":{"ref":"`...)
	b = append(b, res.owner...)
	b = append(b, `"},"items":[`...)
	for i, sku := range res.skus {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"sku":"`...)
		b = append(b, sku...)
		if res.rich {
			b = append(b, `","name":"`...)
			b = append(b, res.names[i]...)
		}
		b = append(b, `","qty":`...)
		b = strconv.AppendUint(b, uint64(1+res.rest>>(8+2*i)&3), 10)
		b = append(b, '}')
	}
	b = append(b, `],"status":"`...)
	b = append(b, [...]string{"open", "closed", "pending", "open"}[res.rest&3]...)
	b = append(b, `","active":`...)
	b = strconv.AppendBool(b, res.rest&4 != 0)
	b = append(b, `,"count":`...)
	b = strconv.AppendUint(b, uint64(res.rest>>4&3), 10)
	if res.rich {
		b = append(b, `,"number":`...)
		b = strconv.AppendInt(b, int64(res.number), 10)
		b = append(b, `,"code":"`...)
		b = strconv.AppendInt(b, int64(res.code), 10)
		b = append(b, '"')
	}
	if res.echo {
		b = append(b, `,"echo":"`...)
		b = append(b, res.id...)
		b = append(b, '"')
	}
	return append(b, '}')
}

// fresh is a new identifier: a prefix and eight hexadecimal digits.
func fresh(r *rand.Rand, prefix string) string {
	const digits = "0123456789abcdef"
	b := append(make([]byte, 0, 16), prefix...)
	b = append(b, '_')
	for n, i := r.Uint32(), 0; i < 8; n, i = n>>4, i+1 {
		b = append(b, digits[n&15])
	}
	return string(b)
}

// read follows one of the planted pointers; element is that of a loop.
func (res *result) read(pointer string, element int) string {
	switch pointer {
	case "/id":
		return res.id
	case "/owner/ref":
		return res.owner
	case "/number":
		return strconv.Itoa(res.number)
	case "/code":
		return strconv.Itoa(res.code)
	case "/items/0/sku":
		return res.skus[0]
	case "/items/1/sku":
		return res.skus[1]
	}
	return res.skus[element]
}

// session gives the calls of a session their values: arguments of planted steps from their sources, where the
// producing step was not dropped, everything else fresh. The user names all inputs at the start.
func (l *Log) session(index int) ingest.Session {
	r := rand.New(rand.NewPCG(l.options.Seed, uint64(index)*2+2))
	return l.fill(r, l.sequences[index].SessionID, l.plan(index), false)
}

type place struct{ instance, step int }

func (l *Log) fill(r *rand.Rand, id string, plan []plannedCall, all bool) ingest.Session {
	run := ingest.AgentRun{Agent: generatorAgent}
	w := writer{r: r, done: map[place]*result{}, queries: map[int]string{}, inputs: map[use]string{}, absent: map[use]bool{}, all: all}
	for i, c := range plan {
		call := ingest.Call{Seq: i, Turn: int32(i), Flags: flags(i, c), Source: "generator", Origin: ingest.OriginAgent,
			ToolCall: ingest.ToolCall{Tool: l.names[c.tool], Status: ingest.StatusOK}}
		if c.repeat {
			before := run.Calls[len(run.Calls)-1]
			call.Args, call.Result = before.Args, before.Result
			run.Calls = append(run.Calls, call)
			continue
		}
		call.Args, call.Result = w.call(l, c)
		run.Calls = append(run.Calls, call)
	}
	run.Users = []ingest.UserTurn{{Text: w.asked.String()}}
	return ingest.Session{Tenant: ingest.DefaultTenant, ID: id, Runs: []ingest.AgentRun{run}}
}

// use is an argument of one step of one instance.
type use struct {
	place
	arg string
}

// writer makes the values of one session.
type writer struct {
	r       *rand.Rand
	done    map[place]*result
	queries map[int]string // by instance: what the first step was asked for
	inputs  map[use]string // one value for all calls of a loop
	absent  map[use]bool   // so is whether an optional argument is there
	asked   strings.Builder
	all     bool // no optional argument is left out
}

func (w *writer) call(l *Log, c plannedCall) (args, res json.RawMessage) {
	if !l.options.Rich {
		made := newResult(w.r)
		args = w.args(l, c)
		if c.flow >= 0 {
			w.done[place{c.instance, c.step}] = made
		}
		return args, made.encode()
	}
	args = w.args(l, c)
	asked := ""
	if c.flow >= 0 {
		asked = w.queries[c.instance]
	}
	made := newRich(w.r, c.items, asked)
	if c.flow >= 0 {
		w.done[place{c.instance, c.step}] = made
	}
	return args, made.encode()
}

func (w *writer) args(l *Log, c plannedCall) json.RawMessage {
	if c.flow < 0 {
		return appendArg(nil, "query", fresh(w.r, "q"))
	}
	args := json.RawMessage("{}")
	for _, a := range l.Flows[c.flow].Args[c.step] {
		if a.Optional && w.leftOut(a, c) {
			continue
		}
		v := w.draw(a, c)
		if c.step == 0 {
			w.queries[c.instance] = v
		}
		if a.Kind == Cast && a.Pointer == "/code" && v[0] >= '0' && v[0] <= '9' {
			args = appendNumber(args, a.Name, v)
			continue
		}
		args = appendArg(args, a.Name, v)
	}
	return args
}

func (w *writer) leftOut(a Arg, c plannedCall) bool {
	at := use{place{c.instance, c.step}, a.Name}
	if c.element == 0 && !w.all {
		w.absent[at] = w.r.IntN(100) < absentPercent
	}
	return w.absent[at]
}

func (w *writer) draw(a Arg, c plannedCall) string {
	switch a.Kind {
	case Const:
		return a.Value
	case Input:
		at := use{place{c.instance, c.step}, a.Name}
		if c.element > 0 && w.inputs[at] != "" {
			return w.inputs[at]
		}
		w.inputs[at] = fresh(w.r, "in")
		w.asked.WriteString(" " + w.inputs[at])
		return w.inputs[at]
	}
	producer := w.done[place{c.instance, a.Step}]
	if producer == nil {
		return fresh(w.r, "lost")
	}
	switch a.Kind {
	case Template:
		v := a.Value + producer.read(a.Pointer, 0)
		if a.Second != "" {
			v += "/" + producer.read(a.Second, 0)
		}
		return v
	case Select:
		return producer.read(a.Pointer, producer.wanted)
	}
	return producer.read(a.Pointer, c.element)
}

// appendArg adds a member to an object.
func appendArg(object json.RawMessage, name, value string) json.RawMessage {
	return append(append(append(appendName(object, name), '"'), value...), `"}`...)
}

func appendNumber(object json.RawMessage, name, value string) json.RawMessage {
	return append(append(appendName(object, name), value...), '}')
}

// appendName opens an object for one more member.
func appendName(object json.RawMessage, name string) json.RawMessage {
	if len(object) == 0 {
		object = append(make([]byte, 0, 64), "{}"...)
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	object = append(object, '"')
	object = append(object, name...)
	return append(object, `":`...)
}

// Executions are n undisturbed runs of a planted flow, a session each, with values that the log does not have. They pass
// the optional arguments, too: nothing but chance tells when those are left out, so they show what their source is.
func (l *Log) Executions(flow, n int) []ingest.Session {
	still := *l
	still.options.Noise = 0
	out := make([]ingest.Session, n)
	for i := range out {
		r := rand.New(rand.NewPCG(^l.options.Seed, uint64(flow)<<32|uint64(i)))
		out[i] = still.fill(r, fmt.Sprintf("x%d-%d", flow, i), still.planFlow(r, nil, nil, flow, 0), true)
	}
	return out
}
