import type { ComponentChildren } from 'preact'
import { Copy, Dialog } from '../../parts/page'

/** A secret that is shown once, with what it is for. */
export function Secret({ title, secret, close, children }: { title: string; secret: string; close: () => void; children: ComponentChildren }) {
  return (
    <Dialog title={title} close={close}>
      <p>{children}</p>
      <p class="secret mono">{secret}</p>
      <div class="actions">
        <Copy text={secret} />
        <button type="button" data-first onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  )
}
