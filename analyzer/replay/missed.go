package replay

// Missed is a sequence of calls that the support oracle would save and the flows do not.
type Missed struct {
	Tools []string
	Turns int // that the oracle saves there and the applications inside it do not
}

// Missed lists what a session leaves to the support oracle.
func (sc *Scorer) Missed(t *Training, s *Session) []Missed {
	var out []Missed
	for _, stretch := range s.stretches {
		derived, frequent := t.conditions(s, stretch)
		segments := mostSaved(stretch, both(derived, frequent))
		if len(segments) == 0 {
			continue
		}
		chosen := best(len(stretch), sc.applications(s, stretch))
		for _, seg := range segments {
			m := Missed{Turns: seg.saved}
			for _, c := range stretch[seg.from:seg.to] {
				m.Tools = append(m.Tools, c.tool)
			}
			for _, a := range chosen {
				from, to := max(a.from, seg.from), min(a.from+a.match.Calls, seg.to)
				if from < to {
					m.Turns -= turns(stretch[from:to]) - 1
				}
			}
			if m.Turns > 0 {
				out = append(out, m)
			}
		}
	}
	return out
}

// applications lists every application in a stretch.
func (sc *Scorer) applications(s *Session, stretch []call) []application {
	var out []application
	for from := range stretch {
		for _, i := range sc.starts[stretch[from].tool] {
			if m := sc.flows[i].at(s, stretch, from); m != nil && m.Fits() {
				out = append(out, application{i, from, m})
			}
		}
	}
	return out
}
