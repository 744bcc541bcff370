package observer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// rowsOf is a list of n rows of session i.
func rowsOf(i, n int) string {
	rows := make([]string, n)
	for k := range rows {
		rows[k] = j(`{"id":"r-%d-%d","no":%d,"at":{"shelf":"x-%d-%d"}}`, i, k, 100*i+k, i, k)
	}
	return j(`{"rows":[%s]}`, strings.Join(rows, ","))
}

// derivedForms are those of all arguments of all patterns.
func derivedForms(sessions []ingest.Session) func(*testing.T) []DerivedForm {
	return func(t *testing.T) (out []DerivedForm) {
		for _, p := range mine(t, Options{}, sessions...).Patterns {
			for _, s := range p.DataFlow.Steps {
				for _, a := range s.Args {
					if a.Derived != nil {
						out = append(out, a.Derived.Form)
					}
				}
			}
		}
		return out
	}
}

// The last element of lists that differ in length, a place in it, and the last of a list of texts.
func TestLastElement(t *testing.T) {
	rows := many(30, func(i int) ingest.Session {
		n := 1 + i%3
		return findUse(i, rowsOf(i, n), j(`{"row":"r-%d-%d","shelf":"x-%d-%d"}`, i, n-1, i, n-1))
	})
	a := argOf(t, "row", rows)
	require.Equal(t, Derived{Form: FormLast, Take: "/id", Parts: []Part{{Place: true, Pointer: "/rows"}}}, derivedOf(t, a))
	require.Equal(t, []int{30, 30, 30}, []int{a.Evidence.Held, a.Evidence.Present, a.Evidence.Distinct})
	require.Equal(t, "/rows/*/id", a.Pointer)
	require.Equal(t, "Of the last element of a list, whatever its length.", a.Evidence.Note)
	require.Equal(t, "/at/shelf", derivedOf(t, argOf(t, "shelf", rows)).Take)
	require.Equal(t, HeldOut{Windows: 30, Exact: 30, Predictions: 60, Right: 60}, mine(t, Options{}, rows...).pattern("find > use").DataFlow.HeldOut)

	texts := many(30, func(i int) ingest.Session {
		list := []string{j(`"a-%d"`, i), j(`"b-%d"`, i), j(`"c-%d"`, i)}[:2+i%2]
		return findUse(i, j(`{"tags":[%s]}`, strings.Join(list, ",")), j(`{"tag":%s}`, list[len(list)-1]))
	})
	require.Equal(t, Derived{Form: FormLast, Parts: []Part{{Place: true, Pointer: "/tags"}}}, derivedOf(t, argOf(t, "tag", texts)))
}

// Lists of one length have the element at a place, and few long ones, few values or now and then another element do not show
// that it is the last that is taken.
func TestNotTheLastElement(t *testing.T) {
	last := func(sessions, long int, pick func(i, n int) int) []ingest.Session {
		return many(sessions, func(i int) ingest.Session {
			n := 1
			if i < long {
				n = 2 + i%2
			}
			return findUse(i, rowsOf(i, n), j(`{"row":"r-%d-%d"}`, i, pick(i, n)))
		})
	}
	end := func(_, n int) int { return n - 1 }
	require.Equal(t, []DerivedForm{FormLast}, derivedForms(last(30, 8, end))(t))
	require.Empty(t, derivedForms(last(30, 7, end))(t), "long lists are too few")
	require.Empty(t, derivedForms(last(21, 21, end))(t), "values are too few for a rule of place")
	require.Empty(t, derivedForms(last(30, 30, func(i, n int) int { return (i * 7 / 3) % n }))(t), "another is taken, too")
	same := many(30, func(i int) ingest.Session { return findUse(i, rowsOf(i, 3), j(`{"row":"r-%d-2"}`, i)) })
	a := argOf(t, "row", same)
	require.Equal(t, []any{SourceOutput, "/rows/2/id"}, []any{a.Kind, a.Pointer}, "a copy as good goes before")
}

// Where values were left out nobody can say which element was the last.
func TestLastElementOfWhatWasNotRead(t *testing.T) {
	sessions := many(30, func(i int) ingest.Session {
		n := 2 + i%3
		return findUse(i, rowsOf(i, n), j(`{"row":"r-%d-%d"}`, i, n-1))
	})
	require.NotNil(t, mine(t, Options{}, sessions...).pattern("find > use"))
	require.Nil(t, mine(t, Options{MaxLeaves: 12}, sessions...).pattern("find > use"))
}

func TestNumberOfElements(t *testing.T) {
	counts := func(n func(i int) int, used func(i, n int) int) []ingest.Session {
		return many(24, func(i int) ingest.Session {
			return findUse(i, rowsOf(i+1, n(i)), j(`{"count":%d}`, used(i, n(i))))
		})
	}
	right := func(_, n int) int { return n }
	a := argOf(t, "count", counts(func(i int) int { return 2 + i%5 }, right))
	require.Equal(t, Derived{Form: FormSize, Parts: []Part{{Place: true, Pointer: "/rows"}}}, derivedOf(t, a))
	require.Equal(t, []int{24, 5}, []int{a.Evidence.Held, a.Evidence.Distinct})
	require.Empty(t, derivedForms(counts(func(i int) int { return 2 + i%4 }, right))(t), "four lengths are a coincidence")
	require.Empty(t, derivedForms(counts(func(i int) int { return 2 + i%5 }, func(i, n int) int { return n + i%4/3 }))(t), "a quarter is wrong")
	require.Empty(t, derivedForms(counts(func(int) int { return 3 }, right))(t), "a constant")

	stated := many(24, func(i int) ingest.Session {
		n := 2 + i%5
		return findUse(i, strings.TrimSuffix(rowsOf(i+1, n), "}")+j(`,"total":%d}`, n), j(`{"count":%d}`, n))
	})
	require.Equal(t, SourceOutput, argOf(t, "count", stated).Kind, "a copy goes before")
}

// One place of each element, as a list and as a text; the text of a list of one is that element.
func TestElementsTogether(t *testing.T) {
	sessions := many(24, func(i int) ingest.Session {
		n := 1 + i%4
		var ids []string
		for k := range n {
			ids = append(ids, j("r-%d-%d", i, k))
		}
		return findUse(i, rowsOf(i, n), j(`{"ids":["%s"],"line":"%s"}`, strings.Join(ids, `","`), strings.Join(ids, ", ")))
	})
	rows := Part{Place: true, Pointer: "/rows"}
	a := argOf(t, "ids", sessions)
	require.Equal(t, Derived{Form: FormColumn, Take: "/id", Parts: []Part{rows}}, derivedOf(t, a))
	require.Equal(t, []any{24, "/rows/*/id"}, []any{a.Evidence.Held, a.Pointer})
	a = argOf(t, "line", sessions)
	require.Equal(t, Derived{Form: FormJoin, Take: "/id", Parts: []Part{rows, {Text: ", "}}}, derivedOf(t, a))
	require.Equal(t, 24, a.Evidence.Held, "those of one element, too")
	require.Equal(t, `The elements of a list as one text, with ", " between them.`, a.Evidence.Note)
}

func TestNumbersAndTextsTogether(t *testing.T) {
	sessions := many(24, func(i int) ingest.Session {
		n := 2 + i%3
		var numbers, tags []string
		for k := range n {
			numbers, tags = append(numbers, fmt.Sprint(100*i+k)), append(tags, j("t-%d-%d", i, k))
		}
		return findUse(i, strings.TrimSuffix(rowsOf(i, n), "}")+j(`,"tags":["%s"]}`, strings.Join(tags, `","`)),
			j(`{"numbers":"%s","tags":"%s"}`, strings.Join(numbers, ","), strings.Join(tags, "|")))
	})
	require.Equal(t, Derived{Form: FormJoin, Take: "/no", Parts: []Part{{Place: true, Pointer: "/rows"}, {Text: ","}}}, derivedOf(t, argOf(t, "numbers", sessions)))
	require.Equal(t, Derived{Form: FormJoin, Parts: []Part{{Place: true, Pointer: "/tags"}, {Text: "|"}}}, derivedOf(t, argOf(t, "tags", sessions)))
}

// What is not all elements in their order is no list as one text: one less, another order, separators that differ.
func TestNotTheElementsTogether(t *testing.T) {
	for name, line := range map[string]func(i int, ids []string) string{
		"one less":         func(_ int, ids []string) string { return strings.Join(ids[1:], ",") },
		"another order":    func(_ int, ids []string) string { return strings.Join(append(ids[1:], ids[0]), ",") },
		"separators":       func(i int, ids []string) string { return strings.Join(ids, []string{",", ", ", ";", "|"}[i%4]) },
		"one is made up":   func(i int, ids []string) string { return strings.Join(append(ids[:len(ids)-1], j("y-%d", i)), ",") },
		"none of them all": func(i int, ids []string) string { return strings.Join(ids[:1+i%2], ",") },
	} {
		t.Run(name, func(t *testing.T) {
			forms := derivedForms(many(24, func(i int) ingest.Session {
				n := 2 + i%3
				var ids []string
				for k := range n {
					ids = append(ids, j("r-%d-%d", i, k))
				}
				return findUse(i, rowsOf(i, n), j(`{"line":%q}`, line(i, ids)))
			}))(t)
			require.NotContains(t, forms, FormJoin)
		})
	}
}

// A text as the list of its parts, also where it has one only.
func TestPartsOfATextAsAList(t *testing.T) {
	session := func(i int, separator string) ingest.Session {
		var parts []string
		for k := range 1 + i%3 {
			parts = append(parts, j("p-%d-%d", i, k))
		}
		return findUse(i, j(`{"to":%q}`, strings.Join(parts, separator)), j(`{"names":["%s"]}`, strings.Join(parts, `","`)))
	}
	a := argOf(t, "names", many(24, func(i int) ingest.Session { return session(i, "; ") }))
	require.Equal(t, Derived{Form: FormSplit, Parts: []Part{{Place: true, Pointer: "/to"}, {Text: "; "}}}, derivedOf(t, a))
	require.Equal(t, 24, a.Evidence.Held)
	require.NotContains(t, derivedForms(many(24, func(i int) ingest.Session { return session(i, []string{",", ";", "|"}[i%3]) }))(t), FormSplit)
	require.NotContains(t, derivedForms(many(24, func(i int) ingest.Session { return session(i, "+") }))(t), FormSplit, "a separator that is no usual one")
}

// Texts in another case or without blanks; most have that form already.
func TestTextsSpelledOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		found, used func(i int) string
		want        DerivedForm
	}{
		"small":   {func(i int) string { return j("User-%d", i) }, func(i int) string { return j("user-%d", i) }, FormLower},
		"capital": {func(i int) string { return j("ab%dq", i) }, func(i int) string { return j("AB%dQ", i) }, FormUpper},
		"trimmed": {func(i int) string { return j(" code %d  ", i) }, func(i int) string { return j("code %d", i) }, FormTrim},
	} {
		t.Run(name, func(t *testing.T) {
			a := argOf(t, "key", many(24, func(i int) ingest.Session {
				found := c.found(i)
				if i%3 > 0 {
					found = c.used(i) // as it is
				}
				return findUse(i, j(`{"key":%q}`, found), j(`{"key":%q}`, c.used(i)))
			}))
			require.Equal(t, Derived{Form: c.want, Parts: []Part{{Place: true, Pointer: "/key"}}}, derivedOf(t, a))
			require.Equal(t, 24, a.Evidence.Held)
		})
	}
	first := argOf(t, "q", many(24, func(i int) ingest.Session {
		return talk(id(i), "go", step{tool: "find", args: j(`{"code":"AB-%d"}`, i), result: `{}`}, step{tool: "use", args: j(`{"q":"ab-%d"}`, i), result: `{}`})
	}))
	require.Equal(t, Derived{Form: FormLower, Parts: []Part{{Place: true, Arg: "code"}}}, derivedOf(t, first))

	// Now one case and now another is no rule, and letters beyond ASCII are not changed.
	mixed := many(24, func(i int) ingest.Session {
		return findUse(i, j(`{"key":"Ab-%d"}`, i), j(`{"key":%q}`, []string{j("ab-%d", i), j("AB-%d", i)}[i%2]))
	})
	require.Empty(t, derivedForms(mixed)(t))
	umlauts := many(24, func(i int) ingest.Session { return findUse(i, j(`{"key":"Ä-%d"}`, i), j(`{"key":"ä-%d"}`, i)) })
	require.Empty(t, derivedForms(umlauts)(t))
}

// The member of an object whose key the step before was asked for.
func TestMemberThatAnArgumentNames(t *testing.T) {
	colours := []string{"red", "green", "blue"}
	session := func(i int, colour string) ingest.Session {
		result := j(`{"variants":{"red":{"ids":["id-%d-r"]},"green":{"ids":["id-%d-g"]},"blue":{"ids":["id-%d-b"]}}}`, i, i, i)
		return talk(id(i), j("the %s one", colours[i%3]), step{tool: "find", args: j(`{"colour":%q}`, colours[i%3]), result: result},
			step{tool: "use", args: j(`{"id":"id-%d-%s"}`, i, colour[:1]), result: `{}`})
	}
	a := argOf(t, "id", many(24, func(i int) ingest.Session { return session(i, colours[i%3]) }))
	require.Equal(t, Derived{Form: FormMember, Take: "/ids/0", Parts: []Part{{Place: true, Pointer: "/variants"}, {Place: true, Arg: "colour"}}}, derivedOf(t, a))
	require.Equal(t, []any{24, "/variants/*/ids/0"}, []any{a.Evidence.Held, a.Pointer})
	always := argOf(t, "id", many(24, func(i int) ingest.Session { return session(i, "red") }))
	require.Equal(t, []any{SourceOutput, "/variants/red/ids/0"}, []any{always.Kind, always.Pointer})
	require.Empty(t, derivedForms(many(24, func(i int) ingest.Session { return session(i, colours[i*i%5%3]) }))(t), "the key is another one")
	require.Empty(t, derivedForms(many(21, func(i int) ingest.Session { return session(i, colours[i%3]) }))(t), "the first of a list is a rule of place, which few values do not show")
}

// The key of an object that has one: what has more is the model's choice.
func TestOnlyKey(t *testing.T) {
	session := func(i int, others string) ingest.Session {
		return findUse(i, j(`{"accounts":{"acc-%d":{"open":true}%s}}`, i, others), j(`{"account":"acc-%d"}`, i))
	}
	a := argOf(t, "account", many(24, func(i int) ingest.Session { return session(i, "") }))
	require.Equal(t, Derived{Form: FormOnlyKey, Parts: []Part{{Place: true, Pointer: "/accounts"}}}, derivedOf(t, a))
	require.Equal(t, "The key of the object there, which has one; otherwise the flow hands back.", a.Evidence.Note)
	require.Empty(t, derivedForms(many(24, func(i int) ingest.Session { return session(i, j(`,"other-%d":{}`, i)) }))(t))
}

// FuzzJoined: a text is the elements joined where strings.Join gives it, and nowhere else.
func FuzzJoined(f *testing.F) {
	f.Add("a, b", "a", "b", uint8(0))
	f.Add("a,,b", "a,", "b", uint8(1))
	f.Add("aab", "a", "ab", uint8(6))
	f.Add("", "", "", uint8(5))
	f.Fuzz(func(t *testing.T, text, first, second string, n uint8) {
		separator := separators[int(n)%len(separators)]
		for _, parts := range [][]string{{first}, {first, second}, {second, first, second}} {
			var elements []any
			for _, part := range parts {
				elements = append(elements, part)
			}
			joined := strings.Join(parts, separator)
			require.True(t, isJoined(joined, elements, separator))
			require.Equal(t, text == joined, isJoined(text, elements, separator))
		}
	})
}
