package predicate

// ellipsis is the value of the literal "...".
type ellipsis struct{}

func (p *parser) postfix() (*node, error) {
	n, err := p.atom()
	for err == nil {
		pos := p.tok.pos
		switch {
		case p.is("."):
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.tok.kind != tokName {
				return nil, p.unexpected()
			}
			if err := p.advance(); err != nil {
				return nil, err
			}
			n, err = p.make(nodeRefused, pos, "Attribute")
		case p.is("("):
			if err := p.arguments(); err != nil {
				return nil, err
			}
			n, err = p.make(nodeRefused, pos, "Call")
		case p.is("["):
			n, err = p.subscript(n)
		default:
			return n, nil
		}
	}
	return nil, err
}

// bracketed reads what stands between brackets; p is at the opening one and ends behind the closing one.
func (p *parser) bracketed(closing string, read func() (*node, error)) (*node, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	p.open++
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := read()
	if err != nil {
		return nil, err
	}
	if !p.is(closing) {
		return nil, p.unexpected()
	}
	p.open--
	return n, p.advance()
}

func (p *parser) subscript(of *node) (*node, error) {
	pos := p.tok.pos
	index, err := p.bracketed("]", func() (*node, error) {
		start := p.tok.pos
		if !p.is(":") {
			kids, comma, err := p.list("]", true)
			if err != nil {
				return nil, err
			}
			if !p.is(":") {
				return p.tuple(start, kids, comma)
			}
		}
		for p.is(":") || p.is(",") {
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.is("]") || p.is(":") {
				continue
			}
			if _, err := p.expression(); err != nil {
				return nil, err
			}
		}
		return p.make(nodeRefused, start, "Slice")
	})
	if err != nil {
		return nil, err
	}
	return p.make(nodeIndex, pos, "", of, index)
}

// arguments reads the arguments of a call, which is refused.
func (p *parser) arguments() error {
	_, err := p.bracketed(")", func() (*node, error) {
		for !p.is(")") {
			if p.is("*") || p.is("**") {
				if err := p.advance(); err != nil {
					return nil, err
				}
			}
			if _, err := p.item(true); err != nil {
				return nil, err
			}
			if p.is("=") {
				if err := p.advance(); err != nil {
					return nil, err
				}
				if _, err := p.expression(); err != nil {
					return nil, err
				}
			}
			if _, err := p.comprehension(); err != nil {
				return nil, err
			}
			if comma, err := p.accept(","); err != nil || !comma {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

// comprehension reads "for x in y if z..." and reports whether it was there.
func (p *parser) comprehension() (found bool, err error) {
	for p.is("for") || p.is("async") || found && p.is("if") {
		found = true
		if p.is("async") {
			if err := p.advance(); err != nil {
				return found, err
			}
		}
		isFor := p.is("for")
		if err := p.advance(); err != nil {
			return found, err
		}
		if isFor {
			if err := p.targets(); err != nil {
				return found, err
			}
		}
		if _, err := p.or(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// targets reads "x, y in".
func (p *parser) targets() error {
	for !p.is("in") {
		if _, err := p.unary(); err != nil {
			return err
		}
		if comma, err := p.accept(","); err != nil {
			return err
		} else if !comma {
			break
		}
	}
	return p.expect("in")
}

func (p *parser) atom() (*node, error) {
	tok := p.tok
	switch {
	case tok.kind == tokName:
		if err := p.advance(); err != nil {
			return nil, err
		}
		return p.make(nodeName, tok.pos, tok.text)
	case tok.kind == tokConst, tok.kind == tokFString:
		return p.literals()
	case p.is("..."):
		return p.constant(ellipsis{})
	case p.is("True"):
		return p.constant(true)
	case p.is("False"):
		return p.constant(false)
	case p.is("None"):
		return p.constant(nil)
	case p.is("("):
		return p.bracketed(")", func() (*node, error) { return p.group(tok.pos, ")", "GeneratorExp") })
	case p.is("["):
		return p.bracketed("]", func() (*node, error) { return p.group(tok.pos, "]", "ListComp") })
	case p.is("{"):
		return p.bracketed("}", func() (*node, error) { return p.braces(tok.pos) })
	}
	return nil, p.unexpected()
}

func (p *parser) constant(v any) (*node, error) {
	n, err := p.make(nodeConst, p.tok.pos, "")
	if err != nil {
		return nil, err
	}
	n.val = v
	return n, p.advance()
}

// literals reads a number, or strings that stand next to each other and are one.
func (p *parser) literals() (*node, error) {
	n, err := p.make(nodeConst, p.tok.pos, "")
	if err != nil {
		return nil, err
	}
	n.val = p.tok.val
	for first := true; p.tok.kind == tokConst || p.tok.kind == tokFString; first = false {
		if p.tok.kind == tokFString {
			n.kind, n.text, n.val = nodeRefused, "JoinedStr", ""
		} else if !first {
			joined, ok := join(n.val, p.tok.val)
			if !ok {
				return nil, p.unexpected()
			}
			n.val = joined
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func join(a, b any) (any, bool) {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return x + y, ok
	}
	if x, ok := a.(bytesValue); ok {
		y, ok := b.(bytesValue)
		return x + y, ok
	}
	return nil, false
}

// group reads the inside of parentheses or square brackets. Parentheses around one item without a comma are
// that item.
func (p *parser) group(pos int, closing, comprehension string) (*node, error) {
	if p.is(closing) {
		return p.make(nodeList, pos, "")
	}
	if p.is("yield") {
		for !p.is(closing) && p.tok.kind != tokEnd {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		return p.make(nodeRefused, pos, "Yield")
	}
	kids, comma, err := p.list(closing, true)
	if err != nil {
		return nil, err
	}
	if len(kids) == 1 && !comma {
		if found, err := p.comprehension(); found || err != nil {
			return p.refuse(pos, comprehension, err)
		}
		if closing == ")" {
			if kids[0].kind == nodeRefused && kids[0].text == "Starred" {
				return nil, p.syntax(kids[0].pos, "cannot use a starred expression here")
			}
			return kids[0], nil
		}
	}
	return p.make(nodeList, pos, "", kids...)
}

// braces reads the inside of braces: a set, or a dict, which is refused.
func (p *parser) braces(pos int) (*node, error) {
	if p.is("}") {
		return p.make(nodeRefused, pos, "Dict")
	}
	if p.is("**") {
		return p.dict(pos)
	}
	kids, comma, err := p.list("}", true)
	if err != nil {
		return nil, err
	}
	if len(kids) == 1 && !comma {
		if p.is(":") {
			return p.dict(pos)
		}
		if found, err := p.comprehension(); found || err != nil {
			return p.refuse(pos, "SetComp", err)
		}
	}
	return p.make(nodeSet, pos, "", kids...)
}

// dict reads the rest of a dict; p is at the colon of its first pair or at **.
func (p *parser) dict(pos int) (*node, error) {
	for {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if _, err := p.expression(); err != nil {
			return nil, err
		}
		if found, err := p.comprehension(); found || err != nil {
			return p.refuse(pos, "DictComp", err)
		}
		if comma, err := p.accept(","); err != nil {
			return nil, err
		} else if !comma || p.is("}") {
			return p.make(nodeRefused, pos, "Dict")
		}
		if p.is("**") {
			continue
		}
		if _, err := p.expression(); err != nil {
			return nil, err
		}
		if !p.is(":") {
			return nil, p.unexpected()
		}
	}
}

func (p *parser) refuse(pos int, name string, err error) (*node, error) {
	if err != nil {
		return nil, err
	}
	return p.make(nodeRefused, pos, name)
}
