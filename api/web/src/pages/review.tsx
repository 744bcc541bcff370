// The review of one proposal: should this run without the model? What will run, why to believe it, what it brings and
// what can go wrong, in one screen; a mapping that the pointer is on lights up everywhere.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { del, get, patch, post, put, useData, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago, count, duration, interval, money, percent, plural, Time } from '../format'
import { flowOf, readFlow, type Mapping } from '../flow'
import { FlowDiagram, Hot } from '../parts/diagram'
import { Digest, Safety, savingsOf, State } from '../parts/marks'
import { Card, Page, Tabs, useAction, useKeys, useTitle } from '../parts/page'
import { Problem, Show } from '../parts/states'
import { Diff, Yaml } from '../parts/yamlview'
import { Link, navigate, to, useParam } from '../router'
import { yamlText } from '../yaml'
import { Discussion } from './discussion'
import { EditFlow, ReplayFacts } from './editflow'
import { Examples } from './examples'
import { HotEvidence, Mappings } from './mappings'
import { Decide } from './decide'
import { queueKey } from './proposals'

type Proposal = Schemas['Proposal']
type Verdict = Schemas['Verdict']

const closed = ['promoted', 'rejected', 'withdrawn', 'superseded']

export function ReviewPage({ args: [id = ''] }: { args: string[] }) {
  const proposal = useData(`proposal ${id}`, (signal) => get('/api/v1/proposals/{id}', { path: { id }, signal }))
  useTitle(proposal.data?.flow_name ?? 'Proposal')
  return (
    <Show of={proposal} rows={12}>
      {(p) => <Review p={p} reload={proposal.reload} key={p.id} />}
    </Show>
  )
}

function queuePlace(id: string) {
  const ids = (() => {
    try {
      return JSON.parse(sessionStorage.getItem(queueKey) ?? '[]') as string[]
    } catch {
      return []
    }
  })()
  const i = ids.indexOf(id)
  return { at: i, of: ids.length, before: ids[i - 1], after: i >= 0 ? ids[i + 1] : undefined }
}

function Review({ p, reload }: { p: Proposal; reload: () => void }) {
  const me = useMe()
  const flow = useMemo(() => readFlow(flowOf(p.flow)), [p.flow])
  const [hot, setHot] = useState<string | null>(null)
  const [picked, setPicked] = useState<Mapping | null>(null)
  const [tab, setTab] = useParam('tab', 'steps')
  const [ask, setAsk] = useState<Verdict | null>(null)
  const tools = useData('tools-all', (signal) => get('/api/v1/tools', { query: { limit: 500 }, signal }))
  const byName = useMemo(() => new Map(tools.data?.items.map((t) => [t.name, t])), [tools.data])
  const compiled = useData(`compile ${p.digest}`, (signal) => post('/api/v1/flows/compile', { body: p.flow, signal }))
  const active = useData(`active ${p.flow_name}`, (signal) => get('/api/v1/flows/{name}', { path: { name: p.flow_name }, signal }))
  const comments = useData(`comments ${p.id}`, (signal) => get('/api/v1/proposals/{id}/comments', { path: { id: p.id }, signal }))
  const queue = queuePlace(p.id)
  const undeclared = [...new Set(p.tools)].filter((name) => {
    const tool = byName.get(name)
    return tool !== undefined && tool.origin !== 'inferred' && !tool.safety
  })
  const open = !closed.includes(p.state)
  const may = open && me.may('review')
  const go = (other?: string) => other && navigate(to('proposals', other))
  useKeys({
    j: () => go(queue.after), k: () => go(queue.before),
    a: may ? () => setAsk('approve') : undefined, r: may ? () => setAsk('reject') : undefined, c: may ? () => setAsk('request_changes') : undefined,
    m: () => document.querySelector<HTMLElement>('#comment')?.focus(),
    u: () => navigate('/proposals'),
  })
  useEffect(() => {
    if (new URLSearchParams(location.search).has('comment')) document.querySelector<HTMLElement>('#comment')?.focus()
  }, [])
  const pattern = p.evidence.pattern
  return (
    <Hot.Provider value={{ hot: hot ?? picked?.id ?? null, set: setHot }}>
      <Page
        title={p.flow_name}
        crumbs={
          <>
            <Link to="/proposals">← queue</Link>
            {queue.at >= 0 && (
              <span class="dim">
                {queue.at + 1} of {queue.of}
              </span>
            )}
            <button type="button" class="small" disabled={!queue.before} onClick={() => go(queue.before)} title="k">
              ↑ <span class="sr">previous</span>
            </button>
            <button type="button" class="small" disabled={!queue.after} onClick={() => go(queue.after)} title="j">
              ↓ <span class="sr">next</span>
            </button>
          </>
        }
        lead={
          <>
            <State of={p.state} /> <Safety of={p.safety} />{' '}
            {p.occurrences ? `seen ${count(p.occurrences)} times in ${plural(p.sessions ?? 0, 'session')}${pattern?.agents ? `, ${plural(pattern.agents, 'agent')}` : ''}` : p.source === 'submitted' ? `submitted by ${p.author}` : 'never seen as a whole: built from tool schemas'}{' '}
            · draft <Digest of={p.digest} />
            {p.promoted_as && (
              <>
                {' '}
                · promoted as <Link to={to('flows', p.flow_name)}>{p.promoted_as}</Link>
              </>
            )}
          </>
        }
      >
        {p.returned && <p class="notice">It was rejected before and came back: {p.returned}</p>}
        {p.changed && <p class="notice">Last change of the draft: {p.changed}</p>}
        <div class="review">
          <div class="review-main">
            <Card title="What will run" tight>
              {flowOf(p.flow).description && <p class="dim pad">{flowOf(p.flow).description}</p>}
              <div class="will-run">
                <FlowDiagram
                  flow={flow}
                  evidence={p.evidence}
                  safety={(name) => byName.get(name)?.safety}
                  unbound={p.unbound}
                  comments={(step) => comments.data?.items.filter((c) => c.pointer.startsWith(`/steps/${step}/`) || c.pointer === `/steps/${step}`).length ?? 0}
                  picked={picked?.id}
                  pick={(m) => setPicked(picked?.id === m.id ? null : m)}
                />
                <HotEvidence flow={flow} evidence={p.evidence} id={hot ?? picked?.id ?? null} />
              </div>
            </Card>
            <Card
              title={
                <Tabs
                  label="The flow"
                  at={tab}
                  set={setTab}
                  tabs={[
                    ['steps', 'Arguments and evidence'],
                    ['yaml', 'YAML'],
                    ['diff', active.data ? `Diff to ${active.data.version}` : 'Diff'],
                    ...(open ? ([['edit', 'Edit']] as [string, string][]) : []),
                  ]}
                />
              }
              tight
            >
              {tab === 'steps' && <Mappings flow={flow} evidence={p.evidence} picked={picked} pick={setPicked} />}
              {tab === 'yaml' && <Yaml value={p.flow} flow={flow} />}
              {tab === 'diff' &&
                (active.data ? (
                  <Diff before={yamlText(active.data.flow)} after={yamlText(p.flow)} names={[`${active.data.version} (active)`, 'this draft']} />
                ) : active.error && active.error.status !== 404 ? (
                  <Problem error={active.error} />
                ) : (
                  <p class="dim pad">No version of {p.flow_name} is active: everything in this flow is new.</p>
                ))}
              {tab === 'edit' && open && <EditFlow p={p} saved={reload} />}
            </Card>
            <Examples p={p} flow={flow} />
          </div>
          <aside class="review-side">
            <Decision p={p} open={open} may={may} ask={setAsk} reload={reload} />
            <Believe p={p} reload={reload} />
            <Brings s={p.savings} />
            <Wrong p={p} compiled={compiled.data} tools={byName} loaded={tools.data !== undefined} bound={() => (reload(), tools.reload(), compiled.reload())} />
            <Discussion p={p} flow={flow} picked={picked} comments={comments} />
          </aside>
        </div>
        {ask && <Decide verdict={ask} rows={[p]} undeclared={undeclared} close={() => setAsk(null)} done={() => (setAsk(null), reload())} />}
      </Page>
    </Hot.Provider>
  )
}

function Decision({ p, open, may, ask, reload }: { p: Proposal; open: boolean; may: boolean; ask: (v: Verdict) => void; reload: () => void }) {
  const me = useMe()
  const own = p.author === me.principal || (p.editors ?? []).includes(me.principal)
  const assign = useAction((assignee: string) => patch('/api/v1/proposals/{id}', { path: { id: p.id }, body: { assignee }, ifMatch: p.revision }).then(reload))
  const reserve = useAction((on: boolean) => (on ? put('/api/v1/proposals/{id}/reservation', { path: { id: p.id } }) : del('/api/v1/proposals/{id}/reservation', { path: { id: p.id } })).then(reload))
  const reader = p.reservation && Date.parse(p.reservation.until) > Date.now() ? p.reservation : undefined
  const [rollout, setRollout] = useState(1)
  const promote = useAction(() => post('/api/v1/proposals/{id}/promote', { path: { id: p.id }, body: { rollout }, ifMatch: p.revision }).then(reload))
  return (
    <Card title="Decision">
      <p>
        Needs {plural(p.needs, 'approval')} ({p.safety === 'read' ? 'read-only' : p.safety}); has {p.approvals}.
      </p>
      <p class="dim">
        {own ? 'You wrote or edited it, so somebody else must approve.' : ''}
      </p>
      {open ? (
        <>
          <div class="decide">
            <button type="button" class="primary" disabled={!may} onClick={() => ask('approve')}>
              Approve <kbd>a</kbd>
            </button>
            <button type="button" disabled={!may} onClick={() => ask('request_changes')}>
              Changes <kbd>c</kbd>
            </button>
            <button type="button" class="danger" disabled={!may} onClick={() => ask('reject')}>
              Reject <kbd>r</kbd>
            </button>
          </div>
          {!me.may('review') && <p class="dim">Your key has no scope "review".</p>}
          {p.state === 'approved' && (
            <div class="promote">
              <button type="button" class="primary" disabled={!me.may('promote') || promote.busy} onClick={() => void promote.run()}>
                Promote
              </button>
              <select aria-label="For how many callers" title="The other callers stay with the version before, or go on by hand where there is none" value={rollout} onChange={(e) => setRollout(Number(e.currentTarget.value))}>
                {[1, 0.5, 0.25, 0.1, 0.01].map((share) => (
                  <option key={share} value={share}>
                    {share === 1 ? 'for all' : `for ${percent(share)}`}
                  </option>
                ))}
              </select>
              <span class="dim">{me.may('promote') ? `makes it ${p.next_version ? `version ${p.next_version.to}, ` : ''}the active version; agents can call it from then on` : 'Your key has no scope "promote".'}</span>
            </div>
          )}
          {p.next_version && (
            <p class="dim small-text">
              Next version {p.next_version.to} ({p.next_version.level}): {p.next_version.reasons.join('; ')}.
            </p>
          )}
          <p class="dim">
            By <span class="mono">{p.author}</span>,{' '}
            {p.assignee ? (
              <>
                assigned to <span class="mono">{p.assignee}</span>{' '}
                {p.assignee === me.principal && (
                  <button type="button" class="link" disabled={assign.busy} onClick={() => void assign.run('')}>
                    give back
                  </button>
                )}
              </>
            ) : (
              <>
                assigned to nobody{' '}
                {me.may('propose') && (
                  <button type="button" class="link" disabled={assign.busy} onClick={() => void assign.run(me.principal)}>
                    take it
                  </button>
                )}
              </>
            )}
          </p>
          {me.may('review') && (
            <p class="dim">
              {reader ? (
                <>
                  {reader.by === me.principal ? 'You read it' : <span class="state warn">▲ {reader.by} reads it</span>} until <Time at={reader.until} date={false} />{' '}
                </>
              ) : (
                'Nobody else reads it now '
              )}
              {(!reader || reader.by === me.principal) && (
                <button type="button" class="link" disabled={reserve.busy} onClick={() => void reserve.run(!reader)}>
                  {reader ? 'done reading' : 'I read it'}
                </button>
              )}
            </p>
          )}
          {reserve.error && <Problem error={reserve.error} />}
          {assign.error && <Problem error={assign.error} />}
          {promote.error && <Problem error={promote.error} />}
        </>
      ) : (
        <p>
          <State of={p.state} /> <Ago at={p.closed?.at ?? p.updated_at} />
          {p.closed && (
            <>
              {' '}
              by <span class="mono">{p.closed.by}</span>
            </>
          )}
          {p.closed?.reason && <span class="said">{p.closed.reason}</span>}
        </p>
      )}
    </Card>
  )
}

function Believe({ p, reload }: { p: Proposal; reload: () => void }) {
  const me = useMe()
  const check = useAction(() => post('/api/v1/proposals/{id}/replay-checks', { path: { id: p.id }, body: {} }).then(reload))
  const pattern = p.evidence.pattern
  const weak = pattern?.data_flow?.steps.flat().filter((a) => a.evidence.held < a.evidence.present) ?? []
  const contradict = new Set(weak.flatMap((a) => a.evidence.contradicting ?? [])).size
  const held = pattern?.data_flow?.held_out
  const batch = pattern?.batch
  const confidence = pattern?.step_confidence?.length ? Math.min(...pattern.step_confidence) : undefined
  return (
    <Card title="Why believe it">
      {p.sampled ? (
        <dl class="facts">
          {batch ? (
            <>
              <dt title="Occurrences in which callers knew the arguments of the first call and at least of the next before the first: the flow makes the calls that it is given and predicts nothing">
                Callers knew several calls
              </dt>
              <dd>
                {count(batch.several)} of {count(batch.examined)} ({percent(batch.several / Math.max(1, batch.examined))})
              </dd>
              <dt title="Occurrences in which they knew all calls; elsewhere a run hands back before the first step that it is given nothing for">Callers knew all</dt>
              <dd>
                {count(batch.whole)} of {count(batch.examined)} ({percent(batch.whole / Math.max(1, batch.examined))})
              </dd>
            </>
          ) : (
            <>
              <dt title="Occurrences in which every mapping reproduced every recorded argument at once">Reproduced exactly</dt>
              <dd>
                {count(p.explained ?? 0)} of {count(p.sampled)} ({percent((p.explained ?? 0) / p.sampled)})
              </dd>
            </>
          )}
          {held && held.windows > 0 && (
            <>
              <dt title="Occurrences in sessions that the mappings were not found in, in which every mapping gave what was recorded: found in one half of the sessions, tried on the other, both ways">Held out, exact</dt>
              <dd>
                {count(held.exact)} of {count(held.windows)} ({percent(held.exact / held.windows)})
              </dd>
              <dt title="Arguments that the mappings gave in them, and how many of these were as recorded">Held out, arguments</dt>
              <dd>
                {count(held.right)} of {count(held.predictions)} ({percent(held.right / Math.max(1, held.predictions))})
              </dd>
            </>
          )}
          {pattern?.success !== undefined && (
            <>
              <dt title="Share of occurrences without an error, with the lower bound of its Wilson interval">Ended well</dt>
              <dd>
                {percent(pattern.success)}
                {pattern.success_lower !== undefined && <span class="dim"> (at least {percent(pattern.success_lower)})</span>}
              </dd>
            </>
          )}
          {confidence !== undefined && (
            <>
              <dt title="How often the next step followed, at the weakest link of the path">Weakest link</dt>
              <dd>{percent(confidence)} go on</dd>
            </>
          )}
          {pattern?.expected !== undefined && (
            <>
              <dt title="Occurrences that chance alone would give (order-1 Markov model)">By chance</dt>
              <dd>
                {count(Math.round(pattern.expected))} expected, {count(pattern.occurrences)} seen
              </dd>
            </>
          )}
          {!batch && (
            <>
              <dt title="Sessions in which at least one argument was another than its mapping says">Contradicting</dt>
              <dd>{contradict === 0 ? 'no session' : plural(contradict, 'session')}</dd>
            </>
          )}
        </dl>
      ) : (
        <p class="dim">{p.source === 'submitted' ? 'Somebody wrote this flow; no recorded values stand behind it.' : 'Built from tool schemas: the types fit, but nobody walked this path as a whole.'}</p>
      )}
      <h3>Replay on recorded sessions</h3>
      {p.replay_check ? <ReplayFacts check={p.replay_check} /> : <p class="dim">This draft was not laid over recorded sessions yet.</p>}
      {me.may('review') && (
        <button type="button" class="small" disabled={check.busy} onClick={() => void check.run()}>
          {check.busy ? 'Checking…' : p.replay_check ? 'Check again' : 'Check now'}
        </button>
      )}
      {check.error && <Problem error={check.error} />}
      {p.shadow && (
        <>
          <h3>Shadow on live sessions</h3>
          <p>
            {p.shadow.passed ? <State of="ok" text="passed" /> : <State of="in_review" text="not passed yet" />}{' '}
            {p.shadow.given ? (
              <>
                callers could have given several calls in {plural(p.shadow.windows, 'walk')} of {plural(p.shadow.sessions, 'session')} with the first tool
              </>
            ) : (
              <>
                {count(p.shadow.exact)} of {count(p.shadow.windows)} walks as predicted
              </>
            )}{' '}
            <span class="dim">{p.shadow.reason}</span>
          </p>
        </>
      )}
      {(p.evidence.schema_edges?.length ?? 0) > 0 && (
        <ul class="plain">
          {p.evidence.schema_edges!.map((e, i) => (
            <li key={i}>
              <code>
                {e.producer}.{e.output_field} → {e.consumer}.{e.input_field}
              </code>{' '}
              <span class="dim">{e.rule}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

export function Brings({ s }: { s: Schemas['Savings'] }) {
  const { known, calls, tokens, cost, time } = savingsOf(s)
  const week = s.per_week
  return (
    <Card title="What it brings">
      {known ? (
        <dl class="facts">
          <dt title={s.per_call ? 'Mean of the recorded occurrences; a run saves by the calls that it is given' : undefined}>LLM calls a run</dt>
          <dd>
            {interval(calls, (n) => n.toFixed(1))}
            {s.per_call && s.calls_per_run && <span class="dim"> of {s.calls_per_run.mean.toFixed(1)} calls given</span>}
          </dd>
          {tokens.known > 0 && (
            <>
              <dt>Tokens a run</dt>
              <dd>{interval(tokens, (n) => count(Math.round(n)))}</dd>
            </>
          )}
          {cost.known > 0 && (
            <>
              <dt>Money a run</dt>
              <dd>{interval(cost, money)}</dd>
            </>
          )}
          {time.known > 0 && (
            <>
              <dt>Time a run</dt>
              <dd>{interval(time, duration)}</dd>
            </>
          )}
          {week !== undefined && week > 0 && (
            <>
              <dt title="Runs a week if agents keep walking the path as often as in the recordings">A week, about</dt>
              <dd>
                {count(Math.round(week))} runs = {count(Math.round(week * calls.mean))} LLM calls{cost.known > 0 && `, ${money(week * cost.mean)}`}
              </dd>
            </>
          )}
        </dl>
      ) : (
        <p class="dim">The recordings do not tell what it saves.</p>
      )}
      {s.basis && (
        <details class="basis">
          <summary>How this was measured</summary>
          <p class="dim small-text">{s.basis}</p>
        </details>
      )}
    </Card>
  )
}

/** A tool that nothing binds, with what would; a discovered tool of its name is bound by one click. */
function Bind({ name, how, done }: { name: string; how?: string; done: () => void }) {
  const me = useMe()
  const servers = useData('mcp-servers', (signal) => get('/api/v1/mcp-servers', { signal }))
  const offered = servers.data?.items.flatMap((s) => s.tools).find((t) => (t.tool_name ?? t.remote) === name && ['observed', 'unbound'].includes(t.match))
  const bind = useAction(() => post('/api/v1/tools/{name}/pin', { path: { name }, body: { server: offered!.server } }).then(done))
  return (
    <li>
      <Link to={to('tools', name)}>{name}</Link> <span class="dim">{how ?? 'declare it in a tool file, or discover the MCP server that has it'}</span>{' '}
      {offered && (
        <button type="button" class="small" disabled={!me.may('admin') || bind.busy} onClick={() => void bind.run()}>
          Bind to {offered.server}
        </button>
      )}
      {bind.error && <Problem error={bind.error} />}
    </li>
  )
}

function Wrong({ p, compiled, tools, loaded, bound }: { p: Proposal; bound: () => void; compiled?: Schemas['CompileReport']; tools: Map<string, Schemas['Tool']>; loaded: boolean }) {
  const names = [...new Set(p.tools)]
  const missing = p.unbound ?? []
  return (
    <Card title="What can go wrong">
      <ul class="checks">
        <li>
          {missing.length === 0 ? <State of="ok" text="every tool can be reached" /> : <State of="failed" text={`${plural(missing.length, 'tool')} cannot be reached yet`} />}
          {missing.length > 0 && (
            <ul>
              {missing.map((name) => (
                <Bind key={name} name={name} how={p.unbound_by?.[name]} done={bound} />
              ))}
            </ul>
          )}
        </li>
        {compiled && (
          <li>
            {compiled.ok ? <State of="ok" text="compiles" /> : <State of="failed" text="does not compile" />}
            {compiled.diagnostics.length > 0 && (
              <ul>
                {compiled.diagnostics.map((d, i) => (
                  <li key={i}>
                    <span class={`state ${d.severity === 'error' ? 'bad' : 'warn'}`}>{d.severity === 'error' ? '■' : '▲'}</span> {d.message} <code class="dim">{d.pointer}</code>
                  </li>
                ))}
              </ul>
            )}
          </li>
        )}
        {(p.warnings ?? []).map((w) => (
          <li key={w}>
            <span class="state warn">▲</span> {w}
          </li>
        ))}
      </ul>
      <table class="mini">
        <caption class="sr">Safety of each tool</caption>
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col">Effects</th>
            <th scope="col">Says who</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const tool = tools.get(name)
            const safety = (tool?.tool as { safety?: { source?: string; idempotent?: boolean } } | undefined)?.safety
            return (
              <tr key={name}>
                <td>
                  <Link to={to('tools', name)} class="mono">
                    {name}
                  </Link>
                </td>
                <td>
                  {loaded ? <Safety of={tool?.safety} /> : '…'}
                  {safety?.idempotent && <span class="dim"> idempotent</span>}
                </td>
                <td class="dim">{safety?.source ?? (loaded ? 'nobody' : '')}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </Card>
  )
}
