package httpbind

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
	"pave/flows/value"
)

// answer turns a response into the tool's result. Anything but an object is returned raw; the engine decides how
// it is wrapped. A secret that the server sends back stays out of results and texts, which are recorded.
func (b *binding) answer(tool *flows.Tool, resp *http.Response, body []byte, limit int, secrets []string) (any, error) {
	if class, failed := statusClass(resp.StatusCode); failed {
		message := fmt.Sprintf("tool server of '%s' answered %s", tool.Name, status(resp.StatusCode))
		if said := excerpt(resp, body, secrets); said != "" {
			message += ": " + said
		}
		return nil, &executor.ToolError{Class: class, Code: "http_status", Message: message}
	}
	invalid := func(format string, args ...any) error {
		return &executor.ToolError{Class: executor.ClassOther, Code: "invalid_answer",
			Message: fmt.Sprintf("tool server of '%s' answered %s with ", tool.Name, status(resp.StatusCode)) + fmt.Sprintf(format, args...)}
	}
	if len(body) > limit {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: executor.CodeOutputTooLarge,
			Message: fmt.Sprintf("Tool '%s' output size exceeds max %d: the answer was cut off.", tool.Name, limit)}
	}
	trimmed := bytes.TrimSpace(body)
	switch {
	case resp.StatusCode == http.StatusNoContent || b.method == http.MethodHead:
		return nil, nil
	case len(trimmed) == 0:
		return nil, invalid("an empty body where JSON is expected")
	case trimmed[0] == '<':
		return nil, invalid("HTML or XML where JSON is expected; is the URL that of a web page or of a proxy?")
	}
	doc, err := value.Decode(trimmed)
	if err != nil {
		var syntax *value.Error
		if errors.As(err, &syntax) {
			return nil, invalid("a body that is not valid JSON (byte %d: %s)", syntax.Offset, syntax.Msg)
		}
		return nil, invalid("a body that is not valid JSON")
	}
	doc = bind.ScrubValue(doc, secrets)
	if err := b.checkRules(tool, doc); err != nil {
		return nil, err
	}
	result, ok := b.result.Get(doc)
	if !ok {
		return nil, invalid("JSON that has nothing at %s, where the binding's result is", b.result)
	}
	return result, nil
}

// checkRules applies the binding's error rules to the whole answer. A rule that cannot be evaluated, such as
// one that names a key this answer does not have, does not hold.
func (b *binding) checkRules(tool *flows.Tool, doc any) error {
	object, _ := doc.(map[string]any)
	for _, r := range b.rules {
		if holds, err := r.when.Eval(object); err != nil || !holds {
			continue
		}
		message := fmt.Sprintf("tool '%s' reported an error (%s)", tool.Name, r.source)
		if said, ok := r.message.Get(doc); ok && len(r.message) > 0 {
			text, isText := said.(string)
			if !isText {
				text = string(value.Encode(said))
			}
			message = bind.OneLine(text)
		}
		return &executor.ToolError{Class: r.class, Code: "tool_error", Message: message}
	}
	return nil
}

// statusClass sorts status codes into the retry classes; failed is false for 2xx.
func statusClass(code int) (class string, failed bool) {
	switch {
	case code >= 200 && code < 300:
		return "", false
	case code == http.StatusRequestTimeout:
		return executor.ClassTimeout, true
	case code == http.StatusTooManyRequests:
		return executor.ClassRateLimit, true
	case code >= 500:
		return executor.ClassIO, true
	}
	return executor.ClassOther, true
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// excerpt is what an error answer says, on one line: the message of a JSON body, or the body's beginning.
func excerpt(resp *http.Response, body []byte, secrets []string) string {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return "redirects are not followed; put the final URL into the binding"
	}
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "<") {
		return "an HTML page"
	}
	if doc, err := value.Decode(body); err == nil {
		for _, at := range []value.Pointer{{"message"}, {"error", "message"}, {"error"}, {"detail"}, {"title"}} {
			if said, ok := at.Get(doc); ok {
				if s, isText := said.(string); isText {
					text = s
					break
				}
			}
		}
	}
	// Secrets go before the cut, which would leave the half of one.
	return bind.OneLine(bind.Scrub(text, secrets))
}
