package predicate

import (
	"fmt"
	"strings"
)

// parser is a recursive descent with one token of look-ahead. What Python has and the language has not is
// parsed loosely into nodeRefused, so that the error names it.
type parser struct {
	lexer
	tok   token
	nodes int
	depth int
}

func (p *parser) parse() (*node, error) {
	if zero := strings.IndexByte(p.source, 0); zero >= 0 {
		return nil, p.syntax(zero, "a null character")
	}
	if err := p.skipNewlines(true); err != nil {
		return nil, err
	}
	pos := p.tok.pos
	before := p.source[:pos]
	if blanks := before[strings.LastIndexAny(before, "\n\r\f")+1:]; strings.Trim(blanks, " \t") == "" && blanks != "" {
		return nil, p.syntax(pos, "unexpected indent")
	}
	kids, comma, err := p.list("", false)
	if err != nil {
		return nil, err
	}
	root, err := p.tuple(pos, kids, comma)
	if err != nil {
		return nil, err
	}
	if err := p.skipNewlines(false); err != nil {
		return nil, err
	}
	if p.tok.kind != tokEnd {
		return nil, p.unexpected()
	}
	return root, nil
}

func (p *parser) skipNewlines(first bool) error {
	for first || p.tok.kind == tokNewline {
		first = false
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) advance() error {
	tok, err := p.next()
	p.tok = tok
	return err
}

func (p *parser) is(text string) bool {
	return (p.tok.kind == tokOp || p.tok.kind == tokKeyword) && p.tok.text == text
}

func (p *parser) accept(text string) (bool, error) {
	if !p.is(text) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(text string) error {
	if !p.is(text) {
		return p.unexpected()
	}
	return p.advance()
}

func (p *parser) unexpected() error {
	what := fmt.Sprintf("unexpected %q", p.tok.text)
	switch p.tok.kind {
	case tokEnd, tokNewline:
		what = "unexpected end"
	case tokConst, tokFString:
		what = "unexpected literal"
	}
	return p.syntax(p.tok.pos, what)
}

func (p *parser) make(kind nodeKind, pos int, text string, kids ...*node) (*node, error) {
	if p.nodes++; p.nodes > MaxNodes {
		return nil, &Error{Source: p.source, Offset: pos, Category: Limit, Reason: fmt.Sprintf("more than %d parts.", MaxNodes)}
	}
	return &node{kind: kind, pos: pos, text: text, kids: kids}, nil
}

func (p *parser) nest() error {
	if p.depth++; p.depth > MaxDepth {
		return &Error{Source: p.source, Offset: p.tok.pos, Category: Limit, Reason: fmt.Sprintf("nested more than %d deep.", MaxDepth)}
	}
	return nil
}

// list reads items between commas up to the closing bracket, which it leaves, or up to the end of the source when
// there is no bracket. comma is set when a comma was read. loose allows *x and x := y.
func (p *parser) list(closing string, loose bool) (kids []*node, comma bool, err error) {
	for {
		item, err := p.item(loose)
		if err != nil {
			return nil, false, err
		}
		kids = append(kids, item)
		more, err := p.accept(",")
		if err != nil || !more {
			return kids, comma, err
		}
		comma = true
		if closing == "" && (p.tok.kind == tokEnd || p.tok.kind == tokNewline) || closing != "" && p.is(closing) {
			return kids, comma, nil
		}
	}
}

// tuple is one item itself, anything else a list.
func (p *parser) tuple(pos int, kids []*node, comma bool) (*node, error) {
	if len(kids) == 1 && !comma {
		return kids[0], nil
	}
	return p.make(nodeList, pos, "", kids...)
}

func (p *parser) item(loose bool) (*node, error) {
	pos := p.tok.pos
	if loose && p.is("*") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if _, err := p.binary(); err != nil {
			return nil, err
		}
		return p.make(nodeRefused, pos, "Starred")
	}
	n, err := p.expression()
	if err != nil || !loose || !p.is(":=") || n.kind != nodeName {
		return n, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if _, err := p.expression(); err != nil {
		return nil, err
	}
	return p.make(nodeRefused, pos, "NamedExpr")
}

func (p *parser) expression() (*node, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	pos := p.tok.pos
	if p.is("lambda") {
		return p.lambda()
	}
	n, err := p.or()
	if err != nil || !p.is("if") {
		return n, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if _, err := p.or(); err != nil {
		return nil, err
	}
	if err := p.expect("else"); err != nil {
		return nil, err
	}
	if _, err := p.expression(); err != nil {
		return nil, err
	}
	return p.make(nodeRefused, pos, "IfExp")
}

func (p *parser) lambda() (*node, error) {
	pos := p.tok.pos
	if err := p.advance(); err != nil {
		return nil, err
	}
	for !p.is(":") {
		if p.tok.kind != tokName && !p.is(",") && !p.is("*") && !p.is("**") && !p.is("/") {
			return nil, p.unexpected()
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if _, err := p.expression(); err != nil {
		return nil, err
	}
	return p.make(nodeRefused, pos, "Lambda")
}

func (p *parser) or() (*node, error)  { return p.operands(nodeOr, "or", p.and) }
func (p *parser) and() (*node, error) { return p.operands(nodeAnd, "and", p.not) }

func (p *parser) operands(kind nodeKind, word string, operand func() (*node, error)) (*node, error) {
	pos := p.tok.pos
	first, err := operand()
	if err != nil || !p.is(word) {
		return first, err
	}
	kids := []*node{first}
	for p.is(word) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := operand()
		if err != nil {
			return nil, err
		}
		kids = append(kids, n)
	}
	return p.make(kind, pos, "", kids...)
}

func (p *parser) not() (*node, error) {
	if !p.is("not") {
		return p.compare()
	}
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	pos := p.tok.pos
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.not()
	if err != nil {
		return nil, err
	}
	return p.make(nodeNot, pos, "", n)
}

func (p *parser) compare() (*node, error) {
	pos := p.tok.pos
	first, err := p.binary()
	if err != nil {
		return nil, err
	}
	kids, ops, bad := []*node{first}, []string(nil), ""
	for {
		op, err := p.comparison()
		if err != nil {
			return nil, err
		}
		if op == "" {
			break
		}
		if op == "Is" || op == "IsNot" {
			bad = op
		}
		right, err := p.binary()
		if err != nil {
			return nil, err
		}
		kids, ops = append(kids, right), append(ops, op)
	}
	switch {
	case bad != "":
		return p.make(nodeBadOp, pos, bad, kids...)
	case len(ops) == 0:
		return first, nil
	}
	n, err := p.make(nodeCompare, pos, "", kids...)
	if err == nil {
		n.ops = ops
	}
	return n, err
}

// comparison reads a comparison operator, "" when there is none.
func (p *parser) comparison() (string, error) {
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">", "in"} {
		if p.is(op) {
			return op, p.advance()
		}
	}
	if p.is("not") {
		if err := p.advance(); err != nil {
			return "", err
		}
		return "not in", p.expect("in")
	}
	if p.is("is") {
		if err := p.advance(); err != nil {
			return "", err
		}
		if negated, err := p.accept("not"); negated {
			return "IsNot", err
		}
		return "Is", nil
	}
	return "", nil
}

var arithmetic = []string{"+", "-", "*", "/", "//", "%", "@", "**", "<<", ">>", "&", "|", "^"}

// binary reads operands of arithmetic, which is refused, so its precedence does not matter.
func (p *parser) binary() (*node, error) {
	pos := p.tok.pos
	n, err := p.unary()
	if err != nil {
		return nil, err
	}
	for p.isArithmetic() {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if _, err := p.unary(); err != nil {
			return nil, err
		}
		if n, err = p.make(nodeRefused, pos, "BinOp"); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (p *parser) isArithmetic() bool {
	for _, op := range arithmetic {
		if p.is(op) {
			return true
		}
	}
	return false
}

func (p *parser) unary() (*node, error) {
	pos, sign := p.tok.pos, p.tok.text
	if !p.is("+") && !p.is("-") && !p.is("~") && !p.is("await") {
		return p.postfix()
	}
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.unary()
	if err != nil {
		return nil, err
	}
	switch sign {
	case "~":
		return p.make(nodeBadOp, pos, "Invert", n)
	case "await":
		return p.make(nodeRefused, pos, "Await")
	}
	return p.make(nodeSign, pos, sign, n)
}
