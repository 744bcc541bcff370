package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/flows"
	"pave/flows/schema"
)

// Discovered is one tool that a server lists. Problem says why it cannot be used; Tool is nil then.
type Discovered struct {
	Remote  string // the server's name for it
	Tool    *flows.Tool
	Digest  string // of the definition as the server gave it
	Problem string
}

var nameOK = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// maxDescription is how much of a description is kept, in characters.
const maxDescription = 2000

// discovered turns a server's definition into a tool. The digest is over name, description, schemas and annotations;
// the order of keys does not enter it.
func discovered(server string, t *mcp.Tool) Discovered {
	d := Discovered{Remote: t.Name}
	if !nameOK.MatchString(t.Name) {
		d.Problem = fmt.Sprintf("the name %.80q is not 1 to 128 of A-Z a-z 0-9 _ . -", t.Name)
		return d
	}
	in, err := rawSchema(t.InputSchema)
	if err != nil {
		d.Problem = "input schema: " + err.Error()
		return d
	}
	out, err := rawSchema(t.OutputSchema)
	if err != nil {
		d.Problem = "output schema: " + err.Error()
		return d
	}
	tool := &flows.Tool{Name: t.Name, Description: t.Description, InputSchema: in, OutputSchema: out, Safety: safety(t.Annotations), Origin: flows.ToolDiscovered}
	tool.DeclaredIdempotent = tool.Safety != nil && tool.Safety.Idempotent && !tool.Safety.ReadOnly()
	d.Digest = flows.DefinitionDigest(tool)
	tool.Description = cleanDescription(t.Description)
	tool.Binding = &flows.Binding{Kind: flows.BindMCP, Server: server, Tool: t.Name, DefinitionDigest: d.Digest}
	d.Tool = tool
	return d
}

// rawSchema is a schema that pave can compile, nil for none.
func rawSchema(v any) (flows.RawSchema, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if _, err := schema.Compile(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// safety reads the annotations with caution: they are the server's claims. Without them the safety is unknown, which
// counts as external. What is not said of a tool that changes things is taken as the worse: destructive, open to the
// world, not idempotent.
func safety(a *mcp.ToolAnnotations) *flows.SafetyContract {
	if a == nil {
		return nil
	}
	c := flows.DefaultSafety()
	c.Source = "mcp_annotations"
	c.Stability, c.DeterminismLevel = "best_effort", "partial"
	destructive := a.DestructiveHint != nil && *a.DestructiveHint
	switch {
	case destructive, !a.ReadOnlyHint && a.DestructiveHint == nil:
		c.SideEffects = flows.EffectDestructive
	case a.ReadOnlyHint:
		c.SideEffects = flows.EffectRead
	case a.OpenWorldHint == nil || *a.OpenWorldHint:
		c.SideEffects = flows.EffectExternal
	default:
		c.SideEffects = flows.EffectWrite
	}
	c.Idempotent = c.ReadOnly() || a.IdempotentHint
	c.SafeToRetry, c.Cacheable = c.Idempotent, c.ReadOnly()
	return &c
}

// cleanDescription takes out what could steer a terminal or hide text from a reader, and what is too long.
func cleanDescription(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > maxDescription {
		text = string(runes[:maxDescription])
	}
	return text
}
