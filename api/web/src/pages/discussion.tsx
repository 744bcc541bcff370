// Reviews of a proposal in order.
import type { Schemas } from '../api'
import type { Flow, Mapping } from '../flow'
import { Ago } from '../format'
import { State, Tag } from '../parts/marks'
import { Card } from '../parts/page'

const said: Record<Schemas['Verdict'], string> = { approve: 'approved', reject: 'rejected', request_changes: 'changes requested' }
const tone: Record<Schemas['Verdict'], string> = { approve: 'approved', reject: 'rejected', request_changes: 'changes_requested' }

export function Discussion({ p }: { p: Schemas['Proposal']; flow: Flow; picked: Mapping | null; reload: () => void }) {
  return (
    <Card title="Reviews">
      {p.reviews.length === 0 && <p class="dim">Nobody has reviewed it yet.</p>}
      <ol class="talk">
        {p.reviews.map((r) => (
          <li key={r.id}>
            <div>
              <span class="mono">{r.principal}</span> <State of={tone[r.verdict]} text={said[r.verdict]} /> <Ago at={r.at} />
              {r.dismissed && <Tag title="The draft changed after this review">dismissed</Tag>}
              {r.solo && <Tag title="Approved by its author: this installation is in solo mode">solo</Tag>}
            </div>
            {r.comment && <p class="said">{r.comment}</p>}
          </li>
        ))}
      </ol>
    </Card>
  )
}
