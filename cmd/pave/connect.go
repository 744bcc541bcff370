package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type connectCmd struct {
	Client string        `arg:"" optional:"" help:"Client to connect; without it, all are listed."`
	Wait   time.Duration `help:"How long to wait for its first telemetry; 0 only prints the settings." env:"PAVE_CONNECT_WAIT" default:"5m"`
}

// connectPoll is the interval of looking for telemetry, connectSettle how long the first is given to be followed by more.
const (
	connectPoll   = 500 * time.Millisecond
	connectSettle = 2 * time.Second
)

// Run prints the settings of a client, waits for its first telemetry, and says what is missing in it.
func (c *connectCmd) Run(e *env) error {
	if c.Client == "" {
		t := output.NewTable(e.out, "CLIENT", "WHAT")
		for _, s := range telemetryClients {
			t.Row(s.name, s.what)
		}
		return t.Flush()
	}
	at := slices.IndexFunc(telemetryClients, func(t telemetryClient) bool { return t.name == c.Client })
	if at < 0 {
		return errUsage(fmt.Sprintf("no client %q is known; `pave connect` lists them, and opentelemetry fits any that sends OTLP\n", c.Client))
	}
	address, err := e.receiver()
	if err != nil {
		return err
	}
	sender := &telemetryClients[at]
	if err := sender.print(e.out, address); err != nil {
		return err
	}
	if c.Wait == 0 {
		return nil
	}
	if address == "" {
		return flows.NewError(flows.CodeUnavailable, "nothing receives telemetry for this data directory now: run `pave serve`, then `pave connect "+c.Client+"` again")
	}
	return e.withClient(func(cl *client) error { return c.wait(e, cl, sender) })
}

// receiver is the address of the server that this command works with, "" when none runs.
func (e *env) receiver() (string, error) {
	if e.g.Server != "" {
		return strings.TrimSuffix(e.g.Server, "/"), nil
	}
	return app.ServerOf(e.g.DataDir)
}

// print writes the settings with the address of the receiver filled in.
func (t *telemetryClient) print(w io.Writer, address string) error {
	if address == "" {
		address = "http://127.0.0.1:8318"
	}
	settings, err := template.New(t.name).Parse(t.settings)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# %s\n", t.what)
	fmt.Fprintln(w, "# INGEST_KEY: a key that may send telemetry, from: pave keys create service:"+t.name+" --scopes ingest")
	err = settings.Execute(w, map[string]string{"URL": address, "GRPC": "http://127.0.0.1:4317"})
	return errors.Join(err, printLine(w))
}

func printLine(w io.Writer) error {
	_, err := fmt.Fprintln(w)
	return err
}

// arrived counts the telemetry that a server took.
type arrived struct{ received, filtered, rejected float64 }

// wait looks until telemetry arrives, lets it settle and says what is missing.
func (c *connectCmd) wait(e *env, cl *client, sender *telemetryClient) error {
	began := time.Now()
	before, err := telemetryArrived(e, cl)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.err, "waiting %s for the first span or log record of %s (Ctrl-C ends it)\n", c.Wait, sender.name)
	for {
		if err := pause(e, connectPoll); err != nil {
			return err
		}
		now, err := telemetryArrived(e, cl)
		if err != nil {
			return err
		}
		if now.received > before.received {
			break
		}
		if time.Since(began) > c.Wait {
			return flows.NewError(flows.CodeUnavailable, "nothing arrived: are the settings in the environment of the agent's process, is its exporter flushed before it ends, and is its key right?")
		}
	}
	if err := pause(e, connectSettle); err != nil {
		return err
	}
	now, err := telemetryArrived(e, cl)
	if err != nil {
		return err
	}
	seen, err := look(e, cl, began)
	if err != nil {
		return err
	}
	return seen.report(e.out, sender, arrived{now.received - before.received, now.filtered - before.filtered, now.rejected - before.rejected})
}

func pause(e *env, d time.Duration) error {
	select {
	case <-e.ctx.Done():
		return e.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// telemetryArrived reads the server's counters.
func telemetryArrived(e *env, cl *client) (a arrived, err error) {
	resp, err := cl.GetMetrics(e.ctx)
	if err != nil {
		return a, requestError(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return a, err
	}
	if resp.StatusCode != http.StatusOK {
		return a, problemError(resp.StatusCode, body)
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "pave_otlp_records_total{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		for outcome, to := range map[string]*float64{"received": &a.received, "filtered": &a.filtered, "rejected": &a.rejected} {
			if strings.Contains(name, `outcome="`+outcome+`"`) {
				*to += n
			}
		}
	}
	return a, lines.Err()
}

// telemetrySeen is what new sessions hold.
type telemetrySeen struct {
	sessions, unnamed                      int // unnamed: the trace stands for the session
	calls, requested, withArgs, withResult int
	ok                                     int // calls that succeeded, which should have a result
	models, users                          int
}

// look assembles and reads the sessions that began since.
func look(e *env, cl *client, since time.Time) (s telemetrySeen, err error) {
	if _, err := check(cl.RecordToolCallsWithBodyWithResponse(e.ctx, &gen.RecordToolCallsParams{Assemble: true}, "application/x-ndjson", strings.NewReader(""))); err != nil {
		return s, err
	}
	page, err := check(cl.ListSessionsWithResponse(e.ctx, &gen.ListSessionsParams{From: since.Add(-time.Minute).UTC()}))
	if err != nil {
		return s, err
	}
	for _, summary := range page.JSON200.Items {
		one, err := check(cl.GetSessionWithResponse(e.ctx, summary.ID))
		if err != nil {
			return s, err
		}
		s.sessions++
		if strings.HasPrefix(summary.ID, "trace:") {
			s.unnamed++
		}
		for _, run := range one.JSON200.Runs {
			s.models += len(run.LlmCalls)
			s.users += len(run.UserMessages)
			for _, call := range run.Calls {
				s.calls++
				s.count(call)
			}
		}
	}
	return s, nil
}

func (s *telemetrySeen) count(call gen.SessionCall) {
	if call.Status == gen.SessionCallStatusRequested {
		s.requested++
	}
	if len(call.Args) > 0 {
		s.withArgs++
	}
	if call.Status == gen.SessionCallStatusOk {
		s.ok++
		if len(call.Result) > 0 {
			s.withResult++
		}
	}
}

// report says what came, and what of it is missing with what to do about it.
func (s *telemetrySeen) report(w io.Writer, c *telemetryClient, came arrived) error {
	fmt.Fprintf(w, "received %.0f spans and log records: %d sessions, %d tool calls, %d model calls, %d user messages\n", came.received, s.sessions, s.calls, s.models, s.users)
	missing := s.missing(c, came)
	for _, m := range missing {
		fmt.Fprintln(w, "missing:", m)
	}
	if len(missing) == 0 {
		_, err := fmt.Fprintln(w, "nothing is missing: calls have a session, arguments and results")
		return err
	}
	return nil
}

func (s *telemetrySeen) missing(c *telemetryClient, came arrived) (out []string) {
	add := func(what, hint string) {
		if hint != "" {
			what += ": " + hint
		}
		out = append(out, what)
	}
	if came.rejected > 0 {
		add(fmt.Sprintf("%.0f records cannot be used", came.rejected), "the exporter is told why in partial_success")
	}
	if s.calls == 0 {
		what := "tool calls"
		if s.models == 0 && came.filtered > 0 {
			what = fmt.Sprintf("tool calls (%.0f of the records tell of no agent)", came.filtered)
		}
		add(what, c.tools)
		return out
	}
	if s.requested == s.calls {
		add("spans of the tools: the calls are known only from what the model asked for", c.tools)
	}
	if s.withArgs == 0 {
		add("arguments of calls; mining can then use the sequence only", c.content)
	}
	if s.ok > 0 && s.withResult == 0 {
		add("results of calls; where arguments come from cannot be seen", c.content)
	}
	if s.unnamed > 0 {
		add(fmt.Sprintf("a session id in %d of %d sessions, whose traces stand for them", s.unnamed, s.sessions), c.session)
	}
	if s.models == 0 {
		add("model calls; what is saved is then counted without tokens", "")
	}
	return out
}
