// Everything that pages need of the API: functions, queries, types, and the error.
export * from '../wire';
export * from './agents';
export { type AuditFilter, auditExport, listAudit } from './audit';
export * from './auth';
// By name: the same names in `wire` have less exact types.
export type {
  Agent,
  Approve,
  Attachment,
  AttachmentKind,
  CallStatus,
  Chat,
  ChatEvent,
  ChatFault,
  ChatPage,
  ChatSandbox,
  ChatStatus,
  ChatTool,
  ChatUpdate,
  ChatUsage,
  Checkpoint,
  Decision,
  Message,
  MessagePage,
  MessageStatus,
  Model,
  ModelPage,
  ModelProvider,
  NewAgent,
  NewChat,
  NewMessage,
  NewModelProvider,
  OnBusy,
  Part,
  ScreenshotPart,
  ShotRect,
  ShotViewport,
  StartedTurn,
  StopReason,
  SyncState,
  ToolCall,
  ToolMessage,
  Turn,
  TurnLimits,
  TurnState,
} from './chat-types';
export * from './chats';
export { type Page, type Query, setTeam, url } from './client';
export { ApiError, isApiError } from './error';
export * from './files';
export * from './keys';
export * from './models';
export * from './people';
export * from './queries';
export * from './quotas';
export * from './sandboxes';
export * from './server';
export * from './services';
export * from './snapshots';
export * from './templates';
export type * from './types';
export * from './uploads';
export * from './usage';
export * from './use-services';
export * from './webhooks';
