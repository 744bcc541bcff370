package analyzer

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/predicate"
	"pave/flows/value"
	"pave/observer"
)

// fromDerived maps a value that is computed from earlier ones: an expression over the context.
func (b *minedDraft) fromDerived(k int, arg string, src *observer.ArgFlow, sometimes bool) refusal {
	if src.Derived != nil && src.Derived.Asks {
		return b.fromAsked(k, arg, src)
	}
	text, r := b.expression(k, src.Derived)
	if r != nil {
		return r
	}
	return b.mapExpression(k, arg, text, sometimes)
}

// fromAsked maps a place of the element or member that the caller names; without the name the flow hands back before the step.
func (b *minedDraft) fromAsked(k int, arg string, src *observer.ArgFlow) refusal {
	d, step := src.Derived, &b.steps[k]
	if !nameable(src.Input) {
		return refuse("an argument of %s is told by the input %s, which expressions cannot name", step.tool.tool.Name, src.Input)
	}
	from, by := observer.Part{Place: true, Step: d.Step, Pointer: d.List}, strings.TrimPrefix(d.Field, "/")
	if d.Form == observer.FormMember {
		if len(d.Parts) == 0 {
			return refuse("an argument of %s is a member, but nothing says of what", step.tool.tool.Name)
		}
		from, by = d.Parts[0], "key"
	}
	all, r := b.place(k, from)
	if r != nil {
		return r
	}
	text := selected(all, d, src.Input+".lowerAscii()", ".lowerAscii()")
	if d.Form == observer.FormMember { // dyn: a record of declared properties has keys, too
		text = fmt.Sprintf("dyn(%s)[dyn(%s).filter(k, k.lowerAscii() == %s.lowerAscii())[0]]%s", all, all, src.Input, selectors(d.Take))
	}
	if r := b.mapExpression(k, arg, text, false); r != nil {
		return r
	}
	b.input(draftInput{name: src.Input, told: fmt.Sprintf("%s of the one that is meant among what %s returns", by, b.steps[from.Step].tool.tool.Name),
		origin: b.origin(src.Input), required: true, nullable: true})
	step.guard(src.Input + " != None")
	return nil
}

// selected is a place of the first element of a list with a field, in some form, that equals something.
func selected(list string, d *observer.Derived, equals, form string) string {
	is := fmt.Sprintf("e%s%s == %s", selectors(d.Field), form, equals)
	if tokens, _ := value.ParsePointer(d.Field); len(tokens) == 1 { // elements without the field are none
		is = fmt.Sprintf("%s in e && %s", value.Encode(tokens[0]), is)
	}
	return fmt.Sprintf("%s.filter(e, %s)[0]%s", list, is, selectors(d.Take))
}

// mapExpression maps an argument to an expression, unless flow files may not hold it.
func (b *minedDraft) mapExpression(k int, arg, text string, sometimes bool) refusal {
	step := &b.steps[k]
	if r := b.fitsSchemas(k, arg, text); r != nil {
		return r
	}
	v := flows.MappingValue{Kind: flows.MapExpr, Ref: text}
	if sometimes {
		v = optional(v)
	}
	step.mapArg(arg, v)
	return nil
}

// fitsSchemas refuses an expression that cannot be over what the tools before declare that they return, or that gives
// another type than the argument has.
func (b *minedDraft) fitsSchemas(k int, arg, text string) refusal {
	step := &b.steps[k]
	names, err := expr.Names(text)
	if err != nil {
		return refuse("argument %s of %s is derived by an expression that is refused: %s", arg, step.tool.tool.Name, err)
	}
	var variables []expr.Variable
	for _, name := range names {
		v := expr.Variable{Name: name}
		for j := range b.steps[:k] {
			if from := &b.steps[j]; from.key == name && from.tool.declared && !from.wrapped && b.pattern.DataFlow.Steps[j].Each == nil {
				v.Schema = from.tool.out
			}
		}
		variables = append(variables, v)
	}
	program, err := expr.Compile(text, variables)
	if err != nil {
		return refuseSchema("argument %s of %s is derived by an %s", arg, step.tool.tool.Name, err)
	}
	if step.tool.in == nil {
		return nil
	}
	if at, _ := step.tool.in.At(value.Pointer{arg}); at != nil {
		if reason := contradicts(program.Schema(), at, false); reason != "" {
			return refuseSchema("'%s' does not fit argument %s of %s: %s", text, arg, step.tool.tool.Name, reason)
		}
	}
	return nil
}

// fromGiven maps a value that the caller gives where it knows better, and the flow finds elsewhere.
func (b *minedDraft) fromGiven(k int, arg string, src *observer.ArgFlow, sometimes bool) refusal {
	step := &b.steps[k]
	if src.Kind == observer.SourceOutput {
		if _, r := b.copyable(k, arg, src); r != nil {
			return r
		}
	}
	text, r := b.givenOr(k, src)
	if r != nil {
		return r
	}
	if r := b.mapExpression(k, arg, text, sometimes); r != nil {
		return r
	}
	b.input(draftInput{name: src.Input, tool: step.tool, arg: arg, origin: b.origin(src.Input), required: true, nullable: true})
	if src.Only != nil {
		step.guard(fmt.Sprintf("(%s != None or %s)", src.Input, onlyElement(b.steps[src.Step].subscripts(*src.Only))))
	}
	return nil
}

// givenOr is what the caller gives, or else the value of the source.
func (b *minedDraft) givenOr(k int, src *observer.ArgFlow) (text string, r refusal) {
	if !nameable(src.Input) {
		return "", refuse("an argument of %s is the input %s, which expressions cannot name", b.steps[k].tool.tool.Name, src.Input)
	}
	switch src.Kind {
	case observer.SourceConst:
		text = string(value.Encode(src.Value))
	case observer.SourceDerived:
		text, r = b.expression(k, src.Derived)
	case observer.SourceArg:
		text, r = b.place(k, observer.Part{Place: true, Step: src.Step, Arg: src.Pointer})
	default:
		text, r = b.place(k, observer.Part{Place: true, Step: src.Step, Pointer: src.Pointer})
	}
	return fmt.Sprintf("%s != null ? %s : %s", src.Input, src.Input, text), r
}

// nameable reports whether expressions and predicates can read an input by its name.
func nameable(name string) bool {
	if !identifier.MatchString(name) {
		return false
	}
	_, err := predicate.Parse(name + " != None")
	if err != nil {
		return false
	}
	_, err = expr.Names(name)
	return err == nil
}

// expression writes a derivation in the expression language.
func (b *minedDraft) expression(k int, d *observer.Derived) (string, refusal) {
	name := b.steps[k].tool.tool.Name
	if d == nil || len(d.Parts) == 0 {
		return "", refuse("an argument of %s is derived, but nothing says how", name)
	}
	if d.Form == observer.FormBuilt {
		return b.built(k, d, d.Shape)
	}
	var parts []string
	for _, p := range d.Parts {
		if !p.Place {
			fixed := any(p.Text)
			if p.Value != nil {
				fixed = p.Value
			}
			parts = append(parts, string(value.Encode(fixed)))
			continue
		}
		text, r := b.place(k, p)
		if r != nil {
			return "", r
		}
		if d.Form == observer.FormTemplate || d.Form == observer.FormText {
			text = "string(" + text + ")"
		}
		parts = append(parts, text)
	}
	switch d.Form {
	case observer.FormText, observer.FormTemplate:
		return strings.Join(parts, " + "), nil
	case observer.FormNumber:
		return "int(" + parts[0] + ")", nil
	case observer.FormDecimal:
		return "double(" + parts[0] + ")", nil
	case observer.FormPart:
		return partOf(parts[0], d), nil
	case observer.FormSelect:
		list, r := b.place(k, observer.Part{Place: true, Step: d.Step, Pointer: d.List})
		if r != nil {
			return "", r
		}
		return selected(list, d, parts[0], ""), nil
	}
	if text := ofListOrText(d.Form, d.Take, parts); text != "" {
		return text, nil
	}
	return "", refuse("an argument of %s is derived in a way that flows cannot say: %s", name, d.Form)
}

// ofListOrText writes what is made of a list or a text as a whole, or of an object by its keys; "" for other forms. An index
// or a key that is not there is an error, so that the flow hands back.
func ofListOrText(form observer.DerivedForm, take string, parts []string) string {
	switch form {
	case observer.FormJoin, observer.FormSplit, observer.FormMember: // what is between the elements, or the key
		if len(parts) < 2 {
			return ""
		}
	}
	switch from := parts[0]; form {
	case observer.FormLast:
		return fmt.Sprintf("%s[size(%s) - 1]%s", from, from, selectors(take))
	case observer.FormSize:
		return "size(" + from + ")"
	case observer.FormColumn:
		return fmt.Sprintf("%s.map(e, e%s)", from, selectors(take))
	case observer.FormJoin:
		return fmt.Sprintf("%s.map(e, string(e%s)).join(%s)", from, selectors(take), parts[1])
	case observer.FormSplit:
		return fmt.Sprintf("%s.split(%s)", from, parts[1])
	case observer.FormMember:
		return fmt.Sprintf("%s[%s]%s", from, parts[1], selectors(take))
	case observer.FormOnlyKey: // dyn: a record of declared properties has keys, too
		return fmt.Sprintf("[dyn(%s)].filter(o, size(o) == 1)[0].filter(k, true)[0]", from)
	case observer.FormLower:
		return from + ".lowerAscii()"
	case observer.FormUpper:
		return from + ".upperAscii()"
	case observer.FormTrim:
		return from + ".trim()"
	}
	return ""
}

// partOf writes what lies between delimiters in a text.
func partOf(text string, d *observer.Derived) string {
	if d.After != "" {
		pieces := fmt.Sprintf("%s.split(%s)", text, value.Encode(d.After))
		if text = pieces + "[1]"; d.Last {
			text = fmt.Sprintf("%s[size(%s) - 1]", pieces, pieces)
		}
	}
	if d.Before != "" {
		text = fmt.Sprintf("%s.split(%s)[0]", text, value.Encode(d.Before))
	}
	return text
}

// built writes an object or a list of places and constants.
func (b *minedDraft) built(k int, d *observer.Derived, shape any) (string, refusal) {
	var inside []string
	switch shape := shape.(type) {
	case []any:
		for _, e := range shape {
			text, r := b.built(k, d, e)
			if r != nil {
				return "", r
			}
			inside = append(inside, text)
		}
		return "[" + strings.Join(inside, ", ") + "]", nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(shape)) {
			text, r := b.built(k, d, shape[name])
			if r != nil {
				return "", r
			}
			inside = append(inside, string(value.Encode(name))+": "+text)
		}
		return "{" + strings.Join(inside, ", ") + "}", nil
	}
	i, ok := partNumber(shape)
	if !ok || i < 0 || i >= len(d.Parts) {
		return "", refuse("an argument of %s is built of parts that are not there", b.steps[k].tool.tool.Name)
	}
	if p := d.Parts[i]; !p.Place {
		return string(value.Encode(p.Value)), nil
	}
	return b.place(k, d.Parts[i])
}

// partNumber reads the number of a part, also of a shape that was stored as JSON.
func partNumber(v any) (int, bool) {
	switch v := v.(type) {
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v)
	}
	return 0, false
}

// place writes a place of an earlier result, or what an earlier argument was.
func (b *minedDraft) place(k int, p observer.Part) (string, refusal) {
	name := b.steps[k].tool.tool.Name
	if p.Step < 0 || p.Step >= k {
		return "", refuse("an argument of %s is derived from a step that is not before it", name)
	}
	if p.Arg != "" {
		src, ok := b.source(&observer.ArgFlow{Kind: observer.SourceArg, Step: p.Step, Pointer: p.Arg})
		if !ok {
			return "", refuse("an argument of %s is derived from an argument that is not part of the pattern", name)
		}
		if src.Given {
			text, r := b.givenOr(k, src)
			return "(" + text + ")", r
		}
		switch src.Kind {
		case observer.SourceInput:
			if !identifier.MatchString(src.Input) {
				return "", refuse("an argument of %s is derived from the input %s, which expressions cannot name", name, src.Input)
			}
			return src.Input, nil
		case observer.SourceConst:
			return string(value.Encode(src.Value)), nil
		case observer.SourceOutput:
			return b.place(k, observer.Part{Place: true, Step: src.Step, Pointer: src.Pointer})
		}
		return "", refuse("an argument of %s is derived from one that is derived itself", name)
	}
	from := &b.steps[p.Step]
	if !identifier.MatchString(from.key) {
		return "", refuse("an argument of %s is derived from the output %s, which expressions cannot name", name, from.key)
	}
	from.used = append(from.used, p.Pointer)
	if from.wrapped {
		return from.key + selectors("/"+wrapKey+p.Pointer), nil
	}
	return from.key + selectors(p.Pointer), nil
}

// identifier is a name that expressions can read as it is.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// selectors writes a pointer as an expression reads it.
func selectors(pointer string) string {
	tokens, _ := value.ParsePointer(pointer)
	var out strings.Builder
	for _, token := range tokens {
		if i, ok := value.Index(token); ok {
			fmt.Fprintf(&out, "[%d]", i)
		} else if identifier.MatchString(token) {
			out.WriteString("." + token)
		} else {
			out.WriteString("[" + string(value.Encode(token)) + "]")
		}
	}
	return out.String()
}
