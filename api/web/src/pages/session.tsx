// One session: what did the agent do, and which of it could run without the model? A value that is clicked lights up
// wherever it occurs: the data flow of the session.
import { useMemo, useState } from 'preact/hooks'
import { get, useData, type Schemas } from '../api'
import { count, duration, money, plural, Time } from '../format'
import { readable } from '../flow'
import { Figure, State, Tag, ToolName } from '../parts/marks'
import { Page, useTitle } from '../parts/page'
import { Show } from '../parts/states'
import { isRedacted, Tree } from '../parts/tree'
import { Link, to } from '../router'
import { coverage, holds, turnsOf, worthFollowing, type AgentRun, type Covered, type Path, type Turn } from '../walk'

type Session = Schemas['Session']

export function SessionPage({ args: [id = ''] }: { args: string[] }) {
  useTitle(id)
  const session = useData(`session ${id}`, (signal) => get('/api/v1/sessions/{id}', { path: { id }, signal }))
  return (
    <Show of={session} rows={12}>
      {(s) => <SessionView s={s} />}
    </Show>
  )
}

function usePaths(): Path[] {
  const flows = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const proposals = useData('proposals-open', (signal) => get('/api/v1/proposals', { query: { state: 'open', limit: 200 }, signal }))
  return useMemo(
    () => [
      ...(flows.data?.items ?? []).filter((f) => f.status === 'active').map((f) => ({ kind: 'flow' as const, name: f.name, id: f.name, tools: f.tools })),
      ...(proposals.data?.items ?? []).map((p) => ({ kind: 'proposal' as const, name: p.flow_name, id: p.id, tools: p.tools })),
    ],
    [flows.data, proposals.data],
  )
}

function SessionView({ s }: { s: Session }) {
  const paths = usePaths()
  const [value, setValue] = useState<unknown>(undefined)
  const calls = s.runs.flatMap((r) => r.calls)
  const llm = s.runs.flatMap((r) => r.llm_calls)
  const tokens = llm.reduce((n, l) => n + (l.input_tokens ?? 0) + (l.output_tokens ?? 0), 0)
  const priced = llm.filter((l) => l.cost_usd !== undefined && l.cost_usd !== null)
  const errors = calls.filter((c) => c.status === 'error').length
  const times = calls.map((c) => c.start).concat(llm.map((l) => l.start)).filter((t): t is string => Boolean(t)).map((t) => Date.parse(t))
  const top = s.runs.filter((r) => !r.parent_call || !calls.some((c) => c.call_id === r.parent_call))
  const found = s.runs.flatMap((r) => coverage(r, paths))
  const lit = value === undefined ? 0 : calls.filter((c) => holds(c.args, value) || holds(c.result, value)).length
  return (
    <Page
      title={s.id}
      crumbs={<Link to="/sessions">← sessions</Link>}
      lead={
        <>
          {[...new Set(s.runs.map((r) => r.agent).filter(Boolean))].join(', ') || 'an unnamed agent'}
          {times.length > 0 && (
            <>
              {' '}
              · <Time at={new Date(Math.min(...times)).toISOString()} />
            </>
          )}
          {s.ended && ' · ended'}
          {(s.conflicts ?? 0) > 0 && <span class="state warn"> ▲ {plural(s.conflicts!, 'conflicting record')}</span>}
        </>
      }
    >
      <div class="figures">
        <Figure label="Tool calls" title="Tool calls of all agents of the session" value={count(calls.length)} note={errors ? <State of="error" text={plural(errors, 'error')} /> : 'no error'} />
        <Figure label="LLM calls" title="Recorded model calls" value={count(llm.reduce((n, l) => n + l.count, 0))} note={llm[0]?.model ?? ''} />
        <Figure label="Tokens" title="Input and output tokens" value={tokens ? count(tokens) : '–'} note={tokens ? 'input and output' : 'not recorded'} />
        <Figure label="Money" title="Cost of the model calls, where recorded" value={priced.length ? money(priced.reduce((n, l) => n + (l.cost_usd ?? 0), 0)) : '–'} note={priced.length ? 'recorded' : 'not recorded'} />
        <Figure
          label="On known paths" title="Calls that an active flow covers or a proposed one would" value={`${count(found.reduce((n, c) => n + c.to - c.from + 1, 0))} of ${count(calls.length)}`}
          note={found.length ? [...new Set(found.map((c) => c.path.name))].map((name, i) => <span key={name}>{i > 0 && ', '}{name}</span>) : 'no flow or proposal'}
        />
      </div>
      <div class="follow" role="status">
        {value === undefined ? (
          <span class="dim">Click a value to see everywhere it occurs.</span>
        ) : (
          <>
            <code class="hot">{readable(value).slice(0, 80)}</code> occurs in {plural(lit, 'call')}{' '}
            <button type="button" class="link" onClick={() => setValue(undefined)}>
              clear
            </button>
          </>
        )}
      </div>
      {top.map((r, i) => (
        <Walk key={r.id ?? i} run={r} all={s.runs} paths={paths} value={value} pick={(v) => setValue(worthFollowing(v) && v !== value ? v : undefined)} />
      ))}
    </Page>
  )
}

interface WalkProps {
  run: AgentRun
  all: AgentRun[]
  paths: Path[]
  value: unknown
  pick: (v: unknown) => void
  depth?: number
}

const batch = 200

function Walk({ run, all, paths, value, pick, depth = 0 }: WalkProps) {
  const turns = useMemo(() => turnsOf(run), [run])
  const covered = useMemo(() => coverage(run, paths), [run, paths])
  const [shown, setShown] = useState(batch)
  const longest = Math.max(1, ...run.llm_calls.map((l) => l.duration_ms ?? 0))
  const whole = run.llm_calls.filter((l) => l.turn < 0)
  return (
    <section class={depth ? 'walk nested' : 'walk'} aria-label={`Agent ${run.agent ?? ''}`}>
      <h2>
        {depth > 0 && <span class="dim">nested agent </span>}
        <span class="mono">{run.agent || 'agent'}</span>
        {whole.map((l, i) => (
          <span key={i} class="dim">
            {' '}
            · {plural(l.count, 'LLM call')} of the whole run
          </span>
        ))}
      </h2>
      <ol>
        {turns.slice(0, shown).map((t) => (
          <TurnRow key={t.turn} t={t} {...{ run, all, paths, value, pick, depth, covered, longest }} />
        ))}
      </ol>
      {turns.length > shown && (
        <button type="button" onClick={() => setShown(shown + batch)}>
          {count(turns.length - shown)} more turns
        </button>
      )}
    </section>
  )
}

function TurnRow({ t, run, all, paths, value, pick, depth = 0, covered, longest }: WalkProps & { t: Turn; covered: Covered[]; longest: number }) {
  const parallel = t.calls.length > 1 && t.calls.some(({ call }) => call.flags?.includes('parallel'))
  return (
    <li class="turn">
      {t.said.map((said, i) => (
        <p key={i} class="user-said">
          <span class="dim">user</span> {said.text || <span class="dim">(text not recorded)</span>}
        </p>
      ))}
      {t.llm.map((l, i) => (
        <div key={i} class="llm" title={[l.model, l.start].filter(Boolean).join(' · ')}>
          <span class="llm-bar" style={{ width: `${Math.max(2, ((l.duration_ms ?? 0) / longest) * 120)}px` }} aria-hidden="true" />
          <span class="dim">
            LLM {l.count > 1 ? `×${l.count} ` : ''}
            {l.duration_ms ? duration(l.duration_ms) : ''}
            {l.input_tokens != null || l.output_tokens != null ? ` · ${count(l.input_tokens ?? 0)} in, ${count(l.output_tokens ?? 0)} out` : ''}
          </span>
        </div>
      ))}
      <div class={parallel ? 'calls side' : 'calls'}>
        {t.calls.map(({ call, index, times }) => {
          const cover = covered.find((c) => index >= c.from && index <= c.to)
          const inner = call.call_id ? all.filter((r) => r.parent_call === call.call_id && r !== run) : []
          return (
            <div key={index} class="call-wrap">
              {cover && cover.from === index && (
                <Link to={cover.path.kind === 'flow' ? to('flows', cover.path.id) : to('proposals', cover.path.id)} class={`cover-name ${cover.path.kind}`}>
                  {cover.path.kind === 'flow' ? 'flow' : 'proposed'} {cover.path.name}
                </Link>
              )}
              <CallBlock call={call} times={times} value={value} pick={pick} cover={cover ? `covered ${cover.path.kind}${cover.from === index ? ' first' : ''}${cover.to === index ? ' last' : ''}` : ''} />
              {depth < 8 && inner.map((r, i) => <Walk key={r.id ?? i} run={r} all={all} paths={paths} value={value} pick={pick} depth={depth + 1} />)}
            </div>
          )
        })}
      </div>
    </li>
  )
}

function CallBlock({ call, times, value, pick, cover }: { call: Schemas['SessionCall']; times: number; value: unknown; pick: (v: unknown) => void; cover: string }) {
  const [open, setOpen] = useState(false)
  const hot = (v: unknown) => value !== undefined && v === value
  const inArgs = value !== undefined && holds(call.args, value)
  const inResult = value !== undefined && holds(call.result, value)
  return (
    <article class={`call ${call.status === 'error' ? 'failed' : ''} ${cover} ${inArgs || inResult ? 'lit' : ''}`}>
      <header>
        <button type="button" class="tree-mark" aria-expanded={open} aria-label={`${open ? 'Fold' : 'Unfold'} ${call.tool}`} onClick={() => setOpen(!open)}>
          {open ? '▾' : '▸'}
        </button>
        <ToolName name={call.tool} />
        {times > 1 && <Tag title="Exact repeats in a row">×{times}</Tag>}
        {call.status !== 'ok' && <State of={call.status} />}
        {call.flags?.includes('not_agent') && <Tag title="This call was not the agent's own">not the agent</Tag>}
        {call.origin_kind && call.origin_kind !== 'agent' && <Tag title="Made by a flow, or a call of a flow">{call.origin_kind.replace('_', ' ')}</Tag>}
        {call.truncated && <Tag title="Too large to be stored whole">truncated</Tag>}
        {inArgs && <Tag>in arguments</Tag>}
        {inResult && <Tag>in result</Tag>}
        <span class="grow" />
        <span class="dim num">{call.duration_ms !== undefined ? duration(call.duration_ms) : ''}</span>
      </header>
      {!open && <Line value={call.args} hot={hot} pick={pick} />}
      {call.error && <p class="state bad">■ {call.error}</p>}
      {open && (
        <div class="two">
          <div>
            <h4>Arguments</h4>
            <Tree value={call.args} depth={2} hot={hot} pick={pick} />
          </div>
          <div>
            <h4>Result</h4>
            <Tree value={call.result} depth={2} hot={hot} pick={pick} />
          </div>
        </div>
      )}
    </article>
  )
}

/** The arguments in one line. */
function Line({ value, hot, pick }: { value: unknown; hot: (v: unknown) => boolean; pick: (v: unknown) => void }) {
  if (value === null || typeof value !== 'object') return null
  const entries = Object.entries(value)
  if (entries.length === 0) return null
  return (
    <div class="call-line mono">
      {entries.slice(0, 8).map(([k, v]) => (
        <span key={k}>
          <span class="dim">{k}</span>{' '}
          {isRedacted(v) ? (
            <span class="redacted">▒ {String(v)}</span>
          ) : v !== null && typeof v === 'object' ? (
            <span class="dim">{readable(v).slice(0, 60)}</span>
          ) : (
            <button type="button" class={hot(v) ? 'tree-value hot' : 'tree-value'} onClick={() => pick(v)}>
              {readable(v).slice(0, 80)}
            </button>
          )}
        </span>
      ))}
    </div>
  )
}
