// Links by which others can see a service: making one, which is shown once, and revoking.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { linksQuery, makeLink, revokeLink, type Service, type ServiceLink } from '../../../api';
import { plainName } from '../../../format/plain';
import { curl } from '../../../format/snippet';
import { relative } from '../../../format/time';
import {
  Button,
  CodeBlock,
  Dialog,
  ErrorBanner,
  QueryView,
  Segmented,
  SkeletonLines,
  Snippets,
  Table,
  Time,
  toast,
  useNow,
} from '../../../ui';
import styles from './services.module.css';
import { strings } from './strings';

const words = strings.link;

export function LinksDialog({ service, onClose }: { service: Service; onClose: () => void }) {
  const client = useQueryClient();
  const query = useQuery(linksQuery(service.id));
  const [life, setLife] = useState('3600');
  const [made, setMade] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const body = { expiresInSeconds: Number(life) };
  const again = () => client.invalidateQueries({ queryKey: linksQuery(service.id).queryKey });
  async function make(): Promise<void> {
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const link = await makeLink(service.id, body);
      setMade(link.url ?? null);
      void again();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog
      isOpen
      size="lg"
      onClose={onClose}
      title={words.title(plainName(service.name, 40))}
      actions={<Button onPress={onClose}>{words.done}</Button>}
    >
      <div className="stack">
        <p className="muted">{words.text}</p>
        {service.access === 'private' && <p className="meta">{words.isPrivate}</p>}
        <div className={styles.make}>
          <div className="field">
            <span className="label">{words.life}</span>
            <div>
              <Segmented label={words.life} value={life} onChange={setLife} options={words.lives} />
            </div>
          </div>
          <Button look="primary" onPress={() => void make()} isPending={busy}>
            {words.make}
          </Button>
        </div>
        {error !== null && <ErrorBanner error={error} />}
        {made !== null && (
          <div className="stack" role="status">
            <p>{words.made}</p>
            <CodeBlock text={made} label={words.copy} wrap />
          </div>
        )}
        <QueryView query={query} skeleton={<SkeletonLines />}>
          {(links) =>
            links.length === 0 ? (
              <p className="muted">{words.none}</p>
            ) : (
              <LinkTable links={links} serviceId={service.id} onChange={() => void again()} />
            )
          }
        </QueryView>
        <Snippets snippets={[{ label: 'API', text: curl('POST', `/services/${service.id}/links`, body) }]} />
      </div>
    </Dialog>
  );
}

interface TableProps {
  links: readonly ServiceLink[];
  serviceId: string;
  onChange: () => void;
}

function LinkTable({ links, serviceId, onChange }: TableProps) {
  const now = useNow();
  const [busy, setBusy] = useState<string | null>(null);
  async function revoke(link: ServiceLink): Promise<void> {
    setBusy(link.id);
    try {
      await revokeLink(serviceId, link.id);
      toast.done(words.revoked);
    } catch (error) {
      toast.failed(words.failed, error);
    } finally {
      setBusy(null);
      onChange();
    }
  }
  return (
    <Table
      label={words.list}
      columns={[
        { label: words.created, wide: true },
        { label: words.expires },
        { label: words.opened },
        { label: words.act, right: true, hideLabel: true },
      ]}
    >
      {links.slice(0, 200).map((link) => {
        const state = link.revokedAt ? words.revokedAt : Date.parse(link.expiresAt) <= now ? words.expired : null;
        return (
          <tr key={link.id} className={state ? 'asleep' : undefined}>
            <td className="only-wide muted">
              <Time at={link.createdAt} />
            </td>
            <td>{state ? <span className="badge">{state}</span> : <Time at={link.expiresAt} />}</td>
            <td>
              <span className={styles.opened}>
                <span className="num">{words.times(link.opened)}</span>
                {link.lastOpenedAt && <span className="meta num">{words.last(relative(link.lastOpenedAt, now))}</span>}
              </span>
            </td>
            <td className="right">
              {!state && (
                <Button
                  size="sm"
                  look="danger"
                  aria-label={words.revokeOne(relative(link.createdAt, now))}
                  isPending={busy === link.id}
                  onPress={() => void revoke(link)}
                >
                  {words.revoke}
                </Button>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
