// About this program, and the licences of what is in it.

import { packages, texts } from 'virtual:licences';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { statusQuery } from '../../api';
import { useSession } from '../../session';
import { Card, DataList, FilterSearch, NoMatch, Page, PageHead } from '../../ui';
import styles from './about.module.css';
import { strings } from './strings';

export default function About() {
  const { data: status } = useQuery(statusQuery());
  const { user, team } = useSession();
  const [q, setQ] = useState('');
  const text = q.toLowerCase();
  const shown = packages.filter((one) => one.name.includes(text) || one.licence.toLowerCase().includes(text));
  return (
    <Page title={strings.title} narrow>
      <PageHead title={strings.title} />
      <p className="lead">{strings.text}</p>
      <Card>
        <DataList
          items={[
            [strings.server, status && <span className="mono">{status.version}</span>],
            [
              strings.address,
              <span key="address" className="mono">
                {location.origin}
              </span>,
            ],
            [strings.isolation, status && <span className="mono">{status.backend}</span>],
            [strings.team, team.name],
            [strings.person, user.name],
            [strings.licence, strings.own],
          ]}
        />
      </Card>
      <div className="row wrap">
        <h2>{strings.packages}</h2>
        <span className="n">{strings.count(shown.length, packages.length)}</span>
        <span className="grow" />
        <FilterSearch label={strings.search} value={q} onChange={setQ} />
      </div>
      <p className="meta">{strings.packagesText}</p>
      <div className={`card ${styles.list}`}>
        {shown.length === 0 && <NoMatch onClear={() => setQ('')} />}
        {shown.map((one) => (
          <details key={`${one.name}@${one.version}`} className={styles.package}>
            <summary>
              <span className="mono cut">{one.name}</span>
              <span className="meta num">{one.version}</span>
              <span className="grow" />
              <span className="badge line">{one.licence}</span>
            </summary>
            {one.author && <p className="meta">{strings.by(one.author)}</p>}
            {one.text === null ? (
              <p className="meta">{strings.noText}</p>
            ) : (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
              <pre tabIndex={0}>{texts[one.text]}</pre>
            )}
          </details>
        ))}
      </div>
    </Page>
  );
}
