package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
)

//go:embed docs.html.tmpl
var docsTemplate string

//go:embed docs.css
var docsStyle string

// docsPolicy allows the page its own style and nothing else.
var docsPolicy = func() string {
	sum := sha256.Sum256([]byte(docsStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// docsPage is the contract as people read it.
type docsPage struct {
	Title, Description string
	Style              template.CSS
	Tags               []docsTag
	Schemas            []docsSchema
}

type docsTag struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Description, Scopes string
	Parameters                                     []docsParameter
	Body                                           string
	Answers                                        []docsAnswer
}

type docsParameter struct {
	Name, In, Description string
	Required              bool
}

type docsAnswer struct{ Status, Description, Schema string }

type docsSchema struct{ Name, JSON string }

// docsDocument mirrors the parts of the contract that the page shows.
type docsDocument struct {
	Info struct {
		Title, Description string
	} `json:"info"`
	Paths      map[string]map[string]docsSource `json:"paths"`
	Components struct {
		Parameters map[string]docsParameterSource `json:"parameters"`
		Responses  map[string]docsAnswerSource    `json:"responses"`
		Schemas    map[string]json.RawMessage     `json:"schemas"`
	} `json:"components"`
}

type docsSource struct {
	OperationID string                      `json:"operationId"`
	Tags        []string                    `json:"tags"`
	Summary     string                      `json:"summary"`
	Description string                      `json:"description"`
	Parameters  []docsParameterSource       `json:"parameters"`
	RequestBody docsAnswerSource            `json:"requestBody"`
	Responses   map[string]docsAnswerSource `json:"responses"`
}

type docsParameterSource struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

type docsAnswerSource struct {
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Content     map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		} `json:"schema"`
	} `json:"content"`
}

// docs writes the page once for the process.
var docs = sync.OnceValues(func() ([]byte, error) {
	c, err := loadContract()
	if err != nil {
		return nil, err
	}
	var doc docsDocument
	if err := json.Unmarshal(c.json, &doc); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	t, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	var page bytes.Buffer
	err = t.Execute(&page, doc.page(c))
	return page.Bytes(), err
})

func (d *docsDocument) page(c *contract) docsPage {
	page := docsPage{Title: d.Info.Title, Description: d.Info.Description, Style: template.CSS(docsStyle)}
	byTag := map[string][]docsOperation{}
	for path, methods := range d.Paths {
		for method, source := range methods {
			op := d.operation(path, strings.ToUpper(method), source)
			if known := c.operations[route{op.Method, echoPath(path)}]; known != nil {
				op.Scopes = scopeList(known.scopes)
			}
			byTag[source.Tags[0]] = append(byTag[source.Tags[0]], op)
		}
	}
	for name, ops := range byTag {
		slices.SortFunc(ops, func(a, b docsOperation) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
		})
		page.Tags = append(page.Tags, docsTag{name, ops})
	}
	slices.SortFunc(page.Tags, func(a, b docsTag) int { return cmp.Compare(a.Name, b.Name) })
	for name, raw := range d.Components.Schemas {
		var out bytes.Buffer
		if json.Indent(&out, raw, "", "  ") == nil {
			page.Schemas = append(page.Schemas, docsSchema{name, out.String()})
		}
	}
	slices.SortFunc(page.Schemas, func(a, b docsSchema) int { return cmp.Compare(a.Name, b.Name) })
	return page
}

func (d *docsDocument) operation(path, method string, source docsSource) docsOperation {
	op := docsOperation{ID: source.OperationID, Method: method, Path: path, Summary: source.Summary, Description: source.Description, Body: schemaName(source.RequestBody)}
	for _, p := range source.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[lastToken(p.Ref)]
		}
		op.Parameters = append(op.Parameters, docsParameter{p.Name, p.In, p.Description, p.Required})
	}
	for status, a := range source.Responses {
		if a.Ref != "" {
			a = d.Components.Responses[lastToken(a.Ref)]
		}
		op.Answers = append(op.Answers, docsAnswer{status, a.Description, schemaName(a)})
	}
	slices.SortFunc(op.Answers, func(a, b docsAnswer) int { return cmp.Compare(a.Status, b.Status) })
	return op
}

// schemaName is the named schema of a body's JSON form, "" when it has none.
func schemaName(a docsAnswerSource) string {
	for _, media := range []string{"application/json", "application/problem+json"} {
		if ref := a.Content[media].Schema.Ref; ref != "" {
			return lastToken(ref)
		}
	}
	return ""
}

func lastToken(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// serveDocs answers the page.
func (s *Server) serveDocs(c echo.Context) error {
	page, err := docs()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentSecurityPolicy, docsPolicy)
	return c.Blob(http.StatusOK, "text/html; charset=utf-8", page)
}
