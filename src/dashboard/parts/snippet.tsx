// Lines of code to be copied.
import { CopyButton } from './copy-button.tsx';

interface SnippetProps {
  readonly code: string;
  readonly label: string;
  /** What running it prints: shown below it, and not copied. */
  readonly output?: string;
}

export function Snippet({ code, label, output }: SnippetProps) {
  return (
    <div className="snippet">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <section className="snippet-code" aria-label={label} tabIndex={0}>
        <pre>{output === undefined ? code : `${code}\n\n${output}`}</pre>
      </section>
      <div className="snippet-copy">
        <CopyButton text={code} />
      </div>
    </div>
  );
}
