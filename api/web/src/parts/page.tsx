import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from '../api'

export function Page({ title, lead, actions, crumbs, children, fill }: { title: ComponentChildren; name?: string; lead?: ComponentChildren; actions?: ComponentChildren; crumbs?: ComponentChildren; children: ComponentChildren; fill?: boolean }) {
  return (
    <div class={fill ? 'page fill' : 'page'}>
      <header class="page-head">
        <div class="page-title">
          {crumbs && <div class="crumbs">{crumbs}</div>}
          <h1>{title}</h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** Sets the title of the browser's tab. */
export function useTitle(title: string) {
  useEffect(() => {
    document.title = `${title} · pave`
  }, [title])
}

export function Card({ title, actions, children, id, tight }: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; id?: string; tight?: boolean }) {
  return (
    <section class={tight ? 'card tight' : 'card'} id={id}>
      {title && (
        <header class="card-head">
          <h2>{title}</h2>
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      <div class="card-body">{children}</div>
    </section>
  )
}

/** Tabs whose choice is the caller's. Arrow keys move. */
export function Tabs({ tabs, at, set, label }: { tabs: [id: string, text: ComponentChildren][]; at: string; set: (id: string) => void; label: string }) {
  const move = (by: number) => {
    const i = tabs.findIndex(([id]) => id === at)
    const next = tabs[(i + by + tabs.length) % tabs.length]
    if (next) set(next[0])
  }
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label={label}
      onKeyDown={(e) => {
        if (e.key === 'ArrowRight') move(1)
        if (e.key === 'ArrowLeft') move(-1)
      }}
    >
      {tabs.map(([id, text]) => (
        <button key={id} type="button" role="tab" aria-selected={id === at} tabIndex={id === at ? 0 : -1} onClick={() => set(id)}>
          {text}
        </button>
      ))}
    </div>
  )
}

/** A modal dialog; Escape and a click beside it close it. */
export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const el = ref.current
    el?.showModal()
    el?.querySelector<HTMLElement>('[data-first]')?.focus()
    return () => el?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      class={wide ? 'wide' : ''}
      aria-label={title}
      onCancel={(e) => {
        e.preventDefault()
        close()
      }}
      onClick={(e) => e.target === ref.current && close()}
    >
      <div class="dialog-body">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  )
}

/** Runs an action once at a time and keeps its error for showing. */
export function useAction<A extends unknown[]>(act: (...args: A) => Promise<unknown>) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const run = async (...args: A): Promise<boolean> => {
    if (busy) return false
    setBusy(true)
    setError(undefined)
    try {
      await act(...args)
      return true
    } catch (e) {
      if (!(e instanceof ApiError)) throw e
      setError(e)
      return false
    } finally {
      setBusy(false)
    }
  }
  return { run, busy, error, clear: () => setError(undefined) }
}

const typing = (t: EventTarget | null) => t instanceof HTMLElement && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName))

/** Single-key commands of a page; they are silent while somebody types or a dialog is open. */
export function useKeys(keys: Record<string, (() => void) | undefined>) {
  const now = useRef(keys)
  now.current = keys
  // before the page is painted: whoever sees it may press a key
  useLayoutEffect(() => {
    const on = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || document.querySelector('dialog[open]')) return
      const fn = now.current[e.key]
      if (fn) {
        e.preventDefault()
        fn()
      }
    }
    addEventListener('keydown', on)
    return () => removeEventListener('keydown', on)
  }, [])
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false)
  return (
    <button
      type="button"
      class="small"
      onClick={() =>
        void navigator.clipboard.writeText(text).then(() => {
          setDone(true)
          setTimeout(() => setDone(false), 1500)
        })
      }
    >
      {done ? 'Copied' : label}
    </button>
  )
}
