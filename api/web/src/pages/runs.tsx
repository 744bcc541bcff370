import { get, useData, usePages, type Pages, type Schemas } from '../api'
import { count, duration, plural, Time } from '../format'
import { State, Tag } from '../parts/marks'
import { Page, useTitle } from '../parts/page'
import { Empty } from '../parts/states'
import { ListOf, type Column } from '../parts/table'
import { Link, navigate, to, useParam } from '../router'

type Row = Schemas['Run']

export const took = (r: Row) => (r.ended_at ? Date.parse(r.ended_at) - Date.parse(r.started_at) : undefined)

export function RunTable({ of, flow, fit }: { of: Pages<Row>; flow?: string; fit?: boolean }) {
  const columns: Column<Row>[] = [
    { head: 'Started', width: '172px', cell: (r) => <Link to={to('runs', r.id)}><Time at={r.started_at} /></Link> },
    { head: flow ? 'Version' : 'Flow', width: flow ? '132px' : undefined, cell: (r) => <>{flow ? r.version : <>{r.flow} <span class="dim">{r.version}</span></>} {r.dry_run && <Tag>dry run</Tag>}</> },
    { head: 'Status', width: '160px', cell: (r) => <State of={r.status} /> },
    { head: 'Why', hide: 'medium', cell: (r) => (r.error_code ? <span title={r.error_message}><code>{r.error_code}</code> {r.error_message}</span> : null) },
    { head: 'Steps', num: true, width: '76px', hide: 'narrow', cell: (r) => (r.steps === undefined ? '' : `${count(r.steps_done ?? 0)} of ${count(r.steps)}`) },
    { head: 'Took', num: true, width: '92px', cell: (r) => { const ms = r.duration_ms ?? took(r); return ms === undefined ? <span class="dim">…</span> : duration(ms) } },
    { head: 'Caller', width: '160px', hide: 'medium', cell: (r) => <span class="mono">{r.caller}</span> },
  ]
  return (
    <ListOf
      of={of}
      columns={columns}
      id={(r) => r.id}
      label="Runs"
      fit={fit}
      open={(r) => navigate(to('runs', r.id))}
      empty={
        <Empty title="No run is recorded here">
          <p>
            Agents run active flows over MCP or the API, people with <code>pave run</code> or from a <Link to="/flows">flow's page</Link>.
          </p>
        </Empty>
      }
    />
  )
}

const statuses: Schemas['RunStatus'][] = ['running', 'awaiting_approval', 'succeeded', 'failed', 'handed_back', 'denied', 'cancelled', 'interrupted']

export function RunsPage() {
  useTitle('Runs')
  const [status, setStatus] = useParam('status')
  const [flow, setFlow] = useParam('flow')
  const waiting = useData('runs-waiting', (signal) => get('/api/v1/runs', { query: { status: 'awaiting_approval', limit: 100 }, signal }), 15_000)
  const list = usePages(`runs ${status} ${flow}`, (cursor, signal) => get('/api/v1/runs', { query: { limit: 200, cursor, flow, ...(status ? { status: status as 'running' } : {}) }, signal }))
  return (
    <Page
      fill
      title="Runs"
      lead="What did flows do?"
      actions={
        <button type="button" onClick={list.reload}>
          Refresh
        </button>
      }
    >
      <div class="filters" role="search">
        <label>
          Status{' '}
          <select value={status} onChange={(e) => setStatus(e.currentTarget.value)}>
            <option value="">any</option>
            {statuses.map((s) => (
              <option key={s} value={s}>
                {s.replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        </label>
        <input type="search" aria-label="Flow" placeholder="Flow name" value={flow} onChange={(e) => setFlow(e.currentTarget.value)} />
      </div>
      {(waiting.data?.items.length ?? 0) > 0 && status !== 'awaiting_approval' && (
        <p class="notice">
          {plural(waiting.data!.items.length, 'run')} {waiting.data!.items.length === 1 ? 'waits' : 'wait'} for somebody to approve a call:{' '}
          {waiting.data!.items.slice(0, 5).map((r, i) => (
            <span key={r.id}>
              {i > 0 && ', '}
              <Link to={to('runs', r.id)}>{r.flow}</Link>
            </span>
          ))}
        </p>
      )}
      <RunTable of={list} />
    </Page>
  )
}
