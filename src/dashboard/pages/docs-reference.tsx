// The OpenAPI document in Swagger UI, from this server and without a word to any other.
import { useComputedColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import { Awaited } from '../parts/awaited.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { documentQuery } from './docs-document.ts';
import { resolver } from './docs-resolved.ts';
import './docs-reference.css';

/** There is one server, this one: a choice without a label, of nothing. */
const nothing = (): null => null;
const withoutServers = { wrapComponents: { ServersContainer: () => nothing } };

export function Reference() {
  const document = useQuery(documentQuery);
  if (document.isPending || document.isError) return <Awaited query={document} skeleton={<PageSkeleton />} />;
  return <Shown document={document.data} />;
}

function Shown({ document: spec }: { readonly document: object }) {
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
      spec,
      validatorUrl: null,
      // Its links are inside of buttons.
      deepLinking: false,
      docExpansion: 'none',
      defaultModelsExpandDepth: -1,
      displayRequestDuration: true,
      plugins: [withoutServers, resolver],
      onComplete: () => setShown(true),
    });
    return () => domNode.remove();
  }, [spec]);
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
