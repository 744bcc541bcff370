package flows

import (
	"fmt"
	"regexp"
	"strings"

	"pave/flows/schema"
	"pave/flows/value"
)

// KindTool is the kind of a tool document.
const KindTool = "Tool"

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// ToolFile is what a tool file holds: tools, and the MCP servers at which some of them are reached.
type ToolFile struct {
	Tools   []*Tool
	Servers []*MCPServer
}

// ParseToolFile reads a tool file: YAML of one or more documents, or JSON of one document or a list of them. Schemas,
// bindings and error rules are checked; a name may not come twice. The error is an *Error that wraps
// CWFlowSerialization; its details point to every fault, the document's number first.
func ParseToolFile(data []byte) (*ToolFile, error) {
	trees, err := readTrees(data, Limits{MaxNodes: 10 * DefaultLimits.MaxNodes}.orDefault())
	if err != nil {
		return nil, err
	}
	if len(trees) == 1 {
		if list, ok := trees[0].([]any); ok {
			trees = list
		}
	}
	r := &reader{what: "tool file", strict: true}
	file := &ToolFile{Tools: make([]*Tool, 0, len(trees))}
	seen := map[[2]string]bool{}
	once := func(path, kind, name string) {
		if seen[[2]string{kind, name}] {
			r.fail(path+"/name", "invalid", "%s %q is declared twice", kind, name)
		}
		seen[[2]string{kind, name}] = true
	}
	for i, tree := range trees {
		if tree == nil { // an empty document, as between two separators
			continue
		}
		path := fmt.Sprintf("/%d", i)
		if kindOf(tree) == KindMCPServer {
			if s := r.mcpServer(path, tree); s != nil {
				once(path, "MCP server", s.Name)
				file.Servers = append(file.Servers, s)
			}
		} else if t := r.tool(path, tree); t != nil {
			once(path, "tool", t.Name)
			file.Tools = append(file.Tools, t)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return file, nil
}

// kindOf is what a document says it is.
func kindOf(tree any) string {
	members, ok := tree.(value.Members)
	if !ok {
		return ""
	}
	kind, _ := (&object{m: members, read: map[string]bool{}}).get("kind")
	text, _ := kind.(string)
	return text
}

// ParseTools reads the tools of a tool file, for those who do not reach them: MCP servers are checked and left out.
func ParseTools(data []byte) ([]*Tool, error) {
	file, err := ParseToolFile(data)
	if err != nil {
		return nil, err
	}
	return file.Tools, nil
}

// EncodeTool writes one tool document without fields at their defaults.
func EncodeTool(t *Tool, format Format) ([]byte, error) { return write(toolTree(t), format) }

// MarshalJSON writes the tool document, compact.
func (t *Tool) MarshalJSON() ([]byte, error) { return value.Encode(toolTree(t)), nil }

// UnmarshalJSON reads one tool document.
func (t *Tool) UnmarshalJSON(data []byte) error {
	tools, err := ParseTools(data)
	if err != nil {
		return err
	}
	if len(tools) != 1 {
		return formatError("expected one tool, found %d", len(tools))
	}
	*t = *tools[0]
	return nil
}

func (r *reader) tool(path string, v any) *Tool {
	o, ok := r.object(path, v)
	if !ok {
		return nil
	}
	if kind := o.needText("kind"); kind != KindTool {
		if kind != "" {
			o.fail(o.at("kind"), "invalid", "must be %s or %s, not %q", KindTool, KindMCPServer, kind)
		}
		return nil
	}
	t := &Tool{
		Name: o.needText("name"), Description: o.text("description", ""), SchemaVersion: o.text("schema_version", ""),
		InputSchema: r.schema(o, "input_schema"), OutputSchema: r.schema(o, "output_schema"),
		Safety: r.safety(o), Metadata: o.plainMap("metadata"),
		Origin: choice(o, "origin", ToolDeclared, ToolDiscovered, ToolInferred),
	}
	if t.Origin == "" {
		t.Origin = ToolDeclared
	}
	if s, ok := o.get("safety"); ok && t.Safety != nil {
		said, _ := (&object{m: s.(value.Members), read: map[string]bool{}}).get("idempotent")
		t.DeclaredIdempotent = said == true && !t.Safety.ReadOnly()
	}
	if _, given := o.get("name"); given && !toolName.MatchString(t.Name) {
		o.fail(o.at("name"), "invalid", "a name has 1 to 128 of A-Z a-z 0-9 _ . -")
	}
	if _, ok := o.get("timeout_seconds"); ok {
		seconds := o.number("timeout_seconds", 0, 0)
		t.TimeoutSeconds = &seconds
	}
	if _, ok := o.get("max_output_size"); ok {
		size := int(o.integer("max_output_size", 0, 0))
		t.MaxOutputSize = &size
	}
	if _, ok := o.get("cacheable"); ok {
		cacheable := o.boolean("cacheable", true)
		t.Cacheable = &cacheable
		if t.Safety != nil && t.Safety.Cacheable != cacheable {
			o.fail(o.at("cacheable"), "invalid", "contradicts safety.cacheable")
		}
	}
	if v, ok := o.get("binding"); ok {
		t.Binding = r.binding(o.at("binding"), v, t.Name)
	}
	o.close()
	return t
}

// Binding kinds.
const (
	BindHTTP   = "http"
	BindLocal  = "local"
	BindMCP    = "mcp"
	BindWorker = "worker"
)

func (r *reader) binding(path string, v any, tool string) *Binding {
	o, ok := r.object(path, v)
	if !ok {
		return nil
	}
	b := &Binding{Kind: choice(o, "kind", BindHTTP, BindLocal, BindMCP, BindWorker)}
	switch b.Kind {
	case BindHTTP:
		r.httpBinding(o, b)
	case BindLocal:
		b.Local = o.text("local", tool)
	case BindMCP:
		b.Server, b.Tool = o.needText("server"), o.text("tool", tool)
		b.DefinitionDigest = o.text("definition_digest", "")
	case BindWorker:
		b.Pool = o.needText("pool")
	default:
		if _, given := o.get("kind"); !given {
			o.missing("kind")
		}
		return nil
	}
	o.close()
	return b
}

func (r *reader) httpBinding(o *object, b *Binding) {
	b.Method = strings.ToUpper(o.text("method", ""))
	switch b.Method {
	case "", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE":
	default:
		o.fail(o.at("method"), "invalid", "must be GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	b.URL = o.needText("url")
	if b.URL != "" && !strings.HasPrefix(b.URL, "http://") && !strings.HasPrefix(b.URL, "https://") {
		o.fail(o.at("url"), "invalid", "must start with http:// or https://")
	}
	b.Headers = o.textMap("headers")
	b.Body = choice(o, "body", "json", "form", "none")
	b.Result = r.pointer(o, "result")
	rules, _ := o.list("errors")
	for i, v := range rules {
		e, ok := r.object(fmt.Sprintf("%s/%d", o.at("errors"), i), v)
		if !ok {
			continue
		}
		rule := ErrorRule{When: r.predicate(e, "when"), Message: r.pointer(e, "message"), Class: choice(e, "class", ErrorClasses...)}
		if _, given := e.get("when"); !given {
			e.missing("when")
		}
		e.close()
		b.Errors = append(b.Errors, rule)
	}
}

func (r *reader) pointer(o *object, key string) string {
	text := o.text(key, "")
	if _, err := value.ParsePointer(text); err != nil {
		o.fail(o.at(key), "invalid", "must be a JSON pointer: empty or starting with /")
	}
	return text
}

func toolTree(t *Tool) value.Members {
	var b fields
	b.add("kind", KindTool)
	b.add("name", t.Name)
	b.text("description", t.Description, "")
	b.text("schema_version", t.SchemaVersion, "")
	b.addIf(t.InputSchema != nil, "input_schema", rawTree(t.InputSchema))
	b.addIf(t.OutputSchema != nil, "output_schema", rawTree(t.OutputSchema))
	b.addIf(t.Safety != nil, "safety", toolSafetyTree(t))
	if t.TimeoutSeconds != nil {
		b.add("timeout_seconds", *t.TimeoutSeconds)
	}
	if t.MaxOutputSize != nil {
		b.add("max_output_size", int64(*t.MaxOutputSize))
	}
	if t.Cacheable != nil {
		b.add("cacheable", *t.Cacheable)
	}
	b.addIf(t.Metadata != nil, "metadata", t.Metadata)
	b.addIf(t.Binding != nil, "binding", bindingTree(t))
	b.text("origin", string(t.Origin), string(ToolDeclared))
	return b.members
}

// toolSafetyTree is the contract with what the tool file said of idempotence, where that matters.
func toolSafetyTree(t *Tool) value.Members {
	tree := safetyTree(t.Safety)
	if t.DeclaredIdempotent {
		b := fields{members: tree}
		b.add("idempotent", true)
		return b.sorted()
	}
	return tree
}

func bindingTree(t *Tool) value.Members {
	if t.Binding == nil {
		return nil
	}
	var b fields
	from := t.Binding
	b.add("kind", from.Kind)
	switch from.Kind {
	case BindLocal:
		b.text("local", from.Local, t.Name)
	case BindMCP:
		b.add("server", from.Server)
		b.text("tool", from.Tool, t.Name)
		b.text("definition_digest", from.DefinitionDigest, "")
	case BindWorker:
		b.add("pool", from.Pool)
	case BindHTTP:
		b.text("method", from.Method, "")
		b.add("url", from.URL)
		b.addIf(from.Headers != nil, "headers", stringMap(from.Headers))
		b.text("body", from.Body, "")
		b.text("result", from.Result, "")
		var rules []any
		for _, rule := range from.Errors {
			e := fields{members: value.Members{{Key: "when", Value: rule.When}}}
			e.text("message", rule.Message, "")
			e.text("class", rule.Class, "")
			rules = append(rules, e.members)
		}
		b.addIf(rules != nil, "errors", rules)
	}
	return b.members
}

// SchemaHash is the hash that flows pin: 16 hex digits over the normalised schemas and the schema version. It
// changes when, and only when, what the tool accepts or returns changes.
func SchemaHash(t *Tool) string { return toolHash(t, schema.Fingerprint) }

// PeerSchemaHash is the base system's hash over the schemas as they are written, for interoperability.
func PeerSchemaHash(t *Tool) string { return toolHash(t, schema.PeerFingerprint) }

func toolHash(t *Tool, fingerprint func(RawSchema) (string, error)) string {
	parts := make([]any, 0, 3)
	for _, raw := range []RawSchema{t.InputSchema, t.OutputSchema} {
		fp, err := fingerprint(raw)
		if err != nil { // not JSON: such a tool does not compile, but it has a hash
			fp = shortSum(raw)
		}
		parts = append(parts, fp)
	}
	parts = append(parts, orText(t.SchemaVersion, "0.0.0"))
	return shortSum(value.Encode(parts))
}

// DefinitionDigest is hex SHA-256 over the whole definition: name, description, schemas as they are written and
// the safety contract. Tools of other servers are pinned by it.
func DefinitionDigest(t *Tool) string {
	definition := *t
	definition.Binding, definition.Origin, definition.Metadata = nil, "", nil
	definition.TimeoutSeconds, definition.MaxOutputSize, definition.Cacheable = nil, nil, nil
	return fullSum(value.Canonical(toolTree(&definition)))
}
