// Package demo is `pave demo`: the whole loop on one machine, with real processes. Agents work support tickets
// against a tool server and export OpenTelemetry spans to `pave serve`; pave mines them, proposals are reviewed
// and promoted, promoted flows run on fresh tickets, and every output is compared with what an agent gets by
// hand from a twin of the tool server. No model is available here: the agents' decisions and the time of their
// model calls are scripted; tool calls, telemetry, storage, mining, review and runs are real.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"pave/api/gen"
	"pave/cmd/pave/internal/demo/desk"
)

// Options of one demo.
type Options struct {
	Program    string // the pave binary
	ClickHouse string // DSN of a ClickHouse server, "" for SQLite
	CHServer   string // program that serves the ClickHouse library; started when set
	Tickets    int    // tickets that agents work, default 420
	RunsEach   int    // runs of each promoted flow on fresh tickets, default 20
	Keep       bool   // keep the data directory
	Out        io.Writer
}

const seed = 20261130

// demo is one run of the demo.
type demo struct {
	Options
	dir      string
	children []*child
	cli      *cli
	serve    *child
	desk     *child // the tools that agents and flows call
	twin     *child // the same world, for what an agent gets by hand
	carrier  *child // an MCP server that has one of the tools
	world    *desk.World
	api      *gen.ClientWithResponses
	keys     map[string]string // by role
	promoted []promotion
	runs     int
	mismatch int
	paved    adoption
	recorded int
	final    tally
}

// Run plays the demo. It ends what it started, whatever happens.
func Run(ctx context.Context, o Options) (err error) {
	if o.Tickets == 0 {
		o.Tickets = 420
	}
	if o.RunsEach == 0 {
		o.RunsEach = 20
	}
	dir, err := os.MkdirTemp("", "pave-demo-")
	if err != nil {
		return err
	}
	d := &demo{Options: o, dir: dir, keys: map[string]string{}, world: desk.NewWorld(seed, customers)}
	defer func() {
		for i := len(d.children) - 1; i >= 0; i-- {
			err = errors.Join(err, d.children[i].stop())
		}
		if o.Keep {
			fmt.Fprintln(o.Out, "data kept in", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err == nil { // last, when nothing is left running
			err = d.verdict()
		}
	}()
	began := time.Now()
	for _, stage := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"start pave and a support desk of tools", d.startAll},
		{"agents work tickets and export OpenTelemetry spans", d.work},
		{"mine what they repeated", d.mine},
		{"review and promote", d.review},
		{"run the flows on fresh tickets, compare with an agent's work by hand", d.runFlows},
		{"half of the agents get the flows over MCP and use them", d.pavedPath},
		{"what it saved", d.report},
	} {
		fmt.Fprintf(o.Out, "\n== %s (%.1f s)\n", stage.title, time.Since(began).Seconds())
		if err := stage.do(ctx); ctx.Err() != nil {
			return errors.New("interrupted; everything that the demo started is stopped")
		} else if err != nil {
			return err
		}
	}
	return d.count(ctx)
}

func (d *demo) spawn(ctx context.Context, name, program string, args ...string) (*child, error) {
	c, err := start(ctx, name, program, args...)
	if err != nil {
		return nil, err
	}
	d.children = append(d.children, c)
	fmt.Fprintf(d.Out, "%-10s %s\n", name, c.addr)
	return c, nil
}

func (d *demo) startAll(ctx context.Context) (err error) {
	for _, c := range []struct {
		name string
		at   **child
	}{{"desk", &d.desk}, {"twin desk", &d.twin}} {
		if *c.at, err = d.spawn(ctx, c.name, d.Program, "demo", "desk", "--seed", fmt.Sprint(seed)); err != nil {
			return err
		}
	}
	if d.carrier, err = d.spawn(ctx, "carrier", d.Program, "demo", "carrier", "--desk", d.desk.addr); err != nil {
		return err
	}
	data := filepath.Join(d.dir, "data")
	args := []string{"serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--otlp-listen", "", "--otlp-grpc-listen", "", "--end-with-stdin",
		"--mining-interval=-1s", // the demo mines where it tells so
		"--egress-allow", strings.TrimPrefix(d.desk.addr, "http://") + "," + strings.TrimPrefix(d.carrier.addr, "http://")}
	if d.CHServer != "" {
		ch, err := d.spawn(ctx, "clickhouse", d.CHServer, "--data", filepath.Join(d.dir, "clickhouse"))
		if err != nil {
			return err
		}
		d.ClickHouse = ch.addr
	}
	if d.ClickHouse != "" {
		args = append(args, "--clickhouse", d.ClickHouse)
	}
	if d.serve, err = d.spawn(ctx, "pave", d.Program, args...); err != nil {
		return err
	}
	d.cli = &cli{program: d.Program, dataDir: data, keys: d.keys, out: d.Out}
	for role, scopes := range map[string]string{"agents": "ingest", "alice": "read,review,promote", "bob": "read,review", "caller": "read,run", "worker": "work", "paved": "run"} {
		if d.keys[role], err = d.createKey(ctx, role, scopes); err != nil {
			return err
		}
	}
	d.api, err = gen.NewClientWithResponses(d.serve.addr, gen.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+d.keys["caller"])
		return nil
	}))
	if err != nil {
		return err
	}
	if _, err := d.spawn(ctx, "worker", d.Program, "demo", "worker", "--desk", d.desk.addr, "--server", d.serve.addr, "--key", d.keys["worker"]); err != nil {
		return err
	}
	tools := filepath.Join(d.dir, "tools.yaml")
	if err := os.WriteFile(tools, []byte(desk.ToolFile(d.desk.addr, d.carrier.addr)), 0o600); err != nil {
		return err
	}
	return d.cli.show(ctx, "", "tools", "apply", tools)
}

func (d *demo) createKey(ctx context.Context, role, scopes string) (string, error) {
	kind := "person:"
	if role != "alice" && role != "bob" {
		kind = "service:"
	}
	b, err := d.cli.quiet(ctx, "", "keys", "create", kind+role, "--scopes", scopes, "-o", "json")
	if err != nil {
		return "", err
	}
	var made gen.APIKeyCreated
	if err := json.Unmarshal(b, &made); err != nil {
		return "", fmt.Errorf("keys create answered %q: %w", b, err)
	}
	return made.Secret, nil
}

// agentNames are what the agents call themselves in their telemetry.
var agentNames = []string{"support-north", "support-south", "support-chat", "support-mail"}

// work lets four agents handle the tickets; two follow the GenAI conventions, two OpenInference. The carrier has
// an outage in the first half. Tickets are spread over the two weeks before now.
func (d *demo) work(ctx context.Context) error {
	tickets := drawTickets(rand.New(rand.NewPCG(seed, 1)), "ticket", d.world.Customers[:customers-freshCustomers], d.world.Orders, d.Tickets)
	first := time.Now().Add(-14 * 24 * time.Hour)
	gap := 14 * 24 * time.Hour / time.Duration(len(tickets)+1)
	for half := range 2 {
		if err := d.outage(ctx, half == 0); err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		for i, name := range agentNames {
			g.Go(func() error {
				tel, err := newTelemetry(gctx, d.serve.addr, d.keys["agents"], name, dialect(i%2))
				if err != nil {
					return err
				}
				a := &agent{desk: &deskClient{d.desk.addr, http.DefaultClient}, tel: tel, rand: rand.New(rand.NewPCG(seed, uint64(100+10*half+i)))}
				for t := half*len(tickets)/2 + i; t < (half+1)*len(tickets)/2; t += len(agentNames) {
					if _, err := a.work(gctx, tickets[t], first.Add(time.Duration(t)*gap)); err != nil {
						return errors.Join(err, tel.close(gctx))
					}
				}
				return tel.close(gctx)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		made, err := d.deskLog(ctx, d.desk)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.Out, "%d of %d tickets done; the desk answered %d tool calls; carrier outage: %v\n", (half+1)*len(tickets)/2, len(tickets), made, half == 0)
	}
	return nil
}

func (d *demo) outage(ctx context.Context, on bool) error {
	state := "off"
	if on {
		state = "on"
	}
	return d.deskPost(ctx, "/outage/"+state)
}

func (d *demo) deskPost(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", d.desk.addr+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// deskLog is the number of tool calls that a desk answered, from its own log.
func (d *demo) deskLog(ctx context.Context, at *child) (int, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", at.addr+"/log", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var log map[string]int
	if err := json.NewDecoder(resp.Body).Decode(&log); err != nil {
		return 0, err
	}
	n := 0
	for _, k := range log {
		n += k
	}
	return n, nil
}

func (d *demo) mine(ctx context.Context) error {
	if err := d.cli.show(ctx, "", "mine"); err != nil {
		return err
	}
	answered, err := d.deskLog(ctx, d.desk)
	if err != nil {
		return err
	}
	d.recorded, err = d.storedCalls(ctx)
	if err != nil {
		return err
	}
	if d.recorded != answered {
		return fmt.Errorf("pave recorded %d tool calls, the desk's own log has %d", d.recorded, answered)
	}
	fmt.Fprintf(d.Out, "recorded %d tool calls, the desk's own log has %d\n", d.recorded, answered)
	return d.cli.show(ctx, "", "proposals", "list")
}

// storedCalls sums the tool calls of the assembled sessions.
func (d *demo) storedCalls(ctx context.Context) (int, error) {
	n, cursor := 0, ""
	for {
		p := &gen.ListSessionsParams{Limit: 500, Cursor: cursor}
		r, err := d.api.ListSessionsWithResponse(ctx, p)
		if err != nil {
			return 0, err
		}
		if r.JSON200 == nil {
			return 0, fmt.Errorf("list sessions: %s", r.Body)
		}
		for _, s := range r.JSON200.Items {
			n += s.ToolCalls
		}
		if cursor = r.JSON200.NextCursor; cursor == "" {
			return n, nil
		}
	}
}

func (d *demo) report(ctx context.Context) error {
	for _, kind := range []string{"savings", "adoption", "adoption-by-agent"} {
		if err := d.cli.show(ctx, "", "report", kind); err != nil {
			return err
		}
	}
	return d.adopted(ctx)
}

// tally is what the last line reports, all of it read back from the stores.
type tally struct {
	proposals, flows, runs int
	avoided                float64
}

// count reads the figures of the last line from the stores and checks that they agree with the desk's log.
func (d *demo) count(ctx context.Context) error {
	var t tally
	ps, err := d.api.ListProposalsWithResponse(ctx, &gen.ListProposalsParams{Limit: 500})
	if err != nil || ps.JSON200 == nil {
		return errors.Join(err, errors.New("proposals could not be listed"))
	}
	fs, err := d.api.ListFlowsWithResponse(ctx, &gen.ListFlowsParams{Limit: 500})
	if err != nil || fs.JSON200 == nil {
		return errors.Join(err, errors.New("flows could not be listed"))
	}
	rep, err := d.api.GetSavingsReportWithResponse(ctx, &gen.GetSavingsReportParams{})
	if err != nil || rep.JSON200 == nil {
		return errors.Join(err, errors.New("the savings report could not be read"))
	}
	t.proposals, t.flows = len(ps.JSON200.Items), len(fs.JSON200.Items)
	t.runs, t.avoided = int(rep.JSON200.Total.Runs), rep.JSON200.Total.Measured.LlmCalls.Mean
	switch {
	case t.runs != d.runs:
		return fmt.Errorf("%d runs were started, the report has %d", d.runs, t.runs)
	case t.flows != len(d.promoted) || t.flows == 0:
		return fmt.Errorf("%d flows were promoted, pave lists %d", len(d.promoted), t.flows)
	case t.avoided <= 0:
		return errors.New("no LLM call was avoided")
	}
	d.final = t
	return nil
}

// verdict is the last line, printed when everything has stopped.
func (d *demo) verdict() error {
	if d.mismatch > 0 {
		return fmt.Errorf("demo: failed output_mismatches=%d", d.mismatch)
	}
	fmt.Fprintf(d.Out, "\ndemo: ok calls_recorded=%d proposals=%d flows_promoted=%d runs=%d output_mismatches=%d llm_calls_avoided=%d\n",
		d.recorded, d.final.proposals, d.final.flows, d.final.runs, d.mismatch, int(math.Round(d.final.avoided)))
	return nil
}
