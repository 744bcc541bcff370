package ingest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// RedactionPreview is a document as it would be stored, and what was hidden in it.
type RedactionPreview struct {
	Payload json.RawMessage
	Marks   []RedactionMark // in the order of the document; members of objects by name
}

// RedactionMark is one secret that was found. Equal tokens stand for equal secrets.
type RedactionMark struct {
	Pointer string // RFC 6901, to the text in which the token stands; of a member whose name holds it, to the member
	Kind    string // such as secret, email or card
	Token   string
}

// redactionToken is the form of tokens; see KeyRedactor.
var redactionToken = regexp.MustCompile(`\[redacted:([a-z0-9_-]+):[0-9a-f]{12}\]`)

// Preview redacts valid JSON and lists what was hidden; tokens that the document already had are no marks.
func (r *KeyRedactor) Preview(raw json.RawMessage) RedactionPreview {
	p := RedactionPreview{Payload: r.Redact(raw), Marks: []RedactionMark{}}
	if bytes.Equal(p.Payload, raw) {
		return p
	}
	d := json.NewDecoder(bytes.NewReader(p.Payload))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil { // Redact keeps JSON valid
		return p
	}
	p.mark(raw, doc, "")
	return p
}

func (p *RedactionPreview) mark(before []byte, v any, pointer string) {
	switch v := v.(type) {
	case string:
		for _, found := range redactionToken.FindAllStringSubmatch(v, -1) {
			if !bytes.Contains(before, []byte(found[0])) {
				p.Marks = append(p.Marks, RedactionMark{Pointer: pointer, Kind: found[1], Token: found[0]})
			}
		}
	case []any:
		for i, element := range v {
			p.mark(before, element, pointer+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
			p.mark(before, key, at)
			p.mark(before, v[key], at)
		}
	}
}
