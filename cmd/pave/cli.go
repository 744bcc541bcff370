package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"pave/api"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

// globals are the flags of every command.
type globals struct {
	Config      string   `help:"Settings file; flags and environment win over it." env:"PAVE_CONFIG" default:"pave.yaml" placeholder:"FILE"`
	DataDir     string   `help:"Data directory." env:"PAVE_DATA" default:"./pave-data" placeholder:"DIR"`
	Clickhouse  string   `help:"Event store on ClickHouse (clickhouse://..., http://...); SQLite in the data directory without it." env:"PAVE_CLICKHOUSE" name:"clickhouse" placeholder:"DSN"`
	Server      string   `help:"Work through this server instead of the data directory." env:"PAVE_SERVER" placeholder:"URL"`
	Key         string   `help:"API key for --server." env:"PAVE_KEY" placeholder:"KEY"`
	As          string   `help:"Act as this principal, such as person:alice (needs the admin scope)." env:"PAVE_AS" placeholder:"PRINCIPAL"`
	Output      string   `help:"Form of the output: ${enum}." short:"o" env:"PAVE_OUTPUT" enum:"table,json,yaml,jsonl" default:"table"`
	Solo        bool     `help:"Solo mode: one person's installation, where the author may approve." env:"PAVE_SOLO"`
	EgressAllow []string `help:"Addresses outside the public network that tool calls may reach: host:port or CIDR:port." env:"PAVE_EGRESS_ALLOW" placeholder:"ADDR"`

	Mining      miningSettings `embed:"" prefix:"mining-"`
	RunSettings runSettings    `embed:""`
	MCP         mcpSettings    `embed:"" prefix:"mcp-"`
}

// cli is the command line.
type cli struct {
	globals

	Serve       serveCmd       `cmd:"" help:"Run the service."`
	Connect     connectCmd     `cmd:"" help:"Print the telemetry settings of a client, wait for its first span and say what is missing in it."`
	Import      importCmd      `cmd:"" help:"Record calls from files."`
	Analyze     analyzeCmd     `cmd:"" help:"Show what repeats in recorded sessions and what could run without the model. Keeps nothing."`
	Mine        mineCmd        `cmd:"" help:"Mine the recorded sessions and put what was found in the queue."`
	Patterns    patternsCmd    `cmd:"" help:"What repeats, as the last mining pass found it."`
	Proposals   proposalsCmd   `cmd:"" help:"List, show and review proposals."`
	Promote     promoteCmd     `cmd:"" help:"Make an approved proposal an active flow."`
	Flows       flowsCmd       `cmd:"" help:"List, show, draw, check, test, compare, propose and export flows."`
	Tools       toolsCmd       `cmd:"" help:"Apply, list and show tools."`
	Schemas     schemasCmd     `cmd:"" help:"JSON Schemas that flows name."`
	Send        sendCmd        `cmd:"" help:"Send an OTLP request from a file, as an exporter would."`
	Mcp         mcpCmd         `cmd:"" help:"Serve the flows as tools over standard input and output, for MCP clients that start programs."`
	Workers     workersCmd     `cmd:"" help:"List worker pools, and serve one with programs."`
	Run         runCmd         `cmd:"" help:"Run a flow."`
	Resume      resumeCmd      `cmd:"" help:"Go on with an interrupted run from its last checkpoint."`
	Replay      replayCmd      `cmd:"" help:"Run a recorded run again and show what differs."`
	Runs        runsCmd        `cmd:"" help:"List, show, draw, approve, cancel and follow runs, and what they teach."`
	Report      reportCmd      `cmd:"" help:"Show what the runs avoided."`
	DeadLetters deadLettersCmd `cmd:"" help:"Telemetry requests that could not be read."`
	Calls       callsCmd       `cmd:"" help:"List recorded tool calls, the newest session first."`
	Delete      deleteCmd      `cmd:"" help:"Delete recorded sessions for good, by id, user or time."`
	Redact      redactCmd      `cmd:"" help:"Show what would be hidden in a JSON document before it is stored."`
	Keys        keysCmd        `cmd:"" help:"Create, list, rotate and revoke API keys."`
	Whoami      whoamiCmd      `cmd:"" help:"Say as whom commands act, and with which rights."`
	Usage       usageCmd       `cmd:"" help:"Say who used the installation, and what it holds."`
	Policy      policyCmd      `cmd:"" help:"Show and set the policy of approvals."`
	Audit       auditCmd       `cmd:"" help:"List, export and verify the audit log."`
	Webhooks    webhooksCmd    `cmd:"" help:"Subscribe URLs to events, and see what was delivered."`
	Status      statusCmd      `cmd:"" help:"Say whether the service is ready, and if not why."`
	Backup      backupCmd      `cmd:"" help:"Copy the data directory, also while a server works in it."`
	Restore     restoreCmd     `cmd:"" help:"Make a data directory of a backup."`
	Doctor      doctorCmd      `cmd:"" help:"Look for problems in the data directory, and say what to do."`
	Openapi     openapiCmd     `cmd:"" help:"Print the contract of the API."`
	Demo        demoCmd        `cmd:"" help:"Play the whole loop on this machine."`
	Bench       benchCmd       `cmd:"" help:"Measure pave on this machine."`
	Conformance conformanceCmd `cmd:"" help:"Run golden vectors and say which are exact, diverge as declared or fail."`
	Completion  completionCmd  `cmd:"" help:"Print the completion of a shell."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// exitStatuses are those of package api, for the help of the program.
const exitStatuses = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 conflict or changed meanwhile, 5 invalid input, 6 refused by policy or permission, 7 unavailable."

// env is what a command works with.
type env struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
	g        *globals
	settings *settingsFile
}

// errExit leaves with a status after everything was said.
type errExit int

func (e errExit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// errUsage is a mistake in the arguments.
type errUsage string

func (e errUsage) Error() string { return string(e) }

// execute runs one command line and returns the exit status.
func execute(args []string, in io.Reader, out, errOut io.Writer) (status int) {
	dropEmptyVariables()
	var c cli
	exited := -1
	settings := &settingsFile{}
	parser, err := kong.New(&c, kong.Name("pave"),
		kong.Description("Records agents' tool calls, proposes flows that need no model, runs the approved ones."),
		kong.Writers(out, errOut), kong.Exit(func(code int) { exited = code; panic(errExit(code)) }),
		kong.Resolvers(settings), timeFlags(), kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	if err != nil {
		fmt.Fprintln(errOut, "pave:", err)
		return api.ExitFailed
	}
	addExamples(parser.Model)
	parser.Model.Detail = exitStatuses
	defer func() {
		if r := recover(); r != nil {
			if code, ok := r.(errExit); ok && exited >= 0 { // --help
				status = int(code)
				return
			}
			panic(r)
		}
	}()
	args = spoken(args)
	if err := settings.load(parser.Model, args); err != nil {
		fmt.Fprintln(errOut, "pave:", err)
		return api.ExitUsage
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		if wrong := settings.err(); wrong != nil {
			fmt.Fprintln(errOut, "pave:", wrong)
		}
		fmt.Fprintf(errOut, "pave: %s\nfor more: %s --help\n", output.Clean(err.Error()), commandOf(err))
		return api.ExitUsage
	}
	if wrong := settings.err(); wrong != nil && parsed.Command() != "serve" { // serve lists what is wrong elsewhere, too
		fmt.Fprintln(errOut, "pave:", wrong)
		return api.ExitUsage
	}
	if err := checkLine(parsed); err != nil {
		return report(errOut, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e := &env{ctx: ctx, in: in, out: out, err: errOut, g: &c.globals, settings: settings}
	err = parsed.Run(e, parser)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(errOut, "pave: interrupted")
		return api.ExitFailed
	}
	return report(errOut, err)
}

// commandOf is the command that a line which cannot be parsed got to.
func commandOf(err error) string {
	if p := new(kong.ParseError); errors.As(err, &p) {
		if node := p.Context.Selected(); node != nil {
			return "pave " + node.Path()
		}
	}
	return "pave"
}

// dropEmptyVariables makes an empty PAVE_ variable the same as none, as people expect of PAVE_DATA= in a shell.
func dropEmptyVariables() {
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); value == "" && strings.HasPrefix(name, "PAVE_") {
			_ = os.Unsetenv(name) // fails for names that cannot be set either
		}
	}
}

// report prints an error for people and maps it to the exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return api.ExitOK
	}
	if code := errExit(0); errors.As(err, &code) {
		return int(code)
	}
	if usage := errUsage(""); errors.As(err, &usage) {
		fmt.Fprint(w, "pave: ", output.CleanLines(usage.Error()))
		return api.ExitUsage
	}
	if e := new(flows.Error); errors.As(err, &e) {
		fmt.Fprintf(w, "pave: %s (%s)\n", output.Clean(err.Error()), e.Code) // what wraps it says where, such as in which file
		for _, d := range e.Details {
			where := ""
			if d.Pointer != "" {
				where = output.Clean(d.Pointer) + ": "
			}
			fmt.Fprintf(w, "  %s%s (%s)\n", where, output.Clean(d.Detail), output.Clean(d.Code))
		}
		if e.Code == flows.CodeUnauthenticated {
			fmt.Fprintln(w, "  commands take their key from --key or PAVE_KEY")
		}
		return api.ExitOf(e.Code)
	}
	fmt.Fprintln(w, "pave:", output.Clean(err.Error()))
	return api.ExitFailed
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
