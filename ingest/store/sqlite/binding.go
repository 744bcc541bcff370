package sqlite

// binding is the sessions that an origin is bound to: nearly always one, so that a map would be most of what the writer
// remembers of an origin.
type binding struct {
	all    []boundSession
	byName map[string]struct{} // when there are many
}

type boundSession struct {
	name string
	id   int64
}

// fewSessions are found by looking at each.
const fewSessions = 8

func boundTo(name string, id int64) binding { return binding{all: []boundSession{{name, id}}} }

func (b *binding) has(name string) bool {
	if b.byName != nil {
		_, ok := b.byName[name]
		return ok
	}
	for i := range b.all {
		if b.all[i].name == name {
			return true
		}
	}
	return false
}

// add binds to a session that has not been bound to.
func (b *binding) add(name string, id int64) {
	b.all = append(b.all, boundSession{name, id})
	switch {
	case b.byName != nil:
		b.byName[name] = struct{}{}
	case len(b.all) > fewSessions:
		b.byName = make(map[string]struct{}, len(b.all))
		for _, session := range b.all {
			b.byName[session.name] = struct{}{}
		}
	}
}
