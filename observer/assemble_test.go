package observer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// An object and a list in it are built of copies from two places and of a constant, leaf by leaf.
func TestBuiltOfLeaves(t *testing.T) {
	session := func(i int) ingest.Session {
		return findUse(i, j(`{"id":"id-%d","price":{"amount":%d}}`, i, 500+i),
			j(`{"payment":{"method":"card","lines":[{"item":"id-%d","paid":%d}],"for":"query-%d"}}`, i, 500+i, i))
	}
	a := argOf(t, "payment", many(12, session))
	want := Derived{Form: FormBuilt, Shape: map[string]any{"for": int64(0), "lines": []any{map[string]any{"item": int64(1), "paid": int64(2)}}, "method": int64(3)},
		Parts: []Part{{Place: true, Arg: "q"}, {Place: true, Pointer: "/id"}, {Place: true, Pointer: "/price/amount"}, {Value: "card"}}}
	require.Equal(t, want, derivedOf(t, a))
	require.Equal(t, "Built of 3 earlier values and constants (1).", a.Evidence.Note)
	require.Equal(t, []int{12, 12, 12}, []int{a.Evidence.Present, a.Evidence.Held, a.Evidence.Distinct})

	r := mine(t, Options{}, many(12, session)...)
	require.Equal(t, HeldOut{Windows: 12, Exact: 12, Predictions: 12, Right: 12}, r.pattern("find > use").DataFlow.HeldOut, "found in each half, right in the other")
}

// What is not built of earlier values is not proposed as built: a leaf that the model makes up, values of many shapes, and a
// constant that one session alone has.
func TestNotBuiltOfLeaves(t *testing.T) {
	for name, build := range map[string]func(i int) string{
		"a leaf of the model":  func(i int) string { return j(`{"payment":{"item":"id-%d","guess":"made-up-%d"}}`, i, i*i) },
		"a leaf that is wrong": func(i int) string { return j(`{"payment":{"item":"id-%d"}}`, i+i%3) },
		"many shapes":          func(i int) string { return j(`{"payment":{"item":"id-%d","f%d":"x"}}`, i, i) },
		"constants alone":      func(i int) string { return `{"payment":{"item":"one","kind":"two"}}` },
		"something personal":   func(i int) string { return j(`{"payment":{"item":"id-%d","to":"jo@example.com"}}`, i) },
	} {
		t.Run(name, func(t *testing.T) {
			r := mine(t, Options{}, many(12, func(i int) ingest.Session { return findUse(i, j(`{"id":"id-%d"}`, i), build(i)) })...)
			for _, p := range r.Patterns {
				for _, a := range p.DataFlow.Steps[1].Args {
					require.Nil(t, a.Derived)
				}
			}
		})
	}
}

// The parts of texts, with the delimiters that all have in common.
func TestPartOfAText(t *testing.T) {
	for name, c := range map[string]struct {
		result, arg func(i int) string
		want        Derived
	}{
		"the end of an address": {
			func(i int) string {
				return j(`{"link":"https://shop.example/%s/items/AB%04d"}`, []string{"a", "b/c"}[i%2], i)
			},
			func(i int) string { return j(`{"id":"AB%04d"}`, i) },
			Derived{Form: FormPart, After: "/", Last: true, Parts: []Part{{Place: true, Pointer: "/link"}}}},
		"between two delimiters": {
			func(i int) string { return j(`{"text":"Ticket #%05d: it broke (%d)"}`, 70_000+i, i) },
			func(i int) string { return j(`{"id":"%05d"}`, 70_000+i) },
			Derived{Form: FormPart, After: "#", Before: ":", Parts: []Part{{Place: true, Pointer: "/text"}}}},
		"before a delimiter": {
			func(i int) string { return j(`{"mail":{"from":"person%03d@mail.example"}}`, i) },
			func(i int) string { return j(`{"id":"person%03d"}`, i) },
			Derived{Form: FormPart, Before: "@", Parts: []Part{{Place: true, Pointer: "/mail/from"}}}},
		"after the last of several": {
			func(i int) string { return j(`{"path":"/%s/file%03d"}`, []string{"x", "x/y", "x/y/z"}[i%3], i) },
			func(i int) string { return j(`{"id":"file%03d"}`, i) },
			Derived{Form: FormPart, After: "/", Last: true, Parts: []Part{{Place: true, Pointer: "/path"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := argOf(t, "id", many(18, func(i int) ingest.Session { return findUse(i, c.result(i), c.arg(i)) }))
			require.Equal(t, c.want, derivedOf(t, a))
			require.Equal(t, 18, a.Evidence.Held)
			require.Contains(t, a.Evidence.Note, "The part of the text there")
		})
	}
}

// A value inside a text at no constant place is what the model picked.
func TestNoPartOfAText(t *testing.T) {
	r := mine(t, Options{}, many(18, func(i int) ingest.Session {
		seps := []string{"<%s>", "[%s]", "{%s}", "=%s;", "'%s'", "~%s!"}
		return findUse(i, j(`{"text":%q}`, fmt.Sprintf("word "+seps[i%len(seps)]+" word", j("pick%03d", i))), j(`{"id":"pick%03d"}`, i))
	})...)
	require.Nil(t, r.pattern("find > use"))
	b := r.blockedPath("find > use")
	require.NotNil(t, b)
	require.Equal(t, "choice", b.Reason)
}

func FuzzCut(f *testing.F) {
	f.Add("Ticket #70001: it broke", "70001")
	f.Add("/x/y/z", "z")
	f.Add("ÄÖ12ß", "12")
	f.Fuzz(func(t *testing.T, text, part string) {
		at := 0
		for ; at < len(text); at++ {
			if len(part) > 0 && len(text)-at >= len(part) && text[at:at+len(part)] == part {
				break
			}
		}
		if at == len(text) || part == "" {
			return
		}
		standsApart(text, at, len(part))
		for _, f := range delimited(text, at, part) {
			got, ok := f.cut(text)
			require.True(t, ok)
			require.Equal(t, part, got)
		}
	})
}

// Texts around values, and delimiters, are shown to reviewers: none that looks personal is in a flow.
func TestFixedTextsAreNotPersonal(t *testing.T) {
	r := mine(t, Options{}, many(12, func(i int) ingest.Session {
		return findUse(i, j(`{"no":"no-%d"}`, i), j(`{"text":"no-%d for jo.doe@example.com"}`, i))
	})...)
	require.Nil(t, r.pattern("find > use"))
	r = mine(t, Options{}, many(12, func(i int) ingest.Session {
		return findUse(i, j(`{"no":"no-%d"}`, i), j(`{"text":"no-%d for the file"}`, i))
	})...)
	require.NotNil(t, r.pattern("find > use"))
}
