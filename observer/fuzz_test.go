package observer

import (
	"testing"
)

// FuzzTally: kept counts that are damaged are refused and never panic; what is taken has one encoding for its counts.
func FuzzTally(f *testing.F) {
	set := &tallySet{Tools: []string{"a", "b"}, Paths: [][]uint32{{0}, {1}, {0, 1}}, Loops: []loopSet{{Tools: []uint32{0}, Each: []bool{true}}}, Walked: []int{2, 0}, Folded: [][]uint32{{0}, {0, 1}}}
	encoded, err := set.encode()
	if err != nil {
		f.Fatal(err)
	}
	counts := set.zero()
	counts.totals[totalCalls], counts.tools[1], counts.paths[2], counts.loops[0] = 9, [3]uint64{4, 2, 3}, [4]uint64{2, 2, 3, 1}, [3]uint64{1, 1, 0}
	counts.foldedTools[0], counts.folded[1] = [3]uint64{2, 1, 1}, [2]uint64{1, 2}
	counts.agents[0], counts.agents[2] = []uint64{3, 1 << 63}, []uint64{7}
	f.Add(encoded, counts.encode())
	f.Add(encoded, set.zero().encode())
	f.Add([]byte(`{"tools":["a"],"paths":[[1]]}`), []byte{tallyForm, 0xff})
	f.Fuzz(func(t *testing.T, set, counts []byte) {
		s, err := decodeSet(set)
		if err != nil {
			return
		}
		newDayCounter(s)
		d, err := s.decode(counts)
		if err != nil {
			return
		}
		again, err := s.decode(d.encode())
		if err != nil {
			t.Fatal(err)
		}
		if string(again.encode()) != string(d.encode()) {
			t.Fatal("counts change when they are kept")
		}
	})
}
