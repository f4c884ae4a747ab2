// Guides as modules; guides-plugin.ts makes them.
declare module '*.md' {
  export const html: string;
  export const sections: readonly { readonly anchor: string; readonly heading: string; readonly text: string }[];
}
