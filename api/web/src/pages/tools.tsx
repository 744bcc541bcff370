import { get, useData, usePages, type Schemas } from '../api'
import { Ago, count, duration } from '../format'
import { Safety, State } from '../parts/marks'
import { Card, Page, useTitle } from '../parts/page'
import { Empty } from '../parts/states'
import { ListOf, type Column } from '../parts/table'
import { Link, navigate, to, useParam } from '../router'

type Row = Schemas['Tool']

export const bindingOf = (t: Row) => (t.tool as { binding?: { kind?: string; url?: string; method?: string; server?: string; tool?: string; pool?: string } }).binding

function reach(t: Row): string {
  const b = bindingOf(t)
  if (!b) return ''
  return [b.kind, b.method, b.url ?? b.server ?? b.pool, b.kind === 'mcp' ? b.tool : ''].filter(Boolean).join(' ')
}

/** The worker pools, where there are any: what waits, and whether somebody serves it. */
function Pools() {
  const pools = useData('pools', (signal) => get('/api/v1/workers', { signal }), 10_000)
  if (!pools.data?.items.length) return null
  return (
    <Card title="Worker pools" tight>
      <table class="mini">
        <thead>
          <tr>
            <th scope="col">Pool</th>
            <th scope="col">State</th>
            <th scope="col" class="num">
              Waiting
            </th>
            <th scope="col" class="num">
              Oldest
            </th>
            <th scope="col" class="num">
              With workers
            </th>
            <th scope="col">Workers</th>
            <th scope="col">Last asked</th>
          </tr>
        </thead>
        <tbody>
          {pools.data.items.map((p) => (
            <tr key={p.pool}>
              <td class="mono">{p.pool}</td>
              <td>{p.workers.length > 0 ? <State of="ok" text="served" /> : <State of="failed" text="nobody serves it" />}</td>
              <td class="num">{count(p.queued)}</td>
              <td class="num">{p.queued ? duration(p.oldest_ms) : <span class="dim">–</span>}</td>
              <td class="num">{count(p.leased)}</td>
              <td class="mono">{p.workers.join(', ')}</td>
              <td>
                <Ago at={p.polled_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  )
}

export function ToolsPage() {
  useTitle('Tools')
  const [text, setText] = useParam('q')
  const [bound, setBound] = useParam('bound')
  const list = usePages('tools', (cursor, signal) => get('/api/v1/tools', { query: { limit: 500, cursor }, signal }))
  const want = text.trim().toLowerCase()
  const rows = list.data?.filter((t) => (!want || t.name.toLowerCase().includes(want)) && (!bound || String(t.bound) === bound))
  const columns: Column<Row>[] = [
    { head: 'Tool', width: '28%', cell: (t) => <Link to={to('tools', t.name)} class="mono">{t.name}</Link> },
    { head: 'Effects', width: '104px', cell: (t) => <Safety of={t.safety} /> },
    { head: 'Reached', width: '112px', cell: (t) => (t.bound ? <State of="ok" text="bound" /> : <State of="unknown" text="not bound" />) },
    { head: 'How', hide: 'medium', cell: (t) => <span class="mono dim">{reach(t)}</span> },
    { head: 'Known from', width: '110px', cell: (t) => t.origin },
    { head: 'Schema', width: '96px', hide: 'narrow', cell: (t) => <code class="dim">{t.schema_hash.slice(0, 8)}</code> },
    { head: 'Changed', num: true, width: '100px', cell: (t) => <Ago at={t.updated_at} /> },
  ]
  return (
    <Page fill title="Tools" lead="What can flows call, and what does it do to the world?">
      <div class="filters" role="search">
        <label>
          Reached{' '}
          <select value={bound} onChange={(e) => setBound(e.currentTarget.value)}>
            <option value="">any</option>
            <option value="true">bound</option>
            <option value="false">not bound</option>
          </select>
        </label>
        <input type="search" aria-label="Filter by name" placeholder="Name" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </div>
      <Pools />
      <ListOf
        of={{ ...list, data: rows }}
        columns={columns}
        id={(t) => t.name}
        label="Tools"
        open={(t) => navigate(to('tools', t.name))}
        empty={
          list.data?.length ? (
            <Empty title="No tool passes these filters" />
          ) : (
            <Empty title="No tool is known yet">
              <p>
                Tools are declared in files (<code>pave tools apply tools.yaml</code>), or known from recorded calls once a pass has mined them.
              </p>
            </Empty>
          )
        }
      />
    </Page>
  )
}
