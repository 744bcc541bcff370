package observer

import (
	"regexp"
	"slices"

	"pave/ingest/secrets"
)

// What recorded values may be shown, or stand in a flow. Values are compared by hashes under a random seed of the pass
// (hashOf), which nothing keeps; what a result holds of values themselves are constants and a few examples of inputs, and
// these have to pass: nothing that looks personal or secret, by itself or by the name that it has; and of constants, seen
// in several sessions and, where agents are known, with several of them. What one of them always gives is an
// input where callers could know it, and else what blocks a path.

// finder finds secrets and addresses of people in texts.
var finder = secrets.New(secrets.Options{Emails: true})

// personal matches what the finder leaves to its callers: addresses in any script, telephone and account numbers, and what
// looks like a key of no known kind.
var personal = []*regexp.Regexp{
	regexp.MustCompile(`[\pL\pN_.+-]+@[\pL\pN_-]+\.[\pL\pN.]+`),
	regexp.MustCompile(`\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b`),
	regexp.MustCompile(`(^|[^\w])\+?\d[\d ()/-]{5,}\d($|[^\w])`),
	regexp.MustCompile(`(?i)^(bearer|basic) |(^|[^a-z])(sk|pk|ghp|gho|xox[a-z]|akia)[-_A-Z0-9]`),
	regexp.MustCompile(`^[A-Za-z0-9+/_=-]{32,}$`),
}

// dates look like telephone numbers, but are none.
var dates = regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?\b`)

// isPersonal reports whether a value of an argument or a member of this name, or any part of it, looks personal or
// secret. The name may be "".
func isPersonal(name string, v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return false
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return isPersonal(name, e) })
	case map[string]any:
		for member, e := range v {
			if isPersonal(member, e) {
				return true
			}
		}
		return false
	}
	if finder.SecretName(name) {
		return true
	}
	text := dates.ReplaceAllString(scalarText(v), "")
	return len(finder.Find(text)) > 0 || slices.ContainsFunc(personal, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// MayShow reports whether a value that several sessions have may be shown: nothing in it looks personal or secret.
func MayShow(v any) bool { return !isPersonal("", v) }

// shown is a value under a name, of which it is known whether it is personal.
type shown struct {
	name string
	hash uint64
}

// personal is isPersonal, which takes long, once for each value and name.
func (m *inference) personal(name string, hash uint64, v any) bool {
	key := shown{name, hash}
	is, known := m.judged[key]
	if !known {
		is = isPersonal(name, v)
		if m.judged == nil {
			m.judged = map[shown]bool{}
		}
		m.judged[key] = is
	}
	return is
}

// mayBeConstant reports whether the value with this hash may be a constant of the flow.
func (d *decision) mayBeConstant(a argument, hash uint64, v any) bool {
	return d.widely(a, func(r *argRecord) bool { return r.hash == hash }) && !d.personal(a.name, hash, v)
}

// widely reports whether occurrences of enough sessions and agents, where these are known, hold.
func (d *decision) widely(a argument, holds func(*argRecord) bool) bool {
	sessions, agents, all := map[string]struct{}{}, map[uint32]struct{}{}, map[uint32]struct{}{}
	for _, p := range a.in {
		r := &d.records[p.record]
		agent, known := d.log.agentOf(r.window.stretch)
		if known {
			all[agent] = struct{}{}
		}
		if !holds(p.arg) {
			continue
		}
		sessions[r.session] = struct{}{}
		if known {
			agents[agent] = struct{}{}
		}
	}
	return len(sessions) >= d.options.ConstSession && len(agents) >= min(d.options.ConstAgents, len(all))
}

// agentOf is the agent of a stretch, where its name is known.
func (log *calls) agentOf(stretch uint32) (agent uint32, known bool) {
	if log.base != nil {
		log = log.base
	}
	agent = log.seqs[log.origin[stretch]].agent
	return agent, agent+1 != log.nameless
}
