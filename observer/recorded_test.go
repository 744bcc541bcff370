package observer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows/value"
	"pave/ingest"
	"pave/ingest/transcript"
)

// recordedFile finds a file of recorded sessions, or skips.
func recordedFile(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "data", "calls", name+".jsonl")
	if _, err := os.Stat(path); err != nil {
		t.Skip("recorded data not present: " + path)
	}
	return path
}

// loadRecorded imports and assembles a file of recorded sessions, and says which task each belongs to.
func loadRecorded(t *testing.T, name string) (sessions []ingest.Session, task map[string]string) {
	t.Helper()
	path := recordedFile(t, name)
	var events []ingest.Event
	_, err := transcript.Import(context.Background(), []string{path}, transcript.Options{}, func(batch []ingest.Event) error {
		events = append(events, batch...)
		return nil
	})
	require.NoError(t, err)
	for _, s := range ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{}) {
		sessions = append(sessions, *s)
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	task = map[string]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			SessionID string `json:"session_id"`
			TaskID    string `json:"task_id"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		task[line.SessionID] = line.TaskID
	}
	require.NoError(t, lines.Err())
	return sessions, task
}

// split divides sessions by the hash of their task, so that a task is on one side only.
func split(sessions []ingest.Session, task map[string]string) (train, test []ingest.Session) {
	for _, s := range sessions {
		sum := sha256.Sum256([]byte("dev:" + task[s.ID]))
		if binary.BigEndian.Uint32(sum[:4])%100 < 70 {
			train = append(train, s)
		} else {
			test = append(test, s)
		}
	}
	return train, test
}

// heldOut counts on sessions that were not mined how many recorded arguments the mappings of the patterns predict,
// over all windows of the patterns' tools. A mapped argument that is always there but not in a window is a miss.
func heldOut(t *testing.T, patterns []Pattern, test []ingest.Session) (right, predicted int) {
	t.Helper()
	src := NewMemory(test)
	raw, err := readSequences(context.Background(), src, Options{MaxCalls: math.MaxInt})
	if err != nil {
		t.Fatal(err)
	}
	log := normalise(raw, src.names, nil)
	for _, p := range patterns {
		sequence, ok := tokensOf(log, p.Tools)
		if !ok || slices.ContainsFunc(p.DataFlow.Steps, func(s StepFlow) bool { return s.Each != nil }) {
			continue
		}
		r0, p0 := right, predicted
		for _, w := range takeCensus(log, [][]uint32{sequence}, 1<<20, 1<<20)[0].good.take(1 << 20) {
			o := log.occurrence(w, len(sequence))
			run := test[src.byID[o.SessionID]].Runs[o.RunIndex]
			for k, step := range p.DataFlow.Steps {
				if handsBack(t, run, o, step) {
					break
				}
				for _, a := range step.Args {
					hit, counts := predict(t, run, o, k, a)
					if a.Derived != nil && a.Derived.Asks {
						if hit, counts = named(t, test[src.byID[o.SessionID]], o, k, a); !counts {
							break // it hands back
						}
					}
					if !hit && a.Given && saidBefore(t, test[src.byID[o.SessionID]], o, k, a.Arg) {
						continue
					}
					if counts {
						predicted++
					}
					if hit {
						right++
					}
				}
			}
		}
		if predicted-p0 != right-r0 {
			t.Logf("%s: %d of %d", arrow(p.Tools), right-r0, predicted-p0)
		}
	}
	return right, predicted
}

// saidBefore reports whether the recorded argument stands in what was said or returned before the occurrence: callers
// give it then.
func saidBefore(t *testing.T, s ingest.Session, o Occurrence, k int, arg string) bool {
	t.Helper()
	run := s.Runs[o.RunIndex]
	args, err := value.Decode(run.Calls[o.Calls[k]].Args)
	require.NoError(t, err)
	text := scalarText(args.(map[string]any)[arg])
	for r := 0; r <= o.RunIndex; r++ {
		for _, u := range s.Runs[r].Users {
			if strings.Contains(u.Text, text) {
				return true
			}
		}
		for i, c := range s.Runs[r].Calls {
			if r == o.RunIndex && i >= o.Calls[0] {
				break
			}
			if bytes.Contains(c.Args, []byte(text)) || bytes.Contains(c.Result, []byte(text)) {
				return true
			}
		}
	}
	return bytes.Contains(run.Calls[o.Calls[0]].Args, []byte(text))
}

// named reports whether the user had named elements of the list, and whether one of them has what was recorded. Of a list
// without it no name would be right: the flow hands back whatever the caller says.
func named(t *testing.T, s ingest.Session, o Occurrence, k int, a ArgFlow) (hit, said bool) {
	t.Helper()
	var list, recorded any
	for pointer, at := range map[string]*any{a.Derived.List: &list, "/" + value.Escape(a.Arg): &recorded} {
		raw := s.Runs[o.RunIndex].Calls[o.Calls[a.Derived.Step]].Result
		if at == &recorded {
			raw = s.Runs[o.RunIndex].Calls[o.Calls[k]].Args
		}
		v, err := value.Decode(raw)
		require.NoError(t, err)
		*at, _ = value.Lookup(v, pointer)
	}
	elements, _ := list.([]any)
	there := false
	for _, e := range elements {
		taken, _ := value.Lookup(e, a.Derived.Take)
		there = there || value.Equal(taken, recorded)
		name, _ := value.Lookup(e, a.Derived.Field)
		text, ok := name.(string)
		for r := 0; ok && r <= o.RunIndex; r++ {
			for _, u := range s.Runs[r].Users {
				if strings.Contains(strings.ToLower(u.Text), strings.ToLower(text)) && (r < o.RunIndex || u.Before <= o.Calls[0]) {
					hit, said = hit || value.Equal(taken, recorded), true
				}
			}
		}
	}
	return hit, said && there
}

// handsBack reports whether a step is for lists of one element and there is another.
func handsBack(t *testing.T, run ingest.AgentRun, o Occurrence, step StepFlow) bool {
	t.Helper()
	for _, a := range step.Args {
		if a.Only == nil {
			continue
		}
		pointer, err := value.ParsePointer(*a.Only)
		require.NoError(t, err)
		result, err := value.Decode(run.Calls[o.Calls[a.Step]].Result)
		require.NoError(t, err)
		list, _ := pointer.Get(result)
		if elements, _ := list.([]any); len(elements) != 1 {
			return true
		}
	}
	return false
}

func tokensOf(log *calls, tools []string) (out []uint32, ok bool) {
	for _, tool := range tools {
		i, found := slices.BinarySearch(log.tools, tool)
		if !found {
			return nil, false
		}
		out = append(out, uint32(i))
	}
	return out, true
}

func predict(t *testing.T, run ingest.AgentRun, o Occurrence, k int, a ArgFlow) (hit, counts bool) {
	t.Helper()
	decode := func(raw json.RawMessage) any {
		v, err := value.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	args, _ := decode(run.Calls[o.Calls[k]].Args).(map[string]any)
	recorded, present := args[a.Arg]
	if a.Kind == SourceInput || a.Kind == SourceChoice || !present && a.Presence < 0.98 {
		return false, false
	}
	var guess any
	ok := true
	switch a.Kind {
	case SourceConst:
		guess = a.Value
	case SourceArg:
		from, _ := decode(run.Calls[o.Calls[a.Step]].Args).(map[string]any)
		guess, ok = from[a.Pointer]
	case SourceOutput:
		pointer, err := value.ParsePointer(a.Pointer)
		if err != nil {
			t.Fatal(err)
		}
		guess, ok = pointer.Get(decode(run.Calls[o.Calls[a.Step]].Result))
	}
	return present && ok && value.Equal(guess, recorded), true
}

// TestRecordedSessions mines customer-service sessions of many agents, each file alone and both together.
func TestRecordedSessions(t *testing.T) {
	retail, retailTask := loadRecorded(t, "tau-retail")
	airline, airlineTask := loadRecorded(t, "tau-airline")
	maps.Copy(retailTask, airlineTask)
	for _, c := range []struct {
		name            string
		sessions        []ingest.Session
		retail, airline bool
	}{
		{"retail", retail, true, false},
		{"airline", airline, false, true},
		{"both", slices.Concat(retail, airline), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mine(t, Options{}, c.sessions...)
			log := logOf(t, NewMemory(c.sessions))
			frequent := counted(count(log, 16, 3))
			if c.retail {
				requireCounted(t, log, frequent, "find_user_id_by_name_zip", "get_user_details", "get_order_details")
				requireChoice(t, r, "get_user_details > get_order_details", "order_id")
				requireChoice(t, r, "find_user_id_by_name_zip > get_user_details > get_order_details", "order_id")
				first := map[string]bool{}
				for _, p := range r.Patterns[:min(10, len(r.Patterns))] {
					first[arrow(p.Tools)] = true
				}
				require.True(t, first["find_user_id_by_name_zip > get_user_details"])
				require.True(t, first["find_user_id_by_email > get_user_details"])
				user := r.pattern("find_user_id_by_name_zip > get_user_details").DataFlow.Steps[1].Args
				require.Len(t, user, 1)
				require.Equal(t, SourceOutput, user[0].Kind)
				require.Equal(t, "", user[0].Pointer, "the whole result is the id")
			}
			if c.airline {
				requireCounted(t, log, frequent, "get_user_details", "get_reservation_details")
				requireChoice(t, r, "get_user_details > get_reservation_details", "reservation_id")
			}
			train, test := split(c.sessions, retailTask)
			right, predicted := heldOut(t, mine(t, Options{}, train...).Patterns, test)
			t.Logf("held out: %d of %d mapped arguments exact", right, predicted)
			require.GreaterOrEqual(t, float64(right), 0.95*float64(predicted))
			if c.retail {
				require.GreaterOrEqual(t, predicted, 40)
			}
		})
	}
}

func requireCounted(t *testing.T, log *calls, frequent map[string]tallyOf, tools ...string) {
	t.Helper()
	tokens, ok := tokensOf(log, tools)
	require.True(t, ok)
	require.Contains(t, frequent, fmt.Sprint(tokens))
}

func requireChoice(t *testing.T, r *Result, tools, arg string) {
	t.Helper()
	b := r.blockedPath(tools)
	require.NotNil(t, b, tools)
	require.Equal(t, "choice", b.Reason)
	require.Equal(t, arg, b.Arg)
	require.Equal(t, len(b.Tools)-1, b.Step)
	require.Contains(t, b.Detail, arg)
}

// TestHeldOutMappings checks the other recorded sets in the same way.
func TestHeldOutMappings(t *testing.T) {
	for _, file := range []string{"tau-telecom", "workbench", "bfcl-multiturn"} {
		t.Run(file, func(t *testing.T) {
			sessions, task := loadRecorded(t, file)
			train, test := split(sessions, task)
			right, predicted := heldOut(t, mine(t, Options{}, train...).Patterns, test)
			t.Logf("held out: %d of %d mapped arguments exact", right, predicted)
			require.NotZero(t, predicted)
			require.GreaterOrEqual(t, float64(right), 0.95*float64(predicted))
		})
	}
}
