package httpbind

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/value"
)

// Bodies of a request. bodyQuery is the default of GET and HEAD, which have no body: arguments that the URL does
// not name become query parameters.
const (
	bodyJSON  = "json"
	bodyForm  = "form"
	bodyNone  = "none"
	bodyQuery = "query"
)

// binding is a tool's HTTP binding, checked and taken apart once.
type binding struct {
	method  string
	origin  string // scheme://host[:port]
	path    []template
	query   []queryParam
	headers []header
	body    string
	result  value.Pointer
	rules   []rule
	// named are the arguments that the URL places; the others go to the body.
	named map[string]bool
}

// template is literal text and placeholders in turn. Literal text is kept as the author escaped it.
type template []part

type part struct {
	literal string
	arg     string // a placeholder when not ""
}

type queryParam struct {
	key   string // escaped
	value template
}

type header struct {
	name  string
	parts []headerPart
}

type headerPart struct{ literal, secret string }

type rule struct {
	source  string
	when    *predicate.Predicate
	message value.Pointer
	class   string
}

func invalidBinding(tool *flows.Tool, format string, args ...any) error {
	return &executor.ToolError{Class: executor.ClassOther, Code: "invalid_binding", NotSent: true,
		Message: fmt.Sprintf("binding of tool '%s': ", tool.Name) + fmt.Sprintf(format, args...)}
}

// Check reports why a tool's HTTP binding cannot work, nil when it can. Errors are *executor.ToolError.
func Check(tool *flows.Tool) error {
	_, err := compile(tool)
	return err
}

func compile(tool *flows.Tool) (*binding, error) {
	src := tool.Binding
	if src == nil || src.URL == "" {
		return nil, invalidBinding(tool, "url is missing")
	}
	b := &binding{method: strings.ToUpper(src.Method), named: map[string]bool{}}
	if b.method == "" {
		b.method = http.MethodGet
	}
	if strings.Trim(b.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || b.method == http.MethodConnect {
		return nil, invalidBinding(tool, "method %q is not an HTTP method", src.Method)
	}
	if err := b.setURL(tool, src.URL); err != nil {
		return nil, err
	}
	switch b.body = src.Body; src.Body {
	case "":
		b.body = bodyJSON
		if b.method == http.MethodGet || b.method == http.MethodHead {
			b.body = bodyQuery
		}
	case bodyJSON, bodyForm, bodyNone:
	default:
		return nil, invalidBinding(tool, "body %q is not one of json, form, none", src.Body)
	}
	if err := b.setHeaders(tool, src.Headers); err != nil {
		return nil, err
	}
	result, err := value.ParsePointer(src.Result)
	if err != nil {
		return nil, invalidBinding(tool, "result: %v", err)
	}
	b.result = result
	return b, b.setRules(tool, src.Errors)
}

// setURL splits the URL by hand: url.Parse would escape the braces of placeholders.
func (b *binding) setURL(tool *flows.Tool, raw string) error {
	scheme, rest, ok := strings.Cut(raw, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "http" && scheme != "https" {
		return invalidBinding(tool, "url must start with http:// or https://")
	}
	if strings.Contains(rest, "#") {
		return invalidBinding(tool, "url must not have a fragment")
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	switch {
	case strings.ContainsAny(authority, "{}"):
		return invalidBinding(tool, "a placeholder may stand in the path and the query only, never in the host")
	case strings.Contains(authority, "@"):
		return invalidBinding(tool, "url must not hold credentials; use a header with {{secret:NAME}}")
	}
	b.origin = scheme + "://" + authority
	if u, err := url.Parse(b.origin + "/"); err != nil || u.Hostname() == "" {
		return invalidBinding(tool, "url has no valid host")
	}
	for _, segment := range strings.Split(path, "/") {
		t, err := b.template(segment, url.PathUnescape)
		if err != nil {
			return invalidBinding(tool, "url path: %v", err)
		}
		b.path = append(b.path, t)
	}
	if !hasQuery {
		return nil
	}
	for _, pair := range strings.Split(query, "&") {
		key, val, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "{}") {
			return invalidBinding(tool, "url query: a placeholder may stand for a value only, not for the key %q", key)
		}
		t, err := b.template(val, url.QueryUnescape)
		if err != nil {
			return invalidBinding(tool, "url query: %v", err)
		}
		b.query = append(b.query, queryParam{key: key, value: t})
	}
	return nil
}

var argumentName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// template reads text with {placeholders}; unescape checks the literal parts.
func (b *binding) template(text string, unescape func(string) (string, error)) (template, error) {
	var t template
	for text != "" {
		open := strings.IndexAny(text, "{}")
		literal := text
		if open >= 0 {
			literal = text[:open]
		}
		if literal != "" {
			if _, err := unescape(literal); err != nil {
				return nil, fmt.Errorf("%q is not escaped correctly", literal)
			}
			t = append(t, part{literal: literal})
		}
		if open < 0 {
			break
		}
		name, rest, ok := strings.Cut(text[open+1:], "}")
		if text[open] == '}' || !ok || !argumentName.MatchString(name) {
			return nil, fmt.Errorf("braces in %q must hold an argument's name", text)
		}
		t = append(t, part{arg: name})
		b.named[name] = true
		text = rest
	}
	return t, nil
}

var (
	secretRef = regexp.MustCompile(`\{\{\s*secret:([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)
	// framing headers belong to the transport.
	framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer"}
)

func (b *binding) setHeaders(tool *flows.Tool, headers map[string]string) error {
	for name, text := range headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if slices.Contains(framing, canonical) {
			return invalidBinding(tool, "header %q is set by the transport", name)
		}
		h := header{name: canonical}
		at := 0
		for _, m := range secretRef.FindAllStringSubmatchIndex(text, -1) {
			h.parts = append(h.parts, headerPart{literal: text[at:m[0]]}, headerPart{secret: text[m[2]:m[3]]})
			at = m[1]
		}
		h.parts = append(h.parts, headerPart{literal: text[at:]})
		for _, p := range h.parts {
			if strings.Contains(p.literal, "{{") {
				return invalidBinding(tool, "header %q: the only reference is {{secret:NAME}}", name)
			}
			if strings.ContainsAny(p.literal, "\r\n\x00") {
				return invalidBinding(tool, "header %q holds a line break", name)
			}
		}
		b.headers = append(b.headers, h)
	}
	slices.SortFunc(b.headers, func(x, y header) int { return strings.Compare(x.name, y.name) })
	return nil
}

func (b *binding) setRules(tool *flows.Tool, rules []flows.ErrorRule) error {
	for i, r := range rules {
		when, err := predicate.Parse(r.When)
		if err != nil {
			return invalidBinding(tool, "errors[%d].when: %v", i, err)
		}
		message, err := value.ParsePointer(r.Message)
		if err != nil {
			return invalidBinding(tool, "errors[%d].message: %v", i, err)
		}
		class := r.Class
		if class == "" {
			class = executor.ClassOther
		}
		if !executor.ValidClass(class) {
			return invalidBinding(tool, "errors[%d].class: %q is not one of timeout, validation, io, rate_limit, other", i, r.Class)
		}
		b.rules = append(b.rules, rule{source: r.When, when: when, message: message, class: class})
	}
	return nil
}
