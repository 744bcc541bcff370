package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pave/flows/value"
)

// fullValidator checks every keyword of JSON Schema on a coerced value.
type fullValidator func(v any) []Violation

// noLoader refuses every reference that leaves the document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of this document; nothing else is loaded", url)
}

const documentURL = "schema:document"

func compileFull(doc any) (fullValidator, error) {
	// The library keeps numbers as json.Number.
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(value.Encode(doc)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(documentURL, plain); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(documentURL)
	if err != nil {
		return nil, err
	}
	printer := message.NewPrinter(language.English)
	return func(v any) []Violation {
		err := compiled.Validate(v)
		var failed *jsonschema.ValidationError
		if err == nil {
			return nil
		}
		if !errors.As(err, &failed) {
			return []Violation{{Loc: "$", Type: "value_error", Message: err.Error()}}
		}
		var found []Violation
		collect(failed, printer, &found)
		slices.SortStableFunc(found, func(a, b Violation) int { return strings.Compare(a.Loc, b.Loc) })
		return slices.Compact(found)
	}, nil
}

// collect takes the innermost causes, but stops at alternatives: why each of them fails says little.
func collect(e *jsonschema.ValidationError, printer *message.Printer, found *[]Violation) {
	keyword := ""
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[len(path)-1]
	}
	if len(e.Causes) > 0 && keyword != "oneOf" && keyword != "anyOf" {
		for _, cause := range e.Causes {
			collect(cause, printer, found)
		}
		return
	}
	loc := "$"
	if len(e.InstanceLocation) > 0 {
		loc = strings.Join(e.InstanceLocation, ".")
	}
	*found = append(*found, Violation{Loc: loc, Type: snake(keyword), Message: e.ErrorKind.LocalizedString(printer)})
}

// snake turns a keyword such as multipleOf into multiple_of.
func snake(keyword string) string {
	var b strings.Builder
	for _, r := range keyword {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
