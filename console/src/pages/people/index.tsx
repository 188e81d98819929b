// The people of the team, their roles, and invitations.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { LogOut, MoreHorizontal, Plus, UserMinus } from 'lucide-react';
import { useState } from 'react';
import {
  type Invitation,
  invitationsQuery,
  leaveTeam,
  type Member,
  membersQuery,
  type Role,
  removeMember,
  revokeInvitation,
  setRole,
} from '../../api';
import { endSession } from '../../api/client';
import { plainName } from '../../format/plain';
import { curl } from '../../format/snippet';
import { useSession } from '../../session';
import {
  Button,
  ConfirmDialog,
  IconButton,
  Menu,
  Page,
  PageHead,
  QueryView,
  Select,
  SnippetMenu,
  Table,
  Time,
  toast,
} from '../../ui';
import { useSignInAgain } from './again';
import { Invite } from './invite';
import { ROLES, strings } from './strings';

export default function People() {
  const { team, user } = useSession();
  const members = useQuery(membersQuery(team.id));
  const client = useQueryClient();
  const [run, again] = useSignInAgain();
  const [inviting, setInviting] = useState(false);
  const [removed, setRemoved] = useState<Member | null>(null);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ['members'] });
    void client.invalidateQueries({ queryKey: ['invitations'] });
  };

  async function change(member: Member, role: Role): Promise<void> {
    try {
      await run(() => setRole(team.id, member.user.id, role));
      toast.done(strings.changed(plainName(member.user.name, 60), role));
    } catch (error) {
      toast.failed(strings.notChanged, error);
    }
    refresh();
  }
  async function remove(member: Member): Promise<void> {
    if (member.user.id === user.id) {
      await leaveTeam(team.id);
      return endSession();
    }
    await run(() => removeMember(team.id, member.user.id));
    toast.done(strings.removed(plainName(member.user.name, 60)));
    refresh();
  }
  const own = removed?.user.id === user.id;
  const name = removed ? plainName(removed.user.name, 60) : '';
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', `/teams/${team.id}/members`)} cli="cabana team members" />
            <Button look="primary" onPress={() => setInviting(true)}>
              <Plus />
              {strings.invite}
            </Button>
          </>
        }
      >
        {members.data && <span className="meta num">{strings.count(members.data.length)}</span>}
      </PageHead>
      <p className="muted">{strings.text}</p>
      <QueryView query={members}>
        {(rows) => (
          <Table
            label={strings.title}
            columns={[
              { label: strings.columns.person },
              { label: strings.columns.role },
              { label: strings.columns.seen, wide: true },
              { label: strings.columns.keys, right: true, wide: true },
              { label: strings.columns.actions, hideLabel: true },
            ]}
          >
            {rows.map((member) => (
              <MemberRow
                key={member.user.id}
                member={member}
                onRole={(role) => void change(member, role)}
                onRemove={() => setRemoved(member)}
              />
            ))}
          </Table>
        )}
      </QueryView>
      <Pending onChange={refresh} />
      {inviting && <Invite run={run} onClose={() => setInviting(false)} onDone={refresh} />}
      {removed && (
        <ConfirmDialog
          isOpen
          onClose={() => setRemoved(null)}
          title={own ? strings.leaveTitle(team.name) : strings.removeTitle(name)}
          action={own ? strings.leaveAction : strings.removeAction(name)}
          onConfirm={() => remove(removed)}
        >
          <p>{own ? strings.leaveText : strings.removeText}</p>
          {removed.keys > 0 && <p>{strings.removeKeys(removed.keys)}</p>}
        </ConfirmDialog>
      )}
      {again}
    </Page>
  );
}

interface RowProps {
  member: Member;
  onRole: (role: Role) => void;
  onRemove: () => void;
}

function MemberRow({ member, onRole, onRemove }: RowProps) {
  const session = useSession();
  const name = plainName(member.user.name, 60);
  const self = member.user.id === session.user.id;
  const fixed = member.role === 'owner' && session.role !== 'owner';
  const action = self
    ? { label: strings.leave, icon: <LogOut />, danger: true, onAction: onRemove }
    : { label: strings.remove, icon: <UserMinus />, danger: true, disabled: fixed, onAction: onRemove };
  return (
    <tr>
      <td className="cut" style={{ maxWidth: 280 }}>
        <span className="name">{name}</span> {self && <span className="badge">{strings.you}</span>}
        {member.disabled && <span className="badge">{strings.disabled}</span>}
        <div className="meta cut">{member.user.email}</div>
      </td>
      <td>
        <Select
          label={strings.roleOf(name)}
          hideLabel
          value={member.role}
          isDisabled={fixed}
          onChange={(role) => role !== member.role && onRole(role)}
          options={ROLES.map((id) => ({
            id,
            ...strings.roles[id],
            disabled: id === 'owner' && session.role !== 'owner',
          }))}
        />
      </td>
      <td className="only-wide muted">{member.lastSeenAt ? <Time at={member.lastSeenAt} /> : strings.never}</td>
      <td className="only-wide right num muted">{member.keys}</td>
      <td className="right">
        <Menu
          label={strings.actionsOf(name)}
          trigger={
            <IconButton label={strings.actionsOf(name)} size="sm">
              <MoreHorizontal />
            </IconButton>
          }
          items={[action]}
        />
      </td>
    </tr>
  );
}

function Pending({ onChange }: { onChange: () => void }) {
  const { team } = useSession();
  const query = useQuery(invitationsQuery(team.id));
  async function revoke(row: Invitation): Promise<void> {
    try {
      await revokeInvitation(team.id, row.id);
      toast.done(strings.revoked);
    } catch (error) {
      toast.failed(strings.notRevoked, error);
    }
    onChange();
  }
  if (!query.data?.length) return null;
  return (
    <section className="stack">
      <h2>{strings.pending}</h2>
      <Table
        label={strings.pending}
        columns={[
          { label: strings.pendingColumns.email },
          { label: strings.pendingColumns.role },
          { label: strings.pendingColumns.expires, wide: true },
          { label: strings.pendingColumns.actions, hideLabel: true },
        ]}
      >
        {query.data.map((row) => (
          <tr key={row.id}>
            <td className="cut" style={{ maxWidth: 280 }}>
              {row.email}
            </td>
            <td>{strings.roles[row.role].label}</td>
            <td className="only-wide muted">
              <Time at={row.expiresAt} />
            </td>
            <td className="right">
              <Button size="sm" onPress={() => void revoke(row)}>
                {strings.revoke}
              </Button>
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
