package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Limits of what a caller is asked to give.
const (
	maxGiven  = 8    // longest sequence of steps
	minPassed = 0.05 // share of a tool's calls that have an argument for callers to be able to give it
)

// Given are flows whose callers give whole calls, one for each sequence of tools that enough sessions have: each step
// takes the arguments of its call from an object of its own, or those of several calls of one tool from a list of
// objects. A run hands back before the first step that the caller gave nothing for. The most frequent come first.
func Given(sessions []*Session) []*flows.Flow {
	g := givenSearch{usage: map[string]*usage{}, found: map[string]*givenSequence{}}
	for n, s := range sessions {
		for _, stretch := range s.stretches {
			for i := range stretch {
				g.note(&stretch[i])
			}
			for _, part := range unbroken(stretch) {
				for from := range part {
					g.add(part[from:], n+1)
				}
			}
		}
	}
	var out []*flows.Flow
	for _, s := range g.sequences() {
		out = append(out, g.flow(s))
	}
	return out
}

// usage counts a tool's calls and the arguments that they have.
type usage struct {
	calls int
	args  map[string]int
}

// group are neighbouring calls of one tool.
type group struct {
	tool string
	n    int
}

// unbroken are the groups of calls of a stretch, parted by failed calls.
func unbroken(stretch []call) [][]group {
	out := [][]group{nil}
	for i := range stretch {
		last := &out[len(out)-1]
		switch n := len(*last); {
		case stretch[i].failed:
			out = append(out, nil)
		case n > 0 && (*last)[n-1].tool == stretch[i].tool:
			(*last)[n-1].n++
		default:
			*last = append(*last, group{stretch[i].tool, 1})
		}
	}
	return out
}

// givenSequence is a sequence of tools, no two neighbours of which are equal.
type givenSequence struct {
	tools    []string
	sessions support
	many     []bool // whether a session calls the tool of a step several times in a row
	turns    int    // calls after the first, over all occurrences
}

type givenSearch struct {
	usage map[string]*usage
	found map[string]*givenSequence
}

func (g *givenSearch) note(c *call) {
	u := g.usage[c.tool]
	if u == nil {
		u = &usage{args: map[string]int{}}
		g.usage[c.tool] = u
	}
	if c.failed {
		return
	}
	u.calls++
	for name := range c.args {
		u.args[name]++
	}
}

func (g *givenSearch) add(groups []group, session int) {
	var tools []string
	calls := 0
	for k := range groups[:min(maxGiven, len(groups))] {
		tools = append(tools, groups[k].tool)
		calls += groups[k].n
		if calls < 2 {
			continue
		}
		key := gramKey(tools)
		s := g.found[key]
		if s == nil {
			s = &givenSequence{tools: slices.Clone(tools), many: make([]bool, len(tools))}
			g.found[key] = s
		}
		s.sessions = s.sessions.seenIn(session)
		s.turns += calls - 1
		for i := range tools {
			s.many[i] = s.many[i] || groups[i].n > 1
		}
	}
}

// sequences are those that enough sessions have, most turns first.
func (g *givenSearch) sequences() []*givenSequence {
	all := slices.DeleteFunc(slices.Collect(maps.Values(g.found)), func(s *givenSequence) bool { return s.sessions.sessions < minSessions })
	slices.SortFunc(all, func(a, b *givenSequence) int {
		return cmp.Or(cmp.Compare(b.turns, a.turns), slices.Compare(a.tools, b.tools))
	})
	return all
}

// flow is the flow of a sequence.
func (g *givenSearch) flow(s *givenSequence) *flows.Flow {
	f := &flows.Flow{
		FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Version: "0.1.0", Description: "Makes the calls that its caller gives.",
		OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack, Status: flows.StatusNeedsReview,
		Governance: &flows.Governance{Lifecycle: flows.LifecycleSuggested},
	}
	taken := map[string]bool{}
	var inputs value.Members
	var names []string
	var always []any
	for i, tool := range s.tools {
		names = append(names, leaf(tool))
		name := leaf(tool)
		step := flows.Step{ToolName: tool, OutputAs: unique(taken, leaf(tool)+"_result")}
		if i == 0 && !s.many[i] {
			mapping, object := g.object(tool, "")
			step.InputMapping = mapping
			f.Steps = append(f.Steps, step)
			properties, _ := object.Get("properties")
			inputs, _ = properties.(value.Members)
			inputs = slices.Clone(inputs)
			for _, m := range inputs {
				taken[m.Key] = true
			}
			required, _ := object.Get("required")
			always, _ = required.([]any)
			continue
		}
		name = unique(taken, name)
		element, object := name, value.Members(nil)
		input := &object
		list := value.Members{}
		if s.many[i] {
			source := flows.Key(name)
			element = unique(taken, leaf(tool)+"_call")
			step.ForEach, step.As = &source, element
			input = &list
		}
		step.InputMapping, object = g.object(tool, element)
		if step.ForEach != nil {
			list = value.Members{{Key: "type", Value: "array"}, {Key: "items", Value: object}}
		}
		if i == 0 {
			always = []any{name}
		} else {
			*input = orNull(*input)
			step.Guard = name + " != None"
		}
		inputs = append(inputs, value.Member{Key: name, Value: *input})
		f.Steps = append(f.Steps, step)
	}
	f.Name = strings.Join(names, "_then_") + "_given"
	schema := value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: inputs}, {Key: "additionalProperties", Value: false}}
	if len(always) > 0 {
		schema = append(schema, value.Member{Key: "required", Value: always})
	}
	f.InputSchema = flows.RawSchema(value.Encode(schema))
	return f
}

// object describes the arguments of a tool's calls and takes them from an object under a key, or under their own names.
func (g *givenSearch) object(tool, key string) (flows.Mapping, value.Members) {
	u := g.usage[tool]
	var mapping flows.Mapping
	properties, required := value.Members{}, []any{}
	for _, name := range slices.Sorted(maps.Keys(u.args)) {
		if float64(u.args[name]) < minPassed*float64(u.calls) {
			continue
		}
		v := flows.Key(name)
		if key != "" {
			v = flows.Pointer("/" + value.Escape(key) + "/" + value.Escape(name))
		}
		properties = append(properties, value.Member{Key: name, Value: value.Members{}})
		if u.args[name] == u.calls {
			required = append(required, name)
		} else {
			inner := v
			v = flows.MappingValue{Kind: flows.MapOptional, Inner: &inner}
		}
		mapping = append(mapping, flows.MappingEntry{Target: name, Value: v})
	}
	object := value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: properties}}
	if len(required) > 0 {
		object = append(object, value.Member{Key: "required", Value: required})
	}
	return mapping, append(object, value.Member{Key: "additionalProperties", Value: false})
}

// orNull is the schema of an input that is null when the caller leaves it out.
func orNull(schema value.Members) value.Members {
	return value.Members{{Key: "anyOf", Value: []any{schema, value.Members{{Key: "type", Value: "null"}}}}, {Key: "default", Value: nil}}
}

// unique is a name that is not taken yet, and takes it.
func unique(taken map[string]bool, name string) string {
	out := name
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s_%d", name, n)
	}
	taken[out] = true
	return out
}

// leaf is the last dotted part of a tool's name as a name of a key.
func leaf(tool string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tool[strings.LastIndexByte(tool, '.')+1:])
}
