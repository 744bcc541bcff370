package snippets

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/api/snippets"
	worker "pave/api/snippets/worker/go"
)

const leadTools = `
kind: Tool
name: score_lead
input_schema: {type: object, properties: {email: {type: string}}, required: [email]}
output_schema: {type: object, properties: {score: {type: integer}, big: {type: integer}}, required: [score]}
safety: {side_effects: read}
timeout_seconds: 20
binding: {kind: worker, pool: crm}
---
kind: Tool
name: check_lead
input_schema: {type: object, properties: {score: {type: integer}}, required: [score]}
output_schema: {type: object, properties: {result: {type: string}}, required: [result]}
safety: {side_effects: read}
timeout_seconds: 20
binding: {kind: worker, pool: crm}
`

const leadFlow = `{"format_version":"1.1","type":"Flow","name":"judge_lead","version":"1.0.0","description":"Scores and checks.",
	"input_schema":{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]},
	"steps":[{"tool_name":"score_lead","input_mapping":{"email":"email"},"output_as":"lead"},
		{"tool_name":"check_lead","input_mapping":{"score":"/lead/score"},"output_as":"check"}],
	"returns":{"score":"/lead/score","big":"/lead/big","verdict":"/check/result"}}`

// Every worker snippet serves the same two tools: the score is the length of the address, 9007199254740993 checks that
// numbers stay whole, and a score above 20 is an error.
var workers = map[string]func(t *testing.T, s *service, key string){
	"python": func(t *testing.T, s *service, key string) {
		start(t, folder(t, "worker", "python"), program(t, "python3"), "-u", "-B", "-c", `
import sys
from pave_worker import serve
def score_lead(email): return {"score": len(email), "big": 9007199254740993}
def check_lead(score):
    if score > 20: raise ValueError("no such lead")
    return "good"
serve(sys.argv[1], "crm", {"score_lead": score_lead, "check_lead": check_lead}, sys.argv[2])`, s.address, key)
	},
	"langchain": func(t *testing.T, s *service, key string) {
		start(t, folder(t, "worker", "python"), program(t, "python3"), "-u", "-B", "-c", `
import sys
from langchain_worker import serve_langchain
class Tool: # what serve_langchain needs of LangChain's BaseTool
    def __init__(self, function): self.name, self.function = function.__name__, function
    def invoke(self, arguments): return self.function(**arguments)
def score_lead(email): return {"score": len(email), "big": 9007199254740993}
def check_lead(score):
    if score > 20: raise ValueError("no such lead")
    return "good"
serve_langchain(sys.argv[1], "crm", [Tool(score_lead), Tool(check_lead)], sys.argv[2])`, s.address, key)
	},
	"typescript": func(t *testing.T, s *service, key string) {
		dir, args := node(t)
		main := write(t, "main.mts", `
import { serve } from "`+folder(t, "worker", "typescript", "pave-worker.ts")+`";
await serve(process.argv[2], "crm", {
	score_lead: ({ email }) => ({ score: email.length, big: 9007199254740991 }),
	check_lead: async ({ score }) => { if (score > 20) throw new TypeError("no such lead"); return "good"; },
}, process.argv[3]);`)
		start(t, dir, append(args, main, s.address, key)...)
	},
	"go": func(t *testing.T, s *service, key string) {
		serveGo(t, s, key, map[string]func(context.Context, json.RawMessage) (any, error){
			"score_lead": func(_ context.Context, input json.RawMessage) (any, error) {
				var in struct{ Email string }
				err := json.Unmarshal(input, &in)
				return map[string]any{"score": len(in.Email), "big": int64(9007199254740993)}, err
			},
			"check_lead": func(_ context.Context, input json.RawMessage) (any, error) {
				var in struct{ Score int }
				if err := json.Unmarshal(input, &in); err != nil || in.Score > 20 {
					return nil, errors.New("no such lead")
				}
				return "good", nil
			},
		})
	},
}

// serveGo serves tools from this process until the test ends.
func serveGo(t *testing.T, s *service, key string, tools map[string]func(context.Context, json.RawMessage) (any, error)) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Serve(ctx, s.address, "crm", tools, key) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
}

func TestWorkerSnippets(t *testing.T) {
	for name, begin := range workers {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil)
			s.tools(leadTools)
			s.activate(leadFlow)
			begin(t, s, s.key("service:worker", gen.ScopeWork))
			good := s.run("judge_lead", `{"email":"ann@example.com"}`)
			require.Equal(t, gen.RunStatusSucceeded, good.Status, string(good.Record))
			want := `{"score":15,"big":9007199254740993,"verdict":"good"}`
			if name == "typescript" { // its numbers end before
				want = `{"score":15,"big":9007199254740991,"verdict":"good"}`
			}
			assert.Equal(t, canonical(t, want), canonical(t, string(good.Output)))
			bad := s.run("judge_lead", `{"email":"a-very-long-address@example.com"}`)
			require.Equal(t, gen.RunStatusFailed, bad.Status)
			assert.Contains(t, bad.ErrorMessage, "no such lead")
			scraped, err := s.client.GetMetricsWithResponse(t.Context())
			require.NoError(t, err)
			metrics := string(scraped.Body)
			assert.Contains(t, metrics, `pave_worker_given_total{pool="crm",tenant="default"} 4`)
			assert.Contains(t, metrics, `pave_worker_queue_age_seconds{pool="crm",tenant="default"} 0`)
		})
	}
}

// canonical keeps numbers as they are written.
func canonical(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var out map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

func TestWorkerSnippetsAreShort(t *testing.T) {
	for _, name := range []string{"python/pave_worker.py", "python/langchain_worker.py", "typescript/pave-worker.ts", "go/worker.go"} {
		raw, err := snippets.Files.Open("worker/" + name)
		require.NoError(t, err)
		lines := 0
		for scan := bufio.NewScanner(raw); scan.Scan(); lines++ {
		}
		require.NoError(t, raw.Close())
		assert.Less(t, lines, 60, name)
	}
}

// A flow whose worker is absent fails its step at the timeout and says which pool is empty; the service goes on.
func TestAFlowWithoutItsWorker(t *testing.T) {
	s := serve(t, nil)
	s.tools(leadTools)
	s.activate(leadFlow)
	s.tools(strings.ReplaceAll(leadTools, "timeout_seconds: 20", "timeout_seconds: 0.3"))
	run := s.run("judge_lead", `{"email":"ann@example.com"}`)
	require.Equal(t, gen.RunStatusFailed, run.Status)
	assert.Contains(t, run.ErrorMessage, "worker pool 'crm' is empty")
	assert.Contains(t, run.ErrorMessage, "[no_worker]")
	pools, err := s.client.ListWorkerPoolsWithResponse(t.Context())
	require.NoError(t, err)
	require.Len(t, pools.JSON200.Items, 1)
	assert.Zero(t, pools.JSON200.Items[0].Queued)
}

// The service stops while workers wait, without waiting for them.
func TestAStopEndsPolls(t *testing.T) {
	s := serve(t, nil)
	key := s.key("service:worker", gen.ScopeWork)
	answered := make(chan int, 1)
	go func() {
		done, err := s.as(key).PollWorkerPoolWithResponse(context.Background(), "crm", gen.WorkerPoll{WaitMs: 50_000})
		if err != nil {
			answered <- 0
			return
		}
		answered <- done.StatusCode()
	}()
	require.Eventually(t, func() bool {
		pools, err := s.client.ListWorkerPoolsWithResponse(t.Context())
		return err == nil && len(pools.JSON200.Items) == 1 && pools.JSON200.Items[0].WaitingWorkers == 1
	}, 5*time.Second, 5*time.Millisecond)
	s.stop()
	assert.Equal(t, 204, <-answered)
}

// A service that is stopped under calls of workers takes their answers, and gives them what the runs call next; workers
// that have nothing do not ask without a pause.
func TestAStopTakesAnswersOfWorkers(t *testing.T) {
	s := serve(t, nil)
	s.tools(leadTools)
	s.activate(leadFlow)
	pool := s.as(s.key("service:worker", gen.ScopeWork))
	ended := make(chan *gen.Run, 1)
	go func() { ended <- s.run("judge_lead", `{"email":"ann@example.com"}`) }()
	first, err := pool.PollWorkerPoolWithResponse(t.Context(), "crm", gen.WorkerPoll{})
	require.NoError(t, err)
	require.NotNil(t, first.JSON200)
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.stop() }()
	require.Eventually(t, func() bool {
		ready, err := s.client.GetReadinessWithResponse(t.Context())
		return err == nil && ready.StatusCode() == 503
	}, 5*time.Second, 5*time.Millisecond)
	polls := 0
	for until := time.Now().Add(400 * time.Millisecond); time.Now().Before(until); polls++ { // longer than its notice
		none, err := pool.PollWorkerPoolWithResponse(t.Context(), "crm", gen.WorkerPoll{})
		require.NoError(t, err)
		require.Equal(t, 204, none.StatusCode())
	}
	assert.LessOrEqual(t, polls, 2, "each waits")
	s.http.CloseIdleConnections() // as a worker without kept connections
	poll := gen.WorkerPoll{Answers: []gen.WorkerAnswer{{ID: first.JSON200.ID, Result: json.RawMessage(`{"score":15,"big":1}`)}}}
	second, err := pool.PollWorkerPoolWithResponse(t.Context(), "crm", poll)
	require.NoError(t, err)
	for tries := 0; second.JSON200 == nil && tries < 3; tries++ { // the run's next call
		second, err = pool.PollWorkerPoolWithResponse(t.Context(), "crm", gen.WorkerPoll{})
		require.NoError(t, err)
	}
	require.NotNil(t, second.JSON200)
	last, err := pool.PollWorkerPoolWithResponse(t.Context(), "crm", gen.WorkerPoll{OnlyAnswer: true,
		Answers: []gen.WorkerAnswer{{ID: second.JSON200.ID, Result: json.RawMessage(`"good"`)}}})
	require.NoError(t, err)
	require.Equal(t, 204, last.StatusCode())
	run := <-ended
	require.Equal(t, gen.RunStatusSucceeded, run.Status, run.ErrorMessage)
	<-stopped
}

// A worker may send what a call gave with its next poll: it is taken whatever becomes of the poll, exact to the digit, a
// second answer is refused before more is given, and a worker that stops is given nothing.
func TestAnswersWithPolls(t *testing.T) {
	s := serve(t, nil)
	s.tools(leadTools)
	s.activate(leadFlow)
	pool := s.as(s.key("service:worker", gen.ScopeWork))
	poll := func(ctx context.Context, body gen.WorkerPoll) *gen.PollWorkerPoolResponse {
		resp, err := pool.PollWorkerPoolWithResponse(ctx, "crm", body)
		require.NoError(t, err)
		return resp
	}
	ended := make(chan *gen.Run, 1)
	go func() { ended <- s.run("judge_lead", `{"email":"ann@example.com"}`) }()
	first := poll(t.Context(), gen.WorkerPoll{}).JSON200
	require.NotNil(t, first)
	require.Equal(t, "score_lead", first.Tool)

	for _, wrong := range []gen.WorkerAnswer{{ID: first.ID}, {ID: first.ID, Result: json.RawMessage(`1`), Error: &gen.WorkerFailure{Message: "no"}}} {
		resp := poll(t.Context(), gen.WorkerPoll{Answers: []gen.WorkerAnswer{wrong}})
		require.Equal(t, 400, resp.StatusCode())
		require.Contains(t, string(resp.Body), `"/answers/0"`)
	}
	score := gen.WorkerAnswer{ID: first.ID, Result: json.RawMessage(`{"score":15,"big":9007199254740993}`)}
	second := poll(t.Context(), gen.WorkerPoll{Answers: []gen.WorkerAnswer{score}}).JSON200
	require.NotNil(t, second)
	require.Equal(t, "check_lead", second.Tool)

	again := poll(t.Context(), gen.WorkerPoll{Answers: []gen.WorkerAnswer{score}})
	require.Equal(t, 409, again.StatusCode())
	require.Contains(t, string(again.Body), `"/answers/0"`)

	gone, leave := context.WithCancel(t.Context()) // the worker's connection ends while its poll waits
	left := make(chan error, 1)
	go func() {
		_, err := pool.PollWorkerPoolWithResponse(gone, "crm", gen.WorkerPoll{Answers: []gen.WorkerAnswer{{ID: second.ID, Result: json.RawMessage(`"good"`)}}})
		left <- err
	}()
	run := <-ended
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Equal(t, gen.RunStatusSucceeded, run.Status, string(run.Record))
	assert.Equal(t, canonical(t, `{"score":15,"big":9007199254740993,"verdict":"good"}`), canonical(t, string(run.Output)))

	go func() { ended <- s.run("judge_lead", `{"email":"bo@example.com"}`) }()
	last := poll(t.Context(), gen.WorkerPoll{}).JSON200
	require.NotNil(t, last)
	stopping := poll(t.Context(), gen.WorkerPoll{OnlyAnswer: true, Answers: []gen.WorkerAnswer{{ID: last.ID, Error: &gen.WorkerFailure{Message: "it is gone", Class: "io", Type: "Gone"}}}})
	require.Equal(t, 204, stopping.StatusCode())
	failed := <-ended
	require.Equal(t, gen.RunStatusFailed, failed.Status)
	assert.Contains(t, failed.ErrorMessage, "it is gone")
}

// poisonTools is what functions give that cannot be an answer: too large a text, and more levels than are taken.
const poisonTools = `
kind: Tool
name: grow
input_schema: {type: object, properties: {levels: {type: integer}}, required: [levels]}
safety: {side_effects: read}
timeout_seconds: 15
binding: {kind: worker, pool: crm}
`

const poisonFlow = `{"format_version":"1.1","type":"Flow","name":"grow_flow","version":"1.0.0","description":"Grows.",
	"input_schema":{"type":"object","properties":{"levels":{"type":"integer"}},"required":["levels"]},
	"steps":[{"tool_name":"grow","input_mapping":{"levels":"levels"},"output_as":"grown"}]}`

// growing are workers whose tool returns as many lists in each other as it is told, or for none a text of 40 MB.
var growing = map[string]func(t *testing.T, s *service, key string){
	"python": func(t *testing.T, s *service, key string) {
		start(t, folder(t, "worker", "python"), program(t, "python3"), "-u", "-B", "-c", `
import sys
from pave_worker import serve
def grow(levels):
    result = 1 if levels else "x" * 40_000_000
    for _ in range(levels): result = [result]
    return result
serve(sys.argv[1], "crm", {"grow": grow}, sys.argv[2])`, s.address, key)
	},
	"typescript": func(t *testing.T, s *service, key string) {
		dir, args := node(t)
		main := write(t, "main.mts", `
import { serve } from "`+folder(t, "worker", "typescript", "pave-worker.ts")+`";
const grow = ({ levels }) => {
	let result: unknown = levels ? 1 : "x".repeat(40_000_000);
	for (let i = 0; i < levels; i++) result = [result];
	return result;
};
await serve(process.argv[2], "crm", { grow }, process.argv[3]);`)
		start(t, dir, append(args, main, s.address, key)...)
	},
	"go": func(t *testing.T, s *service, key string) {
		serveGo(t, s, key, map[string]func(context.Context, json.RawMessage) (any, error){
			"grow": func(_ context.Context, input json.RawMessage) (any, error) {
				var in struct{ Levels int }
				if err := json.Unmarshal(input, &in); err != nil || in.Levels == 0 {
					return strings.Repeat("x", 40_000_000), err
				}
				return json.RawMessage(strings.Repeat("[", in.Levels) + "1" + strings.Repeat("]", in.Levels)), nil
			},
		})
	},
}

// What a function gives that cannot be an answer fails its own call, at once and with a text, and the worker goes on.
func TestWorkersOutliveWhatTheirToolsGive(t *testing.T) {
	for name, begin := range growing {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil)
			s.tools(poisonTools)
			s.activate(poisonFlow)
			begin(t, s, s.key("service:worker", gen.ScopeWork))
			for _, input := range []string{`{"levels":900}`, `{"levels":0}`} {
				bad := s.run("grow_flow", input)
				require.Equal(t, gen.RunStatusFailed, bad.Status)
				assert.Regexp(t, `refused the result: H|larger than 16 MB|too large or no JSON`, bad.ErrorMessage)
			}
			good := s.run("grow_flow", `{"levels":1}`)
			require.Equal(t, gen.RunStatusSucceeded, good.Status, good.ErrorMessage)
		})
	}
}

// A worker that is told to stop under a call gives its answer before it goes.
func TestAStoppingWorkerAnswers(t *testing.T) {
	s := serve(t, nil)
	s.tools(leadTools)
	s.activate(leadFlow)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Serve(ctx, s.address, "crm", map[string]func(context.Context, json.RawMessage) (any, error){
			"score_lead": func(context.Context, json.RawMessage) (any, error) {
				stop()
				return map[string]any{"score": 7, "big": 1}, nil
			},
		}, s.key("service:worker", gen.ScopeWork))
	}()
	done := make(chan *gen.Run, 1)
	go func() { done <- s.run("judge_lead", `{"email":"ann@example.com"}`) }()
	require.NoError(t, <-ended)
	next := s.as(s.key("service:other", gen.ScopeWork))
	call, err := next.PollWorkerPoolWithResponse(t.Context(), "crm", gen.WorkerPoll{})
	require.NoError(t, err)
	require.NotNil(t, call.JSON200, string(call.Body))
	require.Equal(t, "check_lead", call.JSON200.Tool, "the step after the one that was answered")
	answered, err := next.CompleteWorkerCallWithResponse(t.Context(), call.JSON200.ID, gen.WorkerResult{Result: json.RawMessage(`"good"`)})
	require.NoError(t, err)
	require.Equal(t, 204, answered.StatusCode(), string(answered.Body))
	require.Equal(t, gen.RunStatusSucceeded, (<-done).Status)
}
