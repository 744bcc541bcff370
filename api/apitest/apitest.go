// Package apitest checks answers of the API against its contract, for the tests of any package.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"pave/api"
)

// contract is the parsed openapi.yaml with its router.
type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var load = sync.OnceValues(func() (*contract, error) {
	for _, media := range []string{"application/x-protobuf", "application/x-ndjson", "text/vnd.mermaid", "text/vnd.graphviz", "image/svg+xml", "text/html", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	doc, err := openapi3.NewLoader().LoadFromData(api.SpecYAML())
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return nil, err
	}
	doc.Servers = nil // routes match on any host
	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	return &contract{doc: doc, router: router}, nil
})

// Transport passes requests to next and fails the test when an answer is not as the contract describes it: its
// status, headers, content type and body. Answers of paths that the contract does not have must be problems.
func Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	return &transport{t: t, next: next, contract: c}
}

type transport struct {
	t        testing.TB
	next     http.RoundTripper
	contract *contract
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := tr.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := tr.contract.check(r, resp, body); err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		tr.t.Errorf("%s %s answered %d, not as the contract says: %s\n%s", r.Method, r.URL.Path, resp.StatusCode, reason, body)
	}
	return resp, nil
}

func (c *contract) check(r *http.Request, resp *http.Response, body []byte) error {
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return c.checkProblem(resp, body)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(r.Context(), input)
}

// checkProblem validates an answer of a path that is not in the contract.
func (c *contract) checkProblem(resp *http.Response, body []byte) error {
	if strings.HasPrefix(resp.Request.URL.Path, "/v1/") || len(body) == 0 {
		return nil
	}
	var problem any
	if err := json.Unmarshal(body, &problem); err != nil {
		return err
	}
	return c.doc.Components.Schemas["Problem"].Value.VisitJSON(problem, openapi3.EnableJSONSchema2020())
}
