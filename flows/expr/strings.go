package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// stringFunctions are the functions on strings beyond CEL's own. What they build is bounded before it is built.
// Positions count code points.
func stringFunctions() []cel.EnvOption {
	text, number, list := cel.StringType, cel.IntType, cel.ListType(cel.StringType)
	member := func(name string, args []*cel.Type, result *cel.Type, fn func(args ...ref.Val) ref.Val) cel.EnvOption {
		id := name
		for _, a := range args {
			id += "_" + a.String()
		}
		return cel.Function(name, cel.MemberOverload(id, args, result, cel.FunctionBinding(fn)))
	}
	unary := func(name string, fn func(string) string) cel.EnvOption {
		return member(name, []*cel.Type{text}, text, func(args ...ref.Val) ref.Val { return types.String(fn(str(args[0]))) })
	}
	return []cel.EnvOption{
		unary("lowerAscii", func(s string) string { return mapASCII(s, 'A', 'Z', 'a'-'A') }),
		unary("upperAscii", func(s string) string { return mapASCII(s, 'a', 'z', 'A'-'a') }),
		unary("trim", strings.TrimSpace),
		member("split", []*cel.Type{text, text}, list, split),
		member("join", []*cel.Type{list}, text, func(args ...ref.Val) ref.Val { return join(args[0], "") }),
		member("join", []*cel.Type{list, text}, text, func(args ...ref.Val) ref.Val { return join(args[0], str(args[1])) }),
		member("replace", []*cel.Type{text, text, text}, text, replace),
		member("indexOf", []*cel.Type{text, text}, number, func(args ...ref.Val) ref.Val {
			before, _, found := strings.Cut(str(args[0]), str(args[1]))
			if !found {
				return types.Int(-1)
			}
			return types.Int(len([]rune(before)))
		}),
		member("substring", []*cel.Type{text, number}, text, func(args ...ref.Val) ref.Val { return substring(args[0], args[1], nil) }),
		member("substring", []*cel.Type{text, number, number}, text, func(args ...ref.Val) ref.Val { return substring(args[0], args[1], args[2]) }),
	}
}

func str(v ref.Val) string {
	s, _ := v.(types.String) // the checker has seen to it
	return string(s)
}

func mapASCII(s string, from, to rune, by int) string {
	return strings.Map(func(r rune) rune {
		if r >= from && r <= to {
			return r + rune(by)
		}
		return r
	}, s)
}

func tooLarge() ref.Val { return types.NewErr("a string grows beyond %d bytes", MaxResultBytes) }

func split(args ...ref.Val) ref.Val {
	s, sep := str(args[0]), str(args[1])
	if strings.Count(s, sep) >= MaxElements {
		return types.NewErr("a list grows beyond %d elements", MaxElements)
	}
	parts := strings.Split(s, sep)
	out := make([]ref.Val, len(parts))
	for i, p := range parts {
		out[i] = types.String(p)
	}
	return types.NewRefValList(adapter{}, out)
}

func join(list ref.Val, sep string) ref.Val {
	l, ok := list.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	var out strings.Builder
	between := ""
	for it := l.Iterator(); it.HasNext() == types.True; {
		s, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("join takes a list of strings")
		}
		out.WriteString(between)
		out.WriteString(string(s))
		between = sep
		if out.Len() > MaxResultBytes {
			return tooLarge()
		}
	}
	return types.String(out.String())
}

func replace(args ...ref.Val) ref.Val {
	s, from, to := str(args[0]), str(args[1]), str(args[2])
	if len(s)+strings.Count(s, from)*max(0, len(to)-len(from)) > MaxResultBytes {
		return tooLarge()
	}
	return types.String(strings.ReplaceAll(s, from, to))
}

func substring(text, from, to ref.Val) ref.Val {
	runes := []rune(str(text))
	start, end := from.(types.Int), types.Int(len(runes))
	if to != nil {
		end = to.(types.Int)
	}
	if start < 0 || end < start || int64(end) > int64(len(runes)) {
		return types.NewErr("index out of bounds: substring %d to %d of %d characters", int64(start), int64(end), len(runes))
	}
	return types.String(string(runes[start:end]))
}
