// The part of Swagger UI that is used; its package has no types.
declare module 'swagger-ui-dist/swagger-ui-es-bundle.js' {
  interface Options {
    readonly domNode: HTMLElement;
    readonly spec: object;
    /** Null: no badge of a validator on another site. */
    readonly validatorUrl: null;
    readonly deepLinking: boolean;
    readonly docExpansion: 'list' | 'full' | 'none';
    readonly defaultModelsExpandDepth: number;
    readonly displayRequestDuration: boolean;
    readonly plugins: readonly object[];
    readonly onComplete: () => void;
  }
  // biome-ignore lint/style/noDefaultExport: that is how the package exports it.
  export default function SwaggerUI(options: Options): unknown;
}
