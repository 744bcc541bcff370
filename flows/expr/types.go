package expr

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"pave/flows/schema"
	"pave/flows/value"
)

// maxTypeDepth bounds how deep schemas are turned into types; what lies deeper, as in recursive schemas, is of any
// type.
const maxTypeDepth = 8

// typ is what is known of a value: its CEL type and, below objects and lists, the types of its parts.
type typ struct {
	cel    *cel.Type
	double bool            // integers stand for doubles
	fields map[string]*typ // records
	need   map[string]bool // required fields
	open   bool            // a record that may have other fields
	items  *typ            // lists; of maps, the values
	schema *schema.Schema
}

var anyType = &typ{cel: cel.DynType}

// universe holds the record types of one expression's variables. It implements CEL's type provider.
type universe struct {
	types.Provider
	records map[string]*typ
}

func newUniverse() *universe {
	return &universe{Provider: types.NewEmptyRegistry(), records: map[string]*typ{}}
}

// of is the type of values of a schema. path names its place.
func (u *universe) of(path string, s *schema.Schema, depth int) *typ {
	if s == nil || depth == 0 {
		return anyType
	}
	kinds := s.Kinds()
	nullable := slices.Contains(kinds, "null")
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "null" })
	if len(kinds) != 1 {
		return &typ{cel: cel.DynType, schema: s}
	}
	scalar := func(t *cel.Type, double bool) *typ {
		if nullable {
			t = cel.NullableType(t)
		}
		return &typ{cel: t, double: double, schema: s}
	}
	switch kinds[0] {
	case "boolean":
		return scalar(cel.BoolType, false)
	case "integer":
		return scalar(cel.IntType, false)
	case "number":
		return scalar(cel.DoubleType, true)
	case "string":
		return scalar(cel.StringType, false)
	}
	if nullable {
		return &typ{cel: cel.DynType, schema: s}
	}
	if kinds[0] == "array" {
		items, _ := s.At(value.Pointer{"0"})
		t := &typ{items: u.of(path+"[]", items, depth-1), schema: s}
		t.cel = cel.ListType(t.items.cel)
		return t
	}
	return u.object(path, s, depth)
}

// object is a record when the schema declares properties, else a map.
func (u *universe) object(path string, s *schema.Schema, depth int) *typ {
	fields := s.Fields()
	if len(fields) == 0 {
		values, _ := s.At(value.Pointer{"\x00"})
		t := &typ{items: u.of(path+"{}", values, depth-1), schema: s}
		t.cel = cel.MapType(cel.StringType, t.items.cel)
		return t
	}
	name := "{" + path + "}" // no identifier, so that it hides no variable
	t := &typ{cel: cel.ObjectType(name), fields: map[string]*typ{}, need: map[string]bool{}, open: s.Admits("\x00"), schema: s}
	u.records[name] = t
	for _, f := range fields {
		t.fields[f.Name] = u.of(path+"."+f.Name, f.Schema, depth-1)
		t.need[f.Name] = f.Required
	}
	return t
}

// FindStructType implements types.Provider.
func (u *universe) FindStructType(name string) (*types.Type, bool) {
	if t, ok := u.records[name]; ok {
		return types.NewTypeTypeWithParam(t.cel), true
	}
	return u.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (u *universe) FindStructFieldNames(name string) ([]string, bool) {
	t, ok := u.records[name]
	if !ok {
		return u.Provider.FindStructFieldNames(name)
	}
	var names []string
	for f := range t.fields {
		names = append(names, f)
	}
	slices.Sort(names)
	return names, true
}

// FindStructFieldType implements types.Provider. Records are maps when they are read, so fields need no accessors.
func (u *universe) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	t, ok := u.records[name]
	if !ok {
		return u.Provider.FindStructFieldType(name, field)
	}
	if f, ok := t.fields[field]; ok {
		return &types.FieldType{Type: f.cel}, true
	}
	return &types.FieldType{Type: cel.DynType}, t.open
}

// NewValue implements types.Provider: records cannot be built.
func (u *universe) NewValue(name string, _ map[string]ref.Val) ref.Val {
	return types.NewErr("cannot build a value of type %s", name)
}

// schemaOf is the schema of a result's type, nil for any.
func (u *universe) schemaOf(t *cel.Type) (*schema.Schema, error) {
	simple := func(name string) (*schema.Schema, error) {
		return schema.Compile([]byte(fmt.Sprintf(`{"type":%q}`, name)))
	}
	if t.IsAssignableType(types.NullType) && t.Kind() != types.NullTypeKind && t.Kind() != types.DynKind { // nullable scalars
		inner, err := u.schemaOf(unwrapped(t))
		if err != nil || inner == nil {
			return nil, err
		}
		return schema.Compile([]byte(fmt.Sprintf(`{"type":[%q,"null"]}`, inner.Kinds()[0])))
	}
	switch t.Kind() {
	case types.BoolKind:
		return simple("boolean")
	case types.IntKind, types.UintKind:
		return simple("integer")
	case types.DoubleKind:
		return simple("number")
	case types.StringKind:
		return simple("string")
	case types.NullTypeKind:
		return simple("null")
	case types.ListKind:
		items, err := u.schemaOf(t.Parameters()[0])
		return schema.ArrayOf(items), err
	case types.MapKind:
		if key := t.Parameters()[0].Kind(); key != types.StringKind && key != types.DynKind && key != types.TypeParamKind {
			return nil, fmt.Errorf("its value is a map whose keys are no strings")
		}
		return simple("object")
	case types.StructKind:
		if r, ok := u.records[t.TypeName()]; ok {
			return r.schema, nil
		}
		return nil, errNotJSON
	case types.DynKind, types.AnyKind, types.TypeParamKind:
		return nil, nil
	}
	return nil, errNotJSON
}

func unwrapped(t *cel.Type) *cel.Type {
	for _, scalar := range []*cel.Type{cel.BoolType, cel.IntType, cel.DoubleType, cel.StringType} {
		if t.IsAssignableType(scalar) {
			return scalar
		}
	}
	return cel.DynType
}
