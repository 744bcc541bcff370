import { get, useData, type Schemas } from '../../api'
import { Ago, Time } from '../../format'
import { State } from '../../parts/marks'
import { Card } from '../../parts/page'
import { Show } from '../../parts/states'
import { useMe } from '../../app'

export function Service() {
  const me = useMe()
  const version = useData('version', (signal) => get('/version', { signal }))
  const ready = useData('ready', async (signal) => (await (await fetch('/readyz', { signal })).json()) as Schemas['Readiness'], 15_000)
  const state = useData(me.may('read') ? 'service' : null, (signal) => get('/api/v1/service', { signal }), 15_000)
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
          <dl class="facts narrow-facts">
            <dt>Version</dt>
            <dd>{v.version}</dd>
            <dt>Go</dt>
            <dd>{v.go}</dd>
            <dt>Started</dt>
            <dd>{state.data ? <><Time at={state.data.started_at} /> (<Ago at={state.data.started_at} />)</> : <span class="dim">–</span>}</dd>
            <dt>API</dt>
            <dd>
              {v.api}, <a href="/docs">documentation</a>, <a href="/openapi.yaml">contract</a>, <a href="/metrics">metrics</a>
            </dd>
          </dl>
        )}
      </Show>
    </Card>
  )
}
