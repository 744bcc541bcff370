// JSON as YAML lines, each with the JSON pointer of what it shows, so that lines light up with their mapping.
import { escapeToken } from './flow'

export interface Line {
  text: string
  pointer: string
}

const bare = /^[A-Za-z_][\w ./-]*$/
const reserved = /^(true|false|null|yes|no|on|off|~|[\d.+-].*)$/i

function scalar(v: unknown): string {
  if (typeof v !== 'string') return JSON.stringify(v) ?? 'null'
  return bare.test(v) && !reserved.test(v) && !v.endsWith(' ') ? v : JSON.stringify(v)
}

const empty = (v: object) => (Array.isArray(v) ? v.length === 0 : Object.keys(v).length === 0)

export function yamlLines(value: unknown, pointer = '', indent = ''): Line[] {
  if (value === null || typeof value !== 'object') return [{ text: indent + scalar(value), pointer }]
  if (empty(value)) return [{ text: indent + (Array.isArray(value) ? '[]' : '{}'), pointer }]
  const lines: Line[] = []
  if (Array.isArray(value)) {
    value.forEach((item, i) => {
      const inner = yamlLines(item, `${pointer}/${i}`, indent + '  ')
      const first = inner[0]
      if (first) first.text = `${indent}- ${first.text.slice(indent.length + 2)}`
      lines.push(...inner)
    })
    return lines
  }
  for (const [key, item] of Object.entries(value)) {
    const at = `${pointer}/${escapeToken(key)}`
    const name = indent + scalar(key) + ':'
    if (item === null || typeof item !== 'object') lines.push({ text: `${name} ${scalar(item)}`, pointer: at })
    else if (empty(item)) lines.push({ text: `${name} ${Array.isArray(item) ? '[]' : '{}'}`, pointer: at })
    else lines.push({ text: name, pointer: at }, ...yamlLines(item, at, indent + '  '))
  }
  return lines
}

export const yamlText = (value: unknown) => yamlLines(value).map((l) => l.text).join('\n') + '\n'

export interface DiffLine {
  kind: 'same' | 'added' | 'removed'
  text: string
}

/** The line difference of two texts by their longest common subsequence. */
export function diffLines(before: string[], after: string[]): DiffLine[] {
  const n = before.length
  const m = after.length
  const lcs: Uint32Array[] = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1))
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--) lcs[i]![j] = before[i] === after[j] ? lcs[i + 1]![j + 1]! + 1 : Math.max(lcs[i + 1]![j]!, lcs[i]![j + 1]!)
  const out: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < n || j < m) {
    if (i < n && j < m && before[i] === after[j]) {
      out.push({ kind: 'same', text: before[i]! })
      i++
      j++
    } else if (j >= m || (i < n && lcs[i + 1]![j]! >= lcs[i]![j + 1]!)) out.push({ kind: 'removed', text: before[i++]! })
    else out.push({ kind: 'added', text: after[j++]! })
  }
  return out
}
