// Lines of code to be copied.
import { CopyButton } from './copy-button.tsx';

export function Snippet({ code, label }: { readonly code: string; readonly label: string }) {
  return (
    <div className="snippet">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <section className="snippet-code" aria-label={label} tabIndex={0}>
        <pre>{code}</pre>
      </section>
      <div className="snippet-copy">
        <CopyButton text={code} />
      </div>
    </div>
  );
}
