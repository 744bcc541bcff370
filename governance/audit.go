package governance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pave/flows"
	"pave/governance/store"
)

// Audit lists events after a sequence number, oldest first; limit 0 means 50, at most 500.
func (s *Service) Audit(ctx context.Context, actor Actor, after int64, limit int) (events []AuditEvent, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.AuditEvents(tenant, after, limit)
		for _, row := range rows {
			events = append(events, AuditEvent(row))
		}
		return err
	})
	return events, err
}

// AuditBefore lists events before a sequence number, newest first; before 0 begins with the newest, limit as in Audit.
func (s *Service) AuditBefore(ctx context.Context, actor Actor, before int64, limit int) (events []AuditEvent, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.AuditEventsBefore(tenant, before, limit)
		for _, row := range rows {
			events = append(events, AuditEvent(row))
		}
		return err
	})
	return events, err
}

// VerifyAudit checks the whole hash chain and returns its length. A broken chain is a CodeConflict that names
// the first event that is not as it was written.
func (s *Service) VerifyAudit(ctx context.Context, actor Actor) (n int64, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		n, err = r.VerifyAudit(tenant)
		if errors.Is(err, store.ErrChain) {
			return &flows.Error{Code: flows.CodeConflict, Message: err.Error(), Err: err}
		}
		return err
	})
	return n, err
}

// auditLine is an event as it is exported: with everything that its sum is made of.
type auditLine struct {
	Tenant  string          `json:"tenant"`
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"` // to the microsecond
	Actor   string          `json:"actor"`
	Action  string          `json:"action"`
	Object  string          `json:"object"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	PrevSum string          `json:"prev_sum"`
	Sum     string          `json:"sum"`
}

// ExportAudit writes the whole log as NDJSON, oldest first. VerifyAuditFile checks such a file without pave's data.
func (s *Service) ExportAudit(ctx context.Context, actor Actor, w io.Writer) error {
	if err := Permit(actor, ActionAdmin); err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for after := int64(0); ; {
		events, err := s.Audit(ctx, actor, after, store.MaxLimit)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			after = e.Seq
			line := auditLine{Tenant: tenantOf(actor), Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Object: e.Object,
				Detail: e.Detail, PrevSum: e.PrevSum, Sum: e.Sum}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
	}
}

// maxAuditLine bounds a line of an exported log.
const maxAuditLine = 16 << 20

// VerifyAuditFile checks the hash chain of an exported log and returns the number of its events and the sum of the last
// one. A broken chain is a CodeConflict that names the first event that is not as it was written; whether events are
// missing at the end shows in the last sum, which the server tells too.
func VerifyAuditFile(r io.Reader) (n int64, last string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAuditLine)
	tenant := ""
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line auditLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return n, last, flows.NewError(flows.CodeInvalid, fmt.Sprintf("line %d is no audit event: %v", n+1, err))
		}
		if n == 0 {
			tenant = line.Tenant
		}
		row := store.AuditRow{Seq: line.Seq, At: line.At, Actor: line.Actor, Action: line.Action, Object: line.Object, Detail: line.Detail, PrevSum: line.PrevSum}
		sum, err := row.Digest(line.Tenant)
		if err != nil {
			return n, last, err
		}
		if line.Seq != n+1 || line.Tenant != tenant || line.PrevSum != last || line.Sum != sum {
			return n, last, flows.NewError(flows.CodeConflict, fmt.Sprintf("the audit chain is broken at event %d", n+1))
		}
		n, last = line.Seq, line.Sum
	}
	if err := lines.Err(); err != nil {
		return n, last, flows.NewError(flows.CodeInvalid, fmt.Sprintf("after event %d: %v", n, err))
	}
	return n, last, nil
}
