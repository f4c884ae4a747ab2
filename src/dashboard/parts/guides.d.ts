// Guides as modules; guides-plugin.ts makes them.
declare module '*.md' {
  export const html: string;
}
