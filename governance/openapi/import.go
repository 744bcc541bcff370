// Package openapi turns OpenAPI documents into tools, and flows into an OpenAPI document.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// Options of an import.
type Options struct {
	BaseURL string // instead of the document's first server
	Prefix  string // before each tool's name
}

// Skipped is an operation of which no tool was made.
type Skipped struct {
	Operation string // "GET /orders/{id}"
	Reason    string
}

// maxOperations bounds one import.
const maxOperations = 5000

type object = map[string]any

// Tools reads a document of OpenAPI 3.0 or 3.1, JSON or YAML, and makes a tool of each operation that the HTTP binding
// can call: named by its operationId, with the parameters of path and query and the properties of a JSON body as
// arguments. GET and HEAD count as reading, by what the methods mean; of other methods nothing is known. The error is a
// *flows.Error.
func Tools(doc []byte, o Options) ([]*flows.Tool, []Skipped, error) {
	root, err := decode(doc)
	if err != nil {
		return nil, nil, err
	}
	version, _ := root["openapi"].(string)
	if !strings.HasPrefix(version, "3.") {
		return nil, nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the document says openapi: %.20q; versions 3.0 and 3.1 are read", version))
	}
	base := o.BaseURL
	if servers, _ := root["servers"].([]any); base == "" && len(servers) > 0 {
		first, _ := servers[0].(object)
		base, _ = first["url"].(string)
	}
	if !strings.HasPrefix(base, "http://") && !strings.HasPrefix(base, "https://") {
		return nil, nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the document's server %.200q is no absolute URL; give the base URL", base))
	}
	im := &importer{root: root, base: strings.TrimSuffix(base, "/"), prefix: o.Prefix, seen: map[string]bool{}}
	paths, _ := root["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := im.deref(paths[path]).(object)
		for _, method := range []string{"get", "head", "post", "put", "patch", "delete"} {
			op, ok := item[method].(object)
			if !ok {
				continue
			}
			if len(im.tools)+len(im.skipped) == maxOperations {
				return nil, nil, flows.NewError(flows.CodeTooLarge, fmt.Sprintf("the document has more than %d operations", maxOperations))
			}
			im.operation(path, method, item, op)
		}
	}
	return im.tools, im.skipped, nil
}

// decode reads YAML, of which JSON is a part, without its aliases, which could be bombs.
func decode(doc []byte) (object, error) {
	var node yaml.Node
	err := yaml.Unmarshal(doc, &node)
	if err == nil && len(node.Content) == 1 && !hasAlias(&node) {
		var root object
		if err = node.Content[0].Decode(&root); err == nil {
			return root, nil
		}
	}
	return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the document is neither JSON nor YAML that can be taken: %.200v", err))
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

type importer struct {
	root    object
	base    string
	prefix  string
	seen    map[string]bool
	tools   []*flows.Tool
	skipped []Skipped
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

func (im *importer) operation(path, method string, item, op object) {
	label := strings.ToUpper(method) + " " + path
	skip := func(format string, args ...any) {
		im.skipped = append(im.skipped, Skipped{label, fmt.Sprintf(format, args...)})
	}
	name, _ := op["operationId"].(string)
	if name == "" {
		name = method + "_" + strings.Trim(path, "/")
	}
	if name = im.prefix + strings.Trim(notName.ReplaceAllString(name, "_"), "_"); len(name) > 128 {
		name = name[:128]
	}
	if im.seen[name] {
		skip("another operation gives the name %s too", name)
		return
	}
	in := &inputs{properties: object{}}
	parameters, _ := item["parameters"].([]any)
	own, _ := op["parameters"].([]any)
	url, problem := im.parameters(in, method, im.base+path, append(slices.Clone(parameters), own...))
	if problem != "" {
		skip("%s", problem)
		return
	}
	body, problem := im.body(in, op["requestBody"])
	if problem != "" {
		skip("%s", problem)
		return
	}
	tool := &flows.Tool{Name: name, Description: describe(op), InputSchema: in.schema(), OutputSchema: im.output(op), Origin: flows.ToolDeclared,
		Binding: &flows.Binding{Kind: flows.BindHTTP, Method: strings.ToUpper(method), URL: url, Body: body}}
	if method == "get" || method == "head" {
		safety := flows.DefaultSafety()
		safety.SideEffects, safety.Source, safety.Cacheable = flows.EffectRead, "declared", false
		safety.Stability, safety.DeterminismLevel = "best_effort", "partial"
		tool.Safety = &safety
	}
	for _, raw := range []flows.RawSchema{tool.InputSchema, tool.OutputSchema} {
		if _, err := schema.Compile(raw); raw != nil && err != nil {
			skip("its schema cannot be used: %v", err)
			return
		}
	}
	im.seen[name] = true
	im.tools = append(im.tools, tool)
}

func describe(op object) string {
	for _, key := range []string{"description", "summary"} {
		if text, _ := op[key].(string); strings.TrimSpace(text) != "" {
			if runes := []rune(text); len(runes) > 2000 {
				text = string(runes[:2000])
			}
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// inputs collects the arguments of a tool.
type inputs struct {
	properties object
	required   []string
	open       bool
}

func (in *inputs) schema() flows.RawSchema {
	s := object{"type": "object", "properties": in.properties, "additionalProperties": in.open}
	if len(in.required) > 0 {
		slices.Sort(in.required)
		s["required"] = in.required
	}
	return encode(s)
}

func encode(v any) flows.RawSchema {
	out, err := json.Marshal(v)
	if err != nil {
		return flows.RawSchema(`{}`)
	}
	return out
}

// parameters puts those of path and query into the URL and among the arguments.
func (im *importer) parameters(in *inputs, method, url string, list []any) (out, problem string) {
	var query []string
	for _, entry := range list {
		p, _ := im.deref(entry).(object)
		name, _ := p["name"].(string)
		where, _ := p["in"].(string)
		required, _ := p["required"].(bool)
		switch {
		case where == "path" || where == "query":
		case !required || strings.EqualFold(name, "authorization"):
			continue // left out: tools send the headers that their binding names
		default:
			return "", fmt.Sprintf("it needs the %s parameter %q; add it to the binding's headers by hand", where, name)
		}
		s, _ := im.plain(p["schema"], 0).(object)
		if s == nil {
			s = object{}
		}
		if text, _ := p["description"].(string); text != "" && s["description"] == nil {
			s["description"] = text
		}
		in.properties[name] = s
		if required || where == "path" {
			in.required = append(in.required, name)
		}
		if where == "query" && method != "get" && method != "head" {
			query = append(query, name+"={"+name+"}")
		}
	}
	if len(query) > 0 {
		url += "?" + strings.Join(query, "&")
	}
	return url, ""
}

// body adds the properties of a JSON or form body to the arguments.
func (im *importer) body(in *inputs, v any) (kind, problem string) {
	body, _ := im.deref(v).(object)
	if body == nil {
		return "", ""
	}
	content, _ := body["content"].(object)
	kind = "json"
	media, ok := content["application/json"].(object)
	if !ok {
		if media, ok = content["application/x-www-form-urlencoded"].(object); !ok {
			return "", "its body is neither JSON nor a form"
		}
		kind = "form"
	}
	s, _ := im.plain(media["schema"], 0).(object)
	properties, _ := s["properties"].(object)
	if t, _ := s["type"].(string); t != "object" && properties == nil {
		return "", "its body is no JSON object"
	}
	for name, p := range properties {
		if _, twice := in.properties[name]; twice {
			return "", fmt.Sprintf("%q is both a parameter and a property of its body", name)
		}
		in.properties[name] = p
	}
	in.open = properties == nil || s["additionalProperties"] == true
	required, _ := s["required"].([]any)
	if needed, _ := body["required"].(bool); needed || len(required) > 0 {
		for _, name := range required {
			if text, ok := name.(string); ok {
				in.required = append(in.required, text)
			}
		}
	}
	return kind, ""
}

// output is the schema of the first successful JSON answer; one that is no object stands under result.
func (im *importer) output(op object) flows.RawSchema {
	responses, _ := op["responses"].(object)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		answer, _ := im.deref(responses[status]).(object)
		content, _ := answer["content"].(object)
		media, _ := content["application/json"].(object)
		s, _ := im.plain(media["schema"], 0).(object)
		if s == nil {
			continue
		}
		if s["type"] == "object" || s["properties"] != nil {
			return encode(s)
		}
		return encode(object{"type": "object", "properties": object{"result": s}, "required": []string{"result"}})
	}
	return nil
}

// deref follows a reference within the document.
func (im *importer) deref(v any) any {
	for range 16 {
		o, _ := v.(object)
		ref, _ := o["$ref"].(string)
		if ref == "" {
			return v
		}
		at, err := value.ParsePointer(strings.TrimPrefix(ref, "#"))
		if err != nil || !strings.HasPrefix(ref, "#") {
			return nil
		}
		v, _ = at.Get(any(im.root))
	}
	return nil
}

// maxDepth ends schemas that contain themselves; what lies deeper may be anything.
const maxDepth = 12

// plain is a schema without references and in the words of JSON Schema 2020-12.
func (im *importer) plain(v any, depth int) any {
	switch v := im.deref(v).(type) {
	case object:
		if depth > maxDepth {
			return object{}
		}
		out := make(object, len(v))
		for key, member := range v {
			switch key {
			case "example", "examples", "xml", "externalDocs", "discriminator", "deprecated", "readOnly", "writeOnly", "nullable", "format":
			case "properties", "patternProperties":
				named, _ := member.(object)
				inner := make(object, len(named))
				for name, s := range named {
					inner[name] = im.plain(s, depth+1)
				}
				out[key] = inner
			case "exclusiveMinimum", "exclusiveMaximum": // booleans in 3.0
				bound := "m" + strings.ToLower(key[len("exclusiveM"):])
				if exclusive, is := member.(bool); !is {
					out[key] = member
				} else if exclusive {
					out[key] = v[bound]
				}
			default:
				if !strings.HasPrefix(key, "x-") {
					out[key] = im.plain(member, depth+1)
				}
			}
		}
		if v["nullable"] == true {
			return object{"anyOf": []any{out, object{"type": "null"}}}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = im.plain(v[i], depth)
		}
		return out
	default:
		return v
	}
}
