package flows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"pave/flows/value"
)

// Format is the notation of a flow or tool file.
type Format string

const (
	FormatYAML Format = "yaml"
	FormatJSON Format = "json"
)

// Limits of one file; zero means the default in parentheses.
type Limits struct {
	MaxBytes        int // 5 MiB
	MaxNodes        int // 100,000 values
	MaxDepth        int // 64 levels, scalars included
	MaxStringLength int // 100,000 code points
	MaxSteps        int // 1,000
}

// DefaultLimits are those of the base system.
var DefaultLimits = Limits{MaxBytes: 5 << 20, MaxNodes: 100_000, MaxDepth: 64, MaxStringLength: 100_000, MaxSteps: 1000}

func (l Limits) orDefault() Limits {
	for _, f := range []struct{ field, dflt *int }{
		{&l.MaxBytes, &DefaultLimits.MaxBytes}, {&l.MaxNodes, &DefaultLimits.MaxNodes}, {&l.MaxDepth, &DefaultLimits.MaxDepth},
		{&l.MaxStringLength, &DefaultLimits.MaxStringLength}, {&l.MaxSteps, &DefaultLimits.MaxSteps},
	} {
		if *f.field == 0 {
			*f.field = *f.dflt
		}
	}
	return l
}

// formatError is an *Error for a file that cannot be read at all.
func formatError(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...), Err: CWFlowSerialization}
}

func limitError(name string, limit int) *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the file exceeds %s (%d)", name, limit), Err: CWFlowSerialization}
}

// readTrees decodes the documents of a file into ordered values: JSON when the text starts with { or [, else
// YAML.
func readTrees(data []byte, limits Limits) ([]any, error) {
	if len(data) > limits.MaxBytes {
		return nil, limitError("max_bytes", limits.MaxBytes)
	}
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	var trees []any
	var err error
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		trees, err = readJSON(trimmed, limits)
	} else {
		trees, err = readYAML(data, limits)
	}
	if err != nil {
		return nil, err
	}
	for _, tree := range trees {
		c := counter{limits: limits}
		if err := c.check(tree, 1); err != nil {
			return nil, err
		}
	}
	return trees, nil
}

func readJSON(data []byte, limits Limits) ([]any, error) {
	tree, err := value.DecodeOrdered(data, value.Limits{Depth: limits.MaxDepth, Nodes: limits.MaxNodes})
	var refused *value.Error
	if errors.As(err, &refused) && refused.Limit != "" {
		limit := limits.MaxDepth
		if refused.Limit == value.LimitNodes {
			limit = limits.MaxNodes
		}
		return nil, limitError(refused.Limit, limit)
	}
	if err != nil {
		return nil, formatError("%v", err)
	}
	return []any{tree}, nil
}

// counter checks the limits of one document.
type counter struct {
	limits Limits
	nodes  int
}

func (c *counter) check(v any, depth int) error {
	if c.nodes++; c.nodes > c.limits.MaxNodes {
		return limitError("max_nodes", c.limits.MaxNodes)
	}
	if depth > c.limits.MaxDepth {
		return limitError("max_depth", c.limits.MaxDepth)
	}
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) > c.limits.MaxStringLength {
			return limitError("max_string_length", c.limits.MaxStringLength)
		}
	case []any:
		for _, e := range v {
			if err := c.check(e, depth+1); err != nil {
				return err
			}
		}
	case value.Members:
		for _, m := range v {
			if utf8.RuneCountInString(m.Key) > c.limits.MaxStringLength {
				return limitError("max_string_length", c.limits.MaxStringLength)
			}
			if err := c.check(m.Value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func readYAML(data []byte, limits Limits) ([]any, error) {
	var trees []any
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return trees, nil
		}
		if err != nil {
			return nil, formatError("invalid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(trees) >= limits.MaxNodes {
			return nil, limitError("max_nodes", limits.MaxNodes)
		}
		c := converter{limits: limits}
		tree, err := c.value(&doc, 0)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
}

// converter turns YAML nodes into ordered values. Aliases are followed, so nodes counts what comes out.
type converter struct {
	limits Limits
	nodes  int
}

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if c.nodes++; c.nodes > 2*c.limits.MaxNodes { // keys count too
		return nil, limitError("max_nodes", c.limits.MaxNodes)
	}
	if depth > c.limits.MaxDepth {
		return nil, limitError("max_depth", c.limits.MaxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.value(n.Content[0], depth)
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		if n.ShortTag() != "!!seq" {
			return nil, yamlError(n, "tag %s is not allowed", n.Tag)
		}
		out := make([]any, len(n.Content))
		for i, e := range n.Content {
			var err error
			if out[i], err = c.value(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case yaml.MappingNode:
		return c.mapping(n, depth)
	}
	return scalar(n)
}

func (c *converter) mapping(n *yaml.Node, depth int) (any, error) {
	if n.ShortTag() != "!!map" {
		return nil, yamlError(n, "tag %s is not allowed", n.Tag)
	}
	out := make(value.Members, 0, len(n.Content)/2)
	seen := make(map[string]bool, len(n.Content)/2)
	var merged []any
	for i := 0; i < len(n.Content); i += 2 {
		v, err := c.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if n.Content[i].ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		k, err := c.value(n.Content[i], depth+1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok || isDate(n.Content[i]) {
			return nil, yamlError(n.Content[i], "the key %s is not a string; write it in quotes", n.Content[i].Value)
		}
		if seen[key] {
			return nil, yamlError(n.Content[i], "duplicate key %q", key)
		}
		if seen[key] = true; depth == 0 && isText[key] && isDate(n.Content[i+1]) {
			return nil, yamlError(n.Content[i+1], "%s is a date; write it in quotes", n.Content[i+1].Value)
		}
		out = append(out, value.Member{Key: key, Value: v})
	}
	for _, v := range merged { // "<<: *anchor": keys that are not there yet
		sources, ok := v.([]any)
		if !ok {
			sources = []any{v}
		}
		for _, source := range sources {
			members, ok := source.(value.Members)
			if !ok {
				return nil, yamlError(n, "a merge (<<) needs a mapping")
			}
			for _, m := range members {
				if !seen[m.Key] {
					seen[m.Key] = true
					out = append(out, m)
				}
			}
		}
	}
	return out, nil
}

// isText are the fields of a flow that a date does not fit; elsewhere its text does.
var isText = map[string]bool{"name": true, "version": true, "description": true}

func isDate(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && n.ShortTag() == "!!timestamp"
}

func yamlError(n *yaml.Node, format string, args ...any) *Error {
	return formatError("line %d: "+format, append([]any{n.Line}, args...)...)
}

var (
	yamlDecimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*)$`)
	yamlFloat   = regexp.MustCompile(`^[-+]?[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?$`)
	// yamlBools are the booleans of YAML 1.1, which the base system's files use.
	yamlBools = map[string]bool{
		"yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
		"no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
	}
)

func scalar(n *yaml.Node) (any, error) {
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	if b, ok := yamlBools[n.Value]; ok && plain {
		return b, nil
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!bool":
		return nil, yamlError(n, "%q is not a boolean", n.Value)
	case "!!int":
		return yamlInteger(n)
	case "!!float":
		text := strings.ReplaceAll(n.Value, "_", "")
		// An integer beyond 64 bits has this tag too; it keeps its digits.
		if yamlDecimal.MatchString(n.Value) {
			return yamlInteger(n)
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !yamlFloat.MatchString(n.Value) || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, yamlError(n, "%s is not a finite decimal number", n.Value)
		}
		return f, nil
	}
	return nil, yamlError(n, "tag %s is not allowed", n.Tag)
}

func yamlInteger(n *yaml.Node) (any, error) {
	if yamlDecimal.MatchString(n.Value) {
		v, err := value.Decode([]byte(strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")))
		if err == nil {
			return v, nil
		}
	}
	digits := strings.ReplaceAll(strings.TrimLeft(n.Value, "+-"), "_", "")
	if len(digits) > 2 && digits[0] == '0' && strings.ContainsRune("xXoObB", rune(digits[1])) {
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64); err == nil {
			return i, nil
		}
	}
	return nil, yamlError(n, "%s is not a plain integer; write it without leading zeros or in quotes", n.Value)
}

// writeYAML is v in block style, keys in the order they have.
func writeYAML(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(v)); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func yamlNode(v any) *yaml.Node {
	switch v := v.(type) {
	case value.Members:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, m := range v {
			n.Content = append(n.Content, yamlNode(m.Key), yamlNode(m.Value))
		}
		return n
	case map[string]any:
		return yamlNode(sortedMembers(v))
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, e := range v {
			n.Content = append(n.Content, yamlNode(e))
		}
		return n
	case string:
		return yamlString(v)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	text := string(value.Encode(v))
	tag := "!!int"
	switch v.(type) {
	case bool:
		tag = "!!bool"
	case float64:
		tag = "!!float"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// yamlString quotes what a YAML 1.1 or 1.2 reader could take for something else than this string.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	probe := yaml.Node{Kind: yaml.ScalarNode, Value: s}
	_, isBool := yamlBools[s]
	switch {
	case isBool || probe.ShortTag() != "!!str" || s == "y" || s == "Y" || s == "n" || s == "N" || s == "=" || s == "<<":
		n.Style = yaml.DoubleQuotedStyle
	case strings.ContainsAny(s, "\r\u0085\u2028\u2029\ufeff") || strings.TrimSpace(s) != s || !utf8.ValidString(s) || hasControl(s):
		// Block and plain scalars do not carry these faithfully.
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f })
}
