package expr

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// failures looks for what can keep a checked expression from having a value although everything it reads fits its
// schema. What is not known to be safe is taken to fail.
type failures struct {
	ast     *ast.AST
	types   *universe
	certain map[string]bool
	// absences: also what is only absent then.
	absences bool
}

// absent is the reason for a part that may not be there.
func (f *failures) absent(name string) string {
	if !f.absences {
		return ""
	}
	return fmt.Sprintf("'%s' may be absent", name)
}

// total are the functions that always have a value when the types of their arguments are known.
var total = []string{
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.LogicalAnd, operators.LogicalOr,
	operators.LogicalNot, operators.Conditional, operators.In, operators.NotStrictlyFalse, "size", "contains", "startsWith", "endsWith", "string",
	"lowerAscii", "upperAscii", "trim", "indexOf",
}

// of names the first part that may fail, "" when none does.
func (f *failures) of(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		if certain, isVariable := f.certain[e.AsIdent()]; isVariable && !certain {
			return f.absent(e.AsIdent())
		}
		return ""
	case ast.SelectKind:
		return f.selection(e)
	case ast.CallKind:
		return f.call(e)
	case ast.ListKind:
		return f.any(e.AsList().Elements())
	case ast.MapKind:
		var parts []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			key, v := entry.AsMapEntry().Key(), entry.AsMapEntry().Value()
			if key.Kind() != ast.LiteralKind {
				return "a key of a map is computed"
			}
			parts = append(parts, v)
		}
		return f.any(parts)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if kind := f.ast.GetType(c.IterRange().ID()).Kind(); kind != types.ListKind && kind != types.MapKind {
			return "it goes over a value that may be no list"
		}
		return f.any([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})
	}
	return ""
}

func (f *failures) any(parts []ast.Expr) string {
	for _, p := range parts {
		if reason := f.of(p); reason != "" {
			return reason
		}
	}
	return ""
}

func (f *failures) selection(e ast.Expr) string {
	s := e.AsSelect()
	if reason := f.of(s.Operand()); reason != "" {
		return reason
	}
	record := f.types.records[f.ast.GetType(s.Operand().ID()).TypeName()]
	switch {
	case record != nil && (s.IsTestOnly() || record.need[s.FieldName()]):
		return ""
	case s.IsTestOnly() && f.ast.GetType(s.Operand().ID()).Kind() == types.MapKind:
		return ""
	}
	return f.absent(s.FieldName())
}

func (f *failures) call(e ast.Expr) string {
	c := e.AsCall()
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	if reason := f.any(args); reason != "" {
		return reason
	}
	name, result := c.FunctionName(), f.ast.GetType(e.ID()).Kind()
	switch {
	case name == operators.Equals || name == operators.NotEquals || name == "dyn" || name == "type" || name == ordered:
		return ""
	case name == operators.Add && (result == types.ListKind || result == types.StringKind) || slices.Contains(total, name):
		for i, a := range args {
			if name == operators.Conditional && i > 0 || name == operators.In && i == 0 {
				continue // handed on as they are
			}
			if !known(f.ast.GetType(a.ID())) {
				return fmt.Sprintf("an argument of %s may be of another type", display(name))
			}
		}
		return ""
	}
	return display(name) + " may have no value"
}

// known reports whether values of a type are never null and of one kind.
func known(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.ListKind, types.MapKind, types.StructKind:
		return !t.IsAssignableType(types.NullType)
	}
	return false
}

func display(function string) string {
	if symbol, ok := operators.FindReverse(function); ok && symbol != "" {
		return symbol
	}
	if function == operators.Index {
		return "an index"
	}
	return function
}
