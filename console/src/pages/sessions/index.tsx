// Where one is signed in.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import { useState } from 'react';
import { endOtherSession, isApiError, type ListedSession, sessionsQuery, signOut } from '../../api';
import { endSession } from '../../api/client';
import { plainName } from '../../format/plain';
import { Button, ConfirmDialog, CopyButton, Page, PageHead, QueryView, Table, Time, toast } from '../../ui';
import { browserOf } from './browser';
import { strings } from './strings';

function nameOf(session: ListedSession): string {
  const agent = session.agent ?? '';
  return browserOf(agent) ?? (plainName(agent, 60) || strings.unknown);
}

export default function Sessions() {
  const query = useQuery({ ...sessionsQuery(), retry: false });
  const client = useQueryClient();
  const [ending, setEnding] = useState<ListedSession | null>(null);
  const withKey = isApiError(query.error, 'session_not_found');

  async function leave(): Promise<void> {
    try {
      await signOut();
      endSession();
    } catch (error) {
      toast.failed(strings.signOutFailed, error);
    }
  }
  async function end(session: ListedSession): Promise<void> {
    await endOtherSession(session.id);
    toast.done(strings.ended);
    void client.invalidateQueries({ queryKey: ['sessions'] });
  }
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          !withKey && (
            <Button onPress={leave}>
              <LogOut />
              {strings.signOut}
            </Button>
          )
        }
      />
      <p className="muted">{withKey ? strings.withKey : strings.text}</p>
      <p className="row meta wrap">
        {strings.another} <code>cabana login</code>
        <CopyButton text="cabana login" label={strings.copy} />
      </p>
      {!withKey && (
        <QueryView query={query}>
          {(sessions) => (
            <Table
              label={strings.title}
              columns={[
                { label: strings.columns.browser },
                { label: strings.columns.address, wide: true },
                { label: strings.columns.seen },
                { label: strings.columns.began, wide: true },
                { label: strings.columns.ends, wide: true },
                { label: strings.columns.actions, hideLabel: true },
              ]}
            >
              {sessions.map((session) => (
                <tr key={session.id}>
                  <td title={plainName(session.agent ?? '', 300)}>
                    <span className="row wrap">
                      <span className="name">{nameOf(session)}</span>
                      {session.current && <span className="badge accent">{strings.current}</span>}
                    </span>
                  </td>
                  <td className="only-wide mono muted">
                    {session.address ? plainName(session.address, 64) : strings.noAddress}
                  </td>
                  <td className="muted">
                    <Time at={session.lastSeenAt} />
                  </td>
                  <td className="only-wide muted">
                    <Time at={session.createdAt} />
                  </td>
                  <td className="only-wide muted">
                    <Time at={session.expiresAt} />
                  </td>
                  <td className="right">
                    {!session.current && (
                      <Button
                        size="sm"
                        look="danger"
                        aria-label={strings.endOf(nameOf(session))}
                        onPress={() => setEnding(session)}
                      >
                        {strings.end}
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </QueryView>
      )}
      {ending && (
        <ConfirmDialog
          isOpen
          onClose={() => setEnding(null)}
          title={strings.endTitle(nameOf(ending))}
          action={strings.endAction}
          onConfirm={() => end(ending)}
        >
          <p>{strings.endText(ending.address ? plainName(ending.address, 64) : strings.somewhere)}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}
