// Keys, as in "press G, then S".
import { isApple, readable } from '../shortcuts';

/** `keys` as in the registry of shortcuts: `mod+k`, `g s`. Decoration: the button says what it does. */
export function KeyHint({ keys, className }: { keys: string; className?: string }) {
  return (
    <span className={className ? `keys ${className}` : 'keys'} aria-hidden="true">
      {readable(keys, isApple).map((key, i) => (
        <kbd key={i}>{key}</kbd>
      ))}
    </span>
  );
}
