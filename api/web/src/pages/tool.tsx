import { get, post, useData, usePages, type Schemas } from '../api'
import { useMe } from '../app'
import { Ago } from '../format'
import { Safety, State } from '../parts/marks'
import { Card, Page, useAction, useTitle } from '../parts/page'
import { Problem, Show } from '../parts/states'
import { Schema } from '../parts/schema'
import { Tree } from '../parts/tree'
import { Link, to } from '../router'
import { bindingOf } from './tools'
import { SessionTable } from './sessions'

export function ToolPage({ args: [name = ''] }: { args: string[] }) {
  useTitle(name)
  const tool = useData(`tool ${name}`, (signal) => get('/api/v1/tools/{name}', { path: { name }, signal }))
  return (
    <Show of={tool} rows={10}>
      {(t) => <ToolView t={t} reload={tool.reload} />}
    </Show>
  )
}

interface ToolFile {
  description?: string
  input_schema?: unknown
  output_schema?: unknown
  safety?: { side_effects?: string; idempotent?: boolean; source?: string }
  timeout_seconds?: number
  cacheable?: boolean
}

/** What its server lists now against what was accepted, and the button that accepts it. */
function Drift({ name, reload }: { name: string; reload: () => void }) {
  const me = useMe()
  const drift = useData(`drift ${name}`, (signal) => get('/api/v1/tools/{name}/drift', { path: { name }, signal }))
  const pin = useAction(() => post('/api/v1/tools/{name}/pin', { path: { name }, body: {} }).then(() => (drift.reload(), reload())))
  if (!drift.data || drift.data.equal) return null
  const d = drift.data
  return (
    <Card title="Its server lists another definition now">
      <p>
        {d.schemas_changed && <State of="needs_review" text="schemas changed" />} {d.riskier && <State of="failed" text="worse side effects" />} <span class="dim">Flows keep the accepted definition until somebody accepts this one.</span>
      </p>
      <pre class="code" tabIndex={0} aria-label="Difference">
        {d.unified.split('\n').map((line, i) => (
          <span key={i} class={`line ${line.startsWith('+') ? 'diff-added' : line.startsWith('-') ? 'diff-removed' : ''}`}>
            {line}
            {'\n'}
          </span>
        ))}
      </pre>
      {pin.error && <Problem error={pin.error} />}
      <button type="button" disabled={!me.may('admin') || pin.busy} onClick={() => void pin.run()}>
        Accept the new definition
      </button>
    </Card>
  )
}

function ToolView({ t, reload }: { t: Schemas['Tool']; reload: () => void }) {
  const file = t.tool as ToolFile
  const flows = useData('flows-all', (signal) => get('/api/v1/flows', { query: { limit: 500 }, signal }))
  const sessions = usePages(`sessions of ${t.name}`, (cursor, signal) => get('/api/v1/sessions', { query: { tool: t.name, limit: 25, cursor }, signal }))
  const versions = useData(t.origin === 'inferred' ? null : `versions ${t.name}`, (signal) => get('/api/v1/tools/{name}/versions', { path: { name: t.name }, signal }))
  const users = flows.data?.items.filter((f) => f.tools.includes(t.name)) ?? []
  return (
    <Page
      title={t.name}
      crumbs={<Link to="/tools">← tools</Link>}
      lead={
        <>
          {file.description && <span class="lead-text">{file.description}</span>}
          {t.bound ? <State of="ok" text="bound" /> : <State of="unknown" text="not bound" />} <Safety of={t.safety} /> · {t.origin} · revision {t.revision}
          {t.updated_by && (
            <>
              {' '}
              by <span class="mono">{t.updated_by}</span> <Ago at={t.updated_at} />
            </>
          )}
        </>
      }
    >
      <div class="split">
        <div>
          {bindingOf(t)?.kind === 'mcp' && <Drift name={t.name} reload={reload} />}
          <Card title="Takes" tight>
            <Schema of={file.input_schema} />
          </Card>
          <Card title="Answers" tight>
            <Schema of={file.output_schema} />
          </Card>
          <Card title="Sessions that called it" tight>
            <SessionTable of={sessions} fit />
          </Card>
        </div>
        <aside>
          <Card title="Safety">
            <dl class="facts">
              <dt>Effects</dt>
              <dd>
                <Safety of={t.safety} />
              </dd>
              <dt title="Calling it twice does no more than calling it once">Idempotent</dt>
              <dd>{file.safety?.idempotent === undefined ? 'not known' : file.safety.idempotent ? 'yes' : 'no'}</dd>
              <dt>Says who</dt>
              <dd>{file.safety?.source ?? 'nobody'}</dd>
            </dl>
          </Card>
          <Card title="How it is reached">
            {t.bound ? (
              <Tree value={bindingOf(t)} depth={2} />
            ) : (
              <p class="dim">
                Nothing binds it yet, so flows with it cannot run. Give it a binding in a tool file and apply it with <code>pave tools apply</code>.
              </p>
            )}
          </Card>
          {(versions.data?.items.length ?? 0) > 1 && (
            <Card title="Versions" tight>
              <table class="mini">
                <thead>
                  <tr>
                    <th scope="col">Revision</th>
                    <th scope="col">Schemas</th>
                    <th scope="col">Since</th>
                  </tr>
                </thead>
                <tbody>
                  {versions.data!.items.map((v) => (
                    <tr key={v.revision}>
                      <td>{v.revision}</td>
                      <td>
                        <code title={v.schema_hash}>{v.schema_hash.slice(0, 8)}</code>
                      </td>
                      <td>
                        <Ago at={v.updated_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Card>
          )}
          <Card title="Flows that call it">
            {users.length ? (
              <ul class="plain">
                {users.map((f) => (
                  <li key={f.name}>
                    <Link to={to('flows', f.name)}>{f.name}</Link>
                  </li>
                ))}
              </ul>
            ) : (
              <p class="dim">none</p>
            )}
          </Card>
          <Card title="Pins">
            <dl class="facts">
              <dt title="Fingerprint of both schemas; flows pin it">Schemas</dt>
              <dd>
                <code>{t.schema_hash}</code>
              </dd>
              {t.definition_digest && (
                <>
                  <dt title="Fingerprint of name, description, schemas and safety">Definition</dt>
                  <dd>
                    <code title={t.definition_digest}>{t.definition_digest.slice(0, 16)}</code>
                  </dd>
                </>
              )}
            </dl>
          </Card>
        </aside>
      </div>
    </Page>
  )
}
