package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pave/flows"
	"pave/flows/value"
)

// maxDetails bounds how many faults of one request are listed.
const maxDetails = 20

var english = message.NewPrinter(language.English)

// validate checks parameters and JSON bodies against the contract, so that handlers see well-formed requests only
// and every fault carries its pointer. Operations that stream their body check it themselves.
func (s *Server) validate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil {
			return next(c)
		}
		details, err := checkParameters(op, c)
		if err != nil {
			return err
		}
		if len(details) > 0 {
			return flows.NewError(flows.CodeInvalid, "the request does not have the form that /openapi.yaml describes", details...)
		}
		if op.raw || len(op.media) == 0 {
			return next(c)
		}
		if err := checkBody(op, c.Request()); err != nil {
			return err
		}
		return next(c)
	}
}

func checkParameters(op *operation, c echo.Context) ([]flows.ErrorDetail, error) {
	query, err := url.ParseQuery(c.QueryString())
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "the query cannot be read: "+err.Error())
	}
	var details []flows.ErrorDetail
	for i := range op.params {
		p := &op.params[i]
		text := ""
		switch p.in {
		case "query":
			text = query.Get(p.name)
		case "path":
			text = c.Param(p.name)
		case "header":
			text = c.Request().Header.Get(p.name)
		}
		if text == "" { // an empty parameter counts as absent
			if p.required {
				details = append(details, flows.ErrorDetail{Pointer: p.name, Code: "required", Detail: "is needed"})
			}
			continue
		}
		faults, err := checkParameter(p, text, query[p.name])
		if err != nil {
			return nil, fmt.Errorf("contract of %s: %w", op.id, err)
		}
		details = append(details, faults...)
	}
	for name := range query {
		if !op.knows(name) {
			details = append(details, flows.ErrorDetail{Pointer: name, Code: "unknown", Detail: "is not a parameter of this operation"})
		}
	}
	return details, nil
}

func (o *operation) knows(query string) bool {
	for i := range o.params {
		if o.params[i].in == "query" && o.params[i].name == query {
			return true
		}
	}
	return false
}

// checkParameter validates a parameter by its text; one that may be repeated by all its values.
func checkParameter(p *parameter, text string, all []string) ([]flows.ErrorDetail, error) {
	var v any = text
	switch p.kind {
	case "array":
		list := make([]any, len(all))
		for i := range all {
			list[i] = all[i]
		}
		v = list
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return []flows.ErrorDetail{{Pointer: p.name, Code: "type", Detail: "must be a whole number"}}, nil
		}
		v = n
	case "boolean":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return []flows.ErrorDetail{{Pointer: p.name, Code: "type", Detail: "must be true or false"}}, nil
		}
		v = b
	}
	schema, err := p.schema.get()
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(v); err != nil {
		return faultsOf(err, p.name), nil
	}
	return nil, nil
}

// checkBody reads a JSON body whole, validates it and puts it back for the decoder.
func checkBody(op *operation, r *http.Request) error {
	media := r.Header.Get(echo.HeaderContentType)
	kind, _, err := mime.ParseMediaType(media)
	if media != "" && (err != nil || !slices.Contains(op.media, kind)) {
		return flows.NewError(flows.CodeUnsupportedMedia,
			fmt.Sprintf("Content-Type %.80q is not taken here; send %s", media, strings.Join(op.media, " or ")))
	}
	if kind != echo.MIMEApplicationJSON && media != "" {
		return nil // another declared form, which its decoder checks
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if op.bodyNeed {
			return flows.NewError(flows.CodeInvalid, "this operation needs a JSON body")
		}
		r.Body, r.ContentLength = http.NoBody, 0
		return nil
	}
	if media == "" {
		return flows.NewError(flows.CodeUnsupportedMedia, "the body has no Content-Type; send application/json")
	}
	v, err := value.DecodeStrict(data)
	if err != nil {
		return flows.NewError(flows.CodeInvalid, "the body is not JSON that can be taken: "+err.Error())
	}
	if op.body != nil {
		schema, err := op.body.get()
		if err != nil {
			return fmt.Errorf("contract of %s: %w", op.id, err)
		}
		if err := schema.Validate(v); err != nil {
			return flows.NewError(flows.CodeInvalid, "the body does not have the form that /openapi.yaml describes", faultsOf(err, "")...)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}

// faultsOf flattens a schema error into its leaves. base is the parameter's name, or "" for the body.
func faultsOf(err error, base string) []flows.ErrorDetail {
	invalid := new(jsonschema.ValidationError)
	if !errors.As(err, &invalid) {
		return []flows.ErrorDetail{{Pointer: base, Code: "invalid", Detail: err.Error()}}
	}
	var details []flows.ErrorDetail
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(details) == maxDetails {
			return
		}
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				walk(cause)
			}
			return
		}
		pointer := base
		for _, token := range e.InstanceLocation {
			pointer += "/" + escapePointer(token)
		}
		path := e.ErrorKind.KeywordPath()
		details = append(details, flows.ErrorDetail{Pointer: pointer, Code: strings.Join(path, "/"),
			Detail: e.ErrorKind.LocalizedString(english)})
	}
	walk(invalid)
	return details
}
