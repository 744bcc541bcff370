// A JSON Schema as rows: one for each field, those of objects and lists indented below it.
import type { SchemaNode } from '../flow'
import { readable } from '../flow'

interface Row {
  name: string
  depth: number
  schema: SchemaNode
  required: boolean
}

const deepest = 6

function rowsOf(schema: SchemaNode, depth = 0): Row[] {
  if (depth > deepest) return []
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, s]) => [{ name, depth, schema: s, required: schema.required?.includes(name) ?? false }, ...rowsOf(s, depth + 1)])
  return schema.items ? [...own, ...rowsOf(schema.items, depth)] : own
}

const typeOf = (s: SchemaNode): string => {
  const kind = [s.type ?? (s.properties ? 'object' : 'any')].flat().join(' or ')
  return s.items ? `${kind} of ${typeOf(s.items)}` : kind
}

/** What a schema says beyond types and fields, in one line. */
function limits(s: SchemaNode): string {
  const said = Object.entries(s).filter(([key]) => !['type', 'properties', 'required', 'items', 'description', 'title', 'enum', 'additionalProperties'].includes(key))
  return [s.enum ? `one of ${s.enum.map(readable).join(', ')}` : '', ...said.map(([key, v]) => `${key} ${readable(v)}`)].filter(Boolean).join('; ')
}

export function Schema({ of }: { of: unknown }) {
  const schema = of as SchemaNode | undefined
  if (!schema || Object.keys(schema).length === 0) return <p class="pad dim">Nobody has said.</p>
  const rows = rowsOf(schema)
  if (rows.length === 0)
    return (
      <p class="pad">
        <code>{typeOf(schema)}</code> <span class="dim">{schema.description}</span>
      </p>
    )
  const told = rows.some((r) => r.schema.description || limits(r.schema))
  return (
    <div class="scroll-x">
      <table class="mini">
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Type</th>
            {told && <th scope="col">Meaning</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((r, i) => (
            <tr key={i}>
              <td class="mono" style={{ paddingLeft: `${12 + r.depth * 20}px` }}>
                {r.name}
                {!r.required && <span class="dim"> optional</span>}
              </td>
              <td>
                <code>{typeOf(r.schema)}</code>
              </td>
              {told && (
                <td>
                  {r.schema.description} <span class="dim mono">{limits(r.schema)}</span>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
