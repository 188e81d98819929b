// The card with the awning, for pages before the console.
import { Contrast } from 'lucide-react';
import type { ReactNode } from 'react';
import { isDark, setTheme } from '../../shell/theme';
import { Button, Mark } from '../../ui';
import styles from './hut.module.css';

export function Hut({ children, side, foot }: { children: ReactNode; side?: ReactNode; foot?: ReactNode }) {
  return (
    <main className={styles.page}>
      <section className={side ? `card ${styles.hut}` : `card ${styles.hut} ${styles.one}`}>
        <div className="awning" aria-hidden="true" />
        <div className={styles.columns}>
          <div className={styles.column}>
            <span className={`brand ${styles.brand}`}>
              <Mark />
              cabana
            </span>
            {children}
          </div>
          {side && <div className={`${styles.column} ${styles.side}`}>{side}</div>}
        </div>
      </section>
      <footer className={`row meta ${styles.foot}`}>
        {foot}
        <Button look="quiet" size="sm" onPress={() => setTheme(isDark() ? 'light' : 'dark')}>
          <Contrast />
          Theme
        </Button>
      </footer>
    </main>
  );
}
