// Forms: fields with their labels and hints, and the frame that sends once, shows what was refused, and gives way.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Dialog, useAction } from './page'
import { Problem } from './states'

interface FormProps {
  submit: string
  act: () => Promise<unknown>
  ready?: boolean // false while what is written cannot be sent
  danger?: boolean
  quiet?: boolean // of a small form among other things
  cancel?: () => void
  note?: ComponentChildren // beside the buttons
  children?: ComponentChildren
}

/** Sends once at a time. Enter sends, and Ctrl or ⌘ with Enter where Enter makes a new line. */
export function Form({ submit, act, ready = true, danger, quiet, cancel, note, children }: FormProps) {
  const { run, busy, error } = useAction(act)
  return (
    <form
      class={quiet ? 'quiet' : undefined}
      onSubmit={(e) => {
        e.preventDefault()
        if (ready) void run()
      }}
      onKeyDown={(e) => {
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) e.currentTarget.requestSubmit()
      }}
    >
      {children}
      {error && <Problem error={error} />}
      <div class="actions">
        <button type="submit" class={[danger ? 'danger' : quiet ? '' : 'primary', quiet ? 'small' : ''].join(' ')} disabled={busy || !ready} data-first={children ? undefined : true}>
          {submit}
        </button>
        {cancel && (
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        )}
        {note && <span class="dim">{note}</span>}
      </div>
    </form>
  )
}

/** A question in a dialog. */
export function Ask({ title, close, ...form }: { title: string; close: () => void } & Omit<FormProps, 'cancel'>) {
  return (
    <Dialog title={title} close={close}>
      <Form {...form} cancel={close} />
    </Dialog>
  )
}

export function Field({ label, hint, fault, children }: { label: string; hint?: ComponentChildren; fault?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      {children}
      {fault ? <span class="field-hint state bad">■ {fault}</span> : hint && <span class="field-hint">{hint}</span>}
    </label>
  )
}

interface TextProps {
  label: string
  hint?: ComponentChildren
  fault?: string
  value: string
  set: (value: string) => void
  rows?: number // more than one makes an area
  mono?: boolean
  first?: boolean // has the focus when its dialog opens
  type?: 'text' | 'url' | 'number' | 'datetime-local'
  name?: string
  required?: boolean
  placeholder?: string
  pattern?: string
  min?: number
  max?: number
  inputMode?: 'text' | 'decimal'
}

export function Text({ label, hint, fault, set, rows = 1, mono, first, type = 'text', ...rest }: TextProps) {
  const common = { ...rest, class: mono ? 'mono' : undefined, spellcheck: !mono, 'data-first': first || undefined, onInput: (e: { currentTarget: { value: string } }) => set(e.currentTarget.value) }
  return (
    <Field label={label} hint={hint} fault={fault}>
      {rows > 1 ? <textarea {...common} rows={rows} maxLength={mono ? undefined : 10_000} /> : <input {...common} {...({ type, step: type === 'number' ? 'any' : undefined } as object)} autocomplete="off" />}
    </Field>
  )
}

/** What is typed is kept as it is typed; the number or list that it reads as is the caller's. */
function Read<T>({ start, read, set, ...rest }: { start: string; read: (text: string) => T; set: (value: T) => void } & Omit<TextProps, 'value' | 'set'>) {
  const [text, setText] = useState(start)
  return <Text {...rest} value={text} set={(t) => (setText(t), set(read(t)))} />
}

export const Num = ({ value, set, ...rest }: { value?: number; set: (n: number) => void } & Omit<TextProps, 'value' | 'set' | 'type'>) => (
  <Read {...rest} type="number" start={value === undefined ? '' : String(value)} read={Number} set={set} required />
)

export const Names = ({ value, set, ...rest }: { value: string[]; set: (names: string[]) => void } & Omit<TextProps, 'value' | 'set' | 'type'>) => (
  <Read {...rest} start={value.join(', ')} read={(t) => t.split(',').map((n) => n.trim()).filter(Boolean)} set={set} />
)

export function Choice({ label, hint, value, set, options, name, required }: { label: string; hint?: string; value: string; set: (value: string) => void; options: [value: string, text: string][]; name?: string; required?: boolean }) {
  return (
    <Field label={label} hint={hint}>
      <select name={name} required={required} value={value} onChange={(e) => set(e.currentTarget.value)}>
        {options.map(([v, text]) => (
          <option key={v} value={v}>
            {text}
          </option>
        ))}
      </select>
    </Field>
  )
}

export function Check({ checked, set, first, children }: { checked: boolean; set: (on: boolean) => void; first?: boolean; children: ComponentChildren }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} data-first={first || undefined} onChange={(e) => set(e.currentTarget.checked)} /> <span>{children}</span>
    </label>
  )
}

/** Any of a few names, each with what it means. */
export function Several<T extends string>({ legend, options, chosen, set }: { legend: string; options: [value: T, note: string][]; chosen: T[]; set: (next: T[]) => void }) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="choices">
        {options.map(([value, note]) => (
          <Check key={value} checked={chosen.includes(value)} set={(on) => set(on ? [...chosen, value] : chosen.filter((o) => o !== value))}>
            {value} {note && <span class="dim">{note}</span>}
          </Check>
        ))}
      </div>
    </fieldset>
  )
}
