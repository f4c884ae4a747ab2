// The entry of the web client: what every page needs, put around the pages.
import '@fontsource-variable/inter/wght.css';
import './mantine.css';
import './theme.css';
import './layout.css';
import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queries } from './api/query-client.ts';
import { App } from './shell/app.tsx';
import { keepFocus } from './shell/kept-focus.ts';
import { theme } from './theme.ts';

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no root');
keepFocus();
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
