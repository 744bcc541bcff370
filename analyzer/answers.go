package analyzer

import (
	"encoding/json"
	"strings"

	"pave/ingest"
	"pave/observer"
)

// Tools that answer a mistake with a sentence, and not with an error, make mistakes look like steps: agents correct the
// call and go on. Only a person can tell what a sentence means; that it is the usual answer of a call which is made again is
// said to the reviewer.

// Limits of an answer in words.
const (
	minAnswerWords = 3
	maxAnswer      = 160 // bytes
	minAnswers     = 3   // examples with the same one
)

// answers counts the sentences that a step's calls were answered with in the examples.
type answers struct {
	times map[string]int
	of    int // examples with a result
}

func (a *answers) add(c *ingest.Call) {
	if len(c.Result) == 0 || c.Status == ingest.StatusError {
		return
	}
	a.of++
	var text string
	if len(c.Result) > maxAnswer || c.Result[0] != '"' || json.Unmarshal(c.Result, &text) != nil || len(strings.Fields(text)) < minAnswerWords {
		return
	}
	if a.times == nil {
		a.times = map[string]int{}
	}
	a.times[text]++
}

// usual is the sentence that at least half of the calls were answered with, "" where there is none.
func (a *answers) usual() string {
	for text, n := range a.times {
		if n >= minAnswers && 2*n >= a.of {
			return text
		}
	}
	return ""
}

// warnOfMistakes warns of steps that are mostly answered with a sentence with which the next call of their tool is answered
// much less often.
func (b *draft) warnOfMistakes(p *observer.Pattern, given []answers) {
	for k := range given {
		said := given[k].usual()
		if said == "" {
			continue
		}
		for j := k + 1; j < len(p.Tools); j++ {
			if p.Tools[j] != p.Tools[k] {
				continue
			}
			if again := &given[j]; again.of > 0 && 4*again.times[said] <= again.of {
				quoted := "with one and the same sentence"
				if observer.MayShow(said) {
					quoted = "\"" + said + "\""
				}
				b.warn("step %d (%s) was answered %s in %d of %d examples, and agents call it again in step %d: if that refuses the call, the flow repeats a mistake",
					k+1, p.Tools[k], quoted, given[k].times[said], given[k].of, j+1)
			}
			break
		}
	}
}
