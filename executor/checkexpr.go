package executor

import (
	"errors"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/schema"
)

// place is where a mapping value stands, for diagnostics.
type place struct {
	step    int
	tool    string
	pointer string
}

// programs compiles the expressions among a mapping's entries; at gives the place of an entry. It must be called with
// what the context holds where the mapping is resolved.
func (c *compiler) programs(m *mapping, at func(target string) place) {
	for i := range m.entries {
		source, optional, is := expression(m.entries[i].Value)
		if !is {
			continue
		}
		if m.programs == nil {
			m.programs = make([]*expr.Program, len(m.entries))
		}
		m.programs[i] = c.program(source, optional, at(m.entries[i].Target))
	}
}

func expression(v flows.MappingValue) (source string, optional, is bool) {
	if v.Kind == flows.MapOptional && v.Inner != nil {
		v, optional = *v.Inner, true
	}
	return v.Ref, optional, v.Kind == flows.MapExpr
}

// program compiles one expression against the context. An expression that is refused keeps the flow from having a
// plan.
func (c *compiler) program(source string, optional bool, at place) *expr.Program {
	refuse := func(err error) *expr.Program {
		c.fatal = true
		reason := err.Error()
		var e *expr.Error
		if errors.As(err, &e) {
			reason = e.Reason
		}
		c.report(SeverityError, IssueExpressionError, at.step, at.tool, source, at.pointer, "the expression is refused: %s", reason)
		return nil
	}
	names, err := expr.Names(source)
	if err != nil {
		return refuse(err)
	}
	variables := make([]expr.Variable, len(names))
	for i, name := range names {
		o, found := c.known.key(name)
		if !found {
			c.missing(at.step, at.tool, name, name, at.pointer, nil, !optional)
			o.certain = !optional
		}
		variables[i] = expr.Variable{Name: name, Schema: o.schema, Certain: o.certain}
	}
	p, err := expr.Compile(source, variables)
	if err != nil {
		return refuse(err)
	}
	if reason := p.MayFail(optional); reason != "" {
		c.report(SeverityWarning, IssueUnprovenValue, at.step, at.tool, source, at.pointer, "the expression may have no value at run time: %s", reason)
	}
	return p
}

// resultOf is the schema of an entry's expression, nil where it is not known.
func (m *mapping) resultOf(i int) *schema.Schema {
	if m.programs == nil || m.programs[i] == nil {
		return nil
	}
	return m.programs[i].Schema()
}
