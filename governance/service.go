package governance

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"pave/flows"
	"pave/governance/store"
	"pave/ingest"
	eventstore "pave/ingest/store"
)

// RunStats is what the savings report needs of the event store.
type RunStats interface {
	RunStats(ctx context.Context, tenant string, from, to time.Time) ([]eventstore.RunStat, error)
}

// Check compiles a flow against its tools and the flows that it calls, which come by the references that steps write
// ("name" or "name@version"), and returns what is wrong; none means that it would run.
type Check func(flow *flows.Flow, tools map[string]*flows.Tool, called map[string]*flows.Flow) []flows.ErrorDetail

// Options are the seams of a Service. Store and Check are required.
type Options struct {
	Store *store.DB
	Check Check
	// Stats may be nil; then there is no savings report.
	Stats RunStats
	// Replayer lays drafts over recorded sessions; nil: no draft is checked that way, and no policy asks for it.
	Replayer Replayer
	// Estimate is the configured cost of one model call; zero takes DefaultEstimate.
	Estimate EstimateProfile
	// Reachable refuses an address that webhooks could not be sent to; nil lets all be registered.
	Reachable func(*url.URL) error
	// Solo turns solo mode on whatever the stored policy says.
	Solo   bool
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil: time.Now
	NewID  func() string    // nil: 60 random bits in base32
}

// Service is the gate: the only way to change proposals, flows, tools, keys and the policy. It is safe for
// concurrent use. Errors that callers may see are *flows.Error.
type Service struct {
	db       *store.DB
	check    Check
	stats    RunStats
	replayer Replayer
	estimate EstimateProfile
	reach    func(*url.URL) error
	solo     bool
	log      *slog.Logger
	now      func() time.Time
	newID    func() string

	decoded   decodedFlows
	changed   atomic.Pointer[func()]
	serversMu sync.Mutex
	servers   map[string]knownServer // by tenant/name

	keysMu sync.RWMutex
	keys   map[string]knownKey // by prefix; only keys that exist
}

// New builds a Service over an open state store.
func New(opts Options) *Service {
	s := &Service{db: opts.Store, check: opts.Check, stats: opts.Stats, replayer: opts.Replayer, estimate: opts.Estimate, reach: opts.Reachable, solo: opts.Solo,
		log: opts.Logger, now: opts.Now, newID: opts.NewID, keys: map[string]knownKey{}, servers: map[string]knownServer{}}
	if s.estimate == (EstimateProfile{}) {
		s.estimate = DefaultEstimate
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.newID == nil {
		s.newID = randomID
	}
	return s
}

var idEncoding = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// randomID is short enough to type; the store refuses a collision.
func randomID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // crypto/rand never fails
	return idEncoding.EncodeToString(raw[:])[:12]
}

// Page is one page of a list; Next is "" on the last.
type Page[T any] = store.Page[T]

func tenantOf(a Actor) string {
	if a.Tenant == "" {
		return ingest.DefaultTenant
	}
	return a.Tenant
}

// change is one mutation in progress: the transaction, who makes it, and the rules in force.
type change struct {
	*store.Tx
	s      *Service
	actor  Actor
	tenant string
	policy Policy
	at     time.Time
}

// update runs fn as one transaction of actor after Decide allowed the action.
func (s *Service) update(ctx context.Context, actor Actor, action Action, fn func(*change) error) error {
	return s.transact(ctx, actor, func(c *change) error {
		if err := c.policy.Decide(actor, action, nil).Err(); err != nil {
			return err
		}
		return fn(c)
	})
}

// transact runs fn as one transaction; fn asks Decide itself, because the answer depends on what it reads.
func (s *Service) transact(ctx context.Context, actor Actor, fn func(*change) error) error {
	err := visible(s.db.Update(ctx, func(tx *store.Tx) error {
		policy, _, err := s.policyIn(&tx.Reader, tenantOf(actor))
		if err != nil {
			return err
		}
		return fn(&change{Tx: tx, s: s, actor: actor, tenant: tenantOf(actor), policy: policy, at: s.now().UTC()})
	}))
	if changed := s.changed.Load(); err == nil && changed != nil {
		(*changed)()
	}
	return err
}

// OnChange calls fn after every change that went through, for those who keep something of flows or tools in memory. fn
// must return at once.
func (s *Service) OnChange(fn func()) { s.changed.Store(&fn) }

// view runs fn on one snapshot when actor may read.
func (s *Service) view(ctx context.Context, actor Actor, action Action, fn func(r *store.Reader, tenant string, policy Policy) error) error {
	err := s.db.View(ctx, func(r *store.Reader) error {
		policy, _, err := s.policyIn(r, tenantOf(actor))
		if err != nil {
			return err
		}
		if err := policy.Decide(actor, action, nil).Err(); err != nil {
			return err
		}
		return fn(r, tenantOf(actor), policy)
	})
	return visible(err)
}

// visible gives the store's conditions their codes; errors that carry one already and internal ones pass.
func visible(err error) error {
	var fe *flows.Error
	switch {
	case err == nil || errors.As(err, &fe):
		return err
	case errors.Is(err, store.ErrStale):
		return &flows.Error{Code: flows.CodeStale, Message: "this was changed meanwhile; read it again", Err: err}
	case errors.Is(err, store.ErrCursor):
		return &flows.Error{Code: flows.CodeInvalid, Message: "the cursor is not one that this list gave", Err: err}
	case errors.Is(err, store.ErrFull):
		return &flows.Error{Code: flows.CodeFull, Message: "the disk of the state store is full; free space and retry", Err: err}
	}
	return err
}

// notFound turns the store's ErrNotFound into an answer that names what is missing.
func notFound(err error, format string, args ...any) error {
	if errors.Is(err, store.ErrNotFound) {
		return &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf(format, args...), Err: err}
	}
	return err
}

// AuditDetail is the detail of an audit event of an actor: any value whose JSON is an object, or nil. Of an admin who acts
// as another principal it has the field "via", so that the log shows who it was.
func AuditDetail(actor Actor, detail any) (json.RawMessage, error) {
	if detail == nil && actor.Via == "" {
		return nil, nil
	}
	raw, err := json.Marshal(detail)
	if err != nil {
		return nil, fmt.Errorf("audit detail: %w", err)
	}
	if actor.Via == "" {
		return raw, nil
	}
	via, err := json.Marshal(map[string]string{"via": actor.Via})
	if err != nil {
		return nil, fmt.Errorf("audit detail: %w", err)
	}
	if len(raw) <= len("{}") || raw[0] != '{' {
		return via, nil
	}
	return append(append(via[:len(via)-1], ','), raw[1:]...), nil
}

// audit appends an event of this change, and tells webhooks of it; detail is as of AuditDetail.
func (c *change) audit(action, object string, detail any) (err error) {
	row := store.AuditRow{At: c.at, Actor: c.actor.Principal, Action: action, Object: object}
	if row.Detail, err = AuditDetail(c.actor, detail); err != nil {
		return err
	}
	if err := c.Audit(c.tenant, row); err != nil {
		return err
	}
	if event := eventOf[action]; event != "" {
		return c.notify(event, object, detail)
	}
	return nil
}

// Absent stands for a revision where the object must not be there yet.
const Absent int64 = -1

// checkRevision compares an If-Match revision with the current one; 0 means that none was given.
func checkRevision(what string, given, current int64) error {
	if given == Absent {
		if current == 0 {
			return nil
		}
		return flows.NewError(flows.CodeStale, what+" was made meanwhile; read it")
	}
	if given != 0 && given != current {
		return flows.NewError(flows.CodeStale, fmt.Sprintf("%s has revision %d, not %d; read it again", what, current, given))
	}
	return nil
}

const policySetting = "policy"

func (s *Service) policyIn(r *store.Reader, tenant string) (Policy, int64, error) {
	policy := DefaultPolicy()
	raw, revision, err := r.Setting(tenant, policySetting)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return Policy{}, 0, err
	default:
		if err := json.Unmarshal(raw, &policy); err != nil {
			return Policy{}, 0, fmt.Errorf("stored policy: %w", err)
		}
	}
	policy.Solo = policy.Solo || s.solo
	return policy, revision, nil
}

// Policy returns the policy in force and the revision for SetPolicy, 0 while it is the default.
func (s *Service) Policy(ctx context.Context, actor Actor) (policy Policy, revision int64, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		policy, revision, err = s.policyIn(r, tenant)
		return err
	})
	return policy, revision, err
}

// SetPolicy replaces the policy. ifRevision must be the current revision (0 while there is none). Open
// proposals are judged again by the new rules.
func (s *Service) SetPolicy(ctx context.Context, actor Actor, policy Policy, ifRevision int64) error {
	if err := policy.Check(); err != nil {
		return err
	}
	return s.update(ctx, actor, ActionAdmin, func(c *change) error {
		raw, err := json.Marshal(policy)
		if err != nil {
			return fmt.Errorf("encode policy: %w", err)
		}
		if err := c.PutSetting(c.tenant, policySetting, raw, ifRevision); err != nil {
			return err
		}
		if err := c.audit("policy.set", "policy", policy); err != nil {
			return err
		}
		c.policy = policy
		c.policy.Solo = policy.Solo || s.solo
		return c.rejudge(nil)
	})
}

// Ping answers nil when the state store reads.
func (s *Service) Ping(ctx context.Context) error { return s.db.Ping(ctx) }
