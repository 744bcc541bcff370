package planted

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	ID     string  `json:"id"`
	Owner  *owner  `json:"owner,omitempty"`
	Items  []item  `json:"items"`
	Status string  `json:"status"`
	Active bool    `json:"active"`
	Count  int     `json:"count"`
	Echo   *string `json:"echo,omitempty"` // a distractor: sometimes the id once more
}

type owner struct {
	Ref string `json:"ref"`
}

type item struct {
	SKU string `json:"sku"`
	Qty int    `json:"qty"`
}

func newResult(r *rand.Rand) result {
	out := result{ID: fresh(r, "id"), Status: [...]string{"open", "closed", "pending"}[r.IntN(3)], Active: r.IntN(2) == 0, Count: r.IntN(4),
		Owner: &owner{Ref: fresh(r, "ow")}}
	for range 2 + r.IntN(2) {
		out.Items = append(out.Items, item{SKU: fresh(r, "sku"), Qty: 1 + r.IntN(3)})
	}
	if r.IntN(5) == 0 {
		out.Echo = &out.ID
	}
	return out
}

func fresh(r *rand.Rand, prefix string) string { return fmt.Sprintf("%s_%08x", prefix, r.Uint32()) }

// read follows one of the planted pointers.
func (res *result) read(pointer string) string {
	switch pointer {
	case "/id":
		return res.ID
	case "/owner/ref":
		return res.Owner.Ref
	case "/items/0/sku":
		return res.Items[0].SKU
	default:
		return res.Items[1].SKU
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
		args := map[string]string{}
		if c.flow < 0 {
			args["query"] = fresh(r, "q")
		} else {
			for _, a := range l.Flows[c.flow].Args[c.step] {
				args[a.Name] = value(r, a, done[place{c.instance, a.Step}], &asked)
			}
		}
		res := newResult(r)
		if c.flow >= 0 {
			done[place{c.instance, c.step}] = &res
		}
		call.Args, call.Result = encode(args), encode(res)
		run.Calls = append(run.Calls, call)
	}
	run.Users = []ingest.UserTurn{{Text: asked.String()}}
	return ingest.Session{Tenant: ingest.DefaultTenant, ID: seq.SessionID, Runs: []ingest.AgentRun{run}}
}

func value(r *rand.Rand, a Arg, producer *result, asked *strings.Builder) string {
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

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and booleans only
	}
	return data
}
