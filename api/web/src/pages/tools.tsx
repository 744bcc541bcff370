import { get, usePages, type Schemas } from '../api'
import { Ago } from '../format'
import { Safety, State } from '../parts/marks'
import { Page, useTitle } from '../parts/page'
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
