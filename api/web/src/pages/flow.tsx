// One flow: its versions, what it does, how it runs, what it saves; run it, disable it, go back.
import { useMemo, useState } from 'preact/hooks'
import { get, post, put, useData, usePages, type Schemas } from '../api'
import { useMe } from '../app'
import { flowOf, readFlow } from '../flow'
import { Ago, count, duration, money, percent, plural } from '../format'
import { FlowDiagram, Hot } from '../parts/diagram'
import { Digest, Figure, State } from '../parts/marks'
import { Ask, Check, Num, Text } from '../parts/form'
import { Card, Page, Tabs, useTitle } from '../parts/page'
import { Problem, Show } from '../parts/states'
import { Diff, Yaml } from '../parts/yamlview'
import { byFlow, measured, savingsOfFlow, share, total, useReport } from '../report'
import { Link, navigate, to, useParam } from '../router'
import { yamlText } from '../yaml'
import { Brings } from './review'
import { RunForm } from './runform'
import { RunTable } from './runs'

type Version = Schemas['FlowVersion']

export function FlowPage({ args: [name = '', version] }: { args: string[] }) {
  useTitle(name)
  const list = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const summary = list.data?.items.find((f) => f.name === name)
  const wanted = version ?? summary?.active_version ?? summary?.versions.at(-1)?.version
  const flow = useData(wanted ? `flow ${name}@${wanted}` : null, (signal) => get('/api/v1/flows/{name}/versions/{version}', { path: { name, version: wanted! }, signal }))
  const missing = useData(list.data && !wanted ? `flow ${name}` : null, (signal) => get('/api/v1/flows/{name}', { path: { name }, signal }))
  const shown = wanted ? flow : list.error ? { ...list, data: undefined } : missing
  return (
    <Show of={shown} rows={12}>
      {(v) => <FlowView v={v} summary={summary} reload={() => (flow.reload(), list.reload())} />}
    </Show>
  )
}

function FlowView({ v, summary, reload }: { v: Version; summary?: Schemas['FlowSummary']; reload: () => void }) {
  const me = useMe()
  const [tab, setTab] = useParam('tab', 'diagram')
  const [hot, setHot] = useState<string | null>(null)
  const [change, setChange] = useState<Schemas['FlowStatus'] | null>(null)
  const [running, setRunning] = useState(false)
  const [back, setBack] = useState(false)
  const [sharing, setSharing] = useState(false)
  const flow = useMemo(() => readFlow(flowOf(v.flow)), [v.flow])
  const report = useData('savings-all', (signal) => get('/api/v1/reports/savings', { signal }))
  const saved = savingsOfFlow(report.data, v.name)
  const adopted = byFlow(useReport('adoption', '').data?.items).get(v.name)
  const walks = total(adopted, 'walks')
  const adoption = share(total(adopted, 'runs'), walks)
  const drift = byFlow(useReport('drift', '').data?.items).get(v.name)
  const seen = total(drift, 'walks')
  const tools = useData('tools-all', (signal) => get('/api/v1/tools', { query: { limit: 500 }, signal }))
  const safety = new Map(tools.data?.items.map((t) => [t.name, t.safety]))
  return (
    <Hot.Provider value={{ hot, set: setHot }}>
      <Page
        title={v.name}
        crumbs={<Link to="/flows">← flows</Link>}
        lead={
          <>
            <State of={v.status} /> version {v.version} {served(v)} · <Digest of={v.digest} />{' '}
            {v.promoted_by && (
              <>
                · promoted by <span class="mono">{v.promoted_by}</span> <Ago at={v.created_at} />
              </>
            )}
          </>
        }
        actions={
          <>
            <button type="button" class="primary" disabled={!me.may('run') || v.status !== 'active'} onClick={() => setRunning(true)}>
              Run…
            </button>
            {v.active && v.rollout && (
              <button type="button" disabled={!me.may('promote')} onClick={() => setSharing(true)}>
                Roll out…
              </button>
            )}
            {!v.active && (
              <button type="button" disabled={!me.may('promote') || !summary?.active_version} onClick={() => setBack(true)}>
                Go back to this version…
              </button>
            )}
            {v.status !== 'active' && (
              <button type="button" disabled={!me.may('promote')} onClick={() => setChange('active')}>
                Activate…
              </button>
            )}
            {v.status !== 'disabled' && (
              <button type="button" class="danger" disabled={!me.may('promote')} onClick={() => setChange('disabled')}>
                Disable…
              </button>
            )}
          </>
        }
      >
        {v.reason && (
          <p class="notice">
            <State of={v.status} /> {v.reason}
          </p>
        )}
        <div class="figures">
          <Figure label="Runs" title="Finished runs of all versions" value={count(saved?.runs ?? 0)} note={saved?.runs ? `${percent(saved.succeeded / saved.runs)} succeeded` : 'none yet'} />
          <Figure label="Not succeeded" title="Failed runs, runs that were handed back to the agent, and runs that people denied" value={count((saved?.failed ?? 0) + (saved?.handed_back ?? 0) + (saved?.denied ?? 0))} note={`${count(saved?.failed ?? 0)} failed, ${count(saved?.handed_back ?? 0)} handed back${saved?.denied ? `, ${count(saved.denied)} denied` : ''}`} />
          <Figure label="LLM calls avoided" title="Measured in the recorded sessions, times the runs. 95 % interval" {...measured(saved?.measured.llm_calls, (n) => count(Math.round(n)))} />
          <Figure label="Money saved" title="Measured in the recorded sessions, times the runs. 95 % interval" {...measured(saved?.measured.cost_usd, money)} />
          <Figure label="Time saved" title="Measured in the recorded sessions, times the runs. 95 % interval" {...measured(saved?.measured.latency_ms, duration)} />
          <Figure label="Adoption" title="Runs, as a share of runs and of walks of its path by hand" value={adoption === undefined ? '–' : percent(adoption)} note={adoption === undefined ? 'no run and no walk yet' : `${plural(walks, 'walk')} still by hand`} />
          <Figure
            label="Drift" title="Walks of its path by hand that were not as the flow predicts, and how often a version was taken out of service" value={seen ? percent(1 - total(drift, 'exact') / seen) : '–'}
            note={seen ? `of ${plural(seen, 'walk')} by hand` : 'nobody walked it by hand'}
          >
            <div class="figure-note">{total(drift, 'taken_out') > 0 && `out of service ${plural(total(drift, 'taken_out'), 'time')}`}</div>
          </Figure>
        </div>
        <div class="split">
          <div>
            <Card
              tight
              title={
                <Tabs
                  label="The flow"
                  at={tab}
                  set={setTab}
                  tabs={[
                    ['diagram', 'Diagram'],
                    ['yaml', 'YAML'],
                    ['diff', 'Diff'],
                    ['runs', 'Runs'],
                    ['steps', 'Step times'],
                  ]}
                />
              }
            >
              {tab === 'diagram' && (
                <>
                  <p class="dim pad">{flowOf(v.flow).description}</p>
                  <FlowDiagram flow={flow} safety={(name) => safety.get(name)} />
                </>
              )}
              {tab === 'yaml' && <Yaml value={v.flow} flow={flow} />}
              {tab === 'diff' && <VersionDiff v={v} versions={summary?.versions ?? []} />}
              {tab === 'runs' && <FlowRuns name={v.name} />}
              {tab === 'steps' && <Profile name={v.name} />}
            </Card>
          </div>
          <aside>
            <Card title="Versions" tight>
              <table class="mini">
                <thead>
                  <tr>
                    <th scope="col">Version</th>
                    <th scope="col">Status</th>
                    {summary?.rollout && (
                      <th scope="col" class="num" title="Share of the callers who name no version">
                        Callers
                      </th>
                    )}
                    <th scope="col">Since</th>
                  </tr>
                </thead>
                <tbody>
                  {(summary?.versions ?? []).toReversed().map((one) => (
                    <tr key={one.version} class={one.version === v.version ? 'at' : ''}>
                      <td>
                        <Link to={to('flows', v.name, one.version)}>{one.version}</Link>
                      </td>
                      <td>
                        <State of={one.status} />
                      </td>
                      {summary?.rollout && <td class="num">{one.share ? percent(one.share) : '–'}</td>}
                      <td>
                        <Ago at={one.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Card>
            <Brings s={v.savings} />
            {v.shadow && (
              <Card title="Conformance on live sessions">
                <dl class="facts">
                  {v.shadow.given ? (
                    <>
                      <dt title="Walks in which callers could have given several calls before the first; the flow predicts none of them">Could be given</dt>
                      <dd>
                        {plural(v.shadow.windows, 'walk')} of {plural(v.shadow.sessions, 'session')}
                      </dd>
                    </>
                  ) : (
                    <>
                      <dt title="Walks of its path that were as the flow predicted">As predicted</dt>
                      <dd>
                        {count(v.shadow.exact)} of {count(v.shadow.windows)}
                      </dd>
                    </>
                  )}
                  {v.shadow.conformance !== undefined && !v.shadow.given && (
                    <>
                      <dt>Last 50 walks</dt>
                      <dd>{percent(v.shadow.conformance)}</dd>
                    </>
                  )}
                </dl>
              </Card>
            )}
            <Card title="Where it comes from">
              {v.proposal_id ? (
                <p>
                  <Link to={to('proposals', v.proposal_id)}>The proposal with its evidence and reviews</Link>
                </p>
              ) : (
                <p class="dim">No proposal is known.</p>
              )}
            </Card>
          </aside>
        </div>
        {change && <ChangeStatus v={v} status={change} close={() => setChange(null)} done={() => (setChange(null), reload())} />}
        {back && <GoBack v={v} active={summary?.active_version ?? ''} close={() => setBack(false)} done={() => (setBack(false), reload())} />}
        {sharing && <RollOut v={v} close={() => setSharing(false)} done={() => (setSharing(false), reload())} />}
        {running && <RunForm v={v} close={() => setRunning(false)} done={(run) => navigate(to('runs', run.id))} />}
      </Page>
    </Hot.Provider>
  )
}

/** Who gets a version without naming it. */
function served(v: Version) {
  if (v.rollout && v.share) return <span class="state warn">▲ serves {percent(v.share)} of the callers, {v.active ? (v.rollout.rest_version ? `${v.rollout.rest_version} the others` : 'the others go on by hand') : `${v.rollout.version} the others`}</span>
  return v.active ? '(a run without a version takes this one)' : <span class="state warn">▲ not the active version</span>
}

function RollOut({ v, close, done }: { v: Version; close: () => void; done: () => void }) {
  const [share, setShare] = useState(100)
  const [reason, setReason] = useState('')
  return (
    <Ask
      title={`Roll out ${v.name} ${v.version}`} close={close} submit="Roll out" ready={share > 0 && share <= 100 && reason.trim() !== ''}
      act={() => put('/api/v1/flows/{name}/rollout', { path: { name: v.name }, body: { version: v.version, rollout: share / 100, reason }, ifMatch: v.revision }).then(done)}
    >
      <p class="dim">Now it serves {percent(v.share ?? 0)} of the callers who name no version. With more, those keep it; with 100 % the rollout is over. Runs in flight finish on their plan.</p>
      <Num label="Share of the callers, in percent" value={share} set={setShare} min={0} max={100} first />
      <Text label="Why" rows={3} required value={reason} set={setReason} />
    </Ask>
  )
}

function ChangeStatus({ v, status, close, done }: { v: Version; status: Schemas['FlowStatus']; close: () => void; done: () => void }) {
  const [reason, setReason] = useState('')
  const [drift, setDrift] = useState(false)
  const verb = status === 'active' ? 'Activate' : 'Disable'
  const body = { status, reason, ...(drift ? { accept_drift: true } : {}) }
  return (
    <Ask
      title={`${verb} ${v.name} ${v.version}`} close={close} submit={verb} danger={status === 'disabled'} ready={reason.trim() !== ''}
      act={() => put('/api/v1/flows/{name}/versions/{version}/status', { path: { name: v.name, version: v.version }, body, ifMatch: v.revision }).then(done)}
    >
      <p class="dim">{status === 'disabled' ? 'Calls of the flow are refused from now on; runs in flight end on their plan.' : 'The version may run again.'}</p>
      <Text label="Why" rows={3} first required value={reason} set={setReason} />
      {status === 'active' && v.status === 'needs_review' && (
        <Check checked={drift} set={setDrift}>
          accept that a pinned tool changed; its new schema is pinned
        </Check>
      )}
    </Ask>
  )
}

function GoBack({ v, active, close, done }: { v: Version; active: string; close: () => void; done: () => void }) {
  const [reason, setReason] = useState('')
  const now = useData(`flow ${v.name}@${active}`, (signal) => get('/api/v1/flows/{name}/versions/{version}', { path: { name: v.name, version: active }, signal }))
  return (
    <Ask
      title={`Go back to ${v.name} ${v.version}`} close={close} submit="Go back" ready={now.data !== undefined && reason.trim() !== ''}
      act={() => post('/api/v1/flows/{name}/rollback', { path: { name: v.name }, body: { to: v.version, reason }, ifMatch: now.data!.revision }).then(done)}
    >
      <p class="dim">
        Version {v.version} becomes the active one; {active} goes to review with the reason. Runs in flight finish on their plan.
      </p>
      <Text label="Why" rows={3} first required value={reason} set={setReason} />
      {now.error && <Problem error={now.error} />}
    </Ask>
  )
}

function VersionDiff({ v, versions }: { v: Version; versions: Schemas['FlowVersionRef'][] }) {
  const others = versions.filter((o) => o.version !== v.version)
  const [against, setAgainst] = useParam('against', others.at(-1)?.version ?? '')
  const other = useData(against ? `flow ${v.name}@${against}` : null, (signal) => get('/api/v1/flows/{name}/versions/{version}', { path: { name: v.name, version: against }, signal }))
  if (others.length === 0) return <p class="dim pad">There is only this version.</p>
  return (
    <>
      <label class="pad">
        Against{' '}
        <select value={against} onChange={(e) => setAgainst(e.currentTarget.value)}>
          {others.map((o) => (
            <option key={o.version}>{o.version}</option>
          ))}
        </select>
      </label>
      <Show of={other}>{(o) => <Diff before={yamlText(o.flow)} after={yamlText(v.flow)} names={[o.version, v.version]} />}</Show>
    </>
  )
}

function FlowRuns({ name }: { name: string }) {
  const runs = usePages(`runs of ${name}`, (cursor, signal) => get('/api/v1/runs', { query: { flow: name, limit: 100, cursor }, signal }))
  return <RunTable of={runs} flow={name} fit />
}

function Profile({ name }: { name: string }) {
  const profile = useData(`profile ${name}`, (signal) => get('/api/v1/flows/{name}/profile', { path: { name }, signal }))
  return (
    <Show of={profile}>
      {(p) =>
        p.runs === 0 ? (
          <p class="dim pad">No run is recorded yet.</p>
        ) : (
          <div class="scroll-x">
            <table class="mini">
              <caption class="dim">The newest {count(p.runs)} runs. Percentiles of the time of a step.</caption>
              <thead>
                <tr>
                  <th scope="col">Step</th>
                  <th scope="col" class="num">
                    p50
                  </th>
                  <th scope="col" class="num">
                    p95
                  </th>
                  <th scope="col" class="num">
                    max
                  </th>
                  <th scope="col" class="num">
                    failed
                  </th>
                  <th scope="col" class="num">
                    retries
                  </th>
                  <th scope="col" class="num">
                    cached
                  </th>
                </tr>
              </thead>
              <tbody>
                {p.steps.map((s) => (
                  <tr key={s.step_index}>
                    <td>
                      <span class="box-no">{s.step_index + 1}</span> <Link to={to('tools', s.tool_name)} class="mono">{s.tool_name}</Link>
                    </td>
                    <td class="num">{duration(s.durations.p50_ms)}</td>
                    <td class="num">{duration(s.durations.p95_ms)}</td>
                    <td class="num">{duration(s.durations.max_ms)}</td>
                    <td class="num">{count(s.failed)}</td>
                    <td class="num">{count(s.retries)}</td>
                    <td class="num">{count(s.cached)}</td>
                  </tr>
                ))}
                <tr class="sum">
                  <td>whole run</td>
                  <td class="num">{duration(p.total.p50_ms)}</td>
                  <td class="num">{duration(p.total.p95_ms)}</td>
                  <td class="num">{duration(p.total.max_ms)}</td>
                  <td class="num">{count(p.failed)}</td>
                  <td />
                  <td />
                </tr>
              </tbody>
            </table>
          </div>
        )
      }
    </Show>
  )
}

