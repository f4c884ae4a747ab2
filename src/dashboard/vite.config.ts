// How the web client is built: hashed files that need nothing inline, the guides of docs/ as pages, and the font.
import { defineConfig } from 'vite';
import { fonts } from './fonts-plugin.ts';
import { guides } from './guides-plugin.ts';

// biome-ignore lint/style/noDefaultExport: Vite reads the default export.
export default defineConfig({
  plugins: [guides(), fonts()],
  build: {
    outDir: '../../dist/dashboard',
    emptyOutDir: true,
    // Data URIs in scripts are nothing that the policy of the pages lets through.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    // What the first page needs is one script, and so is what the pages behind the sign-in need, also where other scripts need parts of it: a
    // request costs the server more than its bytes.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'index', tags: ['$initial'], priority: 1 },
            { name: 'signed-in-pages', test: /signed-in-pages\.tsx$/ },
          ],
        },
      },
    },
    chunkSizeWarningLimit: 2_000,
  },
});
