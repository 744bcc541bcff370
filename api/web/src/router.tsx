// Deep links: the address bar is the only state of navigation. Paths are relative to BASE.
import type { AnchorHTMLAttributes, ComponentChildren } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'

export const BASE = '/ui'
const changed = new Set<() => void>()

function current() {
  return { path: location.pathname.slice(BASE.length) || '/', query: new URLSearchParams(location.search) }
}

function announce() {
  changed.forEach((fn) => fn())
}
addEventListener('popstate', announce)

export function navigate(to: string, replace = false) {
  if (replace) history.replaceState(null, '', BASE + to)
  else history.pushState(null, '', BASE + to)
  announce()
  if (!replace) document.getElementById('main')?.scrollTo(0, 0)
}

export function useLocation() {
  const [at, set] = useState(current)
  useEffect(() => {
    const update = () => set(current())
    changed.add(update)
    return () => void changed.delete(update)
  }, [])
  return at
}

/** One parameter of the address's query; setting it replaces the entry of the history. */
export function useParam(name: string, otherwise = ''): [string, (value: string) => void] {
  const { path, query } = useLocation()
  const set = useCallback(
    (value: string) => {
      const next = new URLSearchParams(location.search)
      if (value === '' || value === otherwise) next.delete(name)
      else next.set(name, value)
      navigate(path + (next.size ? `?${next}` : ''), true)
    },
    [name, otherwise, path],
  )
  return [query.get(name) ?? otherwise, set]
}

/** A path of the application from its parts, each escaped. */
export const to = (...parts: string[]) => '/' + parts.map(encodeURIComponent).join('/')

/** The parts of the path after the pattern's fixed ones, or null: match('/runs/:id', path). */
export function match(pattern: string, path: string): string[] | null {
  const want = pattern.split('/')
  const have = path.replace(/\/+$/, '').split('/')
  if (want.length !== have.length && !(pattern === '/' && path === '/')) return null
  const found: string[] = []
  for (const [i, part] of want.entries()) {
    const other = have[i] ?? ''
    if (part.startsWith(':')) {
      try {
        found.push(decodeURIComponent(other))
      } catch {
        return null
      }
    } else if (part !== other) return null
  }
  return found
}

type LinkProps = { to: string; children: ComponentChildren } & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href' | 'role'>

export function Link({ to: target, children, ...rest }: LinkProps) {
  return (
    <a
      {...rest}
      href={BASE + target}
      onClick={(e) => {
        if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
        e.preventDefault()
        navigate(target)
      }}
    >
      {children}
    </a>
  )
}
