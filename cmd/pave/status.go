package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type statusCmd struct {
	Metrics bool `help:"Print the metrics instead, in the Prometheus text format." env:"PAVE_METRICS"`
}

// Run says how the service stands. One that is not ready is exit status 7.
func (c *statusCmd) Run(e *env) error {
	if c.Metrics {
		return c.metrics(e)
	}
	ready := true
	err := e.withClient(func(cl *client) error {
		if _, err := check(cl.GetHealthWithResponse(e.ctx)); err != nil {
			return err
		}
		v, err := check(cl.GetVersionWithResponse(e.ctx))
		if err != nil {
			return err
		}
		state, err := cl.GetReadinessWithResponse(e.ctx)
		if err != nil {
			return requestError(err)
		}
		answer := state.JSON200
		if answer == nil {
			answer = state.JSON503
		}
		if answer == nil {
			return problemError(state.StatusCode(), state.Body)
		}
		ready = answer.Ready
		held, err := cl.GetServiceWithResponse(e.ctx) // a key without the scope read learns the rest
		if err != nil {
			return requestError(err)
		}
		return e.printValue(map[string]any{"version": v.JSON200, "readiness": answer, "service": held.JSON200}, func(w io.Writer) error {
			fmt.Fprintf(w, "pave %s (%s, API %s): %s\n", output.Clean(v.JSON200.Version), output.Clean(v.JSON200.Go), output.Clean(v.JSON200.API),
				map[bool]string{true: "ready", false: "NOT ready"}[answer.Ready])
			for _, reason := range answer.Reasons {
				fmt.Fprintf(w, "  %s\n", output.Clean(reason))
			}
			printHeld(w, held.JSON200)
			return nil
		})
	})
	if err == nil && !ready {
		return errExit(api.ExitUnavailable)
	}
	return err
}

// printHeld says what the service holds and what it could not take; nothing where it did not say.
func printHeld(w io.Writer, s *gen.Service) {
	if s == nil {
		return
	}
	keeps := "for ever"
	if s.RetentionDays > 0 {
		keeps = fmt.Sprintf("%d days", s.RetentionDays)
	}
	fmt.Fprintf(w, "%d sessions with %d tool calls, kept %s; %d flow runs\n", s.Stored.Sessions, s.Stored.ToolCalls, keeps, s.Stored.Runs)
	if n := s.Stored.WaitingSessions; n > 0 {
		fmt.Fprintf(w, "  %d sessions have records that are not assembled yet; that happens a minute after the last one\n", n)
	}
	for _, l := range s.Lost {
		fmt.Fprintf(w, "  not usable since %s: %d %s (%s, %s)\n", s.StartedAt.Format(time.RFC3339), l.Count, l.What, output.Clean(string(l.Via)), output.Clean(l.Reason))
	}
	if s.DeadLetters > 0 {
		fmt.Fprintf(w, "  %d requests could not be read and are kept: pave dead-letters list\n", s.DeadLetters)
	}
}

func (c *statusCmd) metrics(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := cl.GetMetrics(e.ctx)
		return e.copyAnswer(resp, err)
	})
}

// copyAnswer prints the body of an answer as it is.
func (e *env) copyAnswer(resp *http.Response, err error) error {
	if err != nil {
		return requestError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		return errors.Join(err, problemError(resp.StatusCode, body))
	}
	_, err = io.Copy(e.out, resp.Body)
	return err
}

type openapiCmd struct {
	Form string `help:"Form: ${enum}." enum:"yaml,json,html" default:"yaml" env:"PAVE_FORM"`
}

// Run prints the contract of the API.
func (c *openapiCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		get := map[string]func() (*http.Response, error){
			"yaml": func() (*http.Response, error) { return cl.GetOpenapiYaml(e.ctx) },
			"json": func() (*http.Response, error) { return cl.GetOpenapiJSON(e.ctx) },
			"html": func() (*http.Response, error) { return cl.GetDocs(e.ctx) },
		}[c.Form]
		resp, err := get()
		return e.copyAnswer(resp, err)
	})
}
