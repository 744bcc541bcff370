import { get, usePages, type Pages, type Schemas } from '../api'
import { useData } from '../api'
import { count, duration, money, Time } from '../format'
import { State } from '../parts/marks'
import { Page, useTitle } from '../parts/page'
import { Empty } from '../parts/states'
import { ListOf, type Column } from '../parts/table'
import { Link, navigate, to, useParam } from '../router'
import { HowToSend } from './start'

type Row = Schemas['SessionSummary']

export function SessionTable({ of, fit }: { of: Pages<Row>; fit?: boolean }) {
  const columns: Column<Row>[] = [
    { head: 'Session', width: '24%', cell: (s) => <Link to={to('sessions', s.id)} class="mono">{s.id}</Link> },
    { head: 'Agents', hide: 'narrow', cell: (s) => <span title={s.agents.join(', ')}>{s.agents.join(', ') || <span class="dim">unnamed</span>}</span> },
    { head: 'Started', width: '172px', cell: (s) => <Time at={s.start} /> },
    { head: 'Took', num: true, width: '84px', cell: (s) => (s.start && s.end ? duration(Date.parse(s.end) - Date.parse(s.start)) : <span class="dim">–</span>) },
    { head: 'Turns', title: 'Messages of the user', num: true, width: '64px', hide: 'narrow', cell: (s) => count(s.user_turns) },
    { head: 'Tool calls', num: true, width: '88px', cell: (s) => count(s.tool_calls) },
    { head: 'LLM calls', num: true, width: '92px', cell: (s) => count(s.llm.calls) },
    { head: 'Tokens', title: 'Input and output tokens of the calls whose tokens are known', num: true, width: '84px', hide: 'medium', cell: (s) => (s.llm.calls_with_tokens ? count((s.llm.input_tokens ?? 0) + (s.llm.output_tokens ?? 0)) : <span class="dim">–</span>) },
    { head: 'Cost', num: true, width: '76px', hide: 'medium', cell: (s) => (s.llm.calls_with_cost ? money(s.llm.cost_usd ?? 0) : <span class="dim">–</span>) },
    { head: 'Errors', num: true, width: '84px', cell: (s) => (s.errors ? <State of="error" text={count(s.errors)} /> : <span class="dim">0</span>) },
    { head: 'Repeats', title: 'Calls that repeated the one before exactly', num: true, width: '88px', hide: 'medium', cell: (s) => (s.repeats ? count(s.repeats) : <span class="dim">0</span>) },
  ]
  return (
    <ListOf of={of} columns={columns} id={(s) => s.id} label="Sessions" fit={fit} open={(s) => navigate(to('sessions', s.id))} empty={<p class="dim pad">no session</p>} />
  )
}

const day = 86_400_000

/** The `from` of a time range such as "7d", rounded so that it stays the same for a while. */
export function since(range: string): string | undefined {
  const days = Number(range.replace('d', ''))
  return days > 0 ? new Date(Math.floor(Date.now() / 60_000) * 60_000 - days * day).toISOString() : undefined
}

export function Range({ value, set }: { value: string; set: (v: string) => void }) {
  return (
    <label>
      Time{' '}
      <select value={value} onChange={(e) => set(e.currentTarget.value)}>
        <option value="">all</option>
        <option value="1d">last day</option>
        <option value="7d">last week</option>
        <option value="30d">last 30 days</option>
        <option value="90d">last 90 days</option>
      </select>
    </label>
  )
}

export function SessionsPage() {
  useTitle('Sessions')
  const [agent, setAgent] = useParam('agent')
  const [tool, setTool] = useParam('tool')
  const [range, setRange] = useParam('range')
  const [id, setId] = useParam('id')
  const list = usePages(`sessions ${agent} ${tool} ${range}`, (cursor, signal) => get('/api/v1/sessions', { query: { limit: 200, cursor, agent, tool, from: since(range) }, signal }))
  const tools = useData('tools-all', (signal) => get('/api/v1/tools', { query: { limit: 500 }, signal }))
  const agents = [...new Set(list.data?.flatMap((s) => s.agents) ?? [])].sort()
  const want = id.trim().toLowerCase()
  const rows = list.data?.filter((s) => !want || s.id.toLowerCase().includes(want))
  const filtered = agent || tool || range
  return (
    <Page fill title="Sessions" lead="What did the agents do?">
      <form
        class="filters"
        role="search"
        onSubmit={(e) => {
          e.preventDefault()
          if (want && rows?.length !== 1) navigate(to('sessions', id.trim()))
          else if (rows?.[0]) navigate(to('sessions', rows[0].id))
        }}
      >
        <Range value={range} set={setRange} />
        <label>
          Agent <input list="agents" value={agent} placeholder="any" size={16} onChange={(e) => setAgent(e.currentTarget.value)} />
        </label>
        <label>
          Tool <input list="tools" value={tool} placeholder="any" size={20} onChange={(e) => setTool(e.currentTarget.value)} />
        </label>
        <input type="search" aria-label="Session id" placeholder="Id; Enter opens it" value={id} onInput={(e) => setId(e.currentTarget.value)} />
        <datalist id="agents">
          {agents.map((a) => (
            <option key={a} value={a} />
          ))}
        </datalist>
        <datalist id="tools">
          {tools.data?.items.map((t) => (
            <option key={t.name} value={t.name} />
          ))}
        </datalist>
      </form>
      {rows && rows.length === 0 ? (
        filtered || want ? (
          <Empty title="No session passes these filters">{want && <p>Enter looks for the exact id among all sessions.</p>}</Empty>
        ) : (
          <Empty title="No session is recorded yet">
            <HowToSend />
          </Empty>
        )
      ) : (
        <SessionTable of={{ ...list, data: rows }} />
      )}
    </Page>
  )
}
