// One run: what happened, step by step; again with the tools as they are now; differences side by side.
import { useMemo, useState } from 'preact/hooks'
import { get, post, useData, type Schemas } from '../api'
import { useMe } from '../app'
import { flowOf, readable, readFlow } from '../flow'
import { Ago, count, duration, money, plural, Time } from '../format'
import { FlowDiagram } from '../parts/diagram'
import { recordSoFar, useLive } from '../live'
import { Figure, Safety, State, Tag, ToolName } from '../parts/marks'
import { Ask, Check } from '../parts/form'
import { Card, Page, Tabs, useAction, useTitle } from '../parts/page'
import { Problem, Show } from '../parts/states'
import { Tree } from '../parts/tree'
import { contexts, type RunRecord, type StepRecord } from '../record'
import { Link, to, useParam } from '../router'
import { took } from './runs'

type Run = Schemas['Run']

export function RunPage({ args: [id = ''] }: { args: string[] }) {
  useTitle('Run')
  const run = useData(`run ${id}`, (signal) => get('/api/v1/runs/{id}', { path: { id }, signal }))
  return (
    <Show of={run} rows={12}>
      {(r) => <RunView run={r} reload={run.reload} />}
    </Show>
  )
}

const goesOn = (run: Run) => run.status === 'running' || run.status === 'awaiting_approval'

function RunView({ run, reload }: { run: Run; reload: () => void }) {
  const me = useMe()
  const going = goesOn(run)
  const live = useLive(run.id, going, reload)
  const record = (run.record as RunRecord | undefined) ?? (going ? recordSoFar(run, live) : undefined)
  const version = useData(`flow ${run.flow}@${run.version}`, (signal) => get('/api/v1/flows/{name}/versions/{version}', { path: { name: run.flow, version: run.version }, signal }))
  const flow = useMemo(() => (version.data ? readFlow(flowOf(version.data.flow)) : undefined), [version.data])
  const [resuming, setResuming] = useState(false)
  const [report, setReport] = useState<Schemas['ReplayReport']>()
  const replay = useAction((mode: 'verify' | 'reuse') => post('/api/v1/runs/{id}/replay', { path: { id: run.id }, body: { mode } }).then(setReport))
  const cancel = useAction(() => post('/api/v1/runs/{id}/cancel', { path: { id: run.id } }).then(reload))
  const ms = run.duration_ms ?? record?.total_duration_ms ?? took(run)
  const steps = record?.execution_log ?? []
  const calls = steps.filter((s) => !s.skipped && !s.cached).length
  return (
    <Page
      title={run.flow}
      crumbs={<Link to="/runs">← runs</Link>}
      lead={
        <>
          <State of={run.status} /> <Link to={to('flows', run.flow, run.version)}>version {run.version}</Link> · <Time at={run.started_at} /> by <span class="mono">{run.caller}</span> · <code class="dim">{run.id}</code>{' '}
          {run.dry_run && <Tag>dry run</Tag>}
        </>
      }
      actions={
        <>
          {going && (
            <>
              <span class="waiting" role="status">
                <span class="pulse" aria-hidden="true" /> {live.connected ? 'live' : 'connecting'}
              </span>
              <button type="button" class="danger" disabled={!me.may('run') || cancel.busy} onClick={() => void cancel.run()}>
                Cancel the run
              </button>
            </>
          )}
          {['interrupted', 'failed', 'cancelled'].includes(run.status) && (
            <button type="button" disabled={!me.may('run')} onClick={() => setResuming(true)}>
              Resume…
            </button>
          )}
        <button type="button" disabled={!me.may('run') || going || !record || replay.busy} onClick={() => void replay.run('verify')} title="Runs the same version again with the same input and compares every step">
          Replay and compare
        </button>
        </>
      }
    >
      {run.error_code && (
        <div class="problem">
          <h2>{run.status === 'handed_back' ? 'Handed back to the agent' : run.status === 'denied' ? 'An approval was denied' : 'It did not succeed'}</h2>
          <p>{run.error_message}</p>
          <code>{run.error_code}</code>
        </div>
      )}
      {record?.hand_back && !run.error_code && (
        <div class="problem">
          <h2>Handed back to the agent</h2>
          <p>{String(record.hand_back.reason ?? 'A guard or a choice ended the run here; the agent goes on with what is known.')}</p>
        </div>
      )}
      <div class="figures">
        <Figure label="Took" title="From start to end of the run" value={ms === undefined ? '…' : duration(ms)} note={`${plural(steps.length, 'step')}, ${plural(calls, 'call')}`} />
        <Figure label="LLM calls avoided" title="Measured in the recorded sessions that the flow replaces" {...avoided(run, run.llm_calls_avoided, count)} />
        {run.tokens_avoided !== undefined && <Figure label="Tokens avoided" title="Measured in the recorded sessions that the flow replaces" {...avoided(run, run.tokens_avoided, (n) => count(Math.round(n)))} />}
        {run.cost_usd_avoided !== undefined && <Figure label="Money saved" title="Measured in the recorded sessions that the flow replaces" {...avoided(run, run.cost_usd_avoided, money)} />}
        {run.latency_ms_avoided !== undefined && <Figure label="Time saved" title="What the replaced model calls took in the recorded sessions" {...avoided(run, run.latency_ms_avoided, duration)} />}
      </div>
      {cancel.error && <Problem error={cancel.error} />}
      {(run.approvals ?? []).length > 0 && <Approvals run={run} reload={reload} />}
      {replay.error && <Problem error={replay.error} />}
      {report && <Differences report={report} />}
      {record ? (
        <Timeline record={record} outKeys={flow?.steps.map((s) => s.out) ?? []} now={live.now} total={going ? (live.total ?? flow?.steps.length) : undefined} />
      ) : (
        <p class="dim">No record of this run was written.</p>
      )}
      <div class="split">
        <Card title="Result">
          {going ? <p class="dim">It has not ended yet.</p> : <Tree value={run.output ?? record?.final_output} depth={2} />}
        </Card>
        {flow && (
          <Card title="The flow" tight>
            <FlowDiagram flow={flow} marks={(i) => (live.now.has(i) ? { tone: 'busy', text: '◐ running' } : markOf(steps.find((s) => s.step_index === i)))} />
          </Card>
        )}
      </div>
      {resuming && <Resume run={run} close={() => setResuming(false)} done={() => (setResuming(false), reload())} />}
    </Page>
  )
}

/** What a run avoided; one that did not succeed avoided nothing. */
function avoided(run: Run, n: number | undefined, show: (n: number) => string): { value: string; note: string } {
  if (n !== undefined) return { value: show(n), note: 'measured' }
  return { value: '–', note: goesOn(run) ? 'counts when it succeeds' : run.status === 'succeeded' ? 'not measured' : 'only runs that succeed count' }
}

/** The step of an approval as pages number them. */
const stepNo = (step: string) => (/^\d+$/.test(step) ? String(Number(step) + 1) : step)

/** Calls that wait for a person, with their arguments, and decisions that were made. */
function Approvals({ run, reload }: { run: Run; reload: () => void }) {
  const me = useMe()
  const [reason, setReason] = useState('')
  const decide = useAction((step: string, decision: 'approve' | 'deny') =>
    post('/api/v1/runs/{id}/approvals', { path: { id: run.id }, body: { step, decision, ...(reason ? { reason } : {}) }, ifMatch: run.revision ?? 0 }).then(reload),
  )
  return (
    <Card title="Approvals">
      {run.approvals!.map((a) => (
        <div key={a.step} class="approval">
          <p>
            {a.decision === 'pending' ? <State of="awaiting_approval" text="waits for a decision" /> : <State of={a.decision === 'approve' ? 'ok' : 'failed'} text={a.decision === 'approve' ? 'approved' : 'denied'} />} step {stepNo(a.step)}: <ToolName name={a.tool_name} />{' '}
            <Safety of={a.side_effects} />
          </p>
          {a.why && <p>{a.why}</p>}
          <Tree value={a.inputs} depth={2} />
          {a.decision === 'pending' ? (
            <>
              <p class="dim">
                asked <Ago at={a.requested_at} />, expires <Time at={a.expires_at} />. The approval holds for exactly these arguments.
              </p>
              <div class="actions">
                <input aria-label="Reason" placeholder="Reason (optional)" value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
                <button type="button" class="primary" disabled={!me.may('review') || decide.busy} onClick={() => void decide.run(a.step, 'approve')}>
                  Approve the call
                </button>
                <button type="button" class="danger" disabled={!me.may('review') || decide.busy} onClick={() => void decide.run(a.step, 'deny')}>
                  Deny
                </button>
              </div>
            </>
          ) : (
            <p class="dim">
              by <span class="mono">{a.decided_by}</span> <Ago at={a.decided_at} /> {a.reason}
            </p>
          )}
        </div>
      ))}
      {decide.error && <Problem error={decide.error} />}
    </Card>
  )
}

function Resume({ run, close, done }: { run: Run; close: () => void; done: () => void }) {
  const [unsafe, setUnsafe] = useState(false)
  return (
    <Ask title="Resume the run" close={close} submit="Resume" act={() => post('/api/v1/runs/{id}/resume', { path: { id: run.id }, query: { wait: '200ms' }, body: unsafe ? { repeat_unsafe: true } : {} }).then(done)}>
      <p class="dim">It goes on from its last checkpoint; what has run is not run again.</p>
      <Check checked={unsafe} set={setUnsafe} first>
        also repeat a call that may have happened and is not safe to repeat
      </Check>
    </Ask>
  )
}

function markOf(s?: StepRecord) {
  if (!s) return { tone: 'calm', text: '○ not reached' }
  if (s.skipped) return { tone: 'calm', text: '○ skipped' }
  if (s.cached) return { tone: 'good', text: '● cached' }
  return s.success ? { tone: 'good', text: '● ok' } : { tone: 'bad', text: '■ failed' }
}

interface TimelineProps {
  record: RunRecord
  outKeys: (string | undefined)[]
  now?: Map<number, string> // steps that run at this moment
  total?: number // of a run that goes on
}

export function Timeline({ record, outKeys, now, total }: TimelineProps) {
  const [at, setAt] = useParam('step')
  const starts = record.execution_log.map((s) => (s.started_at ? Date.parse(s.started_at) : NaN))
  const zero = Math.min(...starts.filter((t) => !Number.isNaN(t)))
  const span = Math.max(0.001, ...record.execution_log.map((s, i) => (Number.isNaN(starts[i]) ? 0 : starts[i]! - zero + (s.duration_ms ?? 0))))
  const after = contexts(record, outKeys)
  return (
    <Card title={total ? `Steps: ${record.execution_log.length} of ${total} done` : 'Steps'} tight>
      <ol class="timeline" aria-live="polite">
        {record.execution_log.map((s, i) => {
          const open = at === String(i + 1)
          const left = Number.isNaN(starts[i]) ? 0 : ((starts[i]! - zero) / span) * 100
          const width = Math.max(0.6, ((s.duration_ms ?? 0) / span) * 100)
          return (
            <li key={i} class={open ? 'open' : ''}>
              <button type="button" class="timeline-row" aria-expanded={open} onClick={() => setAt(open ? '' : String(i + 1))}>
                <span class="box-no">{s.step_index + 1}</span>
                <span class="mono timeline-name">{s.tool_name}</span>
                <StepMarks s={s} />
                <span class="timeline-track" aria-hidden="true">
                  <span class={`timeline-bar ${s.success ? 'good' : s.skipped ? 'calm' : 'bad'}`} style={{ left: `${Math.min(left, 99)}%`, width: `${Math.min(width, 100 - left)}%` }} />
                </span>
                <span class="num">{s.duration_ms === undefined ? '' : duration(s.duration_ms)}</span>
              </button>
              {open && <StepBody s={s} before={after[i - 1] ?? record.initial_input ?? {}} after={after[i] ?? {}} />}
            </li>
          )
        })}
        {[...(now ?? [])].map(([i, tool]) => (
          <li key={`now ${i}`} class="timeline-row">
            <span class="box-no">{i + 1}</span>
            <span class="mono timeline-name">{tool}</span>
            <State of="running" />
          </li>
        ))}
        {record.execution_log.length === 0 && !now?.size && <li class="pad dim">No step has begun.</li>}
      </ol>
    </Card>
  )
}

function StepMarks({ s }: { s: StepRecord }) {
  return (
    <span class="timeline-marks">
      <State of={s.skipped ? 'withdrawn' : s.success ? 'ok' : 'failed'} text={s.skipped ? 'skipped' : s.success ? 'ok' : (s.error_code ?? 'failed')} />
      {s.cached && <Tag title="The answer came from the step cache">cached</Tag>}
      {(s.retry_count ?? 0) > 0 && <Tag title="Attempts after the first">retry {s.retry_count}</Tag>}
      {s.fallback_used && <Tag title="The step's own tool failed; another answered">fallback {s.fallback_tool_name}</Tag>}
      {s.flow_name && <Tag>flow {s.flow_name}</Tag>}
    </span>
  )
}

function StepBody({ s, before, after }: { s: StepRecord; before: Record<string, unknown>; after: Record<string, unknown> }) {
  const [tab, setTab] = useState('io')
  return (
    <div class="timeline-body">
      <Tabs
        label={`Step ${s.step_index + 1}`}
        at={tab}
        set={setTab}
        tabs={[
          ['io', 'Inputs and outputs'],
          ['context', 'Context'],
          ['attempts', `Attempts ${1 + (s.retry_count ?? 0)}`],
        ]}
      />
      {s.error_message && (
        <p class="state bad">
          ■ <code>{s.error_code}</code> {s.error_message}
        </p>
      )}
      {tab === 'io' && (
        <div class="two">
          <div>
            <h4>Inputs</h4>
            <Tree value={s.inputs} />
          </div>
          <div>
            <h4>Outputs</h4>
            <Tree value={s.outputs} />
          </div>
        </div>
      )}
      {tab === 'context' && (
        <div class="two">
          <div>
            <h4>Before</h4>
            <Tree value={before} depth={1} />
          </div>
          <div>
            <h4>After</h4>
            <p class="dim">this step wrote: {Object.keys(after).filter((k) => after[k] !== before[k]).join(', ') || 'nothing'}</p>
            <Tree value={after} depth={1} />
          </div>
        </div>
      )}
      {tab === 'attempts' && (
        <>
          <p>
            <ToolName name={s.tool_name} />: {plural(1 + (s.retry_count ?? 0), 'attempt')}.
          </p>
          {(s.retry_errors ?? []).length > 0 && <Tree value={s.retry_errors} />}
          {s.decision != null && <Tree value={{ decision: s.decision }} depth={3} />}
          {s.approval != null && <Tree value={{ approval: s.approval }} depth={3} />}
        </>
      )}
      {s.sub_result && <Timeline record={s.sub_result} outKeys={[]} />}
    </div>
  )
}

export function Differences({ report }: { report: Schemas['ReplayReport'] }) {
  return (
    <Card title={report.match ? 'Replay: no difference' : `Replay: ${plural(report.diffs.length, 'difference')}`}>
      {report.match ? (
        <p class="state good">● Every step answered as recorded.</p>
      ) : (
        <div class="scroll-x">
          <table class="mini">
            <thead>
              <tr>
                <th scope="col">Step</th>
                <th scope="col">Field</th>
                <th scope="col">Recorded</th>
                <th scope="col">Now</th>
              </tr>
            </thead>
            <tbody>
              {report.diffs.map((d, i) => (
                <tr key={i}>
                  <td>{d.step_index < 0 ? 'whole run' : `${d.step_index + 1} ${d.tool_name}`}</td>
                  <td>
                    <code>{d.field}</code>
                  </td>
                  <td class="mono diff-removed">{readable(d.expected)}</td>
                  <td class="mono diff-added">{readable(d.actual)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  )
}
