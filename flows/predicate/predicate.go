// Package predicate parses and evaluates the conditions of flows: guards, branches and error rules.
//
// The language is a closed subset of Python expressions over a context of JSON values:
//
//	expr    := or ;  or := and ("or" and)* ;  and := not ("and" not)* ;  not := "not" not | cmp
//	cmp     := unary (("=="|"!="|"<"|"<="|">"|">="|"in"|"not in") unary)*      chained, left to right
//	unary   := ("+"|"-") unary | postfix
//	postfix := atom ("[" expr ("," expr)* "]")*
//	atom    := NAME | NUMBER | STRING+ | True | False | None | "..." | "(" ")" | "(" expr ")" | "(" items ")"
//	           | "[" items? "]" | "{" items "}"
//
// A bare tuple is allowed at the top. Tuples and lists are lists, braces are sets. Truth, equality, order,
// membership and subscripts are Python's; True equals 1 and integers compare with floats exactly. Everything
// else of Python (calls, attributes, arithmetic, slices, comprehensions...) is refused when the predicate is
// parsed. Evaluation has no effects, always ends, and never panics.
package predicate

import (
	"fmt"
	"slices"
)

// Limits of one predicate.
const (
	MaxLength = 16 << 10 // bytes of source
	MaxNodes  = 4096
	MaxDepth  = 200 // nesting of brackets, not and signs
)

// Categories of errors.
const (
	Syntax              = "syntax"
	UnsupportedNode     = "unsupported_node"
	UnsupportedOperator = "unsupported_operator"
	UnknownName         = "unknown_name"
	Subscript           = "subscript"
	TypeError           = "type_error"
	Limit               = "limit"
)

// Code is the stable code of every predicate error.
const Code = "CW-E036"

// Error says why a predicate is refused or cannot be evaluated.
type Error struct {
	Source   string
	Offset   int // byte offset in Source
	Category string
	Reason   string
}

func (e *Error) Error() string {
	source := e.Source
	if len(source) > 200 {
		source = source[:200] + "..."
	}
	if e.Category == Syntax {
		return fmt.Sprintf("Invalid predicate '%s': %s at position %d.", source, e.Reason, e.Offset)
	}
	return fmt.Sprintf("Invalid predicate '%s': %s", source, e.Reason)
}

// Predicate is a parsed condition. It is immutable and safe for concurrent use.
type Predicate struct {
	source string
	root   *node
}

// Parse reads a predicate. Errors are *Error.
func Parse(source string) (*Predicate, error) {
	if len(source) > MaxLength {
		return nil, &Error{Source: source, Offset: MaxLength, Category: Limit, Reason: fmt.Sprintf("longer than %d bytes.", MaxLength)}
	}
	p := &parser{lexer: lexer{source: source}}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	if bad := root.unsupported(); bad != nil {
		return nil, &Error{Source: source, Offset: bad.pos, Category: bad.category(), Reason: bad.refusal()}
	}
	return &Predicate{source: source, root: root}, nil
}

// String returns the source.
func (p *Predicate) String() string { return p.source }

// Names lists the context keys that the predicate can read, sorted.
func (p *Predicate) Names() []string {
	var names []string
	p.root.walk(func(n *node) {
		if n.kind == nodeName && !slices.Contains(names, n.text) {
			names = append(names, n.text)
		}
	})
	slices.Sort(names)
	return names
}

// NotNone lists the context keys that are not null wherever the predicate is true, as far as it says so by a comparison
// of its own with None: NAME != None, joined to the rest by "and".
func (p *Predicate) NotNone() []string { return p.root.notNone(nil) }

func (n *node) notNone(names []string) []string {
	switch {
	case n.kind == nodeAnd:
		for _, k := range n.kids {
			names = k.notNone(names)
		}
	case n.kind == nodeCompare && len(n.kids) == 2 && n.ops[0] == "!=" && n.kids[0].kind == nodeName &&
		n.kids[1].kind == nodeConst && n.kids[1].val == nil:
		names = append(names, n.kids[0].text)
	}
	return names
}

// Eval returns the truth of the predicate over context, whose values are JSON values (package value) and are
// not changed. Errors are *Error.
func (p *Predicate) Eval(context map[string]any) (bool, error) {
	e := evaluator{source: p.source, context: context}
	v, err := e.eval(p.root)
	if err != nil {
		return false, err
	}
	return truth(v), nil
}

type nodeKind uint8

const (
	nodeConst   nodeKind = iota // val
	nodeName                    // text
	nodeOr                      // kids
	nodeAnd                     // kids
	nodeNot                     // kids[0]
	nodeSign                    // text is + or -, kids[0]
	nodeCompare                 // kids, ops between them
	nodeIndex                   // kids[0][kids[1]]
	nodeList                    // kids
	nodeSet                     // kids
	nodeRefused                 // text is the name of a node that is not supported
	nodeBadOp                   // text is the name of an operator that is not supported, kids its operands
)

type node struct {
	kind nodeKind
	pos  int
	text string
	val  any
	kids []*node
	ops  []string
}

// walk visits n and everything below it, operands before what follows them.
func (n *node) walk(visit func(*node)) {
	for _, k := range n.kids {
		k.walk(visit)
	}
	visit(n)
}

// unsupported returns the first part, in order of evaluation, that the language does not have.
func (n *node) unsupported() *node {
	var first *node
	n.walk(func(n *node) {
		if first == nil && (n.kind == nodeRefused || n.kind == nodeBadOp) {
			first = n
		}
	})
	return first
}

func (n *node) category() string {
	if n.kind == nodeBadOp {
		return UnsupportedOperator
	}
	return UnsupportedNode
}

func (n *node) refusal() string {
	if n.kind != nodeBadOp {
		return fmt.Sprintf("unsupported expression node '%s'.", n.text)
	}
	if len(n.kids) == 1 {
		return fmt.Sprintf("unsupported unary op '%s'.", n.text)
	}
	return fmt.Sprintf("unsupported comparison op '%s'.", n.text)
}
