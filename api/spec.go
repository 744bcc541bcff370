package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"pave/governance"
)

//go:embed openapi.yaml
var openapiYAML []byte

// SpecYAML is the contract of this API, as it is served at /openapi.yaml.
func SpecYAML() []byte { return openapiYAML }

// operation is what the server needs to know of one operation of the contract.
type operation struct {
	id       string
	method   string
	path     string // as in the contract: /api/v1/flows/{name}
	public   bool   // needs no key
	scopes   []governance.Scope
	otlp     bool // answers errors as google.rpc.Status
	raw      bool // decodes and validates its body itself
	params   []parameter
	bodyNeed bool
	media    []string    // content types that the body may have
	body     *lazySchema // of an application/json body; nil when there is none
}

// parameter is a query, path or header parameter.
type parameter struct {
	name, in string
	required bool
	kind     string // JSON type of its schema
	schema   *lazySchema
}

// lazySchema compiles a schema of the contract at its first use, because a command-line process touches few.
type lazySchema struct {
	once     sync.Once
	compiler func(pointer string) (*jsonschema.Schema, error)
	pointer  string
	schema   *jsonschema.Schema
	err      error
}

func (l *lazySchema) get() (*jsonschema.Schema, error) {
	l.once.Do(func() { l.schema, l.err = l.compiler(l.pointer) })
	return l.schema, l.err
}

// contract is the parsed openapi.yaml.
type contract struct {
	json       []byte
	operations map[route]*operation
}

// route is how echo names one: GET and /api/v1/flows/:name.
type route struct{ method, path string }

const specURL = "pave:openapi.json"

// document mirrors the parts of the contract that the server reads.
type document struct {
	Security   []map[string][]string                   `json:"security"`
	Paths      map[string]map[string]documentOperation `json:"paths"`
	Components struct {
		Parameters    map[string]documentParameter `json:"parameters"`
		RequestBodies map[string]documentBody      `json:"requestBodies"`
	} `json:"components"`
}

type documentOperation struct {
	OperationID string                 `json:"operationId"`
	Tags        []string               `json:"tags"`
	Security    *[]map[string][]string `json:"security"`
	Parameters  []documentParameter    `json:"parameters"`
	RequestBody *documentBody          `json:"requestBody"`
}

type documentParameter struct {
	Ref      string          `json:"$ref"`
	Name     string          `json:"name"`
	In       string          `json:"in"`
	Required bool            `json:"required"`
	Schema   json.RawMessage `json:"schema"`
}

type documentBody struct {
	Ref      string                     `json:"$ref"`
	Required bool                       `json:"required"`
	Content  map[string]json.RawMessage `json:"content"`
}

// loadContract parses the embedded contract once for the process.
var loadContract = sync.OnceValues(func() (*contract, error) {
	var tree any
	if err := yaml.Unmarshal(openapiYAML, &tree); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	c := &contract{json: raw, operations: make(map[route]*operation)}
	compile := schemaCompiler(raw)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o, err := doc.operation(path, method, op, compile)
			if err != nil {
				return nil, err
			}
			c.operations[route{o.method, echoPath(path)}] = o
		}
	}
	return c, nil
})

// schemaCompiler compiles schemas by their JSON pointer into the document. Schemas of OpenAPI 3.1 are JSON Schema
// 2020-12, so that the document itself is the resource and references need no rewriting.
func schemaCompiler(raw []byte) func(string) (*jsonschema.Schema, error) {
	var mu sync.Mutex
	var compiler *jsonschema.Compiler
	return func(pointer string) (*jsonschema.Schema, error) {
		mu.Lock()
		defer mu.Unlock()
		if compiler == nil {
			tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
			if err != nil {
				return nil, err
			}
			c := jsonschema.NewCompiler()
			c.DefaultDraft(jsonschema.Draft2020)
			c.AssertFormat()
			if err := c.AddResource(specURL, tree); err != nil {
				return nil, err
			}
			compiler = c
		}
		return compiler.Compile(specURL + "#" + pointer)
	}
}

func (d *document) operation(path, method string, op documentOperation, compile func(string) (*jsonschema.Schema, error)) (*operation, error) {
	o := &operation{id: op.OperationID, method: strings.ToUpper(method), path: path, otlp: strings.HasPrefix(path, "/v1/")}
	for _, tag := range op.Tags {
		o.raw = o.raw || tag == "raw"
	}
	security := d.Security
	if op.Security != nil {
		security = *op.Security
	}
	o.public = len(security) == 0
	for _, requirement := range security {
		for _, scope := range requirement["apiKey"] {
			o.scopes = append(o.scopes, governance.Scope(scope))
		}
	}
	if !o.public && len(o.scopes) == 0 {
		return nil, fmt.Errorf("openapi.yaml: operation %s declares no scope", o.id)
	}
	here := "/paths/" + escapePointer(path) + "/" + method
	for i, p := range op.Parameters {
		at := fmt.Sprintf("%s/parameters/%d", here, i)
		if p.Ref != "" {
			at = strings.TrimPrefix(p.Ref, "#")
			p = d.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
		}
		var schema struct {
			Ref  string `json:"$ref"`
			Type any    `json:"type"`
		}
		if err := json.Unmarshal(p.Schema, &schema); err != nil {
			return nil, fmt.Errorf("openapi.yaml: operation %s: parameter %d: %w", o.id, i, err)
		}
		kind, _ := schema.Type.(string)
		o.params = append(o.params, parameter{name: p.Name, in: p.In, required: p.Required, kind: kind,
			schema: &lazySchema{compiler: compile, pointer: at + "/schema"}})
	}
	if body := op.RequestBody; body != nil {
		at := here + "/requestBody"
		if body.Ref != "" {
			at = strings.TrimPrefix(body.Ref, "#")
			b := d.Components.RequestBodies[body.Ref[strings.LastIndexByte(body.Ref, '/')+1:]]
			body = &b
		}
		o.bodyNeed = body.Required
		o.media = slices.Sorted(maps.Keys(body.Content))
		if _, ok := body.Content["application/json"]; ok {
			o.body = &lazySchema{compiler: compile, pointer: at + "/content/application~1json/schema"}
		}
	}
	return o, nil
}

// echoPath turns {name} into :name.
func echoPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}
