package httpbind

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

func badArgument(format string, args ...any) error {
	return &executor.ToolError{Class: executor.ClassValidation, Code: "invalid_argument", NotSent: true, Message: fmt.Sprintf(format, args...)}
}

// request builds one call. secrets collects the values that went into headers, so that error texts can be
// cleared of them.
func (c *Invoker) request(ctx context.Context, tool *flows.Tool, b *binding, input map[string]any, call executor.CallInfo) (req *http.Request, secrets []string, err error) {
	target, err := b.target(input)
	if err != nil {
		return nil, nil, err
	}
	body, contentType, err := b.content(input)
	if err != nil {
		return nil, nil, err
	}
	if req, err = http.NewRequestWithContext(ctx, b.method, target, body); err != nil {
		return nil, nil, invalidBinding(tool, "url %q cannot be used", b.origin)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pave")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if b.method != http.MethodGet && call.RunID != "" {
		req.Header.Set("Idempotency-Key", call.Key())
	}
	if !tool.Repeatable() {
		once(req)
	}
	if parent := call.Traceparent(); parent != "" {
		req.Header.Set("Traceparent", parent)
		req.Header.Set("Tracestate", call.Tracestate())
	}
	for _, h := range b.headers {
		var text strings.Builder
		for _, p := range h.parts {
			text.WriteString(p.literal)
			if p.secret == "" {
				continue
			}
			secret, err := c.secret(ctx, p.secret)
			if err != nil {
				return nil, nil, &executor.ToolError{Class: executor.ClassOther, Code: "unknown_secret", NotSent: true,
					Message: fmt.Sprintf("secret %s of tool '%s' (header %s) is not available; set it where pave runs", p.secret, tool.Name, h.name)}
			}
			if strings.ContainsAny(secret, "\r\n\x00") {
				return nil, nil, &executor.ToolError{Class: executor.ClassOther, Code: "unknown_secret", NotSent: true,
					Message: fmt.Sprintf("secret %s of tool '%s' holds a line break and cannot stand in header %s", p.secret, tool.Name, h.name)}
			}
			secrets = append(secrets, secret)
			text.WriteString(secret)
		}
		req.Header.Set(h.name, text.String())
	}
	return req, secrets, nil
}

// once keeps the HTTP client from sending a request again by itself when a kept connection breaks off under it, which it
// does where it takes a request for idempotent: by its method, or by an Idempotency-Key, whose name it looks up as it is
// usually spelt. Names are the same to servers in any case.
func once(req *http.Request) {
	if key, has := req.Header["Idempotency-Key"]; has {
		delete(req.Header, "Idempotency-Key")
		req.Header["idempotency-key"] = key
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		if req.Body == nil {
			req.Body, req.GetBody = io.NopCloser(strings.NewReader("")), nil // cannot be read twice
		}
	}
}

// target fills path and query. A value never changes the path's shape: separators are escaped, and a segment
// that a server could take for "." or ".." is refused.
func (b *binding) target(input map[string]any) (string, error) {
	out := strings.Builder{}
	out.WriteString(b.origin)
	for _, segment := range b.path {
		escaped, plain, filled := "", "", false
		for _, p := range segment {
			if p.arg == "" {
				literal, _ := url.PathUnescape(p.literal) // checked by compile
				escaped, plain = escaped+p.literal, plain+literal
				continue
			}
			text, ok := scalar(input[p.arg])
			if !ok || text == "" {
				return "", badArgument("argument '%s' stands in the URL's path and must be a non-empty string, number or boolean", p.arg)
			}
			escaped, plain, filled = escaped+url.PathEscape(text), plain+text, true
		}
		if filled && climbs(plain) {
			return "", badArgument("an argument would change the URL's path: the segment must not be or hold '.' or '..'")
		}
		out.WriteString("/" + escaped)
	}
	query, err := b.queryString(input)
	if err != nil {
		return "", err
	}
	if query != "" {
		out.WriteString("?" + query)
	}
	return out.String(), nil
}

func climbs(segment string) bool {
	for _, s := range strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}

func (b *binding) queryString(input map[string]any) (string, error) {
	var pairs []string
	for _, q := range b.query {
		if len(q.value) == 1 && q.value[0].arg != "" {
			texts, err := queryValues(q.value[0].arg, input[q.value[0].arg])
			if err != nil {
				return "", err
			}
			for _, text := range texts {
				pairs = append(pairs, q.key+"="+url.QueryEscape(text))
			}
			continue
		}
		text := ""
		for _, p := range q.value {
			if p.arg == "" {
				text += p.literal
				continue
			}
			part, ok := scalar(input[p.arg])
			if !ok {
				return "", badArgument("argument '%s' stands inside a query value and must be a string, number or boolean", p.arg)
			}
			text += url.QueryEscape(part)
		}
		pairs = append(pairs, q.key+"="+text)
	}
	if b.body == bodyQuery {
		form, err := b.form(input)
		if err != nil {
			return "", err
		}
		if form != "" {
			pairs = append(pairs, form)
		}
	}
	return strings.Join(pairs, "&"), nil
}

// rest are the arguments that the URL does not place.
func (b *binding) rest(input map[string]any) map[string]any {
	out := make(map[string]any, len(input))
	for name, v := range input {
		if !b.named[name] {
			out[name] = v
		}
	}
	return out
}

func (b *binding) content(input map[string]any) (body io.Reader, contentType string, err error) {
	switch b.body {
	case bodyJSON:
		rest := b.rest(input)
		if len(rest) == 0 && (b.method == http.MethodGet || b.method == http.MethodHead || b.method == http.MethodDelete) {
			return nil, "", nil
		}
		return bytes.NewReader(value.Encode(rest)), "application/json", nil
	case bodyForm:
		form, err := b.form(input)
		return strings.NewReader(form), "application/x-www-form-urlencoded", err
	}
	return nil, "", nil
}

// form writes the arguments that the URL does not place as key=value pairs in key order; lists repeat their key.
func (b *binding) form(input map[string]any) (string, error) {
	rest := b.rest(input)
	values := url.Values{}
	for name, v := range rest {
		texts, err := queryValues(name, v)
		if err != nil {
			return "", err
		}
		values[name] = texts
	}
	return values.Encode(), nil
}

// queryValues are the texts of one parameter: none for null, one for a scalar, one for each element of a list.
func queryValues(name string, v any) ([]string, error) {
	if v == nil {
		return nil, nil
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	texts := make([]string, 0, len(list))
	for _, element := range list {
		text, ok := scalar(element)
		if !ok {
			return nil, badArgument("argument '%s' cannot be written as a form or query parameter: it must be a string, number, boolean or a list of them; use body: json", name)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// scalar writes a string as it is, numbers and booleans as JSON.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, int64, json.Number, float64:
		return string(value.Canonical(v)), true
	}
	return "", false
}
