// People of a team: who they are, their roles, invitations, projects, and one's own account.
import { queryOptions } from '@tanstack/react-query';
import type {
  Invitation,
  InvitationInfo,
  MadeInvitation,
  Member,
  NewInvitation,
  NewPassword,
  OwnTeam,
  PersonUpdate,
  Project,
  Role,
  SignInMethods,
} from '../wire';
import { part, request } from './client';
import type { Session } from './types';

const team = (id: string, rest = '') => `/teams/${part(id)}${rest}`;
const project = (id: string, rest = '') => `/projects/${part(id)}${rest}`;

export const signInMethods = (signal?: AbortSignal) =>
  request<SignInMethods>('GET', '/auth/methods', { signal, anonymous: true });

export const signInByPassword = (email: string, password: string) =>
  request<Session>('POST', '/auth/sign-in', { body: { email, password }, anonymous: true });

/** Proves again who is signed in, for acts that hand out access. */
export const confirmPassword = (password: string) =>
  request<void>('POST', '/auth/confirm', { body: { password }, anonymous: true });

export const setPassword = (body: NewPassword) => request<void>('PUT', '/auth/password', { body, anonymous: true });

export const updatePerson = (body: PersonUpdate) => request<Session>('PATCH', '/auth/user', { body });

export const switchTeam = (teamId: string) => request<Session>('PUT', '/auth/session', { body: { teamId } });

export const lookAtInvitation = (code: string) =>
  request<InvitationInfo>('POST', '/auth/invitation', { body: { code }, anonymous: true });

/** With a name and password it makes an account; without, it is for the person who is signed in. */
export const acceptInvitation = (code: string, account?: { name: string; password: string }) =>
  request<Session>('POST', '/auth/invitation/accept', { body: { code, ...account }, anonymous: true });

export const createTeam = (name: string) => request<OwnTeam>('POST', '/teams', { body: { name } });

export const leaveTeam = (id: string) => request<void>('POST', team(id, '/leave'), { body: {} });

export const setRole = (id: string, user: string, role: Role) =>
  request<void>('PATCH', team(id, `/members/${part(user)}`), { body: { role } });

export const removeMember = (id: string, user: string) => request<void>('DELETE', team(id, `/members/${part(user)}`));

export const invite = (id: string, body: NewInvitation) =>
  request<MadeInvitation>('POST', team(id, '/invitations'), { body });

export const revokeInvitation = (id: string, invitation: string) =>
  request<void>('DELETE', team(id, `/invitations/${part(invitation)}`));

export const createProject = (name: string) => request<Project>('POST', '/projects', { body: { name } });

export const deleteProject = (id: string) => request<void>('DELETE', project(id));

export const setProjectRole = (id: string, user: string, role: Role) =>
  request<void>('PUT', project(id, `/members/${part(user)}`), { body: { role } });

export const removeFromProject = (id: string, user: string) =>
  request<void>('DELETE', project(id, `/members/${part(user)}`));

export const membersQuery = (id: string) =>
  queryOptions({
    queryKey: ['members', id],
    queryFn: ({ signal }) => request<Member[]>('GET', team(id, '/members'), { signal }),
  });

export const invitationsQuery = (id: string) =>
  queryOptions({
    queryKey: ['invitations', id],
    queryFn: ({ signal }) => request<Invitation[]>('GET', team(id, '/invitations'), { signal }),
  });

export const projectsQuery = () =>
  queryOptions({
    queryKey: ['projects'],
    queryFn: ({ signal }) => request<Project[]>('GET', '/projects', { signal }),
  });

export const projectMembersQuery = (id: string) =>
  queryOptions({
    queryKey: ['projects', id, 'members'],
    queryFn: ({ signal }) => request<Member[]>('GET', project(id, '/members'), { signal }),
  });
