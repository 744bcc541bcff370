// Dark or light: the system's choice until somebody makes another.
const key = 'pave-theme'

export type Theme = 'light' | 'dark'

const system = matchMedia('(prefers-color-scheme: dark)')
const chosen = () => localStorage.getItem(key) as Theme | null

export const theme = (): Theme => chosen() ?? (system.matches ? 'dark' : 'light')

function apply() {
  document.documentElement.dataset.theme = theme()
}

export function startTheme() {
  apply()
  system.addEventListener('change', apply)
}

export function toggleTheme() {
  localStorage.setItem(key, theme() === 'dark' ? 'light' : 'dark')
  apply()
}
