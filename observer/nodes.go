package observer

import (
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

// node is one value inside a result: a scalar or a container.
type node struct {
	path  uint32
	hash  uint64
	value any
}

// nodeSet holds the nodes of one value in document order with sorted keys, found by hash. keys are the hashes of the
// object keys: a key cannot be copied by a pointer, yet a model can read it.
type nodeSet struct {
	nodes   []node
	byHash  map[uint64][]int32
	keys    map[uint64]struct{}
	dropped int // nodes over the limit
}

// flatten makes the node set of v with at most limit nodes.
func flatten(v any, key value.Key, paths *pathTable, limit int) *nodeSet {
	f := flattener{key: key, paths: paths, limit: limit, set: &nodeSet{byHash: map[uint64][]int32{}}}
	f.visit(v, 0)
	return f.set
}

type flattener struct {
	key   value.Key
	paths *pathTable
	limit int
	set   *nodeSet
}

func (f *flattener) visit(v any, path uint32) {
	if len(f.set.nodes) >= f.limit {
		f.set.dropped++
		return
	}
	hash := value.Hash(f.key, v)
	f.set.byHash[hash] = append(f.set.byHash[hash], int32(len(f.set.nodes)))
	f.set.nodes = append(f.set.nodes, node{path: path, hash: hash, value: v})
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			f.visit(e, f.paths.child(pathStep{parent: path, index: int32(i)}))
		}
	case map[string]any:
		if f.set.keys == nil {
			f.set.keys = map[uint64]struct{}{}
		}
		for _, k := range sortedKeys(v) {
			f.set.keys[value.Hash(f.key, k)] = struct{}{}
			f.visit(v[k], f.paths.child(pathStep{parent: path, index: -1, key: k}))
		}
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// find returns the nodes equal to v, whose hash is given; equality is checked on the values.
func (s *nodeSet) find(v any, hash uint64) []int32 {
	found := s.byHash[hash]
	for _, n := range found {
		if !value.Equal(s.nodes[n].value, v) {
			return slices.DeleteFunc(slices.Clone(found), func(n int32) bool { return !value.Equal(s.nodes[n].value, v) })
		}
	}
	return found
}

// holds reports whether v is a node or an object key of the set.
func (s *nodeSet) holds(v any, hash uint64) bool {
	if _, ok := s.keys[hash]; ok {
		return true
	}
	return len(s.find(v, hash)) > 0
}
