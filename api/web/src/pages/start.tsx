// How to send the first trace: three ways, each with this server's address, and a wait that ends by itself.
import { useState } from 'preact/hooks'
import { Copy, Tabs } from '../parts/page'

const ways = () => {
  const here = location.origin
  return {
    otel: `export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${here}/v1/traces
export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20$INGEST_KEY"`,
    json: `curl -s ${here}/api/v1/tool-calls \\
  -H "Authorization: Bearer $INGEST_KEY" -H 'Content-Type: application/x-ndjson' --data-binary @- <<'EOF'
{"event":"user_message","session_id":"s1","text":"where is order o-1?"}
{"event":"tool_call","session_id":"s1","call_id":"c1","tool":"get_order","args":{"order_id":"o-1"},"result":{"shipment_id":"sh-7"},"status":"ok"}
{"event":"tool_call","session_id":"s1","call_id":"c2","tool":"get_shipment","args":{"shipment_id":"sh-7"},"result":{"carrier":"northpost"},"status":"ok"}
EOF`,
    file: `pave import traces.jsonl --server ${here}
pave import traces.jsonl --dry-run -o jsonl   # shows what pave makes of it, stores nothing`,
    demo: `make demo      # the whole loop on this machine: agents, mining, review, runs, savings`,
  }
}

const notes = {
  otel: 'Any OpenTelemetry exporter whose spans follow the GenAI conventions, OpenInference or another known dialect. Arguments and results must be captured.',
  json: 'One record an event; only the tool is needed, a session id helps most.',
  file: 'OTLP files, chat transcripts, session logs of coding agents and pave’s own records.',
  demo: 'No key and no data of yours needed.',
}

type Way = keyof typeof notes

export function HowToSend() {
  const [way, setWay] = useState<Way>('otel')
  const text = ways()[way]
  return (
    <div class="start">
      <Tabs
        label="Ways to send data"
        at={way}
        set={(w) => setWay(w as Way)}
        tabs={[
          ['otel', 'OpenTelemetry'],
          ['json', 'JSON'],
          ['file', 'A file'],
          ['demo', 'The demo'],
        ]}
      />
      <p class="dim">{notes[way]}</p>
      <div class="code-box">
        <div class="code-tools">
          <Copy text={text} />
        </div>
        <pre class="code" tabIndex={0} aria-label="What to run">
          {text}
        </pre>
      </div>
      {way !== 'demo' && (
        <p class="dim">
          A key that may only record: <code>pave keys create service:agents --scopes ingest</code>
        </p>
      )}
      {way !== 'demo' && (
        <p class="dim">
          No agent at hand? <code>make demo</code> plays the whole loop on this machine, from recording to savings.
        </p>
      )}
      <p class="waiting" role="status">
        <span class="pulse" aria-hidden="true" /> waiting for the first session; this page shows it by itself
      </p>
    </div>
  )
}
