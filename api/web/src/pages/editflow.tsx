// Edit a draft with its check beside it: every change is compiled against the registered tools and laid over recorded
// sessions at once, before anything is saved.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, patch, post, type Schemas } from '../api'
import { useMe } from '../app'
import { flowOf, readFlow, same, sourceText, type Mapping } from '../flow'
import { count, percent, plural } from '../format'
import { State } from '../parts/marks'
import { Field } from '../parts/form'
import { useAction } from '../parts/page'
import { Problem } from '../parts/states'
import { Link, to } from '../router'

type Doc = Schemas['FlowDocument']
type Check = Schemas['ReplayCheck']
type Report = Schemas['CompileReport']

const pause = 350

interface Tried {
  of?: Doc
  report?: Report
  check?: Check
  error?: ApiError
}

/** Compiles and replays a draft a moment after its last change. */
function useTried(id: string, draft: Doc | undefined, replay: boolean): Tried {
  const [state, set] = useState<Tried>({})
  useEffect(() => {
    if (!draft) return
    const stop = new AbortController()
    const timer = setTimeout(() => {
      const signal = stop.signal
      post('/api/v1/flows/compile', { body: draft, signal })
        .then(async (report) => {
          set((s) => ({ ...s, of: draft, report, check: undefined, error: undefined }))
          if (!replay) return
          const check = await post('/api/v1/proposals/{id}/replay-checks', { path: { id }, body: { flow: draft }, signal })
          set((s) => ({ ...s, check }))
        })
        .catch((error: unknown) => error instanceof ApiError && set({ of: draft, error }))
    }, pause)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [draft, id, replay])
  return state
}

export function EditFlow({ p, saved }: { p: Schemas['Proposal']; saved: () => void }) {
  const me = useMe()
  const [text, setText] = useState(() => JSON.stringify(p.flow, null, 2))
  const [draft, setDraft] = useState<Doc | undefined>(p.flow)
  const [fault, setFault] = useState('')
  const tried = useTried(p.id, draft, me.may('review'))
  const write = (next: string) => {
    setText(next)
    try {
      setDraft(JSON.parse(next) as Doc)
      setFault('')
    } catch (e) {
      setDraft(undefined)
      setFault(e instanceof Error ? e.message : 'not JSON')
    }
  }
  const changed = draft !== undefined && !same(draft, p.flow)
  const save = useAction(async () => {
    await patch('/api/v1/proposals/{id}', { path: { id: p.id }, body: { flow: draft! }, ifMatch: p.revision })
    saved()
  })
  const current = tried.of === draft
  return (
    <div class="edit">
      <MappingEditor draft={draft} set={(doc) => write(JSON.stringify(doc, null, 2))} />
      <details>
        <summary class="pad">The whole flow file as JSON</summary>
        <textarea class="code-edit" aria-label="The flow as JSON" spellcheck={false} value={text} rows={Math.min(36, text.split('\n').length + 1)} onInput={(e) => write(e.currentTarget.value)} />
      </details>
      <div class="checked" aria-live="polite">
        {fault ? (
          <p class="state bad">■ This is not JSON: {fault}</p>
        ) : tried.error ? (
          <Problem error={tried.error} />
        ) : !current || !tried.report ? (
          <p class="dim">checking…</p>
        ) : (
          <>
            <p>{tried.report.ok ? <State of="ok" text="compiles" /> : <State of="failed" text="does not compile" />}</p>
            <ul class="plain">
              {tried.report.diagnostics.map((d, i) => (
                <li key={i}>
                  <span class={`state ${d.severity === 'error' ? 'bad' : 'warn'}`}>{d.severity === 'error' ? '■' : '▲'}</span> <code>{d.pointer}</code> {d.message}
                </li>
              ))}
            </ul>
            {me.may('review') && (tried.check ? <ReplayFacts check={tried.check} before={p.replay_check} /> : <p class="dim">replaying recorded sessions…</p>)}
          </>
        )}
        {save.error && <Problem error={save.error} />}
        <div class="actions">
          <button type="button" class="primary" disabled={!changed || !current || !tried.report?.ok || save.busy || !me.may('propose')} onClick={() => void save.run()}>
            Save the draft
          </button>
          <button type="button" disabled={text === JSON.stringify(p.flow, null, 2)} onClick={() => write(JSON.stringify(p.flow, null, 2))}>
            Undo changes
          </button>
          <span class="dim">
            {me.may('propose')
              ? p.approvals > 0
                ? `Saving makes a new draft: ${plural(p.approvals, 'approval')} will be dismissed, and you may not approve it.`
                : 'Saving makes a new draft; whoever edits it may not approve it.'
              : 'Your key has no scope "propose".'}
          </span>
        </div>
      </div>
    </div>
  )
}

/** One mapping at a time, by form: where the argument comes from. */
function MappingEditor({ draft, set }: { draft: Doc | undefined; set: (doc: Doc) => void }) {
  const flow = draft && Array.isArray(draft.steps) ? readFlow(flowOf(draft)) : undefined
  const all = flow?.steps.flatMap((s) => s.mappings.map((m) => ({ s, m }))) ?? []
  const [id, setId] = useState(all[0]?.m.id ?? '')
  const chosen = all.find(({ m }) => m.id === id)
  const change = (value: unknown) => {
    if (!draft || !chosen) return
    const doc = structuredClone(draft) as unknown as { steps: { input_mapping: Record<string, unknown> }[] }
    doc.steps[chosen.s.index]!.input_mapping[chosen.m.arg] = value
    set(doc as unknown as Doc)
  }
  return (
    <div class="mapping-editor">
      <Field label="Argument">
        <select value={id} onChange={(e) => setId(e.currentTarget.value)}>
          {all.map(({ s, m }) => (
            <option key={m.id} value={m.id}>
              {s.index + 1} {s.name}: {m.arg}
            </option>
          ))}
        </select>
      </Field>
      {chosen && <SourceFields key={id} m={chosen.m} keys={[...(flow?.inputs.map((p) => p.name) ?? []), ...(flow?.steps.slice(0, chosen.s.index).flatMap((s) => (s.out ? [s.out] : [])) ?? [])]} change={change} />}
    </div>
  )
}

const written = (m: Mapping) => (m.source.kind === 'const' ? JSON.stringify(m.source.value) : m.source.kind === 'expr' ? m.source.text : m.source.kind === 'pointer' ? `/${m.source.key}${m.source.pointer}` : m.source.key)

function SourceFields({ m, keys, change }: { m: Mapping; keys: string[]; change: (value: unknown) => void }) {
  const [kind, setKind] = useState(m.source.kind)
  const [text, setText] = useState(written(m))
  const [fault, setFault] = useState('')
  const apply = (k: typeof kind, t: string) => {
    setKind(k)
    setText(t)
    setFault('')
    let value: unknown = t
    if (k === 'const') {
      try {
        value = { $const: JSON.parse(t) as unknown }
      } catch {
        return setFault('must be JSON; texts are in quotes')
      }
    } else if (k === 'expr') value = { $expr: t }
    else if (k === 'pointer' && !t.startsWith('/')) return setFault('begins with / and the name of an input or a step’s output')
    change(m.optional ? { $optional: value } : value)
  }
  return (
    <>
      <Field label="Comes from">
        <select value={kind} onChange={(e) => apply(e.currentTarget.value as typeof kind, e.currentTarget.value === 'key' ? (keys[0] ?? '') : e.currentTarget.value === 'pointer' ? `/${keys.at(-1) ?? ''}/` : e.currentTarget.value === 'const' ? '""' : 'null')}>
          <option value="key">an input or a whole output</option>
          <option value="pointer">a place in an output</option>
          <option value="const">a constant</option>
          <option value="expr">an expression (CEL)</option>
        </select>
      </Field>
      <Field label="Which" hint={fault || `was ${sourceText(m)}`}>
        {kind === 'key' ? (
          <select value={text} onChange={(e) => apply(kind, e.currentTarget.value)}>
            {[...new Set([text, ...keys])].map((k) => (
              <option key={k}>{k}</option>
            ))}
          </select>
        ) : (
          <input class="mono" value={text} spellcheck={false} autocomplete="off" onInput={(e) => apply(kind, e.currentTarget.value)} />
        )}
      </Field>
    </>
  )
}

/** What a draft would have done in recorded sessions. */
export function ReplayFacts({ check, before }: { check: Check; before?: Check }) {
  const share = check.windows ? check.exact / check.windows : undefined
  const was = before?.windows ? before.exact / before.windows : undefined
  return (
    <div class="replay-facts">
      <dl class="facts">
        <dt title="Places where an agent called the flow's tools in its order, in which the flow would have sent exactly the same arguments">Exact</dt>
        <dd>
          {count(check.exact)} of {count(check.windows)} {share !== undefined && `(${percent(share)})`}
          {share !== undefined && was !== undefined && Math.abs(share - was) > 1e-9 && <span class={share < was ? 'state bad' : 'state good'}> {share < was ? '■ was' : '● was'} {percent(was)}</span>}
        </dd>
        {check.blocked_count > 0 && (
          <>
            <dt title="Exact, but for inputs that the caller could not know">Caller could not know</dt>
            <dd>{count(check.blocked_count)}</dd>
          </>
        )}
        {check.diverged_count > 0 && (
          <>
            <dt title="The flow would have sent something else">Diverged</dt>
            <dd>
              <span class="state warn">▲ {count(check.diverged_count)}</span>
            </dd>
          </>
        )}
        {check.destructive_mismatches > 0 && (
          <>
            <dt title="Calls with side effects that diverging runs would have made">Harmful differences</dt>
            <dd>
              <span class="state bad">■ {count(check.destructive_mismatches)}</span>
            </dd>
          </>
        )}
        <dt title="Sessions that the executor reproduces; a promotion keeps them as tests of the flow">Golden tests</dt>
        <dd>{count(check.golden_tests)}</dd>
      </dl>
      {check.note && <p class="dim">{check.note}</p>}
      {check.diverged.length > 0 && (
        <ul class="plain">
          {check.diverged.slice(0, 5).map((w, i) => (
            <li key={i}>
              <Link to={to('sessions', w.session_id)} class="mono">
                {w.session_id}
              </Link>{' '}
              <span class="dim">{w.faults.map((f) => `step ${f.step + 1} ${f.arg}: ${f.reason}`).join('; ')}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
