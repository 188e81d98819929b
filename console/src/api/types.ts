// Short names for types of the wire, and what the API's description leaves open: bytes, values of databases, messages of sockets.
import type {
  DoctorReport,
  FileList,
  ListedSandbox,
  SandboxCreator,
  SandboxDetail,
  SandboxPort,
  ServerStatus,
  Service,
  ServiceState,
  SessionInfo,
  Event as WireEvent,
} from '../wire';
import type { Chat } from './chat-types';

/** Who is signed in. */
export type Session = SessionInfo;
export type Maker = SandboxCreator;
/** A row of the list; ended ones have phase `ended`. */
export type SandboxRow = ListedSandbox;
export type SandboxFull = SandboxDetail;
export type Directory = FileList;
export type Port = SandboxPort;
export type Doctor = DoctorReport;

/** After it, a followed log has no more: the service has ended, or its sandbox was paused. */
export interface ServiceLogEnd {
  state: ServiceState;
  reason: string | null;
}

export interface FileContent {
  bytes: ArrayBuffer;
  etag: string | null;
}

/** A value of a database; of a blob, its beginning. */
export type SqliteValue = string | number | boolean | null | { blob: string; size: number };

export interface SqliteRequest {
  path: string;
  sql: string;
  params?: SqliteValue[];
  write?: boolean;
}

export interface SqliteRows {
  columns: string[];
  rows: SqliteValue[][];
  truncated: boolean;
  changes: number;
}

export interface BuildLine {
  timestamp: string;
  message: string;
  level: string;
  step: string | null;
}

/** A service has changed, or is gone. */
export type ServiceMessage =
  | { topic: string; type: 'service'; service: Service }
  | { topic: string; type: 'service'; deleted: string; sandboxId: string };

/** What the live socket says about a topic, apart from its own housekeeping. */
export type LiveMessage =
  | ServiceMessage
  | { topic: string; type: 'event'; event: WireEvent; sandbox: SandboxRow | null }
  | { topic: string; type: 'changed'; templateID: string }
  | { topic: string; type: 'log'; lines: BuildLine[]; next: number }
  | { topic: string; type: 'status'; status: 'building' | 'ready' | 'error' | 'waiting'; reason?: unknown }
  | { topic: string; type: 'status'; status: ServerStatus }
  | { topic: string; type: 'chat.updated'; chat: Chat }
  | { topic: string; type: 'chat.removed'; chatId: string }
  /** Messages of the topic were left out. */
  | { topic: string; type: 'lagged' }
  | { topic: string; type: 'error'; message: string };
