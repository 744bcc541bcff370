// The queue: what waits for a decision, best first. Keyboard: j k move, Enter opens, x marks, a r c m decide.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { get, usePages, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago, count, interval, percent, plural } from '../format'
import { Safety, savingsOf, State, Steps } from '../parts/marks'
import { Page, useKeys, useTitle } from '../parts/page'
import { ListOf, type Column } from '../parts/table'
import { Empty } from '../parts/states'
import { Link, navigate, to, useParam } from '../router'
import { Decide } from './decide'

type Row = Schemas['ProposalSummary']
type Verdict = Schemas['Verdict']

const states = ['open', 'proposed', 'in_review', 'changes_requested', 'approved', 'promoted', 'rejected', 'withdrawn', 'superseded', 'all'] as const
const filtersKey = 'pave-queue-filters'

interface Saved {
  name: string
  query: string
}

const readSaved = (): Saved[] => {
  try {
    const v: unknown = JSON.parse(localStorage.getItem(filtersKey) ?? '[]')
    return Array.isArray(v) ? (v as Saved[]) : []
  } catch {
    return []
  }
}

export const queueKey = 'pave-queue'

export function ProposalsPage() {
  useTitle('Proposals')
  const me = useMe()
  const [state, setState] = useParam('state', 'open')
  const [source, setSource] = useParam('source')
  const [sort, setSort] = useParam('sort', 'rank')
  const [safety, setSafety] = useParam('safety')
  const [text, setText] = useParam('q')
  const [mine, setMine] = useParam('mine')
  const [at, setAt] = useState(0)
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const [ask, setAsk] = useState<{ verdict: Verdict; rows: Row[] } | null>(null)
  const [saved, setSaved] = useState(readSaved)
  const list = usePages(`proposals ${state} ${source} ${sort} ${mine}`, (cursor, signal) =>
    get('/api/v1/proposals', { query: { limit: 200, cursor, sort: sort as 'rank', ...(state === 'all' ? {} : { state: state as 'open' }), ...(source ? { source: source as 'miner' } : {}), ...(mine ? { assignee: me.principal } : {}) }, signal }),
  )
  const want = text.trim().toLowerCase()
  const rows = useMemo(
    () => list.data?.filter((p) => (!safety || p.safety === safety) && (!want || p.flow_name.toLowerCase().includes(want) || p.tools.some((t) => t.toLowerCase().includes(want)))),
    [list.data, safety, want],
  )
  useEffect(() => {
    if (rows) sessionStorage.setItem(queueKey, JSON.stringify(rows.slice(0, 1000).map((p) => p.id)))
  }, [rows])
  useEffect(() => setAt(0), [state, source, sort, safety, want])
  const chosen = () => (marked.size ? (rows ?? []).filter((p) => marked.has(p.id)) : rows?.[at] ? [rows[at]!] : [])
  const decide = (verdict: Verdict) => {
    const on = chosen()
    if (me.may('review') && on.length) setAsk({ verdict, rows: on })
  }
  const mark = (p?: Row) =>
    p &&
    setMarked((m) => {
      const next = new Set(m)
      if (!next.delete(p.id)) next.add(p.id)
      return next
    })
  useKeys({
    j: () => setAt((i) => Math.min(i + 1, (rows?.length ?? 1) - 1)),
    k: () => setAt((i) => Math.max(i - 1, 0)),
    Enter: () => rows?.[at] && navigate(to('proposals', rows[at]!.id)),
    o: () => rows?.[at] && navigate(to('proposals', rows[at]!.id)),
    x: () => mark(rows?.[at]),
    a: () => decide('approve'), r: () => decide('reject'), c: () => decide('request_changes'),
    m: () => rows?.[at] && navigate(to('proposals', rows[at]!.id) + '?comment=1'),
  })
  const columns: Column<Row>[] = [
    {
      head: <span class="sr">Mark</span>, width: '40px', mark: true,
      cell: (p) => <input type="checkbox" aria-label={`Mark ${p.flow_name}`} checked={marked.has(p.id)} onChange={() => mark(p)} />,
    },
    { head: 'Flow', width: '27%', cell: (p) => <Link to={to('proposals', p.id)} title={p.description}>{p.flow_name}</Link> },
    { head: 'State', width: '132px', cell: (p) => <State of={p.state} /> },
    { head: 'Path', hide: 'medium', cell: (p) => <Steps tools={p.tools} /> },
    { head: 'Safety', width: '92px', cell: (p) => <Safety of={p.safety} /> },
    { head: 'Seen', title: 'Sessions in which the path was seen', num: true, width: '76px', cell: (p) => (p.sessions ? `${count(p.sessions)}` : <span class="dim">never</span>) },
    {
      head: 'Exact', num: true, width: '116px', hide: 'narrow',
      title: 'Share of the examined occurrences in which every mapping reproduced the recorded value; of flows that take whole calls, which map nothing, in which callers knew more than the first call',
      cell: (p) => <Exact of={p} />,
    },
    { head: 'Saves a run', title: 'LLM calls that one run avoids, mean with its 95 % interval', num: true, width: '176px', cell: (p) => (savingsOf(p.savings).known ? `${interval(p.savings.llm_calls_per_run, (n) => n.toFixed(1))} calls` : <span class="dim">not measured</span>) },
    { head: 'Approvals', num: true, width: '104px', hide: 'narrow', title: 'Valid approvals of the current draft, of those that the policy wants', cell: (p) => `${p.approvals} of ${p.needs}` },
    { head: 'Changed', num: true, width: '92px', hide: 'medium', cell: (p) => <Ago at={p.updated_at} /> },
  ]
  const query = location.search
  return (
    <Page
      fill
      title="Proposals"
      lead="Which of these paths should run without the model?"
      actions={<span class="dim keys">j k move · Enter open · x mark · a approve · r reject · c changes · m comment</span>}
    >
      <div class="filters" role="search">
        <label>
          State{' '}
          <select value={state} onChange={(e) => setState(e.currentTarget.value)}>
            {states.map((s) => (
              <option key={s} value={s}>
                {s.replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        </label>
        <label>
          From{' '}
          <select value={source} onChange={(e) => setSource(e.currentTarget.value)}>
            <option value="">anybody</option>
            <option value="miner">recordings</option>
            <option value="analyzer">tool schemas</option>
            <option value="submitted">people</option>
            <option value="external">other generators</option>
          </select>
        </label>
        <label>
          Safety{' '}
          <select value={safety} onChange={(e) => setSafety(e.currentTarget.value)}>
            <option value="">any</option>
            {['none', 'read', 'write', 'external', 'destructive'].map((s) => (
              <option key={s}>{s}</option>
            ))}
          </select>
        </label>
        <label>
          Sort{' '}
          <select value={sort} onChange={(e) => setSort(e.currentTarget.value)}>
            <option value="rank">what it brings</option>
            <option value="score">score</option>
            <option value="savings">calls saved a week</option>
            <option value="created">newest</option>
            <option value="updated">changed last</option>
          </select>
        </label>
        <input type="search" aria-label="Filter by flow or tool" placeholder="Flow or tool" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <label>
          <input type="checkbox" checked={mine !== ''} onChange={(e) => setMine(e.currentTarget.checked ? '1' : '')} /> assigned to me
        </label>
        <span class="grow" />
        {saved.map((s) => (
          <span class="saved" key={s.name}>
            <Link to={'/proposals' + s.query}>{s.name}</Link>
            <button type="button" class="icon" aria-label={`Forget the filter ${s.name}`} onClick={() => keepFilters(saved.filter((o) => o !== s), setSaved)}>
              ×
            </button>
          </span>
        ))}
        {query !== '' && !saved.some((s) => s.query === query) && (
          <button type="button" class="small" onClick={() => keepFilters([...saved, { name: filterName(query), query }], setSaved)}>
            Save filter
          </button>
        )}
      </div>
      {marked.size > 0 && (
        <div class="bulk" role="toolbar" aria-label="Marked proposals">
          <strong>{plural(marked.size, 'marked proposal')}</strong>
          <button type="button" disabled={!me.may('review')} onClick={() => decide('approve')}>
            Approve…
          </button>
          <button type="button" disabled={!me.may('review')} onClick={() => decide('reject')}>
            Reject…
          </button>
          <button type="button" class="link" onClick={() => setMarked(new Set())}>
            unmark all
          </button>
        </div>
      )}
      <ListOf
        of={{ ...list, data: rows }}
        columns={columns}
        id={(p) => p.id}
        label="Proposals"
        at={at}
        open={(p) => navigate(to('proposals', p.id))}
        empty={
          list.data?.length ? (
            <Empty title="No proposal passes these filters" />
          ) : (
            <Empty title={state === 'open' ? 'Nothing waits for a decision' : 'No proposal is in this state'}>
              <p>
                pave proposes a flow when agents walked the same path in enough sessions and the recorded values explain every argument. <Link to="/patterns">Patterns</Link> shows what is
                close to it.
              </p>
            </Empty>
          )
        }
      />
      {ask && <Decide {...ask} close={() => setAsk(null)} done={() => (setAsk(null), setMarked(new Set()), list.reload())} />}
    </Page>
  )
}

/** How often the mappings held; of a flow that takes whole calls, marked as such, how often callers knew several. */
function Exact({ of: p }: { of: Row }) {
  if (p.batch)
    return (
      <span class="dim" title={`It takes whole calls and predicts none: callers knew more than the first call in ${count(p.batch.several)} of ${plural(p.batch.examined, 'occurrence')}, all in ${count(p.batch.whole)}`}>
        {percent(p.batch.several / Math.max(1, p.batch.examined))} known
      </span>
    )
  return p.sampled ? <>{percent((p.explained ?? 0) / p.sampled)}</> : <span class="dim">none</span>
}

function filterName(query: string): string {
  return [...new URLSearchParams(query).values()].map((v) => v.replaceAll('_', ' ')).join(', ')
}

function keepFilters(next: Saved[], set: (s: Saved[]) => void) {
  localStorage.setItem(filtersKey, JSON.stringify(next))
  set(next)
}
