// Package expr compiles and evaluates the derived values of flows: {"$expr": "<CEL>"}.
//
// The language is the Common Expression Language over the keys of the context: operators, list and map literals,
// has(), all(), exists(), exists_one(), filter(), map(), size(), matches(), the conversions, and of strings contains,
// startsWith, endsWith, lowerAscii, upperAscii, trim, split, join, replace, substring and indexOf. Timestamps and
// durations are left out: nothing here depends on a clock or a time zone.
//
// Expressions are pure, deterministic (keys of objects are visited in order), bounded in cost and in the size of
// their result, and checked when they are compiled against the schemas of what they read. By value integers are
// int64 and other numbers double; what a schema declares as number is double even when it has no fraction. An object
// with declared properties is a record (x.name, x["name"] and has(x.name)), one without is a map.
package expr

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"pave/flows/schema"
)

// Limits of one expression.
const (
	MaxLength      = 4 << 10 // bytes of source
	MaxNodes       = 2000
	MaxDepth       = 64
	MaxCost        = 1_000_000 // CEL cost units of one evaluation
	MaxResultBytes = 1 << 20   // of strings that are built, and of the result as a whole
	MaxElements    = 100_000   // of a list that is built, and of the result as a whole
)

// Error says why an expression is refused or has no value.
type Error struct {
	Source string
	Reason string
	// Absent: something that the expression reads is not there (a key, an element, a name).
	Absent bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("expression '%s': %s", shorten(e.Source), e.Reason)
}

func shorten(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// Variable is a key of the context that an expression may read.
type Variable struct {
	Name   string
	Schema *schema.Schema // nil: any value
	// Certain: the key is there whenever the expression is evaluated.
	Certain bool
}

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	names   []string
	types   map[string]*typ // of the variables
	result  *schema.Schema
	mayFail string
	// mayFailOptional is mayFail without what may be absent.
	mayFailOptional string
}

// String returns the source.
func (p *Program) String() string { return p.source }

// Schema is the schema of the result, nil where it is not known.
func (p *Program) Schema() *schema.Schema { return p.result }

// MayFail says why the expression may have no value although everything fits its schema, "" when that cannot be.
// optional leaves out that names and fields may be absent.
func (p *Program) MayFail(optional bool) string {
	if optional {
		return p.mayFailOptional
	}
	return p.mayFail
}

// base is the environment without variables.
var base = sync.OnceValues(func() (*cel.Env, error) {
	var excluded []*env.Function
	for _, name := range []string{"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
		"getMilliseconds", "getMinutes", "getMonth", "getSeconds"} {
		excluded = append(excluded, env.NewFunction(name))
	}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: excluded})),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxLength),
		cel.ParserRecursionLimit(MaxDepth),
		cel.ParserErrorRecoveryLimit(4),
		cel.ExpressionNodeLimit(MaxNodes),
		cel.ExpressionNestingDepthLimit(MaxDepth),
		cel.RegexProgramSizeLimit(1000),
		orderedFunction(),
	}
	return cel.NewCustomEnv(append(options, stringFunctions()...)...)
})

// Names lists the context keys that an expression reads, in the order of their first mention. Errors are *Error.
func Names(source string) ([]string, error) {
	parsed, err := parse(source)
	if err != nil {
		return nil, err
	}
	return freeNames(parsed.NativeRep().Expr()), nil
}

func parse(source string) (*cel.Ast, error) {
	if len(source) > MaxLength {
		return nil, &Error{Source: source, Reason: fmt.Sprintf("longer than %d bytes", MaxLength)}
	}
	e, err := base()
	if err != nil {
		return nil, fmt.Errorf("expression environment: %w", err)
	}
	parsed, issues := e.Parse(source)
	if issues.Err() != nil {
		return nil, refusal(source, issues)
	}
	return parsed, nil
}

// refusal is the first of CEL's issues in one line.
func refusal(source string, issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return &Error{Source: source, Reason: issues.Err().Error()}
	}
	first := all[0]
	message, _, _ := strings.Cut(first.Message, " (in container")
	return &Error{Source: source, Reason: fmt.Sprintf("%s, at position %d", message, first.Location.Column()+1)}
}

// Compile checks an expression against the variables that it may read. Errors are *Error.
func Compile(source string, variables []Variable) (*Program, error) {
	p := &Program{source: source, types: map[string]*typ{}}
	u := newUniverse()
	e, err := base()
	if err != nil {
		return nil, fmt.Errorf("expression environment: %w", err)
	}
	certain := map[string]bool{}
	options := []cel.EnvOption{}
	for _, v := range variables {
		t := u.of(v.Name, v.Schema, maxTypeDepth)
		p.types[v.Name], certain[v.Name] = t, v.Certain
		options = append(options, cel.Variable(v.Name, t.cel))
	}
	if e, err = e.Extend(append(options, cel.CustomTypeProvider(u))...); err != nil {
		return nil, &Error{Source: source, Reason: err.Error()}
	}
	checked, err := check(e, source)
	if err != nil {
		return nil, err
	}
	native := checked.NativeRep()
	path := p.pathType(native.Expr())
	if path != nil {
		p.result = path.schema
	} else if p.result, err = u.schemaOf(checked.OutputType()); err != nil {
		return nil, &Error{Source: source, Reason: err.Error()}
	}
	p.names = freeNames(native.Expr())
	p.mayFail = (&failures{native, u, certain, true}).of(native.Expr())
	p.mayFailOptional = (&failures{native, u, certain, false}).of(native.Expr())
	if path == nil && p.result == nil {
		for _, reason := range []*string{&p.mayFail, &p.mayFailOptional} {
			if *reason == "" {
				*reason = "the type of its value is not known"
			}
		}
	}
	if p.program, err = e.Program(checked, cel.CostLimit(MaxCost), cel.EvalOptions(cel.OptOptimize)); err != nil {
		return nil, &Error{Source: source, Reason: err.Error()}
	}
	return p, nil
}

// pathType is the type of what an expression that only reads leads to, nil for other expressions. Unlike CEL's own
// types it knows of values that may be null.
func (p *Program) pathType(e ast.Expr) *typ {
	step := func(of *typ, field string) *typ {
		switch {
		case of == nil:
			return nil
		case of.fields[field] != nil:
			return of.fields[field]
		case of.fields == nil && of.items != nil:
			return of.items
		}
		return anyType
	}
	switch e.Kind() {
	case ast.IdentKind:
		return p.types[e.AsIdent()]
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return step(p.pathType(s.Operand()), s.FieldName())
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index {
			return step(p.pathType(c.Args()[0]), "")
		}
	}
	return nil
}

// check type-checks the expression. Macros go over maps in the order of their keys. x["name"] is x.name, so that it works on records; where that does not help, an
// index that is computed sees a record as a map.
func check(e *cel.Env, source string) (*cel.Ast, error) {
	var first error
	for _, computed := range []bool{false, true} {
		parsed, err := parse(source)
		if err != nil {
			return nil, err
		}
		rewrite(parsed.NativeRep().Expr(), computed)
		checked, issues := e.Check(parsed)
		if issues.Err() == nil {
			return checked, nil
		}
		if first == nil {
			first = refusal(source, issues)
		}
	}
	return nil, first
}

func rewrite(root ast.Expr, computed bool) {
	make := ast.NewExprFactory()
	next := int64(1 << 32) // ids of added nodes
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			next++
			c := e.AsComprehension()
			e.SetKindCase(make.NewComprehensionTwoVar(e.ID(), make.NewCall(next, ordered, c.IterRange()), c.IterVar(), c.IterVar2(), c.AccuVar(),
				c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
			return
		}
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
			return
		}
		operand, index := e.AsCall().Args()[0], e.AsCall().Args()[1]
		if index.Kind() == ast.LiteralKind {
			if name, ok := index.AsLiteral().(types.String); ok {
				e.SetKindCase(make.NewSelect(e.ID(), operand, string(name)))
			}
			return
		}
		if computed {
			next++
			e.SetKindCase(make.NewCall(e.ID(), operators.Index, make.NewCall(next, "dyn", operand), index))
		}
	}))
}

// freeNames lists the identifiers that no macro binds.
func freeNames(root ast.Expr) []string {
	var names []string
	var walk func(e ast.Expr, bound []string)
	add := func(name string, bound []string) {
		for _, known := range [][]string{bound, names} {
			for _, k := range known {
				if k == name {
					return
				}
			}
		}
		names = append(names, name)
	}
	walk = func(e ast.Expr, bound []string) {
		switch e.Kind() {
		case ast.IdentKind:
			if !isTypeName(e.AsIdent()) {
				add(strings.TrimPrefix(e.AsIdent(), "."), bound)
			}
		case ast.SelectKind:
			walk(e.AsSelect().Operand(), bound)
		case ast.CallKind:
			if c := e.AsCall(); c.IsMemberFunction() {
				walk(c.Target(), bound)
			}
			for _, a := range e.AsCall().Args() {
				walk(a, bound)
			}
		case ast.ListKind:
			for _, el := range e.AsList().Elements() {
				walk(el, bound)
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				walk(entry.AsMapEntry().Key(), bound)
				walk(entry.AsMapEntry().Value(), bound)
			}
		case ast.StructKind:
			for _, f := range e.AsStruct().Fields() {
				walk(f.AsStructField().Value(), bound)
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			walk(c.IterRange(), bound)
			walk(c.AccuInit(), bound)
			inner := append(bound[:len(bound):len(bound)], c.IterVar(), c.IterVar2(), c.AccuVar())
			walk(c.LoopCondition(), inner)
			walk(c.LoopStep(), inner)
			walk(c.Result(), inner)
		}
	}
	walk(root, nil)
	return names
}

// isTypeName reports whether an identifier is one of CEL's types, as in type(x) == string.
func isTypeName(name string) bool {
	switch name {
	case "bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint":
		return true
	}
	return false
}

// Eval returns the expression's value over the context, whose values are JSON values (package value) and are not
// changed. Errors are *Error.
func (p *Program) Eval(context map[string]any) (any, error) {
	vars := make(map[string]any, len(p.names))
	for _, name := range p.names {
		if v, ok := context[name]; ok {
			vars[name] = adapt(v, p.types[name])
		}
	}
	out, _, err := p.program.Eval(vars)
	if err != nil {
		return nil, &Error{Source: p.source, Reason: err.Error(), Absent: isAbsent(err.Error())}
	}
	c := converter{bytes: MaxResultBytes, elements: MaxElements}
	v, err := c.value(out, MaxDepth)
	if err != nil {
		return nil, &Error{Source: p.source, Reason: err.Error()}
	}
	return v, nil
}

// isAbsent recognises CEL's errors about what is not there; they have no type of their own.
func isAbsent(text string) bool {
	for _, start := range []string{"no such key", "no such attribute", "index out of bounds", "invalid_argument: index"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

var errNotJSON = errors.New("its value is no JSON value; convert it with string(), int() or double()")
