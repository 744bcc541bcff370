// Reviews and remarks in one order. A remark is anchored to the argument that is picked.
import { useState } from 'preact/hooks'
import { post, type Loaded, type Schemas } from '../api'
import { useMe } from '../app'
import type { Flow, Mapping } from '../flow'
import { Ago } from '../format'
import { State, Tag } from '../parts/marks'
import { Form } from '../parts/form'
import { Card } from '../parts/page'
import { Problem } from '../parts/states'

const said: Record<Schemas['Verdict'], string> = { approve: 'approved', reject: 'rejected', request_changes: 'changes requested' }
const tone: Record<Schemas['Verdict'], string> = { approve: 'approved', reject: 'rejected', request_changes: 'changes_requested' }

interface Props {
  p: Schemas['Proposal']
  flow: Flow
  picked: Mapping | null
  comments: Loaded<Schemas['CommentPage']>
}

/** Where a pointer into the flow leads, in words. */
function placeOf(flow: Flow, pointer: string): string {
  const m = flow.steps.flatMap((s) => s.mappings.map((one) => ({ s, one }))).find(({ one }) => one.path === pointer)
  if (m) return `${m.s.index + 1} ${m.s.name}, ${m.one.arg}`
  const step = /^\/steps\/(\d+)/.exec(pointer)?.[1]
  const s = step === undefined ? undefined : flow.steps[Number(step)]
  return s ? `${s.index + 1} ${s.name}` : pointer
}

export function Discussion({ p, flow, picked, comments }: Props) {
  const me = useMe()
  const [text, setText] = useState('')
  const add = async () => {
    await post('/api/v1/proposals/{id}/comments', { path: { id: p.id }, body: { body: text.trim(), ...(picked ? { pointer: picked.path } : {}) } })
    setText('')
    comments.reload()
  }
  const rows = [
    ...p.reviews.map((r) => ({ at: r.at, key: r.id, show: <ReviewLine r={r} /> })),
    ...(comments.data?.items ?? []).map((c) => ({ at: c.at, key: c.id, show: <Remark c={c} place={c.pointer ? placeOf(flow, c.pointer) : ''} /> })),
  ].sort((a, b) => a.at.localeCompare(b.at))
  return (
    <Card title="Reviews and remarks">
      {comments.error && <Problem error={comments.error} retry={comments.reload} />}
      {rows.length === 0 && <p class="dim">Nobody has said anything yet.</p>}
      <ol class="talk">
        {rows.map((r) => (
          <li key={r.key}>{r.show}</li>
        ))}
      </ol>
      {me.may('review') && (
        <Form submit="Remark" quiet ready={text.trim() !== ''} act={add}>
          <label class="sr" for="comment">
            Remark
          </label>
          <textarea
            id="comment" rows={2} maxLength={10000} value={text} onInput={(e) => setText(e.currentTarget.value)}
            placeholder={picked ? `Remark on step ${Number(picked.id.split('/')[0]) + 1}, ${picked.arg}` : 'Remark; pick an argument to anchor it'}
            onKeyDown={(e) => {
              if (e.key === 'Escape') e.currentTarget.blur()
            }}
          />
        </Form>
      )}
    </Card>
  )
}

function ReviewLine({ r }: { r: Schemas['Review'] }) {
  return (
    <>
      <div>
        <span class="mono">{r.principal}</span> <State of={tone[r.verdict]} text={said[r.verdict]} /> <Ago at={r.at} /> {r.feedback && <Tag>{r.feedback.replaceAll('_', ' ')}</Tag>}{' '}
        {r.dismissed && <Tag title="The draft changed after this review">dismissed</Tag>} {r.solo && <Tag title="Approved by its author: this installation is in solo mode">solo</Tag>}
      </div>
      {r.comment && <p class="said">{r.comment}</p>}
    </>
  )
}

function Remark({ c, place }: { c: Schemas['Comment']; place: string }) {
  return (
    <>
      <div>
        <span class="mono">{c.principal}</span> <Ago at={c.at} /> {place && <Tag title={c.pointer}>{place}</Tag>} {c.outdated && <Tag title="The place is not what it was">outdated</Tag>}
      </div>
      <p class="said">{c.body}</p>
    </>
  )
}
