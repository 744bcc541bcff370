package flows

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows/schema"
	"pave/flows/value"
)

// Warning is something in a file that was read but should be looked at.
type Warning struct {
	Pointer string // JSON pointer into the file
	Message string
}

// reader collects what is wrong with a document. strict: unknown fields are errors, not warnings.
type reader struct {
	what     string // "flow file", "tool file"
	strict   bool
	details  []ErrorDetail
	warnings []Warning
}

func (r *reader) fail(pointer, code, format string, args ...any) {
	r.details = append(r.details, ErrorDetail{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(pointer, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// maxShown is how many faults the message of an error names; the details name all.
const maxShown = 3

func (r *reader) err() error {
	if len(r.details) == 0 {
		return nil
	}
	parts := []string{}
	for _, d := range r.details[:min(len(r.details), maxShown)] {
		at := d.Pointer
		if at == "" {
			at = "/"
		}
		parts = append(parts, at+": "+d.Detail)
	}
	if more := len(r.details) - maxShown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return &Error{Code: CodeInvalid, Message: r.what + ": " + strings.Join(parts, "; "), Details: r.details, Err: CWFlowSerialization}
}

// object reads the fields of one object of the document. Null counts as absent; in files that are not strict the base
// system's rules hold: see notNull and lax.
type object struct {
	*reader
	path string
	m    value.Members
	read map[string]bool
}

func (r *reader) object(path string, v any) (*object, bool) {
	m, ok := v.(value.Members)
	if !ok {
		r.fail(path, "wrong_type", "must be an object")
		return nil, false
	}
	return &object{reader: r, path: path, m: m, read: make(map[string]bool, len(m))}, true
}

func (o *object) at(key string) string { return o.path + "/" + value.Escape(key) }

// get returns a field that is present and not null.
func (o *object) get(key string) (any, bool) {
	o.read[key] = true
	v, ok := o.m.Get(key)
	return v, ok && v != nil
}

// close reports the fields that nobody asked for.
func (o *object) close() {
	for _, m := range o.m {
		switch {
		case o.read[m.Key]:
		case o.strict:
			o.fail(o.at(m.Key), "unknown_field", "unknown field")
		default:
			o.warn(o.at(m.Key), "unknown field ignored")
		}
	}
}

// notNull refuses nulls in files of the base system's format where its models take none.
func (o *object) notNull(keys ...string) {
	if o.strict {
		return
	}
	for _, key := range keys {
		if v, given := o.m.Get(key); given && v == nil {
			o.fail(o.at(key), "wrong_type", "must not be null; leave it out")
		}
	}
}

var (
	laxBoolean = mustCompile(`{"type":"boolean"}`)
	laxInteger = mustCompile(`{"type":"integer"}`)
	laxNumber  = mustCompile(`{"type":"number"}`)
)

func mustCompile(raw string) *schema.Schema {
	s, err := schema.Compile([]byte(raw))
	if err != nil {
		panic(err)
	}
	return s
}

// lax converts a scalar as the base system does on loading its own files ("yes" is true, "2" is 2). Strict files have
// values of the type itself.
func (o *object) lax(to *schema.Schema, v any) any {
	if o.strict {
		return v
	}
	if converted, violations := to.Apply(v); len(violations) == 0 {
		return converted
	}
	return v
}

func (o *object) missing(key string) { o.fail(o.at(key), "missing", "is required") }

// text reads an optional string.
func (o *object) text(key, dflt string) string {
	v, ok := o.get(key)
	if !ok {
		return dflt
	}
	s, ok := v.(string)
	if !ok {
		o.fail(o.at(key), "wrong_type", "must be a string, not %s; write it in quotes", typeOf(v))
	}
	return s
}

// needText reads a string that must be there.
func (o *object) needText(key string) string {
	if _, ok := o.get(key); !ok {
		o.missing(key)
	}
	return o.text(key, "")
}

// choice reads an optional string out of a closed list.
func choice[T ~string](o *object, key string, allowed ...T) T {
	s := T(o.text(key, ""))
	if v, ok := o.get(key); ok && !slices.Contains(allowed, s) {
		if _, isText := v.(string); isText {
			o.fail(o.at(key), "invalid", "must be one of %v, not %q", allowed, string(s))
		}
	}
	return s
}

func (o *object) boolean(key string, dflt bool) bool {
	v, ok := o.get(key)
	if !ok {
		return dflt
	}
	b, ok := o.lax(laxBoolean, v).(bool)
	if !ok {
		o.fail(o.at(key), "wrong_type", "must be true or false")
	}
	return b
}

func (o *object) integer(key string, dflt, least int64) int64 {
	v, ok := o.get(key)
	if !ok {
		return dflt
	}
	v = o.lax(laxInteger, v)
	i, ok := v.(int64)
	if f, isFloat := v.(float64); isFloat && f == float64(int64(f)) {
		i, ok = int64(f), true
	}
	if !ok || i < least {
		o.fail(o.at(key), "invalid", "must be an integer of at least %d", least)
	}
	return i
}

func (o *object) number(key string, dflt, least float64) float64 {
	v, ok := o.get(key)
	if !ok {
		return dflt
	}
	v = o.lax(laxNumber, v)
	f, ok := v.(float64)
	if i, isInt := v.(int64); isInt {
		f, ok = float64(i), true
	}
	if !ok || f < least {
		o.fail(o.at(key), "invalid", "must be a number of at least %v", least)
	}
	return f
}

func (o *object) texts(key string) []string {
	list, ok := o.list(key)
	if !ok || len(list) == 0 {
		return nil
	}
	out := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			o.fail(fmt.Sprintf("%s/%d", o.at(key), i), "wrong_type", "must be a string")
		}
		out = append(out, s)
	}
	return out
}

func (o *object) list(key string) ([]any, bool) {
	v, ok := o.get(key)
	if !ok {
		return nil, false
	}
	list, ok := v.([]any)
	if !ok {
		o.fail(o.at(key), "wrong_type", "must be a list")
	}
	return list, ok
}

// members reads an optional object without looking into it.
func (o *object) members(key string) (value.Members, bool) {
	v, ok := o.get(key)
	if !ok {
		return nil, false
	}
	m, ok := v.(value.Members)
	if !ok {
		o.fail(o.at(key), "wrong_type", "must be an object")
	}
	return m, ok
}

// textMap reads an optional object of strings.
func (o *object) textMap(key string) map[string]string {
	m, ok := o.members(key)
	if !ok {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, e := range m {
		s, ok := e.Value.(string)
		if !ok {
			o.fail(o.at(key)+"/"+value.Escape(e.Key), "wrong_type", "must be a string")
		}
		out[e.Key] = s
	}
	return out
}

func (o *object) plainMap(key string) map[string]any {
	m, ok := o.members(key)
	if !ok {
		return nil
	}
	return value.Plain(m).(map[string]any)
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case value.Members, map[string]any:
		return "an object"
	}
	return "a number"
}
