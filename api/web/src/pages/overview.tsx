// Is it worth it, and is anything wrong?
import { get, useData, type Schemas } from '../api'
import { count, duration, interval, money, percent, plural } from '../format'
import { Bars, Spark, type Series } from '../parts/charts'
import { Figure } from '../parts/marks'
import { Card, Page, Tabs, useTitle } from '../parts/page'
import { Empty, Loading, Show } from '../parts/states'
import { byAgent, measured, share, total, useReport, weighted } from '../report'
import { Link, navigate, to, useParam } from '../router'
import { Attention } from './attention'
import { Range, since } from './sessions'
import { HowToSend } from './start'

export function OverviewPage() {
  useTitle('Overview')
  const [range, setRange] = useParam('range', '30d')
  const from = since(range)
  const sessions = useData('any-session', (signal) => get('/api/v1/sessions', { query: { limit: 1 }, signal }), 5000)
  const report = useData(`savings ${range}`, (signal) => get('/api/v1/reports/savings', { query: { from }, signal }))
  const activity = useData(`activity ${range}`, (signal) => get('/api/v1/reports/activity', { query: { from }, signal }))
  const empty = sessions.data?.items.length === 0
  return (
    <Page
      title="Overview"
      lead="Is it worth it, and is anything wrong?"
      actions={
        <span class="filters bare">
          <Range value={range} set={(v) => setRange(v)} />
        </span>
      }
    >
      {empty && (report.data?.total.runs ?? 0) === 0 ? (
        <Empty title="Nothing is recorded yet">
          <p>Send pave what your agents do; it finds the paths that they keep walking.</p>
          <HowToSend />
        </Empty>
      ) : (
        <>
          <div class="figures-room">
            <Show of={report} rows={3}>
              {(r) => <Savings r={r} from={from} range={range} />}
            </Show>
          </div>
          <div class="split overview">
            <aside>
              <Attention r={report.data} range={range} from={from} />
            </aside>
            <div>
              <Show of={activity} rows={8}>
                {(a) => <Activity a={a} />}
              </Show>
              {!report.error && (
                <Card title="Flows by what they avoid" tight>
                  {report.data ? <FlowsTable r={report.data} /> : <Loading rows={5} />}
                </Card>
              )}
              <AgentsTable from={from} range={range} />
            </div>
          </div>
        </>
      )}
    </Page>
  )
}

function Savings({ r, from, range: key }: { r: Schemas['SavingsReport']; from?: string; range: string }) {
  const adopted = useReport('adoption', key, from)
  const covered = useReport('coverage', key, from)
  const daily = useReport('savings-by-day', key, from)
  const walks = total(adopted.data?.items, 'walks')
  const adoption = share(total(adopted.data?.items, 'runs'), walks)
  const calls = total(covered.data?.items, 'tool_calls')
  const avoided = [...Map.groupBy(daily.data?.items ?? [], (row) => row.day).values()].map((rows) => total(rows, 'llm_calls_avoided'))
  const m = r.total.measured
  const e = r.total.estimate
  const whole = (n: number) => count(Math.round(n))
  const none = r.total.runs === 0
  const figure = (f: Schemas['Figure'], show: (n: number) => string) => (none ? { value: show(0), note: 'no run yet' } : measured(f, show, 'not recorded'))
  return (
    <div class="figures">
      <Figure label="LLM calls avoided" title="Measured: what the replaced stretches used in the recorded sessions, for each run that succeeded, the estimate counts the steps instead. 95 % interval" {...figure(m.llm_calls, whole)}>
        <div class="figure-note">estimated {whole(e.llm_calls)}</div>
        {avoided.length > 1 && <Spark values={avoided} label={`LLM calls avoided by day: ${avoided.map(whole).join(', ')}`} />}
      </Figure>
      <Figure label="Tokens avoided" title="Input and output tokens of those model calls, measured. 95 % interval" {...figure(m.tokens, whole)}>
        <div class="figure-note">estimated {whole(e.tokens)}</div>
      </Figure>
      <Figure label="Money saved" title="Their cost in US dollars at the dated price table, measured. 95 % interval" {...figure(m.cost_usd, money)}>
        <div class="figure-note">estimated {money(e.cost_usd)}</div>
      </Figure>
      <Figure label="Time saved" title="How long those model calls took, measured. 95 % interval" {...figure(m.latency_ms, duration)}>
        <div class="figure-note">estimated {duration(e.latency_ms)}</div>
      </Figure>
      <Figure label="Adoption" title="Runs of flows, as a share of runs and of walks of the same paths by hand" value={adoption === undefined ? '–' : percent(adoption)} note={adoption === undefined ? 'no run and no walk yet' : `${plural(walks, 'walk')} still by hand`} />
      <Figure
        label="Coverage" title="Tool calls on the paths of active flows, by hand or by a flow, as a share of all" value={calls ? percent(weighted(covered.data?.items, 'coverage', 'tool_calls') / calls) : '–'}
        note={calls ? `${percent(weighted(covered.data?.items, 'realised', 'tool_calls') / calls)} made by flows` : 'no call yet'}
      />
      <Figure label="Flow runs" title="Finished runs of promoted flows" value={count(r.total.runs)} note={r.total.runs ? `${percent(r.total.succeeded / r.total.runs)} succeeded` : 'none yet'}>
        <div class="figure-note">{r.total.handed_back ? `${count(r.total.handed_back)} handed back` : ''}</div>
      </Figure>
      {r.repeats && (
        <Figure label="Exact repeats" title="Calls that agents repeated exactly; a cache would have answered them. Counted by the newest pass, not part of the savings" value={count(r.repeats.calls)} note={`in ${plural(r.repeats.sessions, 'session')}`} />
      )}
    </div>
  )
}

const dayName = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' })
const told = 5

const counted: [id: 'calls' | 'sessions' | 'agents' | 'tools', text: string][] = [
  ['calls', 'Tool calls'],
  ['sessions', 'Sessions'],
  ['agents', 'Agents'],
  ['tools', 'Tools'],
]

/** What was recorded by day; calls and sessions by agent, different tools of all of them. */
function Activity({ a }: { a: Schemas['ActivityReport'] }) {
  const [what, setWhat] = useParam('chart', 'calls')
  const tools = useData('tools-all', (signal) => get('/api/v1/tools', { query: { limit: 500 }, signal }))
  const agents = new Set(a.days.map((d) => d.agent)).size
  return (
    <Card title={<Tabs label="What is counted" at={what} set={setWhat} tabs={counted} />}>
      <div class="chart-room">
        {a.days.length === 0 ? (
          <p class="dim">No call in this time.</p>
        ) : (
          <>
            <p class="dim">
              {plural(a.calls, 'tool call')} in {plural(a.sessions, 'session')} by {plural(agents, 'agent')}
              {tools.data && `, ${plural(tools.data.items.length, 'known tool')}`}; days in UTC
            </p>
            <Bars {...seriesOf(a, what)} unit={what} show={count} />
          </>
        )}
      </div>
    </Card>
  )
}

function seriesOf(a: Schemas['ActivityReport'], what: string): { series: Series[]; labels: string[] } {
  const size = (d: Schemas['ActivityDay']) => (what === 'sessions' ? d.sessions : what === 'agents' ? 1 : d.calls)
  const first = Date.parse(a.days[0]!.day)
  const last = Date.parse(a.days.at(-1)!.day)
  const n = Math.min(400, Math.round((last - first) / 86_400_000) + 1)
  const begin = last - (n - 1) * 86_400_000
  const labels = Array.from({ length: n }, (_, i) => dayName.format(begin + i * 86_400_000))
  const at = (day: string) => Math.round((Date.parse(day) - begin) / 86_400_000)
  if (what === 'tools') {
    const values = new Array<number>(n).fill(0)
    for (const d of a.tools) if (at(d.day) >= 0) values[at(d.day)] = d.tools
    return { series: [{ name: 'different tools called', values }], labels }
  }
  const sums = new Map<string, number>()
  for (const d of a.days) sums.set(d.agent, (sums.get(d.agent) ?? 0) + size(d))
  const top = what === 'agents' ? [] : [...sums].sort((x, y) => y[1] - x[1]).slice(0, told).map(([name]) => name)
  const rest = what === 'agents' ? ['agents at work'] : sums.size > told ? ['others'] : []
  const series = [...top.map((name) => name || 'unnamed'), ...rest].map((name) => ({ name, values: new Array<number>(n).fill(0) }))
  for (const d of a.days) {
    const i = at(d.day)
    const k = top.indexOf(d.agent)
    const s = series[k >= 0 ? k : series.length - 1]
    if (s && i >= 0) s.values[i] = (s.values[i] ?? 0) + size(d)
  }
  return { series, labels }
}

function FlowsTable({ r }: { r: Schemas['SavingsReport'] }) {
  const rows = [...r.flows].sort((a, b) => b.measured.llm_calls.mean - a.measured.llm_calls.mean)
  if (rows.length === 0)
    return (
      <p class="pad dim">
        No flow has run in this time. <Link to="/proposals">The queue</Link> has what waits for a decision.
      </p>
    )
  return (
    <div class="scroll-x">
      <table class="mini">
        <thead>
          <tr>
            <th scope="col">Flow</th>
            <th scope="col" class="num">
              Runs
            </th>
            <th scope="col" class="num">
              Succeeded
            </th>
            <th scope="col" class="num">
              LLM calls avoided
            </th>
            <th scope="col" class="num">
              Money
            </th>
            <th scope="col" class="num">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((f) => (
            <tr key={`${f.flow}@${f.version}`} class="open" onClick={() => f.flow && navigate(to('flows', f.flow))}>
              <td>
                <Link to={to('flows', f.flow ?? '')}>{f.flow}</Link> <span class="dim">{f.version}</span>
              </td>
              <td class="num">{count(f.runs)}</td>
              <td class="num">{f.runs ? percent(f.succeeded / f.runs) : ''}</td>
              <td class="num">{f.measured.llm_calls.known ? interval(f.measured.llm_calls, (n) => count(Math.round(n))) : <span class="dim">not measured</span>}</td>
              <td class="num">{f.measured.cost_usd.known ? money(f.measured.cost_usd.mean) : <span class="dim">–</span>}</td>
              <td class="num">{f.measured.latency_ms.known ? duration(f.measured.latency_ms.mean) : <span class="dim">–</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Who calls flows, and who still walks their paths; nothing where no agent's telemetry has either. */
function AgentsTable({ from, range: key }: { from?: string; range: string }) {
  const report = useReport('adoption-by-agent', key, from)
  const rows = [...byAgent(report.data?.items)].map(([agent, days]) => ({ agent, calls: total(days, 'flow_calls'), walks: total(days, 'walks') }))
  if (rows.length === 0) return null
  rows.sort((a, b) => b.calls + b.walks - (a.calls + a.walks) || a.agent.localeCompare(b.agent))
  return (
    <Card title="Adoption by agent" tight>
      <div class="scroll-x">
        <table class="mini">
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col" class="num">
                Flow calls
              </th>
              <th scope="col" class="num">
                Walks by hand
              </th>
              <th scope="col" class="num">
                Adoption
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shownAgents).map((r) => (
              <tr key={r.agent}>
                <td>{r.agent ? <Link to={`${to('sessions')}?agent=${encodeURIComponent(r.agent)}`}>{r.agent}</Link> : <span class="dim">unnamed</span>}</td>
                <td class="num">{count(r.calls)}</td>
                <td class="num">{count(r.walks)}</td>
                <td class="num">{percent(share(r.calls, r.walks) ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shownAgents && <p class="pad dim">{plural(rows.length - shownAgents, 'more agent')}; <code>pave report adoption-by-agent</code> has all.</p>}
    </Card>
  )
}

const shownAgents = 20
