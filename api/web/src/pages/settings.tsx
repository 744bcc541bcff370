import { useState } from 'preact/hooks'
import { del, get, post, put, send, useData, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago, Time } from '../format'
import { Safety, State } from '../parts/marks'
import { Card, Copy, Dialog, Field, Page, Tabs, useAction, useTitle } from '../parts/page'
import { Problem, Show } from '../parts/states'
import { navigate } from '../router'

const sections: [string, string][] = [
  ['keys', 'Keys'],
  ['policy', 'Policy'],
  ['webhooks', 'Webhooks'],
  ['service', 'Service'],
]

export function SettingsPage({ args: [section = 'keys'] }: { args: string[] }) {
  useTitle('Settings')
  return (
    <Page title="Settings" lead="Who may do what, and how does the service stand?">
      <Tabs label="Settings" at={section} set={(s) => navigate(`/settings/${s}`)} tabs={sections} />
      {section === 'policy' ? <PolicyView /> : section === 'webhooks' ? <Webhooks /> : section === 'service' ? <Service /> : <Keys />}
    </Page>
  )
}

const scopes: [Schemas['Scope'], string][] = [
  ['ingest', 'record calls'], ['read', 'see everything recorded'], ['propose', 'mine and submit proposals'], ['review', 'approve and reject'],
  ['promote', 'promote, disable, withdraw'], ['run', 'run flows'], ['work', 'answer calls of a worker pool'], ['admin', 'everything'],
]

function Keys() {
  const keys = useData('keys', (signal) => get('/api/v1/api-keys', { signal }))
  const [making, setMaking] = useState(false)
  const [ending, setEnding] = useState<Schemas['ApiKey'] | null>(null)
  return (
    <Card title="API keys" actions={<button type="button" class="primary" onClick={() => setMaking(true)}>New key…</button>} tight>
      <Show of={keys}>
        {(page) => (
          <div class="scroll-x">
            <table class="mini">
              <thead>
                <tr>
                  <th scope="col">Principal</th>
                  <th scope="col">Begins with</th>
                  <th scope="col">May</th>
                  <th scope="col">Made</th>
                  <th scope="col">Last used</th>
                  <th scope="col">Ends</th>
                  <th scope="col">State</th>
                  <th scope="col">
                    <span class="sr">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {page.items.map((k) => (
                  <tr key={k.id} class={k.revoked ? 'faded' : ''}>
                    <td class="mono">{k.principal}</td>
                    <td>
                      <code>{k.prefix}</code>
                    </td>
                    <td>{k.scopes.length === scopes.length ? 'everything' : k.scopes.join(', ')}</td>
                    <td>
                      <Ago at={k.created_at} />
                    </td>
                    <td>
                      <Ago at={k.last_used} />
                    </td>
                    <td>{k.expires_at ? <Time at={k.expires_at} /> : <span class="dim">never</span>}</td>
                    <td>{k.revoked ? <State of="disabled" text="revoked" /> : k.expires_at && Date.parse(k.expires_at) < Date.now() ? <State of="disabled" text="expired" /> : <State of="active" text="valid" />}</td>
                    <td>
                      {!k.revoked && (
                        <button type="button" class="link" onClick={() => setEnding(k)}>
                          revoke
                        </button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Show>
      {making && <NewKey close={() => (setMaking(false), keys.reload())} />}
      {ending && <EndKey k={ending} close={() => setEnding(null)} done={() => (setEnding(null), keys.reload())} />}
    </Card>
  )
}

function EndKey({ k, close, done }: { k: Schemas['ApiKey']; close: () => void; done: () => void }) {
  const act = useAction(() => del('/api/v1/api-keys/{id}', { path: { id: k.id } }).then(done))
  return (
    <Dialog title={`Revoke the key of ${k.principal}`} close={close}>
      <p>
        Requests with the key that begins with <code>{k.prefix}</code> are refused from now on. This cannot be undone.
      </p>
      {act.error && <Problem error={act.error} />}
      <div class="actions">
        <button type="button" class="danger" data-first disabled={act.busy} onClick={() => void act.run()}>
          Revoke
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}

function NewKey({ close }: { close: () => void }) {
  const [principal, setPrincipal] = useState('')
  const [chosen, setChosen] = useState<Schemas['Scope'][]>(['read'])
  const [days, setDays] = useState('90')
  const [made, setMade] = useState<Schemas['ApiKeyCreated']>()
  const act = useAction(async () =>
    setMade(await post('/api/v1/api-keys', { body: { principal, scopes: chosen, ...(days ? { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() } : {}) } })),
  )
  if (made)
    return (
      <Dialog title="The key" close={close}>
        <p>This is the only time that it is shown.</p>
        <p class="secret mono">{made.secret}</p>
        <div class="actions">
          <Copy text={made.secret} />
          <button type="button" data-first onClick={close}>
            Done
          </button>
        </div>
      </Dialog>
    )
  return (
    <Dialog title="New key" close={close}>
      <form onSubmit={(e) => (e.preventDefault(), void act.run())}>
        <Field label="Principal" hint="person:<name> or service:<name>; rules compare principals, not keys">
          <input data-first required pattern="(person|service):.+" value={principal} placeholder="person:alice" onInput={(e) => setPrincipal(e.currentTarget.value)} />
        </Field>
        <fieldset>
          <legend>May</legend>
          {scopes.map(([s, what]) => (
            <label key={s} class="check">
              <input type="checkbox" checked={chosen.includes(s)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, s] : chosen.filter((o) => o !== s))} /> {s} <span class="dim">{what}</span>
            </label>
          ))}
        </fieldset>
        <Field label="Ends after">
          <select value={days} onChange={(e) => setDays(e.currentTarget.value)}>
            <option value="7">7 days</option>
            <option value="30">30 days</option>
            <option value="90">90 days</option>
            <option value="365">a year</option>
            <option value="">never</option>
          </select>
        </Field>
        {act.error && <Problem error={act.error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={act.busy || chosen.length === 0}>
            Make the key
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  )
}

const names = (text: string) => text.split(',').map((n) => n.trim()).filter(Boolean)

const levels = ['none', 'read', 'write', 'external', 'destructive']

function PolicyView() {
  const policy = useData('policy', async (signal) => {
    const r = await send('GET', '/api/v1/policies', { signal })
    return { policy: (await r.json()) as Schemas['Policy'], tag: (r.headers.get('ETag') ?? '"0"').replaceAll('"', '') }
  })
  return <Show of={policy}>{({ policy: p, tag }) => <PolicyForm key={tag} p={p} tag={tag} saved={policy.reload} />}</Show>
}

function PolicyForm({ p, tag, saved }: { p: Schemas['Policy']; tag: string; saved: () => void }) {
  const me = useMe()
  const [next, setNext] = useState(p)
  const act = useAction(() => put('/api/v1/policies', { body: next, ifMatch: tag }).then(saved))
  const changed = JSON.stringify(next) !== JSON.stringify(p)
  return (
    <Card title="Who must approve">
      <form onSubmit={(e) => (e.preventDefault(), void act.run())}>
        <fieldset disabled={!me.may('admin')}>
          <legend>Approvals by the effects of a flow's tools</legend>
          <div class="levels">
            {levels.map((l) => (
              <Field key={l} label={l}>
                <input
                  type="number" min={1} max={10} required value={next.approvals[l] ?? ''}
                  onInput={(e) => setNext({ ...next, approvals: { ...next.approvals, [l]: Number(e.currentTarget.value) } })}
                />
              </Field>
            ))}
          </div>
          <p class="dim">
            Effects that nobody declared count as <Safety of="external" />. The author of a draft never approves it.
          </p>
          <label class="check">
            <input type="checkbox" checked={next.solo} onChange={(e) => setNext({ ...next, solo: e.currentTarget.checked })} /> solo mode: one person runs this installation and may approve their own proposals; every such approval is marked
          </label>
        </fieldset>
        <div class="levels">
          <Field label="Open proposals from recordings, at most">
            <input type="number" min={0} disabled={!me.may('admin')} value={next.max_pending} onInput={(e) => setNext({ ...next, max_pending: Number(e.currentTarget.value) })} />
          </Field>
          <Field label="From tool schemas, at most">
            <input type="number" min={0} disabled={!me.may('admin')} value={next.max_pending_analyzer} onInput={(e) => setNext({ ...next, max_pending_analyzer: Number(e.currentTarget.value) })} />
          </Field>
        </div>
        <fieldset disabled={!me.may('admin')}>
          <legend>Before a promotion</legend>
          <div class="levels">
            <Field label="Exact replay, share" hint="0 asks for none">
              <input type="number" min={0} max={1} step="any" value={next.min_replay_exact} onInput={(e) => setNext({ ...next, min_replay_exact: Number(e.currentTarget.value) })} />
            </Field>
            <Field label="One approver of" hint="principals, by comma; empty: anybody">
              <input value={next.required_reviewers.join(', ')} onChange={(e) => setNext({ ...next, required_reviewers: names(e.currentTarget.value) })} />
            </Field>
            <Field label="Promotes" hint="principals, by comma; empty: the scope decides">
              <input value={next.promoters.join(', ')} onChange={(e) => setNext({ ...next, promoters: names(e.currentTarget.value) })} />
            </Field>
          </div>
          <label class="check">
            <input type="checkbox" checked={next.require_shadow} onChange={(e) => setNext({ ...next, require_shadow: e.currentTarget.checked })} /> live predictions (shadow) must have passed
          </label>
        </fieldset>
        <fieldset disabled={!me.may('admin')}>
          <legend>A version goes to review by itself when</legend>
          <div class="levels">
            <Field label="failures exceed, share" hint="0 turns it off">
              <input type="number" min={0} max={1} step="any" value={next.max_failure_rate} onInput={(e) => setNext({ ...next, max_failure_rate: Number(e.currentTarget.value) })} />
            </Field>
            <Field label="of the last runs">
              <input type="number" min={0} value={next.min_runs} onInput={(e) => setNext({ ...next, min_runs: Number(e.currentTarget.value) })} />
            </Field>
            <Field label="conformance falls below" hint="share of the last 50 walks; 0 turns it off">
              <input type="number" min={0} max={1} step="any" value={next.min_conformance} onInput={(e) => setNext({ ...next, min_conformance: Number(e.currentTarget.value) })} />
            </Field>
            <Field label="nobody runs it for days" hint="0 turns it off">
              <input type="number" min={0} value={next.unused_days} onInput={(e) => setNext({ ...next, unused_days: Number(e.currentTarget.value) })} />
            </Field>
          </div>
        </fieldset>
        {act.error && <Problem error={act.error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={!changed || act.busy || !me.may('admin')}>
            Save
          </button>
          {!me.may('admin') && <span class="dim">Your key has no scope "admin".</span>}
        </div>
      </form>
    </Card>
  )
}

const events: Schemas['WebhookEvent'][] = ['proposal.created', 'review.submitted', 'proposal.approved', 'flow.promoted', 'flow.rolled_back', 'flow.needs_review', 'run.failed', 'drift.detected']

function Webhooks() {
  const hooks = useData('webhooks', (signal) => get('/api/v1/webhooks', { signal }))
  const [url, setUrl] = useState('')
  const [chosen, setChosen] = useState<Schemas['WebhookEvent'][]>([])
  const [secret, setSecret] = useState('')
  const add = useAction(async () => {
    const made = await post('/api/v1/webhooks', { body: { url, ...(chosen.length ? { events: chosen } : {}) } })
    setSecret(made.secret)
    setUrl('')
    hooks.reload()
  })
  const test = useAction((id: string) => post('/api/v1/webhooks/{id}/test', { path: { id } }))
  const remove = useAction((id: string, revision: number) => del('/api/v1/webhooks/{id}', { path: { id }, ifMatch: revision }).then(hooks.reload))
  return (
    <>
      <Card title="Webhooks" tight>
        <Show of={hooks}>
          {(page) =>
            page.items.length === 0 ? (
              <p class="pad dim">Nobody is told of events yet.</p>
            ) : (
              <table class="mini">
                <thead>
                  <tr>
                    <th scope="col">Address</th>
                    <th scope="col">Events</th>
                    <th scope="col">State</th>
                    <th scope="col">
                      <span class="sr">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((h) => (
                    <tr key={h.id}>
                      <td class="mono">{h.url}</td>
                      <td>{h.events.length ? h.events.join(', ') : 'all'}</td>
                      <td>
                        <State of={h.state} /> <span class="dim">{h.reason}</span>
                      </td>
                      <td>
                        <button type="button" class="link" onClick={() => void test.run(h.id)}>
                          test
                        </button>{' '}
                        <button type="button" class="link" onClick={() => void remove.run(h.id, h.revision)}>
                          remove
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Show>
        {test.error && <Problem error={test.error} />}
        {remove.error && <Problem error={remove.error} />}
      </Card>
      <Card title="New webhook">
        {secret && (
          <p>
            The key of its signatures, shown only now: <code class="secret">{secret}</code>
          </p>
        )}
        <form onSubmit={(e) => (e.preventDefault(), void add.run())}>
          <Field label="Address" hint="Events are posted as JSON, signed, at least once">
            <input type="url" required value={url} placeholder="https://" onInput={(e) => setUrl(e.currentTarget.value)} />
          </Field>
          <fieldset>
            <legend>Events (none chosen: all)</legend>
            <div class="levels">
              {events.map((ev) => (
                <label key={ev} class="check">
                  <input type="checkbox" checked={chosen.includes(ev)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, ev] : chosen.filter((o) => o !== ev))} /> {ev}
                </label>
              ))}
            </div>
          </fieldset>
          {add.error && <Problem error={add.error} />}
          <button type="submit" class="primary" disabled={add.busy || !url}>
            Subscribe
          </button>
        </form>
      </Card>
    </>
  )
}

function Service() {
  const version = useData('version', (signal) => get('/version', { signal }))
  const ready = useData('ready', async (signal) => (await (await fetch('/readyz', { signal })).json()) as Schemas['Readiness'], 15_000)
  return (
    <Card title="Service">
      <Show of={ready}>
        {(r) => (
          <>
            <p>{r.ready ? <State of="ok" text="ready" /> : <State of="failed" text="not ready" />}</p>
            <ul class="plain">
              {r.reasons.map((reason) => (
                <li key={reason}>{reason}</li>
              ))}
            </ul>
          </>
        )}
      </Show>
      <Show of={version}>
        {(v) => (
          <dl class="facts">
            <dt>Version</dt>
            <dd>{v.version}</dd>
            <dt>Go</dt>
            <dd>{v.go}</dd>
            <dt>API</dt>
            <dd>
              {v.api}, <a href="/openapi.yaml">contract</a>
            </dd>
          </dl>
        )}
      </Show>
    </Card>
  )
}
