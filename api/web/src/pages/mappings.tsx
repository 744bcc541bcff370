// Each argument with where it comes from, how often that held in the recordings, and the sessions for and against it.
import { useMemo } from 'preact/hooks'
import type { Schemas } from '../api'
import { count, percent, plural } from '../format'
import { evidenceOf, sourceText, type Flow, type Mapping } from '../flow'
import { useHot } from '../parts/diagram'
import { Tag } from '../parts/marks'
import { Link, to } from '../router'

interface Props {
  flow: Flow
  evidence: Schemas['Evidence']
  picked: Mapping | null
  pick: (m: Mapping | null) => void
}

export function Mappings({ flow, evidence, picked, pick }: Props) {
  return (
    <div class="mappings">
      {flow.steps.map((s) => (
        <section key={s.index}>
          <h3>
            <span class="box-no">{s.index + 1}</span> <span class="mono">{s.name}</span>
            {s.when.map((c) => (
              <span key={c.id} class="dim mono" title={c.title}>
                {' '}
                {c.text}
              </span>
            ))}
          </h3>
          <Guarded g={evidence.pattern?.data_flow?.guards?.find((g) => g.step === s.index)} />
          {s.forEach && <Mapped m={s.forEach} evidence={evidence} picked={picked} pick={pick} />}
          {s.mappings.map((m) => (
            <Mapped key={m.id} m={m} evidence={evidence} picked={picked} pick={pick} />
          ))}
          {s.mappings.length === 0 && <p class="dim pad">{s.whole ? 'takes the whole context' : 'takes no arguments'}</p>}
        </section>
      ))}
    </div>
  )
}

/** How often an optional step ran as its guard says. */
function Guarded({ g }: { g?: Schemas['StepGuard'] }) {
  if (!g) return null
  return (
    <p class="guarded">
      <span class="dim">
        optional: agents took it {count(g.taken)} of {plural(g.evidence.present, 'time')}
      </span>
      <span>
        the guard held {count(g.evidence.held)} of {count(g.evidence.present)}
        {g.evidence.held < g.evidence.present && <span class="state warn"> ▲ {percent(g.evidence.held / g.evidence.present)}</span>}
      </span>
    </p>
  )
}

function Mapped({ m, evidence, picked, pick }: { m: Mapping; evidence: Schemas['Evidence']; picked: Mapping | null; pick: (m: Mapping | null) => void }) {
  const { lit, bind } = useHot(m.id)
  const found = evidenceOf(evidence, m)
  const e = found?.evidence
  const given = evidence.pattern?.batch !== undefined
  const open = picked?.id === m.id
  return (
    <div class={`mapped${lit ? ' hot' : ''}`} {...bind}>
      <button type="button" class="mapped-head" aria-expanded={open} onClick={() => pick(open ? null : m)}>
        <span class="tree-mark" aria-hidden="true">
          {open ? '▾' : '▸'}
        </span>
        <span class="mono map-arg">{m.arg}</span>
        <span class={`mono map-source from-${m.source.kind}`}>← {sourceText(m)}</span> <KindOf a={found} />
        <span class="mapped-sum">
          {e ? (
            <>
              {given ? 'callers knew it in' : 'held'} {count(e.held)} of {count(e.present)}
              {e.held < e.present && <span class={given ? 'dim' : 'state warn'}> {given ? '' : '▲ '}{percent(e.held / e.present)}</span>}
            </>
          ) : (
            <span class="dim">no recording behind it</span>
          )}
        </span>
      </button>
      {open && (
        <div class="mapped-body">
          {e ? <Evidence e={e} given={given} /> : <p class="dim">This argument was set by hand or follows from schemas alone.</p>}
        </div>
      )}
    </div>
  )
}

/** What is done with the values that an argument is taken from, where they are not passed as they are. */
function KindOf({ a }: { a?: Schemas['ArgFlow'] }) {
  switch (a?.kind) {
    case 'element':
      return <Tag title="of each element of the list that the step runs over">element</Tag>
    case 'derived':
      return <Tag title="computed from earlier values">derived</Tag>
  }
  return null
}

/** The mapping that the recordings support least: the one to look at first. */
function weakest(flow: Flow, evidence: Schemas['Evidence']): string | null {
  let found: { id: string; held: number; distinct: number } | null = null
  for (const s of flow.steps)
    for (const m of s.forEach ? [s.forEach, ...s.mappings] : s.mappings) {
      const e = evidenceOf(evidence, m)?.evidence
      if (!e || e.present === 0) continue
      const one = { id: m.id, held: e.held / e.present, distinct: e.distinct }
      if (!found || one.held < found.held || (one.held === found.held && one.distinct < found.distinct)) found = one
    }
  return found?.id ?? null
}

/** Beside the drawing: why the argument that the pointer is on is believed, and the weakest one while it is on none. */
export function HotEvidence({ flow, evidence, id }: { flow: Flow; evidence: Schemas['Evidence']; id: string | null }) {
  const first = useMemo(() => weakest(flow, evidence), [flow, evidence])
  const shown = id ?? first
  const step = flow.steps.find((s) => s.mappings.some((m) => m.id === shown) || s.forEach?.id === shown)
  const m = step && (step.forEach?.id === shown ? step.forEach : step.mappings.find((one) => one.id === shown))
  const hint = <p class="dim small-text">Point at an argument, or move to it with Tab, to see where its value comes from and how often that held. A click keeps it.</p>
  if (!step || !m) return <div class="hot-evidence">{hint}</div>
  const found = evidenceOf(evidence, m)
  const e = found?.evidence
  const given = evidence.pattern?.batch !== undefined
  return (
    <div class="hot-evidence">
      <p class="dim small-text">{id !== null ? 'Evidence' : given ? 'The argument that callers knew least often' : 'The argument with the weakest evidence'}</p>
      <h3>
        <span class="box-no">{step.index + 1}</span> <span class="mono">{m.arg}</span>
      </h3>
      <p>
        <span class="mono">← {sourceText(m)}</span> <KindOf a={found} />
      </p>
      {e ? <Evidence e={e} given={given} /> : <p class="dim">No recording stands behind it: it was set by hand, or follows from schemas alone.</p>}
      {id === null && hint}
    </div>
  )
}

function Evidence({ e, given }: { e: Schemas['ArgEvidence']; given: boolean }) {
  const against = e.contradicting ?? []
  return (
    <>
      <dl class="facts">
        {given ? (
          <dt title="Occurrences in which callers knew the recorded values before the first call; nothing is predicted">Callers knew it</dt>
        ) : (
          <dt title="Occurrences in which the mapping gave exactly the recorded value">Held</dt>
        )}
        <dd>
          {count(e.held)} of {count(e.present)} ({percent(e.held / Math.max(1, e.present))})
        </dd>
        <dt title="How many different values it was seen with; few values prove little">Distinct values</dt>
        <dd>{count(e.distinct)}</dd>
        {!given && (
          <>
            <dt title="The rate at which the two values would be equal by chance">By chance</dt>
            <dd>{e.chance ? percent(e.chance) : '0 %'}</dd>
          </>
        )}
      </dl>
      {e.note && <p class={e.ambiguous ? 'state warn' : 'dim'}>{e.ambiguous ? '▲ ' : ''}{e.note}</p>}
      <p>
        <span class="dim">sessions for it:</span> <Sessions ids={e.supporting ?? []} />
      </p>
      <p>
        <span class="dim">{given ? (against.length ? 'callers did not know it in:' : '') : against.length ? plural(against.length, 'counter-example') + ':' : 'no counter-example'}</span> <Sessions ids={against} />
      </p>
    </>
  )
}

function Sessions({ ids }: { ids: string[] }) {
  return (
    <>
      {ids.map((id, i) => (
        <span key={id}>
          {i > 0 && ', '}
          <Link to={to('sessions', id)} class="mono">
            {id}
          </Link>
        </span>
      ))}
    </>
  )
}
