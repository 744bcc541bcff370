// A short table, whole in the document; long lists are parts/table.tsx.
import type { ComponentChildren } from 'preact'

export type Head = string | { name: string; title?: string; num?: boolean; hidden?: boolean }

export function Cells({ label, head, children }: { label: string; head: Head[]; children: ComponentChildren }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table class="mini">
        <thead>
          <tr>
            {head.map((h) => {
              const { name, title, num, hidden }: Exclude<Head, string> = typeof h === 'string' ? { name: h } : h
              return (
                <th key={name} scope="col" class={num ? 'num' : ''} title={title}>
                  {hidden ? <span class="sr">{name}</span> : name}
                </th>
              )
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}
