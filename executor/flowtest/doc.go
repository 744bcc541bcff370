// Package flowtest tests flows that live in files: golden tests written in YAML, with faked or recorded tools. The
// command `pave flows test` runs them; Verify runs them from a Go test.
//
// A test file lies beside the flows it tests. Its name ends in .test.yaml, its paths are relative to it:
//
//	flow: reservation_overview.yaml      # what is tested
//	tools: [../tools]                    # tool files, or folders of them
//	flows: [.]                           # where sub-flows are found
//	cases:
//	  - name: two reservations
//	    input: {user_id: mia_1}
//	    fakes:
//	      get_user_details:
//	        - result: {user_id: mia_1, name: Mia, reservations: [A1, B2]}
//	      get_reservation_details:
//	        - {when: {reservation_id: A1}, error: {class: io, message: busy}, times: 1}
//	        - {when: {reservation_id: A1}, result: {reservation_id: A1, status: open}}
//	        - {when: {reservation_id: B2}, result: {reservation_id: B2, status: cancelled}}
//	    expect:
//	      status: succeeded
//	      output: {name: Mia, reservations: [{reservation_id: A1, status: open}, {reservation_id: B2, status: cancelled}]}
//	      steps:
//	        - {tool_name: get_user_details}
//	        - {tool_name: get_reservation_details, success: true}
//	      calls: {get_reservation_details: 3}
//
// A fake answers with the first of its entries whose `when` agrees with the validated input and whose `times` are not
// used up. `fixtures: FILE` answers from recorded calls instead: an interaction is found by tool and canonical input,
// and calls with the same input consume their interactions in order. A call that nothing answers fails the case with
// CW-E040, whatever the flow makes of it. The tools of package local that come with pave run as they are. A capability
// step is answered under its capability's id, or else under the name of its tool.
//
// `decide: {TOOL or STEP_ID: CHOSEN}` stands for whoever decides at run time, `approve: true` or `false` for whoever
// approves, `dynamic_params` for what callers give beside the input.
//
// Runs are deterministic: one step at a time, a clock that stands still, and no waiting between retries. Unknown
// fields of a test file are errors, so that a misspelt expectation does not pass.
//
// From Go, with fakes in Go:
//
//	func TestFlows(t *testing.T) {
//		flowtest.Verify(t, flowtest.Options{Fakes: map[string]flowtest.Fake{
//			"score": func(_ context.Context, in map[string]any) (any, error) { return map[string]any{"score": 0.5}, nil },
//		}}, "testdata/flows")
//	}
//
// A Recorder in front of real tools makes the fixtures.
package flowtest
