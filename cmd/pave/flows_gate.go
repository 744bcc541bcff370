package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type flowsStatusCmd struct {
	Flow        string `arg:"" help:"NAME@VERSION, or NAME for the active version."`
	Status      string `arg:"" help:"active, needs_review or disabled." enum:"active,needs_review,disabled"`
	Reason      string `help:"Why." env:"PAVE_REASON"`
	AcceptDrift bool   `help:"Activate although a pinned tool changed; pin it as it is now." env:"PAVE_ACCEPT_DRIFT"`
}

// Run sets the status of the version as it is now.
func (c *flowsStatusCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.SetFlowStatusWithResponse(e.ctx, v.Name, v.Version, &gen.SetFlowStatusParams{IfMatch: etag(v.Revision)},
			gen.StatusChange{Status: gen.FlowStatus(c.Status), Reason: c.Reason, AcceptDrift: c.AcceptDrift}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return versionLine(w, resp.JSON200) })
	})
}

type flowsRollbackCmd struct {
	Flow        string `arg:"" help:"NAME."`
	To          string `help:"Version to run from now on; without it the newest before the active one." env:"PAVE_ROLLBACK_TO" placeholder:"VERSION"`
	Reason      string `help:"Why." env:"PAVE_REASON"`
	AcceptDrift bool   `help:"Pin that version's tools as they are now." env:"PAVE_ACCEPT_DRIFT"`
}

// Run rolls the flow back from the version that is active now.
func (c *flowsRollbackCmd) Run(e *env) error {
	if strings.Contains(c.Flow, "@") {
		return errUsage("give the flow's name, and the version to go to with --to")
	}
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.RollbackFlowWithResponse(e.ctx, v.Name, &gen.RollbackFlowParams{IfMatch: etag(v.Revision)},
			gen.Rollback{To: c.To, Reason: c.Reason, AcceptDrift: c.AcceptDrift}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return versionLine(w, resp.JSON200) })
	})
}

// callerShare is a part of callers on the command line: 0.25 or 25%.
type callerShare float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *callerShare) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= 1) { // NaN is refused, too
		return fmt.Errorf("%q is no share of callers: use one above 0 and up to 1, such as 0.1 or 10%%", text)
	}
	*s = callerShare(v)
	return nil
}

type flowsRolloutCmd struct {
	Flow   string      `arg:"" help:"NAME, or NAME@VERSION to be sure that it is the version that is rolled out."`
	Share  callerShare `arg:"" help:"Share of the callers who name no version, such as 0.5 or 50%; 1 is all."`
	Reason string      `help:"Why." env:"PAVE_REASON"`
}

// Run changes the share of the version that is active now.
func (c *flowsRolloutCmd) Run(e *env) error {
	name, version, exact, err := flowRef(c.Flow)
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, name)
		if err != nil {
			return err
		}
		if !exact {
			version = v.Version
		}
		resp, err := check(cl.SetFlowRolloutWithResponse(e.ctx, v.Name, &gen.SetFlowRolloutParams{IfMatch: etag(v.Revision)},
			gen.RolloutChange{Version: version, Rollout: float64(c.Share), Reason: c.Reason}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return versionLine(w, resp.JSON200) })
	})
}

// whoRuns says of a version whom it serves that names none, "" for nobody.
func whoRuns(v *gen.FlowVersion) string {
	switch {
	case !v.Active && v.Share == 0:
		return ""
	case v.Status != gen.FlowStatusActive:
		return ", out of service"
	case v.Rollout != nil && v.Share > 0:
		return ", " + rolloutText(v.Rollout)
	}
	return ", the version that runs"
}

func percentOf(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + "%" }

func rolloutText(r *gen.Rollout) string {
	rest := "the others go on by hand"
	if r.RestVersion != "" {
		rest = output.Clean(r.RestVersion) + " serves the others"
	}
	return fmt.Sprintf("%s serves %s of the callers, %s", output.Clean(r.Version), percentOf(r.Share), rest)
}

func versionLine(w io.Writer, v *gen.FlowVersion) error {
	_, err := fmt.Fprintf(w, "%s@%s: %s%s\n", output.Clean(v.Name), output.Clean(v.Version), v.Status, whoRuns(v))
	return err
}
