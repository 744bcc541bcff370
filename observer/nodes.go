package observer

import (
	"hash/maphash"
	"slices"
	"strconv"

	"pave/flows/value"
)

// pathTable interns JSON pointers as small numbers: a path is its parent and one more token. 0 is the whole value.
type pathTable struct {
	ids   map[pathStep]uint32
	steps []pathStep
}

// pathStep is one step down; an array index has key "" and index >= 0, an object key has index -1.
type pathStep struct {
	parent uint32
	index  int32
	key    string
}

func newPathTable() *pathTable {
	return &pathTable{ids: map[pathStep]uint32{}, steps: []pathStep{{}}}
}

func (t *pathTable) child(step pathStep) uint32 {
	id, ok := t.ids[step]
	if !ok {
		id = uint32(len(t.steps))
		t.ids[step] = id
		t.steps = append(t.steps, step)
	}
	return id
}

// pointer writes the path as a JSON pointer; with general set, array indexes are written as *.
func (t *pathTable) pointer(id uint32, general bool) string {
	if id == 0 {
		return ""
	}
	s := t.steps[id]
	token := value.Escape(s.key)
	if s.index >= 0 {
		token = "*"
		if !general {
			token = strconv.Itoa(int(s.index))
		}
	}
	return t.pointer(s.parent, general) + "/" + token
}

// shape describes a path for ranking: its depth, its array indexes, and its last object key.
func (t *pathTable) shape(id uint32) (depth, indexes int, last string) {
	for ; id != 0; id = t.steps[id].parent {
		s := t.steps[id]
		depth++
		if s.index >= 0 {
			indexes++
		} else if last == "" {
			last = s.key
		}
	}
	return depth, indexes, last
}

// siblings are, for each array index of a path, the path of another element of that array: the second for the first,
// the first for all others. Elements that no value had are left out.
func (t *pathTable) siblings(id uint32) []uint32 {
	var out []uint32
	for ; id != 0; id = t.steps[id].parent {
		s := t.steps[id]
		if s.index < 0 {
			continue
		}
		if s.index == 0 {
			s.index = 1
		} else {
			s.index = 0
		}
		if other, ok := t.ids[s]; ok {
			out = append(out, other)
		}
	}
	return out
}

// element is the innermost list element that a path goes through, and the pointer from it; 0 when there is none.
func (t *pathTable) element(id uint32) (element uint32, rest string) {
	for ; id != 0; id = t.steps[id].parent {
		s := t.steps[id]
		if s.index >= 0 {
			return id, rest
		}
		rest = "/" + value.Escape(s.key) + rest
	}
	return 0, ""
}

// listOf is the list that a path takes the first element of; ok is false unless it goes through one list only, at its
// first element.
func (t *pathTable) listOf(id uint32) (list uint32, ok bool) {
	for ; id != 0; id = t.steps[id].parent {
		s := t.steps[id]
		if s.index < 0 {
			continue
		}
		if ok || s.index > 0 {
			return 0, false
		}
		list, ok = s.parent, true
	}
	return list, ok
}

// columns are the places and hashes of the nodes of a value, in document order with sorted keys.
type columns struct {
	paths  []uint32
	hashes []uint64
}

// nodeSet holds every value inside a result, scalars and containers. It is searched from end to end: the arguments
// looked up are few, so an index would cost more than it saves.
type nodeSet struct {
	columns
	values  []any
	keys    []uint64 // hashes of object keys: no pointer copies a key, yet a model can read it
	dropped int      // nodes over the limit
}

// flattener makes node sets, with room that it uses again.
type flattener struct {
	seed    maphash.Seed
	paths   *pathTable
	limit   int
	set     nodeSet
	members []string // names of the members of the objects that are open
}

// flatten makes the node set of v with at most limit nodes.
func (f *flattener) flatten(v any, seed maphash.Seed, paths *pathTable, limit int) *nodeSet {
	f.seed, f.paths, f.limit = seed, paths, limit
	s := &f.set
	s.paths, s.hashes, s.values, s.keys, s.dropped = s.paths[:0], s.hashes[:0], s.values[:0], s.keys[:0], 0
	f.visit(v, 0)
	out := &nodeSet{columns: columns{paths: slices.Clone(s.paths), hashes: slices.Clone(s.hashes)},
		values: slices.Clone(s.values), keys: slices.Clone(s.keys), dropped: s.dropped}
	clear(s.values) // they are not held here
	return out
}

// visit adds v and what is in it and returns its hash.
func (f *flattener) visit(v any, path uint32) uint64 {
	if len(f.set.values) >= f.limit {
		f.set.dropped++
		return hashOf(f.seed, v)
	}
	at := len(f.set.values)
	f.set.paths = append(f.set.paths, path)
	f.set.hashes = append(f.set.hashes, 0)
	f.set.values = append(f.set.values, v)
	var h uint64
	switch v := v.(type) {
	case []any:
		h = hashStart(len(v), tagArray)
		for i, e := range v {
			h = mix(h, f.visit(e, f.paths.child(pathStep{parent: path, index: int32(i)})))
		}
	case map[string]any:
		h = hashStart(len(v), tagObject)
		from := len(f.members)
		for k := range v {
			f.members = append(f.members, k)
		}
		slices.Sort(f.members[from:])
		for i := range len(v) {
			k := f.members[from+i]
			key := maphash.String(f.seed, k)
			f.set.keys = append(f.set.keys, key)
			h += mix(key, f.visit(v[k], f.paths.child(pathStep{parent: path, index: -1, key: k})))
		}
		f.members = f.members[:from]
	default:
		h = hashOf(f.seed, v)
	}
	f.set.hashes[at] = h
	return h
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// find calls fn with the nodes equal to v, whose hash is given, until fn returns false; equality is checked on the
// values.
func (s *nodeSet) find(v any, hash uint64, fn func(node int) bool) {
	for n, h := range s.hashes {
		if h == hash && value.Equal(s.values[n], v) && !fn(n) {
			return
		}
	}
}

// first returns the first node equal to v, -1 when there is none.
func (s *nodeSet) first(v any, hash uint64) int {
	found := -1
	s.find(v, hash, func(n int) bool { found = n; return false })
	return found
}

// holds reports whether v is a node or an object key of the set.
func (s *nodeSet) holds(v any, hash uint64) bool {
	return slices.Contains(s.keys, hash) || s.first(v, hash) >= 0
}
