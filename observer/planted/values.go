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
)

// Arg is one argument of a planted step and where its value comes from.
type Arg struct {
	Name    string
	Kind    Kind
	Step    int    // Pointer, Index
	Pointer string // Pointer, Index: JSON pointer into the result
	Value   string // Const
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

// result is what every generated tool answers: identifiers, a list, and the fields of little information that make
// chance matches.
type result struct {
	id, owner string
	skus      []string
	rest      uint32 // status, active, count, quantities
	echo      bool   // a distractor: sometimes the id once more
}

func newResult(r *rand.Rand) *result {
	out := &result{id: fresh(r, "id"), owner: fresh(r, "ow"), rest: r.Uint32(), echo: r.IntN(5) == 0}
	for range 2 + r.IntN(2) {
		out.skus = append(out.skus, fresh(r, "sku"))
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

// read follows one of the planted pointers.
func (res *result) read(pointer string) string {
	switch pointer {
	case "/id":
		return res.id
	case "/owner/ref":
		return res.owner
	case "/items/0/sku":
		return res.skus[0]
	default:
		return res.skus[1]
	}
}

// session gives the calls of a session their values: arguments of planted steps from their sources, where the
// producing step was not dropped, everything else fresh. The user names all inputs at the start.
func (l *Log) session(index int) ingest.Session {
	r := rand.New(rand.NewPCG(l.options.Seed, uint64(index)*2+2))
	seq := &l.sequences[index]
	run := ingest.AgentRun{Agent: seq.Agent}
	type place struct{ instance, step int }
	done := make(map[place]*result)
	var asked strings.Builder
	for i, c := range l.plan(index) {
		call := ingest.Call{Seq: i, Turn: int32(i), Flags: flags(i, c), Source: "generator", Origin: ingest.OriginAgent,
			ToolCall: ingest.ToolCall{Tool: l.names[c.tool], Status: ingest.StatusOK}}
		if c.repeat {
			before := run.Calls[len(run.Calls)-1]
			call.Args, call.Result = before.Args, before.Result
			run.Calls = append(run.Calls, call)
			continue
		}
		res := newResult(r)
		call.Result = res.encode()
		if c.flow < 0 {
			call.Args = appendArg(nil, "query", fresh(r, "q"))
		} else {
			for _, a := range l.Flows[c.flow].Args[c.step] {
				call.Args = appendArg(call.Args, a.Name, draw(r, a, done[place{c.instance, a.Step}], &asked))
			}
			done[place{c.instance, c.step}] = res
		}
		run.Calls = append(run.Calls, call)
	}
	run.Users = []ingest.UserTurn{{Text: asked.String()}}
	return ingest.Session{Tenant: ingest.DefaultTenant, ID: seq.SessionID, Runs: []ingest.AgentRun{run}}
}

func draw(r *rand.Rand, a Arg, producer *result, asked *strings.Builder) string {
	switch {
	case a.Kind == Const:
		return a.Value
	case a.Kind == Input:
		v := fresh(r, "in")
		asked.WriteString(" " + v)
		return v
	case producer == nil:
		return fresh(r, "lost")
	}
	return producer.read(a.Pointer)
}

// appendArg adds a member to an object.
func appendArg(object json.RawMessage, name, value string) json.RawMessage {
	if len(object) == 0 {
		object = append(make([]byte, 0, 64), "{}"...)
	} else {
		object[len(object)-1] = ','
		object = append(object, '}')
	}
	object = append(object[:len(object)-1], '"')
	object = append(object, name...)
	object = append(object, `":"`...)
	object = append(object, value...)
	return append(object, `"}`...)
}
