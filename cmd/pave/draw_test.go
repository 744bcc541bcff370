package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

// The drawing of a proposal says of every step what it waits for, when it runs and where each argument comes from.
func TestDrawFlow(t *testing.T) {
	flow, _, err := flows.ParseFlow([]byte(`
format_version: "1.1"
type: DAGFlow
name: parcels
version: 0.1.0
description: Looks at parcels.
on_context_collision: error
input_schema: {type: object, properties: {owner: {type: string}}, required: [owner]}
steps:
  - {step_id: list, tool_name: list_parcels, input_mapping: {owner: owner}, output_as: list}
  - {step_id: each, depends_on: [list], tool_name: get_parcel, for_each: /list/parcels, as: parcel, input_mapping: {id: /parcel/id, lang: {$const: en}}, output_as: each}
  - step_id: latest
    depends_on: [list]
    tool_name: get_route
    input_mapping: {route: {$expr: "list.parcels.filter(e, e.state == 'late')[0].route"}}
    output_as: latest
    branches: [{predicate: 'latest["status"] == "lost"', target_step_id: claim}]
    default_next: note
  - {step_id: claim, depends_on: [latest], tool_name: open_claim, input_mapping: {route: /latest/id}, guard: owner != None, output_as: claim}
  - {step_id: note, depends_on: [latest], tool_name: write_note, input_mapping: {all: each, note: {$optional: /latest/note}}, output_as: note}
  - {step_id: again, depends_on: [claim], tool_name: write_note, input_mapping: {all: each}, output_as: note}
returns: {note: note}
`))
	require.NoError(t, err)
	var out strings.Builder
	drawFlow(&out, flow, func(step int, arg string) string {
		return map[string]string{"1 id": "held 3 of 3", "4 all": "held 2 of 2"}[fmt.Sprint(step, " ", arg)]
	})
	require.Equal(t, `  input
    |
  1 list_parcels
    |   owner <- input owner
    |
  2 get_parcel
    |   after 1, beside 3
    |   once for each parcel of step 1 (list_parcels) /parcels
    |   id   <- the parcel /id  held 3 of 3
    |   lang <- constant "en"
    |
  3 get_route
    |   after 1, beside 2
    |   route <- expression list.parcels.filter(e, e.state == 'late')[0].route
    |
  4 open_claim
    |   only where latest["status"] == "lost", after step 3
    |   only where owner != None; elsewhere the run is handed back
    |   route <- step 3 (get_route) /id
    |
  5 write_note
    |   only where step 3 takes none of its other ways
    |   all  <- step 2 (get_parcel), whole output        held 2 of 2
    |   note <- step 3 (get_route) /note, where present
    |
  6 write_note
    |   after 4
    |   all <- step 2 (get_parcel), whole output  held 2 of 2
    |
  output
    |   note <- step 5 (write_note), whole output
`, out.String())
}

// A step whose only argument is never given takes none, and the drawing says no more of it.
func TestDrawStepsWithoutArguments(t *testing.T) {
	flow := &flows.Flow{Type: flows.TypeFlow, Name: "f", Steps: []flows.Step{{ToolName: "ping", OutputAs: "pong", InputMapping: flows.Nothing("pong")}}}
	var out strings.Builder
	drawFlow(&out, flow, func(int, string) string { return "held 1 of 1" })
	require.Equal(t, "  input\n    |\n  1 ping\n    |   takes no arguments\n    |\n  output\n    |   * <- the whole context\n", out.String())
}

// Steps without output_as put their outputs into the context by name; what comes from there is not said to be an input.
func TestDrawFlowOfContextKeys(t *testing.T) {
	flow, _, err := flows.ParseFlow([]byte(`
format_version: "1.1"
type: Flow
name: ship
version: 0.1.0
description: Finds the carrier.
input_schema: {type: object, properties: {order: {type: string}}, required: [order]}
steps:
  - {tool_name: get_order, input_mapping: {order: order}}
  - {tool_name: get_shipment, input_mapping: {id: shipment, first: /lines/0}, output_mapping: {who: carrier/name}}
  - {tool_name: get_carrier, input_mapping: {name: who, zip: /who/zip}}
  - {tool_name: note, input_mapping: {a: order, b: elsewhere}, output_as: note}
returns: {note: note, line: /note/lines/0}
`))
	require.NoError(t, err)
	var out strings.Builder
	drawFlow(&out, flow, nil)
	require.Equal(t, `  input
    |
  1 get_order
    |   order <- input order
    |
  2 get_shipment
    |   id    <- step 1 (get_order) /shipment
    |   first <- step 1 (get_order) /lines/0
    |
  3 get_carrier
    |   name <- step 2 (get_shipment) /carrier~1name
    |   zip  <- step 2 (get_shipment) /carrier~1name/zip
    |
  4 note
    |   a <- input order
    |   b <- an output of the steps before, elsewhere
    |
  output
    |   note <- step 4 (note), whole output
    |   line <- step 4 (note) /lines/0
`, out.String())
}
