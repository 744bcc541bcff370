import { defineConfig } from 'vite'

// The output is committed: names come from content alone, so that the same sources build the same files.
export default defineConfig({
  base: '/ui/',
  build: { target: 'es2022', outDir: 'dist', emptyOutDir: true, modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
})
