package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// ledger is what workers did, by the idempotency keys of calls.
type ledger struct {
	mu       sync.Mutex
	given    map[string]int
	accepted map[string]any // results that the pool took
}

// faulty is a worker that answers with its polls or apart from them, late, twice, wrongly, or never, and goes away under
// its polls.
func (l *ledger) faulty(ctx context.Context, t *testing.T, p *Pools, name string, dice *rand.Rand) {
	var answers []Answer
	keys := map[string]string{} // of the calls that answers are for
	for ctx.Err() == nil {
		asking, leave := ctx, context.CancelFunc(func() {})
		if dice.IntN(8) == 0 {
			asking, leave = context.WithTimeout(ctx, time.Duration(dice.IntN(50))*time.Millisecond)
		}
		call, err := p.Poll(asking, Poll{Pool: "crm", Worker: name, Owner: name, Wait: time.Second, Answers: answers})
		leave()
		refused := new(flows.Error)
		if errors.As(err, &refused) {
			assert.Equal(t, flows.CodeConflict, refused.Code)
			for _, d := range refused.Details {
				delete(keys, answers[pointerIndex(t, d.Pointer)].ID)
			}
		}
		l.mu.Lock()
		for _, a := range answers {
			if key, ok := keys[a.ID]; ok {
				l.accepted[key] = a.Result
			}
		}
		if call != nil {
			l.given[call.IdempotencyKey]++
		}
		l.mu.Unlock()
		answers, keys = nil, map[string]string{}
		if call == nil {
			continue
		}
		answer := Answer{ID: call.ID, Result: fmt.Sprint(call.IdempotencyKey, " by ", name, " ", call.Delivery)}
		time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
		switch dice.IntN(6) {
		case 0: // dies under the call
			time.Sleep(3 * time.Second)
		case 1: // late, or just in time
			time.Sleep(time.Duration(800+dice.IntN(400)) * time.Millisecond)
			answers, keys[call.ID] = []Answer{answer}, call.IdempotencyKey
		case 2: // twice
			if p.Complete(call.ID, name, answer.Result) == nil {
				l.mu.Lock()
				l.accepted[call.IdempotencyKey] = answer.Result
				l.mu.Unlock()
			}
			answers = []Answer{{ID: call.ID, Result: "again"}}
		default:
			answers, keys[call.ID] = []Answer{answer}, call.IdempotencyKey
		}
	}
}

func pointerIndex(t *testing.T, pointer string) (i int) {
	_, err := fmt.Sscanf(pointer, "/answers/%d", &i)
	assert.NoError(t, err)
	return i
}

// Whatever workers and callers do: a call that must not happen twice is given out once at most, every call ends with one
// outcome, a result is the one that the pool took, and nothing is left.
func TestFaultyWorkers(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{Lease: time.Second, Patience: 20 * time.Second})
			l := &ledger{given: map[string]int{}, accepted: map[string]any{}}
			working, stop := context.WithCancel(t.Context())
			var workers, calls sync.WaitGroup
			for i := range 6 {
				workers.Go(func() { l.faulty(working, t, p, fmt.Sprint("w", i), rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
			type ending struct {
				value any
				err   error
			}
			ends := make([]ending, 150)
			dice := rand.New(rand.NewPCG(seed, 99))
			for i := range ends {
				effect, patience, delay := flows.EffectWrite, time.Duration(0), time.Duration(dice.IntN(8000))*time.Millisecond
				if i%3 == 0 {
					effect = flows.EffectRead
				}
				if dice.IntN(5) == 0 { // its caller goes
					patience = time.Duration(dice.IntN(2000)) * time.Millisecond
				}
				calls.Go(func() {
					time.Sleep(delay)
					ctx := t.Context()
					if patience > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, patience)
						defer cancel()
					}
					tool := tool(effect, 0)
					tool.Safety.Idempotent = effect == flows.EffectRead
					ends[i].value, ends[i].err = p.Invoke(ctx, tool, nil, executor.CallInfo{RunID: fmt.Sprint(i)})
				})
			}
			calls.Wait()
			time.Sleep(5 * time.Second)
			stop()
			workers.Wait()
			results := 0
			for i, end := range ends {
				key := executor.CallInfo{RunID: fmt.Sprint(i)}.Key()
				if i%3 != 0 {
					assert.LessOrEqual(t, l.given[key], 1, "seed %d: call %s was given out again", seed, key)
				}
				taken, ok := l.accepted[key]
				assert.Equal(t, ok, end.err == nil, "seed %d: call %s: %v, while the pool took %v", seed, key, end, taken)
				if ok {
					results++
					assert.Equal(t, taken, end.value, "seed %d", seed)
				}
			}
			require.Greater(t, results, len(ends)/4, "most calls come through")
			require.Less(t, results, len(ends), "some do not")
			assert.Empty(t, p.leases)
			for _, pool := range p.Stats() {
				assert.Zero(t, pool.Queued+pool.Leased+pool.Waiting)
			}
		})
	}
}
