// Two or three letters for a template: no logos of other projects.
import styles from './templates.module.css';

/** "web" of "web-server", "p3" of "python-3". */
export function glyphOf(name: string): string {
  const words = name.split(/[^a-z0-9]+/i).filter(Boolean);
  const [first = '?', second] = words;
  const letters = second ? first.charAt(0) + second.charAt(0) : first.slice(0, 2);
  return letters.toLowerCase();
}

export function Glyph({ text }: { text: string }) {
  return (
    <span className={styles.glyph} aria-hidden="true">
      {text}
    </span>
  );
}
