// A table of any length: only the rows in view are in the document. Rows have one fixed height.
import type { ComponentChildren, TargetedKeyboardEvent } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Pages } from '../api'
import { Empty, Loading, Problem } from './states'

export interface Column<T> {
  head: ComponentChildren
  title?: string
  width?: string
  num?: boolean
  mark?: boolean // holds a checkbox only
  hide?: 'narrow' | 'medium' // from which width down the column is left out
  cell: (row: T, index: number) => ComponentChildren
}

interface Props<T> {
  rows: T[]
  columns: Column<T>[]
  id: (row: T) => string
  label: string
  open?: (row: T) => void
  at?: number // the row of the keyboard's cursor
  more?: () => void
  height?: number
  fit?: boolean // no taller than its rows
}

const rowHeight = 34
const spare = 12

export function Table<T>({ rows, columns, id, label, open, at, more, height = rowHeight, fit }: Props<T>) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ from: 0, to: 60 })
  const measure = () => {
    const el = box.current
    if (!el) return
    const from = Math.max(0, Math.floor(el.scrollTop / height) - spare)
    const to = Math.ceil((el.scrollTop + (el.clientHeight || 800)) / height) + spare
    setView((v) => (v.from === from && v.to === to ? v : { from, to }))
  }
  useLayoutEffect(measure, [rows.length, height])
  useEffect(() => {
    const el = box.current
    if (!el) return
    const watch = new ResizeObserver(measure)
    watch.observe(el)
    return () => watch.disconnect()
  }, [])
  useEffect(() => {
    const el = box.current
    if (at === undefined || !el) return
    const top = at * height
    if (top < el.scrollTop) el.scrollTop = top
    else if (top + 2 * height > el.scrollTop + el.clientHeight) el.scrollTop = top + 2 * height - el.clientHeight
  }, [at])
  const to = Math.min(rows.length, view.to)
  useEffect(() => {
    if (more && to + 40 > rows.length) more()
  }, [to, rows.length, more])
  const key = (e: TargetedKeyboardEvent<HTMLElement>, row: T) => {
    if (e.key === 'Enter' && e.target === e.currentTarget) open?.(row)
  }
  return (
    <div class={fit ? 'table fit' : 'table'} ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={more ? -1 : rows.length + 1}>
        <colgroup>
          {columns.map((c, i) => (
            <col key={i} class={c.hide} style={{ width: c.width ?? 'auto' }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((c, i) => (
              <th key={i} scope="col" class={[c.num ? 'num' : '', c.hide ?? ''].join(' ')} title={c.title}>
                {c.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {view.from > 0 && <tr aria-hidden="true" style={{ height: `${Math.min(view.from, rows.length) * height}px` }} />}
          {rows.slice(view.from, to).map((row, i) => {
            const index = view.from + i
            return (
              <tr
                key={id(row)}
                aria-rowindex={index + 2}
                class={[open ? 'open' : '', index === at ? 'at' : ''].join(' ')}
                style={{ height: `${height}px` }}
                onClick={(e) => {
                  if (open && !(e.target as HTMLElement).closest('a,button,input,label') && !getSelection()?.toString()) open(row)
                }}
                onKeyDown={(e) => key(e, row)}
              >
                {columns.map((c, j) => (
                  <td key={j} class={[c.num ? 'num' : '', c.mark ? 'mark' : '', c.hide ?? ''].join(' ')}>
                    {c.cell(row, index)}
                  </td>
                ))}
              </tr>
            )
          })}
          {to < rows.length && <tr aria-hidden="true" style={{ height: `${(rows.length - to) * height}px` }} />}
        </tbody>
      </table>
    </div>
  )
}

/** A table over a list that is read page by page, with all of its states. */
export function ListOf<T>({ of, empty, ...table }: { of: Pages<T>; empty: ComponentChildren } & Omit<Props<T>, 'rows' | 'more'>) {
  if (of.data === undefined) return of.error ? <Problem error={of.error} retry={of.reload} /> : <Loading rows={10} />
  if (of.data.length === 0) return typeof empty === 'string' ? <Empty title={empty} /> : <>{empty}</>
  return (
    <>
      {of.error && <Problem error={of.error} retry={of.reload} />}
      <Table {...table} rows={of.data} more={of.more} />
    </>
  )
}
