// Links by which anyone can read a chat: making one, which is shown once, and revoking.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import {
  type Chat,
  type ChatExposure,
  type ChatShare,
  exposureQuery,
  shareChat,
  sharesQuery,
  unshareChat,
} from '../../api';
import { titleOf } from '../../chats/title';
import { plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import { relative } from '../../format/time';
import {
  Button,
  Checkbox,
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
} from '../../ui';
import styles from './share.module.css';
import { strings } from './strings';

const words = strings.share;

export function ShareDialog({ chat, onClose }: { chat: Chat; onClose: () => void }) {
  const client = useQueryClient();
  const query = useQuery(sharesQuery(chat.id));
  const [until, setUntil] = useState('now');
  const [details, setDetails] = useState(false);
  const exposed = useQuery(exposureQuery(chat.id, details));
  const [life, setLife] = useState('2592000');
  const [made, setMade] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const body = { live: until === 'live', toolDetails: details, expiresInSeconds: Number(life) };
  const again = () => client.invalidateQueries({ queryKey: ['chat', chat.id] });
  async function make(): Promise<void> {
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const share = await shareChat(chat.id, body);
      setMade(share.url ?? null);
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
      title={words.title(titleOf(chat))}
      actions={<Button onPress={onClose}>{words.done}</Button>}
    >
      <div className="stack">
        <p>
          {words.text} {words.given}
        </p>
        <p className="muted">{words.kept}</p>
        <div className={styles.make}>
          <div className="field">
            <span className="label">{words.until}</span>
            <div>
              <Segmented label={words.until} value={until} onChange={setUntil} options={words.untils} />
            </div>
          </div>
          <div className="field">
            <span className="label">{words.life}</span>
            <div>
              <Segmented label={words.life} value={life} onChange={setLife} options={words.lives} />
            </div>
          </div>
        </div>
        <Checkbox isSelected={details} onChange={setDetails}>
          {words.details}
        </Checkbox>
        {exposed.data && <Exposed exposure={exposed.data} />}
        <div>
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
          {(shares) =>
            shares.length === 0 ? (
              <p className="muted">{words.none}</p>
            ) : (
              <ShareTable shares={shares} chatId={chat.id} onChange={() => void again()} />
            )
          }
        </QueryView>
        <Snippets
          snippets={[
            { label: 'API', text: curl('POST', `/chats/${chat.id}/shares`, body) },
            {
              label: 'CLI',
              text: cli('chat', 'share', chat.id, body.live && '--live', body.toolDetails && '--tool-details'),
            },
          ]}
        />
      </div>
    </Dialog>
  );
}

/** What becomes visible now, and what of it looks like a key. */
function Exposed({ exposure }: { exposure: ChatExposure }) {
  const { messages, pictures, artifacts, keyLike } = exposure;
  return (
    <div className="stack">
      <p className="meta">
        {words.exposed(
          messages,
          pictures,
          artifacts.map((name) => plainName(name, 60)),
        )}
      </p>
      {keyLike.length > 0 && (
        <div role="alert" className={styles.warning}>
          <p>{words.keys}</p>
          <ul>
            {keyLike.map((key) => (
              <li key={`${key.place} ${key.text}`}>
                <code>{plainName(key.text, 40)}</code> {words.places[key.place]}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

interface TableProps {
  shares: readonly ChatShare[];
  chatId: string;
  onChange: () => void;
}

function ShareTable({ shares, chatId, onChange }: TableProps) {
  const now = useNow();
  const [busy, setBusy] = useState<string | null>(null);
  async function revoke(share: ChatShare): Promise<void> {
    setBusy(share.id);
    try {
      await unshareChat(chatId, share.id);
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
        { label: words.what },
        { label: words.expires },
        { label: words.opened, wide: true },
        { label: words.act, right: true, hideLabel: true },
      ]}
    >
      {shares.slice(0, 100).map((share) => {
        const state = share.revokedAt ? words.revokedAt : Date.parse(share.expiresAt) <= now ? words.expired : null;
        return (
          <tr key={share.id} className={state ? 'asleep' : undefined}>
            <td className="muted">
              {[
                share.live ? words.whats.live : relative(share.createdAt, now),
                share.toolDetails ? words.whats.details : '',
              ]
                .filter(Boolean)
                .join(', ')}
            </td>
            <td>{state ? <span className="badge">{state}</span> : <Time at={share.expiresAt} />}</td>
            <td className="only-wide num">{words.times(share.opened)}</td>
            <td className="right">
              {!state && (
                <Button
                  size="sm"
                  look="danger"
                  aria-label={words.revokeOne(relative(share.createdAt, now))}
                  isPending={busy === share.id}
                  onPress={() => void revoke(share)}
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
