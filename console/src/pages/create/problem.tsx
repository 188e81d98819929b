// What is wrong with a field, below it.
import { TriangleAlert } from 'lucide-react';
import styles from './create.module.css';

export function Problem({ text }: { text?: string }) {
  if (!text) return null;
  return (
    <span className={styles.problem} role="alert">
      <TriangleAlert />
      {text}
    </span>
  );
}
