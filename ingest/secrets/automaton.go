package secrets

// automaton finds many literals in one pass over a text (Aho and Corasick 1975). Letters match in either case.
type automaton struct {
	class   [256]uint8 // of a byte; bytes that are in no literal are class 0
	classes int
	next    []uint32 // row + class -> row of the next state, with hot set when literals end there
	hits    [][]hit  // of each state: literals that end there
}

// hot marks a row whose state has hits; the row is the state's number times the number of classes.
const hot = 1 << 31

// ends are the literals that end at a hot row.
func (a *automaton) ends(row uint32) []hit { return a.hits[int(row&^hot)/a.classes] }

// hit is a literal that ends at a place.
type hit struct {
	length int
	detect detector
}

func newAutomaton(literals map[string]detector) *automaton {
	a := &automaton{classes: 1, hits: [][]hit{nil}}
	for literal := range literals {
		a.classify(literal)
	}
	states := a.trie(literals)
	a.complete(states)
	a.next = make([]uint32, 0, len(states)*a.classes)
	for _, transitions := range states {
		for _, state := range transitions {
			row := uint32(int(state) * a.classes)
			if len(a.hits[state]) > 0 {
				row |= hot
			}
			a.next = append(a.next, row)
		}
	}
	return a
}

// classify gives the bytes of a literal their classes; both cases of a letter share one.
func (a *automaton) classify(literal string) {
	for i := range len(literal) {
		c := literal[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if a.class[c] != 0 {
			continue
		}
		a.class[c] = uint8(a.classes)
		if c >= 'a' && c <= 'z' {
			a.class[c-0x20] = uint8(a.classes)
		}
		a.classes++
	}
}

// trie makes a state for every beginning of a literal and gives for each the next one by class; 0, the empty beginning,
// where no literal goes on so.
func (a *automaton) trie(literals map[string]detector) [][]uint16 {
	children := [][]uint16{make([]uint16, a.classes)}
	for literal, detect := range literals {
		state := uint16(0)
		for i := range len(literal) {
			c := a.class[literal[i]]
			if children[state][c] == 0 {
				children = append(children, make([]uint16, a.classes))
				a.hits = append(a.hits, nil)
				children[state][c] = uint16(len(children) - 1)
			}
			state = children[state][c]
		}
		a.hits[state] = append(a.hits[state], hit{len(literal), detect})
	}
	return children
}

// complete adds to a trie, breadth first, where a state goes on when no literal does: to the longest end of what it read
// that is itself a beginning of a literal, with the literals that end there.
func (a *automaton) complete(children [][]uint16) {
	fail := make([]uint16, len(children))
	queue := make([]uint16, 0, len(children))
	for _, child := range children[0] {
		if child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		a.hits[state] = append(a.hits[state], a.hits[fail[state]]...)
		for c, child := range children[state] {
			if child == 0 {
				children[state][c] = children[fail[state]][c]
				continue
			}
			fail[child] = children[fail[state]][c]
			queue = append(queue, child)
		}
	}
}
