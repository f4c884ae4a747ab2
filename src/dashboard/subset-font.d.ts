// The part of subset-font that is used; its package has no types.
declare module 'subset-font' {
  interface Options {
    readonly targetFormat: 'woff2';
    readonly variationAxes: Readonly<Record<string, { readonly min: number; readonly max: number }>>;
  }
  // biome-ignore lint/style/noDefaultExport: that is how the package exports it.
  export default function subsetFont(font: Uint8Array, text: string, options: Options): Promise<Uint8Array>;
}
