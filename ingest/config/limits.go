package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"pave/flows"
	"pave/ingest"
)

// limits are the sizes and counts of ingest.Limits that a user may set; what is left out keeps its default.
type limits struct {
	Body      size `yaml:"body"`
	Inflated  size `yaml:"inflated"`
	Ratio     size `yaml:"ratio"`
	Batch     size `yaml:"batch"`
	Record    size `yaml:"record"`
	Payload   size `yaml:"payload"`
	Text      size `yaml:"text"`
	Depth     size `yaml:"depth"`
	Values    size `yaml:"values"`
	ToolName  size `yaml:"tool_name"`
	ID        size `yaml:"id"`
	InFlight  size `yaml:"in_flight"`
	Queue     size `yaml:"queue"`
	QueueSize size `yaml:"queue_size"`
}

func (l *limits) limits() ingest.Limits {
	return ingest.Limits{Body: int64(l.Body), Inflated: int64(l.Inflated), Ratio: int64(l.Ratio), Batch: int(l.Batch), Record: int(l.Record),
		Payload: int(l.Payload), Text: int(l.Text), Depth: int(l.Depth), Tokens: int(l.Values), ToolName: int(l.ToolName), ID: int(l.ID),
		InFlight: int64(l.InFlight), Queue: int(l.Queue), QueueSize: int64(l.QueueSize)}
}

// check says what does not go together.
func (l *limits) check() error {
	all := l.limits().WithDefaults()
	switch {
	case all.Inflated > math.MaxInt32:
		return flows.NewError(flows.CodeInvalid, "the limit \"inflated\" must be below 2GiB")
	case int64(all.Record) > all.Inflated:
		return flows.NewError(flows.CodeInvalid, "the limit \"record\" must not be above \"inflated\"")
	case all.Depth > maxDepth:
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("the limit \"depth\" must not be above %d", maxDepth))
	}
	return nil
}

// maxDepth bounds what is walked recursively.
const maxDepth = 1000

// size is a positive number, also with a unit: 16MiB.
type size int64

var units = map[string]float64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// UnmarshalYAML reads a number with or without a unit.
func (s *size) UnmarshalYAML(node *yaml.Node) error {
	number := strings.TrimRight(node.Value, "KMGiB")
	unit, known := units[node.Value[len(number):]]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if n *= unit; err != nil || !known || node.Kind != yaml.ScalarNode || !(n >= 1 && n <= 1<<40) {
		return fmt.Errorf("line %d: %.40q is no limit; write a positive number, such as 10000 or 16MiB", node.Line, node.Value)
	}
	*s = size(n)
	return nil
}
