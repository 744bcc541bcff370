// Package secrets finds secrets in texts: keys of well-known services, bearer tokens, private keys, passwords in
// addresses and assignments, card numbers. One pass over the text looks for the literals that all of them begin with;
// only around a literal anything is looked at more closely, so that text without secrets costs about a nanosecond a byte.
package secrets

import (
	"cmp"
	"slices"
	"strings"
)

// Span is a secret in a text, without the words around it that say what it is.
type Span struct {
	From, To int // bytes
	Kind     string
}

// Kinds of secrets.
const (
	KindSecret = "secret"
	KindCard   = "card"
	KindEmail  = "email"
)

// Options select what is a secret; the zero value is the default.
type Options struct {
	// Names are further names of members and assignments whose values are secret; Allow are names that are not.
	Names, Allow []string
	// Emails hides addresses of people.
	Emails bool
}

// Finder finds secrets. It is immutable and safe for concurrent use.
type Finder struct {
	automaton *automaton
	names     map[string]bool
	allow     map[string]bool
	emails    bool
}

// New returns a finder.
func New(o Options) *Finder {
	f := &Finder{names: make(map[string]bool), allow: make(map[string]bool), emails: o.Emails}
	literals := make(map[string]detector)
	for _, name := range slices.Concat(secretNames, o.Names) {
		f.names[plain(name)] = true
	}
	for _, name := range slices.Concat(openNames, o.Allow) {
		f.allow[plain(name)] = true
	}
	for _, word := range slices.Concat(secretWords, o.Names) {
		if word != "" {
			literals[strings.ToLower(word)] = (*Finder).assignment
		}
	}
	for literal, detect := range services {
		literals[strings.ToLower(literal)] = detect
	}
	if o.Emails {
		literals["@"] = (*Finder).email
	}
	f.automaton = newAutomaton(literals)
	return f
}

// secretNames are the names, written without separators, whose values are always secret.
var secretNames = []string{
	"password", "passwd", "pwd", "passphrase", "passcode", "token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken", "bearertoken",
	"apikey", "xapikey", "secret", "clientsecret", "secretkey", "secretaccesskey", "privatekey", "accountkey", "sharedaccesskey", "encryptionkey",
	"authorization", "proxyauthorization", "cookie", "setcookie", "credential", "credentials", "connectionstring", "cvv", "cvc",
}

// openNames end like secret ones and are none: what they hold links one call with the next and must stay readable.
var openNames = []string{"pagetoken", "nextpagetoken", "nexttoken", "continuationtoken", "synctoken", "maxtokens"}

// secretEnds make a longer name secret: db_password, githubToken.
var secretEnds = []string{"password", "passwd", "passphrase", "secret", "apikey", "accesstoken", "refreshtoken", "authtoken", "privatekey", "secretkey", "accesskey", "accountkey", "credentials"}

// secretWords are the literals that a secret name holds in texts.
var secretWords = []string{"password", "passwd", "pwd", "passphrase", "passcode", "secret", "token", "api_key", "apikey", "api-key", "private_key", "privatekey",
	"private-key", "accesskey", "access_key", "access-key", "accountkey", "credential", "connectionstring", "connection_string", "authorization", "cookie", "cvv", "cvc"}

// plain writes a name without separators, in lower case.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == '.' || r == ' ':
			return -1
		case r >= 'A' && r <= 'Z':
			return r | 0x20
		}
		return r
	}, name)
}

// maxName bounds the names that are looked at.
const maxName = 128

// SecretName reports whether a member or an assignment of this name holds a secret.
func (f *Finder) SecretName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	p := plain(name)
	switch {
	case f.allow[p]:
		return false
	case f.names[p]:
		return true
	}
	for _, end := range secretEnds {
		if strings.HasSuffix(p, end) {
			return true
		}
	}
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "_token") || strings.HasSuffix(lower, "-token") || strings.HasSuffix(name, "Token")
}

// Suspicious reports whether the text, JSON or not, can hold a secret: false is sure. Escaped characters may hide one.
func (f *Finder) Suspicious(text []byte) bool {
	next, class := f.automaton.next, &f.automaton.class
	row, digits := uint32(0), 0
	for i, c := range text {
		if row = next[row+uint32(class[c])]; row&hot != 0 {
			return true
		}
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits >= minCard {
				return true
			}
		case c == ' ' || c == '-':
		case c == '\\' && i+1 < len(text) && text[i+1] == 'u':
			return true
		default:
			digits = 0
		}
	}
	return false
}

// Find returns the secrets of a text in order; they do not overlap.
func (f *Finder) Find(text string) []Span {
	var found []Span
	a := f.automaton
	row, digits := uint32(0), 0
	for i := range len(text) {
		c := text[i]
		if row = a.next[row+uint32(a.class[c])]; row&hot != 0 {
			for _, h := range a.ends(row) {
				if s, ok := h.detect(f, text, i+1-h.length, i+1); ok && s.From < s.To {
					found = append(found, s)
				}
			}
			row &^= hot
		}
		switch {
		case c >= '0' && c <= '9':
			digits++
		case (c == ' ' || c == '-') && digits > 0:
		default:
			if digits >= minCard {
				found = append(found, cards(text, i)...)
			}
			digits = 0
		}
	}
	if digits >= minCard {
		found = append(found, cards(text, len(text))...)
	}
	return distinct(found)
}

// distinct sorts spans and joins those that overlap.
func distinct(found []Span) []Span {
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To)) })
	kept := found[:1]
	for _, s := range found[1:] {
		if last := &kept[len(kept)-1]; s.From < last.To {
			last.To = max(last.To, s.To)
		} else {
			kept = append(kept, s)
		}
	}
	return kept
}
