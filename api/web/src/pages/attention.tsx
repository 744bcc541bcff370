// What somebody should look at: drift, failing flows, dropped data, decisions that wait. The worst comes first.
import type { ComponentChildren } from 'preact'
import { get, useData, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago, percent, plural, Time } from '../format'
import { State } from '../parts/marks'
import { Card } from '../parts/page'
import { Loading } from '../parts/states'
import { byFlow, total, useReport } from '../report'
import { Link, to } from '../router'

interface Item {
  mark: ComponentChildren
  text: ComponentChildren
  at: string
  action: string
}

/** Below this share of walks as predicted a flow is told of, whatever the policy does by itself. */
const conforms = 0.9
const fewWalks = 5

export function Attention({ r, range, from }: { r?: Schemas['SavingsReport']; range: string; from?: string }) {
  const me = useMe()
  const queue = useData('attention-queue', (signal) => get('/api/v1/proposals', { query: { state: 'open', sort: 'created', limit: 500 }, signal }), 60_000)
  const flows = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const asking = useData('runs-waiting', (signal) => get('/api/v1/runs', { query: { status: 'awaiting_approval', limit: 100 }, signal }), 30_000)
  const stuck = useData('runs-interrupted', (signal) => get('/api/v1/runs', { query: { status: 'interrupted', limit: 100 }, signal }), 60_000)
  const ready = useData('ready', async (signal) => (await (await fetch('/readyz', { signal })).json()) as Schemas['Readiness'], 30_000)
  const service = useData('service', (signal) => get('/api/v1/service', { signal }), 30_000)
  const mining = useData('mining-status', (signal) => get('/api/v1/mining-status', { signal }), 30_000)
  const hooks = useData(me.may('admin') ? 'webhooks' : null, (signal) => get('/api/v1/webhooks', { signal }))
  const drift = useReport('drift', range, from)
  const items = [
    ...serviceItems(ready.data, mining.data, hooks.data),
    ...flowItems(flows.data, r, drift.data),
    ...dataItems(service.data),
    ...waitingItems(queue.data, asking.data, stuck.data),
  ]
  const read = [queue, flows, asking, stuck, ready, service, mining, hooks, drift]
  const unread = read.find((one) => one.error)?.error
  const loading = read.some((one) => one.loading && one.data === undefined && !one.error)
  return (
    <Card title="Needs attention">
      {unread && <p class="state warn">▲ Not everything could be read: {unread.message}</p>}
      {items.length === 0 ? (
        !unread && (loading ? <Loading rows={3} /> : <p class="state good">● Nothing waits and nothing is wrong.</p>)
      ) : (
        <ul class="attention">
          {items.map((item, i) => (
            <li key={i}>
              {item.mark}
              <Link to={item.at}>{item.action} →</Link>
              <div>{item.text}</div>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function serviceItems(ready?: Schemas['Readiness'], mining?: Schemas['MiningStatus'], hooks?: Schemas['WebhookPage']): Item[] {
  const failing = hooks?.items.filter((h) => h.state === 'disabled' || h.failing_since) ?? []
  return [
    ...(ready?.reasons ?? []).map((reason) => ({ mark: <State of="failed" text="service" />, text: <>{reason}</>, at: '/settings/service', action: 'how it stands' })),
    ...(mining?.last?.status === 'failed' ? [{ mark: <State of="failed" text="mining" />, text: <>The last pass failed: {mining.last.error}</>, at: '/patterns', action: 'patterns' }] : []),
    ...failing.map((h) => ({ mark: <State of="needs_review" text="webhook" />, text: <>{h.url} does not take events</>, at: `/settings/webhooks?hook=${encodeURIComponent(h.id)}`, action: 'deliveries' })),
  ]
}

function flowItems(flows?: Schemas['FlowPage'], r?: Schemas['SavingsReport'], drift?: Schemas['Report']): Item[] {
  const taken = flows?.items.filter((f) => f.status === 'needs_review') ?? []
  const active = new Set(flows?.items.filter((f) => f.status === 'active').map((f) => f.name))
  const strayed = [...byFlow(drift?.items)]
    .map(([name, rows]) => ({ name, walks: total(rows, 'walks'), exact: total(rows, 'exact') }))
    .filter((f) => active.has(f.name) && f.walks >= fewWalks && f.exact / f.walks < conforms)
  const failing = [...new Map((r?.flows ?? []).filter((f) => f.failed > 0).map((f) => [f.flow ?? '', f]))]
  return [
    ...taken.map((f) => ({ mark: <State of="needs_review" text="drift" />, text: <Taken name={f.name} version={f.active_version ?? f.versions.at(-1)?.version ?? ''} />, at: to('flows', f.name), action: 'look' })),
    ...strayed.map((f) => ({ mark: <State of="needs_review" text="drift" />, text: <>{f.name}: {percent(f.exact / f.walks)} of {plural(f.walks, 'walk')} by hand are as it predicts</>, at: to('flows', f.name), action: 'look' })),
    ...failing.map(([name, f]) => ({ mark: <State of="failed" text="failing" />, text: <>{name}: {f.failed} of {plural(f.runs, 'run')} failed</>, at: `/runs?status=failed&flow=${encodeURIComponent(name)}`, action: 'which' })),
  ]
}

/** A version that is out of service, with the reason. */
function Taken({ name, version }: { name: string; version: string }) {
  const v = useData(version ? `flow ${name}@${version}` : null, (signal) => get('/api/v1/flows/{name}/versions/{version}', { path: { name, version }, signal }))
  return (
    <>
      {name} {version} needs review{v.data?.reason && `: ${v.data.reason}`}
    </>
  )
}

function dataItems(s?: Schemas['Service']): Item[] {
  if (!s) return []
  const lost = (what: 'records' | 'requests') => s.lost.filter((l) => l.what === what).reduce((n, l) => n + l.count, 0)
  const parts = [lost('records') && plural(lost('records'), 'record'), lost('requests') && plural(lost('requests'), 'request')].filter(Boolean)
  return [
    ...(parts.length ? [{ mark: <State of="needs_review" text="data" />, text: <>{parts.join(' and ')} dropped since <Time at={s.started_at} />: {[...new Set(s.lost.map((l) => l.reason.replaceAll('_', ' ')))].join(', ')}</>, at: '/settings/data', action: 'why' }] : []),
    ...(s.dead_letters ? [{ mark: <State of="needs_review" text="data" />, text: <>{plural(s.dead_letters, 'request')} could not be read and {s.dead_letters === 1 ? 'is' : 'are'} kept</>, at: '/settings/data', action: 'which' }] : []),
  ]
}

function waitingItems(queue?: Schemas['ProposalPage'], asking?: Schemas['RunPage'], stuck?: Schemas['RunPage']): Item[] {
  const oldest = queue?.items.at(-1)
  return [
    ...(asking?.items.length ? [{ mark: <State of="awaiting_approval" text="approvals" />, text: <>{plural(asking.items.length, 'run')} {asking.items.length === 1 ? 'waits' : 'wait'} for somebody to approve a call</>, at: '/runs?status=awaiting_approval', action: 'decide' }] : []),
    ...(stuck?.items.length ? [{ mark: <State of="interrupted" text="runs" />, text: <>{plural(stuck.items.length, 'interrupted run')}: somebody must say whether to go on</>, at: '/runs?status=interrupted', action: 'which' }] : []),
    ...(queue?.items.length ? [{ mark: <State of="in_review" text="queue" />, text: <>{plural(queue.items.length, 'proposal')} to decide, the oldest made <Ago at={oldest?.created_at} /></>, at: '/proposals', action: 'review' }] : []),
  ]
}
