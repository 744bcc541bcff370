package governance

import (
	"context"
	"errors"
	"time"

	"pave/flows"
	"pave/governance/store"
)

// KeptAnswer is the first answer to a request with an idempotency key.
type KeptAnswer struct {
	Status  int
	Headers []byte // JSON
	Body    []byte
}

// answersAge is how long first answers are kept.
const answersAge = 24 * time.Hour

// BeginOnce claims an idempotency key of the actor for an operation. The answer is nil when the caller is the first,
// who then calls EndOnce; else it is the first answer. CodeIdempotencyReuse: the key came with another body.
// CodeInProgress: the first request is at work.
func (s *Service) BeginOnce(ctx context.Context, actor Actor, operation, key, bodyHash string) (*KeptAnswer, error) {
	var kept *KeptAnswer
	err := s.transact(ctx, actor, func(c *change) error {
		since := c.at.Add(-answersAge)
		row, err := c.Answer(c.tenant, actor.Principal, operation, key, since)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if err := c.DropAnswers(since, false); err != nil {
				return err
			}
			return c.PutAnswer(c.tenant, store.AnswerRow{Principal: actor.Principal, Operation: operation, Key: key, BodyHash: bodyHash, CreatedAt: c.at})
		case err != nil:
			return err
		case row.BodyHash != bodyHash:
			return flows.NewError(flows.CodeIdempotencyReuse, "this Idempotency-Key came with another request before; take a new key")
		case row.Status == 0:
			return flows.NewError(flows.CodeInProgress, "the first request with this Idempotency-Key is at work; ask again later")
		}
		kept = &KeptAnswer{Status: row.Status, Headers: row.Headers, Body: row.Body}
		return nil
	})
	return kept, err
}

// EndOnce keeps the first answer; nil frees the key, because the request did nothing.
func (s *Service) EndOnce(ctx context.Context, actor Actor, operation, key, bodyHash string, answer *KeptAnswer) error {
	return s.transact(ctx, actor, func(c *change) error {
		if answer == nil {
			return c.DropAnswer(c.tenant, actor.Principal, operation, key)
		}
		return c.PutAnswer(c.tenant, store.AnswerRow{Principal: actor.Principal, Operation: operation, Key: key, BodyHash: bodyHash,
			Status: answer.Status, Headers: answer.Headers, Body: answer.Body, CreatedAt: c.at})
	})
}
