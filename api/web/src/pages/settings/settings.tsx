// Who may do what, how long data is kept, who is told, and how the service stands.
import type { ComponentType } from 'preact'
import type { Schemas } from '../../api'
import { Needs } from '../../app'
import { Page, Tabs, useTitle } from '../../parts/page'
import { navigate } from '../../router'
import { Data } from './data'
import { Keys } from './keys'
import { PolicyView } from './policy'
import { Service } from './service'
import { Webhooks } from './webhooks'

const sections: [id: string, name: string, view: ComponentType, scope?: Schemas['Scope']][] = [
  ['keys', 'Keys', Keys, 'admin'],
  ['policy', 'Policies', PolicyView, 'read'],
  ['webhooks', 'Webhooks', Webhooks, 'admin'],
  ['data', 'Data', Data, 'admin'],
  ['service', 'Service', Service],
]

export function SettingsPage({ args: [section = 'keys'] }: { args: string[] }) {
  useTitle('Settings')
  const [id, , View, scope] = sections.find(([id]) => id === section) ?? sections[0]!
  return (
    <Page title="Settings" lead="Who may do what, how long data is kept, and how does the service stand?">
      <Tabs label="Settings" at={id} set={(s) => navigate(`/settings/${s}`)} tabs={sections.map(([id, name]) => [id, name])} />
      <Needs scope={scope} key={id}>
        <View />
      </Needs>
    </Page>
  )
}
