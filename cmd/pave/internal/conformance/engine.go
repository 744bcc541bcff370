package conformance

import (
	"strings"
	"time"

	"pave/executor/vectortest"
)

// runEngine runs one vector in the executor.
func runEngine(v *vectortest.Vector) Outcome {
	o := vectortest.Run(v, time.Now)
	switch o.Verdict {
	case vectortest.Exact:
		return exact()
	case vectortest.Divergence:
		return diverges(strings.Fields(o.Note)...)
	case vectortest.OutOfScope:
		return failed("not run: %s", o.Note)
	}
	return failed("%s", o.Note)
}
