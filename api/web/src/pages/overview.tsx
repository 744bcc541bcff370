// Is it worth it, and is anything wrong?
import { get, useData, type Schemas } from '../api'
import { Ago, count, duration, interval, money, percent, plural } from '../format'
import { Bars, type Series } from '../parts/charts'
import { Figure, State } from '../parts/marks'
import { Card, Page, useTitle } from '../parts/page'
import { Empty, Problem, Show } from '../parts/states'
import { Link, navigate, to, useParam } from '../router'
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
          <Show of={report} rows={2}>
            {(r) => <Savings r={r} from={from} range={range} />}
          </Show>
          <div class="split">
            <div>
              <Card title="Tool calls by day and agent">
                <div class="chart-room">
                  <Show of={activity} rows={5}>
                    {(a) => <Activity a={a} />}
                  </Show>
                </div>
              </Card>
              <Card title="Flows by what they avoid" tight>
                {report.data ? <FlowsTable r={report.data} /> : report.error ? <Problem error={report.error} /> : null}
              </Card>
            </div>
            <aside>
              <Attention />
            </aside>
          </div>
        </>
      )}
    </Page>
  )
}

function Savings({ r, from, range: key }: { r: Schemas['SavingsReport']; from?: string; range: string }) {
  const adopted = useData(`adoption ${key}`, (signal) => get('/api/v1/reports/{kind}', { path: { kind: 'adoption' }, query: { from }, signal }))
  const coverage = useData(`coverage ${key}`, (signal) => get('/api/v1/reports/{kind}', { path: { kind: 'coverage' }, query: { from }, signal }))
  const runs = total(adopted.data, 'runs')
  const walks = total(adopted.data, 'walks')
  const adoption = runs + walks > 0 ? runs / (runs + walks) : undefined
  const all = total(coverage.data, 'tool_calls')
  const covered = all > 0 ? weighted(coverage.data, 'coverage') / all : undefined
  const realised = all > 0 ? weighted(coverage.data, 'realised') / all : 0
  const m = r.total.measured
  const e = r.total.estimate
  const repeats = r.repeats
  const shown = (f: Schemas['Figure'], show: (n: number) => string) => (f.known ? show(f.mean) : r.total.runs === 0 ? show(0) : '–')
  const range = (f: Schemas['Figure'], show: (n: number) => string) => (f.known ? (Math.abs(f.high - f.low) < 1e-9 ? 'measured, no spread' : `${show(f.low)} to ${show(f.high)}`) : r.total.runs === 0 ? 'no run yet' : 'not recorded')
  const whole = (n: number) => count(Math.round(n))
  return (
    <div class="figures">
      <Figure label="LLM calls avoided" title="Measured: what the replaced stretches used in the recorded sessions, for each run that succeeded; with its 95 % interval" value={shown(m.llm_calls, whole)} note={range(m.llm_calls, whole)}>
        <div class="figure-note">estimate by step count {whole(e.llm_calls)}</div>
      </Figure>
      <Figure label="Tokens" title="Input and output tokens of those model calls, measured" value={shown(m.tokens, whole)} note={range(m.tokens, whole)}>
        <div class="figure-note">estimate {whole(e.tokens)}</div>
      </Figure>
      <Figure label="Money" title="Their cost at the dated price table, measured" value={shown(m.cost_usd, money)} note={range(m.cost_usd, money)}>
        <div class="figure-note">estimate {money(e.cost_usd)}</div>
      </Figure>
      <Figure label="Time" title="How long those model calls took, measured" value={shown(m.latency_ms, duration)} note={range(m.latency_ms, duration)}>
        <div class="figure-note">estimate {duration(e.latency_ms)}</div>
      </Figure>
      <Figure
        label="Adoption" title="Runs of flows, as a share of runs and of walks of the same paths by hand" value={adoption === undefined ? '–' : percent(adoption)}
        note={adoption === undefined ? 'no run and no walk yet' : `still by hand: ${plural(walks, 'walk')}`}
      />
      <Figure
        label="Coverage" title="Tool calls on the paths of active flows, by hand or by a flow, as a share of all" value={covered === undefined ? '–' : percent(covered)}
        note={covered === undefined ? 'no call yet' : `${percent(realised)} made by flows`}
      />
      <Figure label="Flow runs" title="Finished runs of promoted flows" value={count(r.total.runs)} note={r.total.runs ? `${percent(r.total.succeeded / r.total.runs)} succeeded` : 'none yet'}>
        <div class="figure-note">{r.total.handed_back ? `${count(r.total.handed_back)} handed back` : ''}</div>
      </Figure>
      {repeats && (
        <Figure label="Exact repeats" title="Calls that agents repeated exactly; a cache would have answered them. Counted by the newest pass, not part of the savings" value={count(repeats.calls)} note={`in ${plural(repeats.sessions, 'session')}`} />
      )}
    </div>
  )
}

const total = (report: Schemas['Report'] | undefined, column: string) => (report?.items ?? []).reduce((sum, row) => sum + Number((row as Record<string, unknown>)[column] ?? 0), 0)

/** The calls behind a daily share. */
const weighted = (report: Schemas['Report'] | undefined, share: string) =>
  (report?.items ?? []).reduce((sum, row) => sum + Number((row as Record<string, unknown>)[share] ?? 0) * Number((row as Record<string, unknown>)['tool_calls'] ?? 0), 0)

const dayName = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' })
const told = 5

function Activity({ a }: { a: Schemas['ActivityReport'] }) {
  if (a.days.length === 0) return <p class="dim">No call in this time.</p>
  const sums = new Map<string, number>()
  for (const d of a.days) sums.set(d.agent, (sums.get(d.agent) ?? 0) + d.calls)
  const top = [...sums].sort((x, y) => y[1] - x[1]).slice(0, told).map(([name]) => name)
  const first = Date.parse(a.days[0]!.day)
  const last = Date.parse(a.days.at(-1)!.day)
  const n = Math.min(400, Math.round((last - first) / 86_400_000) + 1)
  const begin = last - (n - 1) * 86_400_000
  const labels = Array.from({ length: n }, (_, i) => dayName.format(begin + i * 86_400_000))
  const series: Series[] = [...top.map((name) => ({ name: name || 'unnamed', values: new Array<number>(n).fill(0) })), ...(sums.size > told ? [{ name: 'others', values: new Array<number>(n).fill(0) }] : [])]
  for (const d of a.days) {
    const i = Math.round((Date.parse(d.day) - begin) / 86_400_000)
    const k = top.indexOf(d.agent)
    const s = series[k >= 0 ? k : series.length - 1]
    if (s && i >= 0) s.values[i] = (s.values[i] ?? 0) + d.calls
  }
  return (
    <>
      <p class="dim">
        {plural(a.calls, 'tool call')} in {plural(a.sessions, 'session')} by {plural(sums.size, 'agent')}; days in UTC
      </p>
      <Bars series={series} labels={labels} unit="calls" show={count} />
    </>
  )
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

function Attention() {
  const queue = useData('attention-queue', (signal) => get('/api/v1/proposals', { query: { state: 'open', sort: 'created', limit: 500 }, signal }), 60_000)
  const flows = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const failed = useData('attention-failed', (signal) => get('/api/v1/runs', { query: { status: 'failed', limit: 50 }, signal }), 60_000)
  const asking = useData('runs-waiting', (signal) => get('/api/v1/runs', { query: { status: 'awaiting_approval', limit: 100 }, signal }), 30_000)
  const ready = useData('ready', async (signal) => (await (await fetch('/readyz', { signal })).json()) as Schemas['Readiness'], 30_000)
  const stopped = flows.data?.items.filter((f) => f.status === 'needs_review' || f.status === 'disabled') ?? []
  const week = Date.now() - 7 * 86_400_000
  const recent = failed.data?.items.filter((r) => Date.parse(r.started_at) > week) ?? []
  const oldest = queue.data?.items.at(-1)
  const rows = [
    ...(ready.data?.reasons ?? []).map((reason) => ({ state: <State of="failed" text="service" />, text: <>{reason}</>, at: '/settings/service', action: 'why' })),
    ...(queue.data?.items.length
      ? [{ state: <State of="in_review" text="queue" />, text: <>{plural(queue.data.items.length, 'proposal')} in the queue, the oldest from <Ago at={oldest?.created_at} /></>, at: '/proposals', action: 'review' }]
      : []),
    ...(asking.data?.items.length ? [{ state: <State of="awaiting_approval" text="approvals" />, text: <>{plural(asking.data.items.length, 'run')} waiting for somebody to approve a call</>, at: '/runs?status=awaiting_approval', action: 'decide' }] : []),
    ...stopped.map((f) => ({ state: <State of={f.status ?? 'disabled'} />, text: <>{f.name} {f.active_version}</>, at: to('flows', f.name), action: 'look' })),
    ...(recent.length ? [{ state: <State of="failed" text="runs" />, text: <>{plural(recent.length, 'run')} failed in the last week</>, at: '/runs?status=failed', action: 'which' }] : []),
  ]
  return (
    <Card title="Needs attention">
      {rows.length === 0 ? (
        <p class="state good">● Nothing waits and nothing is wrong.</p>
      ) : (
        <ul class="attention">
          {rows.map((row, i) => (
            <li key={i}>
              {row.state}
              <span>{row.text}</span>
              <Link to={row.at}>{row.action} →</Link>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}
