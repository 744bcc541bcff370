// Where do agents walk? The directly-follows graph, the ranked patterns, and why the others are not paved.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { get, post, useData, usePages, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago, count, percent, plural } from '../format'
import { State, Steps, ToolName } from '../parts/marks'
import { Spark } from '../parts/charts'
import { Card, Page, useAction, useTitle } from '../parts/page'
import { Empty, Loading, Problem, Show } from '../parts/states'
import { ListOf, type Column } from '../parts/table'
import { Link, navigate, to, useParam } from '../router'
import { Range, since } from './sessions'
import { HowToSend } from './start'

type Pattern = Schemas['Pattern']

// What lays the graph out is as large as everything else, and no other page needs it.
type Graph = typeof import('../parts/graph').FollowsGraph
let drawn: Graph | undefined

function useGraph(): Graph | undefined {
  const [graph, set] = useState<{ draw?: Graph }>({ draw: drawn })
  useEffect(() => {
    if (!drawn) void import('../parts/graph').then((m) => set({ draw: (drawn = m.FollowsGraph) }))
  }, [])
  return graph.draw
}

const nameOf = (tools: string[]) => tools.join('>')

export function PatternsPage({ args: [key] }: { args: string[] }) {
  useTitle('Patterns')
  const [range, setRange] = useParam('range')
  const [agent, setAgent] = useParam('agent')
  const [rare, setRare] = useParam('rare', '1')
  const [on, setOn] = useParam('flow')
  const FollowsGraph = useGraph()
  const graph = useData(`follows ${range} ${agent}`, (signal) => get('/api/v1/follows', { query: { limit: 500, agent, from: since(range) }, signal }))
  const activity = useData('activity-agents', (signal) => get('/api/v1/reports/activity', { signal }))
  const flows = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const proposals = useData('proposals-all', (signal) => get('/api/v1/proposals', { query: { limit: 500 }, signal }))
  const first = useData('patterns-first', (signal) => get('/api/v1/patterns', { query: { limit: 200 }, signal }))
  const list = usePages('patterns', (cursor, signal) => get('/api/v1/patterns', { query: { limit: 200, cursor }, signal }))
  const agents = [...new Set(activity.data?.days.map((d) => d.agent) ?? [])].filter(Boolean).sort()
  const byTools = useMemo(() => new Map(proposals.data?.items.map((p) => [nameOf(p.tools), p])), [proposals.data])
  const shown = list.data?.find((p) => nameOf(p.tools) === key)
  const steps = useMemo(() => [...new Set(graph.data?.edges.map((e) => e.count) ?? [])].sort((a, b) => a - b), [graph.data])
  const least = Math.min(Number(rare) || 1, steps.at(-1) ?? 1)
  const seen = useMemo(() => {
    if (!graph.data) return undefined
    const edges = graph.data.edges.filter((e) => e.count >= least)
    const kept = new Set(edges.flatMap((e) => [e.from, e.to]))
    return { ...graph.data, edges, tools: graph.data.tools.filter((t) => kept.has(t.name)) }
  }, [graph.data, least])
  const paths = useMemo(() => flows.data?.items.filter((f) => f.status === 'active').map((f) => ({ name: f.name, tools: f.tools })) ?? [], [flows.data])
  const columns: Column<Pattern>[] = [
    { head: 'Path', cell: (p) => <Steps tools={p.tools} /> },
    { head: 'Sessions', title: 'Sessions in which it was seen', num: true, width: '84px', cell: (p) => count(p.sessions) },
    { head: 'Times', num: true, width: '76px', hide: 'narrow', cell: (p) => count(p.occurrences) },
    { head: 'Agents', num: true, width: '76px', hide: 'medium', cell: (p) => count(p.agents ?? 0) },
    { head: 'Weakest link', title: 'How often the next step followed, at the step where that is rarest', num: true, width: '116px', cell: (p) => (p.step_confidence?.length ? percent(Math.min(...p.step_confidence)) : '') },
    { head: 'Links', title: 'How often each next step followed', width: '84px', hide: 'medium', cell: (p) => <Links of={p} /> },
    { head: 'Weeks', title: 'Occurrences by week', width: '92px', hide: 'medium', cell: (p) => (p.stability?.weeks.length ? <Spark width={68} values={p.stability.weeks.slice(-10).map((w) => w.occurrences)} label={`by week: ${p.stability.weeks.map((w) => w.occurrences).join(', ')}`} /> : <span class="dim">–</span>) },
    { head: 'Exact', title: 'Share of the examined occurrences that the mappings reproduce; flows that take whole calls map nothing', num: true, width: '76px', cell: (p) => (p.data_flow?.sampled && !p.batch ? percent(p.data_flow.explained / p.data_flow.sampled) : <span class="dim">–</span>) },
    { head: 'By chance', title: 'Occurrences that an order-1 Markov model expects', num: true, width: '104px', hide: 'medium', cell: (p) => (p.expected === undefined ? '' : count(Math.round(p.expected))) },
    {
      head: 'State', width: '132px',
      cell: (p) => {
        const proposal = byTools.get(nameOf(p.tools))
        return proposal ? (
          <Link to={to('proposals', proposal.id)}>
            <State of={proposal.state} />
          </Link>
        ) : (
          <span class="dim">not proposed</span>
        )
      },
    },
  ]
  if (graph.data && graph.data.calls === 0 && !range && !agent)
    return (
      <Page title="Patterns" lead="Where do agents walk?">
        <Empty title="No call is recorded yet">
          <HowToSend />
        </Empty>
      </Page>
    )
  return (
    <Page title="Patterns" lead="Where do agents walk, and what keeps a path from being paved?" actions={<Passes done={() => (list.reload(), first.reload(), proposals.reload(), graph.reload())} />}>
      <div class="filters" role="search">
        <Range value={range} set={setRange} />
        <label>
          Agent{' '}
          <select value={agent} onChange={(e) => setAgent(e.currentTarget.value)}>
            <option value="">all</option>
            {agents.map((a) => (
              <option key={a}>{a}</option>
            ))}
          </select>
        </label>
        <label>
          Flow{' '}
          <select value={on} onChange={(e) => setOn(e.currentTarget.value)}>
            <option value="">all active</option>
            {paths.map((p) => (
              <option key={p.name}>{p.name}</option>
            ))}
          </select>
        </label>
        <label>
          Hide rarer than <output>{count(least)}</output>{' '}
          <input type="range" min={0} max={Math.max(0, steps.length - 1)} value={Math.max(0, steps.findIndex((s) => s >= least))} onInput={(e) => setRare(String(steps[Number(e.currentTarget.value)] ?? 1))} aria-valuetext={`${least} times`} />
        </label>
        {graph.data && (
          <span class="dim">
            {plural(graph.data.calls, 'call')} in {plural(graph.data.sessions, 'session')}
            {graph.data.edges_left_out > 0 && `, ${plural(graph.data.edges_left_out, 'rarer edge')} left out`}
          </span>
        )}
      </div>
      <Card tight title="What follows what">
        <div class="graph-room">
          <Show of={graph} rows={8}>
            {() => (!FollowsGraph ? <Loading rows={8} /> : seen && seen.tools.length ? <FollowsGraph graph={seen} paths={paths} on={on || undefined} pick={(tool) => navigate(to('tools', tool))} /> : <Empty title="No call passes these filters" />)}
          </Show>
        </div>
      </Card>
      {shown && <PatternCard p={shown} all={list.data ?? []} />}
      <Card tight title="Patterns, best first">
        <ListOf of={list} columns={columns} id={(p) => nameOf(p.tools)} label="Patterns" fit open={(p) => navigate(to('patterns', nameOf(p.tools)) + location.search)} empty={<Empty title="No pass has found a pattern yet"><p>A pass looks for paths when sessions have ended: <code>pave mine</code> starts one.</p></Empty>} />
      </Card>
      <WhyNot blocked={first.data?.blocked ?? []} />
    </Page>
  )
}

/** How the mining loop stands, and a pass on demand. */
function Passes({ done }: { done: () => void }) {
  const me = useMe()
  const status = useData('mining-status', (signal) => get('/api/v1/mining-status', { signal }), 10_000)
  const mine = useAction(async () => {
    await post('/api/v1/mining-runs', { query: { wait: true }, body: {} })
    status.reload()
    done()
  })
  const s = status.data
  return (
    <>
      {s && (
        <span class="dim">
          {s.running ? (
            <State of="running" text={`mining: ${s.phase ?? ''}`} />
          ) : s.last ? (
            <>
              last pass <Ago at={s.last.ended_at} />
            </>
          ) : (
            'no pass since the service started'
          )}
          {s.pending_sessions > 0 && `, ${plural(s.pending_sessions, 'new session')}`}
        </span>
      )}
      <button type="button" disabled={!me.may('propose') || mine.busy || s?.running} onClick={() => void mine.run()}>
        {mine.busy ? 'Mining…' : 'Mine now'}
      </button>
      {mine.error && <Problem error={mine.error} />}
    </>
  )
}

function Links({ of }: { of: Pattern }) {
  const values = of.step_confidence ?? []
  return (
    <svg class="spark" width={Math.max(8, values.length * 10)} height="20" role="img" aria-label={values.map(percent).join(', ')}>
      <title>{values.map((v, i) => `${of.tools[i]} → ${of.tools[i + 1]}: ${percent(v)}`).join('\n')}</title>
      {values.map((v, i) => (
        <rect key={i} x={i * 10} y={19 - v * 18} width="7" height={Math.max(1, v * 18)} />
      ))}
    </svg>
  )
}

/** One pattern: its steps with what they take from where, and the patterns that share its beginning. */
function PatternCard({ p, all }: { p: Pattern; all: Pattern[] }) {
  const variants = all.filter((o) => o !== p && o.tools[0] === p.tools[0] && o.tools[1] === p.tools[1])
  return (
    <Card
      title={<Steps tools={p.tools} />}
      actions={
        <button type="button" class="small" onClick={() => navigate('/patterns' + location.search)}>
          Close
        </button>
      }
    >
      <div class="two">
        <div>
          <ol class="plain">
            {p.tools.map((t, i) => (
              <li key={i}>
                <span class="box-no">{i + 1}</span> <ToolName name={t} />
                {i > 0 && p.step_confidence?.[i - 1] !== undefined && <span class="dim"> after {percent(p.step_confidence[i - 1]!)} of the calls before</span>}
                <ul class="plain">
                  {p.data_flow?.steps[i]?.map((a) => (
                    <li key={a.arg} class="mono">
                      {a.arg}{' '}
                      <span class="dim">
                        ← {a.kind === 'output' ? `result of ${a.step + 1} ${a.pointer ?? ''}` : a.kind === 'arg' ? `argument of ${a.step + 1} ${a.pointer ?? ''}` : a.kind === 'const' ? JSON.stringify(a.value) : a.kind === 'input' ? `input ${a.input ?? ''}` : 'the model chooses'}
                      </span>{' '}
                      <span class={a.kind === 'choice' ? 'state bad' : 'dim'}>
                        {a.kind === 'choice' ? '■ ' : ''}
                        {count(a.evidence.held)}/{count(a.evidence.present)}
                      </span>
                    </li>
                  ))}
                </ul>
              </li>
            ))}
          </ol>
        </div>
        <div>
          <h4>Sessions</h4>
          <p>
            {(p.examples ?? []).slice(0, 12).map((o, i) => (
              <span key={i}>
                {i > 0 && ', '}
                <Link to={to('sessions', o.session_id)} class="mono">
                  {o.session_id}
                </Link>
              </span>
            ))}
          </p>
          <h4>Other ways on from here</h4>
          {variants.length === 0 ? (
            <p class="dim">No other pattern begins with the same two steps.</p>
          ) : (
            <ul class="plain">
              {variants.map((v) => {
                const at = v.tools.findIndex((t, i) => t !== p.tools[i])
                return (
                  <li key={nameOf(v.tools)}>
                    <Link to={to('patterns', nameOf(v.tools))}>
                      <Steps tools={v.tools} />
                    </Link>{' '}
                    <span class="dim">
                      {plural(v.sessions, 'session')}
                      {at > 0 && `, branches after step ${at}`}
                    </span>
                  </li>
                )
              })}
            </ul>
          )}
          {(p.cut_from?.length ?? 0) > 0 && (
            <p class="dim">
              Cut from the longer path <Steps tools={p.cut_from!} />.
            </p>
          )}
        </div>
      </div>
    </Card>
  )
}

function WhyNot({ blocked }: { blocked: Schemas['Blocked'][] }) {
  const [all, setAll] = useState(false)
  const shown = all ? blocked : blocked.slice(0, 12)
  return (
    <Card tight title="Frequent, but not paved: why">
      {blocked.length === 0 ? (
        <p class="dim pad">Every frequent path was proposed, or no pass has ended yet.</p>
      ) : (
        <table class="mini wrap">
          <thead>
            <tr>
              <th scope="col">Path</th>
              <th scope="col" class="num">
                Sessions
              </th>
              <th scope="col">What blocks it</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((b, i) => (
              <tr key={i}>
                <td>
                  <Steps tools={b.tools} />
                </td>
                <td class="num">{count(b.sessions)}</td>
                <td>
                  <span class="tag">{b.reason.replaceAll('_', ' ')}</span> {b.detail} {b.unblock && <span class="dim">{b.unblock}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {blocked.length > shown.length && (
        <button type="button" class="link pad" onClick={() => setAll(true)}>
          {blocked.length - shown.length} more
        </button>
      )}
    </Card>
  )
}
