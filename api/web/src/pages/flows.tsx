import { get, useData, usePages, type Schemas } from '../api'
import { Ago, count, interval, money, percent } from '../format'
import { State, Steps } from '../parts/marks'
import { Page, useTitle } from '../parts/page'
import { Empty } from '../parts/states'
import { ListOf, type Column } from '../parts/table'
import { savingsOfFlow } from '../report'
import { Link, navigate, to, useParam } from '../router'

type Row = Schemas['FlowSummary']

export function FlowsPage() {
  useTitle('Flows')
  const [status, setStatus] = useParam('status')
  const [text, setText] = useParam('q')
  const list = usePages('flows', (cursor, signal) => get('/api/v1/flows', { query: { limit: 200, cursor }, signal }))
  const report = useData('savings-all', (signal) => get('/api/v1/reports/savings', { signal }))
  const saved = new Map(list.data?.map((f) => [f.name, savingsOfFlow(report.data, f.name)]))
  const want = text.trim().toLowerCase()
  const rows = list.data?.filter((f) => (!status || f.status === status) && (!want || f.name.toLowerCase().includes(want) || f.tools.some((t) => t.toLowerCase().includes(want))))
  const columns: Column<Row>[] = [
    { head: 'Flow', width: '28%', cell: (f) => <Link to={to('flows', f.name)} title={f.description}>{f.name}</Link> },
    { head: 'Status', width: '124px', cell: (f) => (f.status ? <State of={f.status} /> : <span class="dim">no active version</span>) },
    { head: 'Version', width: '104px', cell: (f) => (f.active_version ? <>{f.active_version} {f.rollout && <span class="dim" title="Of the callers who name no version">{percent(f.rollout.share)}</span>}</> : <span class="dim">none</span>) },
    { head: 'Steps', hide: 'medium', cell: (f) => <Steps tools={f.tools} /> },
    { head: 'Runs', num: true, width: '76px', cell: (f) => count(saved.get(f.name)?.runs ?? 0) },
    { head: 'Succeeded', num: true, width: '92px', hide: 'narrow', cell: (f) => ((saved.get(f.name)?.runs ?? 0) > 0 ? percent(saved.get(f.name)!.succeeded / saved.get(f.name)!.runs) : <span class="dim">no runs</span>) },
    { head: 'LLM calls avoided', title: 'Measured: what the replaced stretches used in the recorded sessions, times the runs', num: true, width: '150px', cell: (f) => figure(saved.get(f.name)?.measured.llm_calls, (n) => count(Math.round(n))) },
    { head: 'Money', title: 'Measured', num: true, width: '132px', hide: 'medium', cell: (f) => figure(saved.get(f.name)?.measured.cost_usd, money) },
    { head: 'Promoted', num: true, width: '92px', hide: 'narrow', cell: (f) => <Ago at={f.versions.at(-1)?.created_at} /> },
  ]
  return (
    <Page fill title="Flows" lead="What runs without the model, and does it work?">
      <div class="filters" role="search">
        <label>
          Status{' '}
          <select value={status} onChange={(e) => setStatus(e.currentTarget.value)}>
            <option value="">any</option>
            <option value="active">active</option>
            <option value="needs_review">needs review</option>
            <option value="disabled">disabled</option>
          </select>
        </label>
        <input type="search" aria-label="Filter by flow or tool" placeholder="Flow or tool" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </div>
      <ListOf
        of={{ ...list, data: rows }}
        columns={columns}
        id={(f) => f.name}
        label="Flows"
        open={(f) => navigate(to('flows', f.name))}
        empty={
          list.data?.length ? (
            <Empty title="No flow passes these filters" />
          ) : (
            <Empty title="No flow has been promoted yet">
              <p>
                A flow starts as a <Link to="/proposals">proposal</Link>; approved and promoted, it appears here and agents can call it.
              </p>
            </Empty>
          )
        }
      />
    </Page>
  )
}

function figure(f: Schemas['Figure'] | undefined, show: (n: number) => string) {
  if (!f || !f.known) return <span class="dim">not measured</span>
  return interval(f, show)
}
