// The OpenAPI document in Swagger UI, from this server and without a word to any other.
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import { PageSkeleton } from '../parts/skeletons.tsx';
import './docs-reference.css';

/** There is one server, this one: a choice without a label, of nothing. */
const nothing = (): null => null;
const withoutServers = { wrapComponents: { ServersContainer: () => nothing } };

export function Reference() {
  const place = useRef<HTMLDivElement>(null);
  const [isShown, setShown] = useState(false);
  const scheme = useComputedColorScheme('light');
  useEffect(() => {
    const { current } = place;
    if (current === null) return undefined;
    // One of its own for each: React may run effects twice, and Swagger UI never lets go of a node.
    const domNode = document.createElement('div');
    current.append(domNode);
    SwaggerUI({
      domNode,
      url: '/openapi.json',
      validatorUrl: null,
      // Its links are inside of buttons.
      deepLinking: false,
      docExpansion: 'list',
      defaultModelsExpandDepth: -1,
      displayRequestDuration: true,
      plugins: [withoutServers],
      onComplete: () => setShown(true),
    });
    return () => domNode.remove();
  }, []);
  // What it knows dark by.
  useEffect(() => {
    document.documentElement.classList.toggle('dark-mode', scheme === 'dark');
    return () => document.documentElement.classList.remove('dark-mode');
  }, [scheme]);
  return (
    <>
      {!isShown && <PageSkeleton />}
      {/* Swagger UI shows its parts one by one; the page shows them when all are there. */}
      <div ref={place} className="reference" hidden={!isShown} />
    </>
  );
}
