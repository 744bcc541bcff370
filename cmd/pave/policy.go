package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type policyCmd struct {
	Show policyShowCmd `cmd:"" help:"Who and how many must approve, and what else a promotion needs."`
	Set  policySetCmd  `cmd:"" help:"Take the policy of a file."`
}

type policyShowCmd struct{}

// Run shows the policy.
func (policyShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetPolicyWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return policyTable(w, resp.JSON200) })
	})
}

type policySetCmd struct {
	File string `arg:"" help:"YAML or JSON; what it leaves out is as by default."`
}

// Run replaces the policy as it is now.
func (c *policySetCmd) Run(e *env) error {
	policy, err := app.ReadPolicy(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return flows.NewError(flows.CodeNotFound, fmt.Sprintf("no policy file %q", c.File))
	}
	if err != nil {
		return invalidInput(err.Error())
	}
	doc, err := json.Marshal(policy)
	if err != nil {
		return err
	}
	var body gen.Policy
	if err := json.Unmarshal(doc, &body); err != nil {
		return err
	}
	body.RequiredReviewers, body.Promoters = some(body.RequiredReviewers), some(body.Promoters)
	return e.withClient(func(cl *client) error {
		now, err := check(cl.GetPolicyWithResponse(e.ctx))
		if err != nil {
			return err
		}
		resp, err := check(cl.PutPolicyWithResponse(e.ctx, &gen.PutPolicyParams{IfMatch: now.HTTPResponse.Header.Get("ETag")}, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return policyTable(w, resp.JSON200) })
	})
}

// some is a list that JSON writes as one, also without anything in it.
func some(list []string) []string { return append([]string{}, list...) }

func policyTable(w io.Writer, p *gen.Policy) error {
	t := output.NewTable(w, "SETTING", "VALUE", "MEANING")
	levels := make([]string, 0, len(p.Approvals))
	for level, n := range p.Approvals {
		levels = append(levels, fmt.Sprintf("%s %d", level, n))
	}
	slices.Sort(levels)
	t.Row("solo", yesNo(p.Solo), "the author may approve; one approval is enough")
	t.Row("approvals", strings.Join(levels, ", "), "principals that must approve, by side effects")
	t.Row("required_reviewers", dash(strings.Join(p.RequiredReviewers, ", ")), "one of them must be among the approvers")
	t.Row("promoters", dash(strings.Join(p.Promoters, ", ")), "the only ones who may promote")
	t.Row("min_replay_exact", fmt.Sprint(p.MinReplayExact), "share of recorded walks that a draft must reproduce; 0 is off")
	t.Row("require_shadow", yesNo(p.RequireShadow), "live predictions must have passed")
	t.Row("max_failure_rate", fmt.Sprint(p.MaxFailureRate), fmt.Sprintf("more failures of the last %d runs take a version out of service; 0 is off", p.MinRuns))
	t.Row("min_runs", fmt.Sprint(p.MinRuns), "runs that the failure rate is taken over")
	t.Row("min_conformance", fmt.Sprint(p.MinConformance), "a lower share of the last 50 walks takes a version out of service; 0 is off")
	t.Row("unused_days", fmt.Sprint(p.UnusedDays), "a version that nobody ran for so long goes out of service; 0 is off")
	t.Row("max_pending", fmt.Sprint(p.MaxPending), "cap of the mined queue")
	t.Row("max_pending_analyzer", fmt.Sprint(p.MaxPendingAnalyzer), "cap of the queue of schema chains")
	return t.Flush()
}
