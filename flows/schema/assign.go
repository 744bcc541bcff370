package schema

import (
	"fmt"
	"slices"
)

// maxAssignDepth bounds the comparison of recursive schemas; what lies deeper is taken as assignable.
const maxAssignDepth = 16

// Assignable reports whether values of out can stand where in is wanted; otherwise reason says what does not
// fit. It is about types: each type that out can have must be one of in's, where an integer is a number and an
// unconstrained side fits everything. Null in out alone does not count against it (see At for what is proven),
// bounds and patterns do not count.
func Assignable(out, in *Schema) (ok bool, reason string) {
	reason = assign(out.root, in.root, maxAssignDepth)
	return reason == "", reason
}

// Differ reports whether two types have nothing to do with each other: each is one type, null aside, and the two are not
// the same, nor an integer and a number. Lists differ from what is no list only, whatever their elements; objects differ
// where one lacks what the other requires. What is one of several types, one of listed values or anything differs from
// nothing.
func Differ(out, in *Schema) bool {
	a, b := out.root.single(maxUnionDepth), in.root.single(maxUnionDepth)
	if a == nil || b == nil {
		return false
	}
	k, l := a.kinds()[0], b.kinds()[0]
	if k == kindObject && l == kindObject {
		return assignObject(a, b, maxAssignDepth) != ""
	}
	return k != l && (k != kindInteger || l != kindNumber)
}

// single is the only member of n that is not null, when it is of one type; nil otherwise.
func (n *node) single(depth int) *node {
	n = n.deref()
	if depth == 0 || n.hasEnum || n.never || n.any() {
		return nil
	}
	if len(n.alternatives) == 0 {
		return n
	}
	var only *node
	for _, m := range n.alternatives {
		switch {
		case m.onlyNull():
		case only != nil:
			return nil
		default:
			only = m
		}
	}
	if only == nil {
		return nil
	}
	return only.single(depth - 1)
}

func assign(out, in *node, depth int) string {
	out, in = out.deref(), in.deref()
	if depth == 0 || out.any() || in.any() {
		return ""
	}
	if in.never {
		return "nothing is allowed here"
	}
	if len(out.union) > 0 {
		for _, m := range out.union {
			if reason := assign(m, in, depth-1); reason != "" {
				return reason
			}
		}
		return ""
	}
	if len(in.union) > 0 {
		if out.onlyNull() || slices.ContainsFunc(in.union, func(m *node) bool { return assign(out, m, depth-1) == "" }) {
			return ""
		}
		return fmt.Sprintf("%s is none of %s", out, in)
	}
	outTypes, inTypes := out.kinds(), in.kinds()
	for _, k := range outTypes {
		if k == kindNull && len(outTypes) > 1 || slices.Contains(inTypes, k) || k == kindInteger && slices.Contains(inTypes, kindNumber) {
			continue
		}
		return fmt.Sprintf("%s is not %s", out, in)
	}
	if slices.Contains(outTypes, kindArray) && out.items != nil && in.items != nil {
		if reason := assign(out.items, in.items, depth-1); reason != "" {
			return "items: " + reason
		}
	}
	if slices.Contains(outTypes, kindObject) {
		return assignObject(out, in, depth)
	}
	return ""
}

func assignObject(out, in *node, depth int) string {
	for _, want := range in.props {
		i, found := out.index[want.name]
		if found {
			if reason := assign(out.props[i].node, want.node, depth-1); reason != "" {
				return want.name + ": " + reason
			}
			continue
		}
		if want.required && out.props != nil && out.extras != extrasKeep {
			return want.name + " is missing"
		}
	}
	return ""
}

func (n *node) any() bool {
	return !n.never && !n.hasEnum && len(n.union) == 0 && len(n.types) == 0 && n.props == nil
}

func (n *node) onlyNull() bool { return len(n.types) == 1 && n.types[0] == kindNull }

// kinds are the types of the node; those of an enum are the types of its members.
func (n *node) kinds() []kind {
	if n.hasEnum {
		var out []kind
		for _, e := range n.enum {
			for k := range kindNames {
				if isExactly(kind(k), e) && !slices.Contains(out, kind(k)) {
					out = append(out, kind(k))
					break
				}
			}
		}
		return out
	}
	if len(n.types) == 0 && n.props != nil {
		return []kind{kindObject}
	}
	return n.types
}
