// Written by `npm run wire` from openapi/cabana.json. Do not edit.

/** Body of `POST /auth/invitation/accept`. Without a name and password: as the person who is signed in. */
export interface AcceptInvitation {
  code: Secret;
  name?: string | null;
  password?: Secret | null;
}

/** Who may see a service. */
export type Access = 'private' | 'link' | 'public';

/** Something that was done with a sandbox. */
export interface ActivityItem {
  /** Why it failed. */
  errorMsg: string;
  /** Its id. */
  eventID: string;
  /** `create`, `update`, `timeout` or `delete`. */
  eventName: string;
  /** When, seconds since 1970. */
  recordAt: number;
  /** The sandbox. */
  sandboxID: SandboxId;
  /** `success` or `failed`. */
  state: string;
  /** As an HTTP status. */
  statusCode: number;
  /** The sandbox's template. */
  templateID: string;
  /** The template's alias. */
  templateName: string;
}

/** Answer of `GET /sandboxes/events` (Novita). */
export interface ActivityPage {
  /** Whether there is another page. */
  hasMore: boolean;
  /** The page. */
  items: ActivityItem[];
  /** How many there are in all, as far as 10000. */
  total: number;
}

/** An agent: a model with instructions and tools. */
export interface Agent {
  createdAt: string;
  description: string;
  id: AgentId;
  kind: string;
  limits: TurnLimits;
  model: string | null;
  name: string;
  suggestions: string[];
  system: string;
  tools: ChatTool[];
  updatedAt: string;
}

/** A configured agent: `agent_` and 20 characters. */
export type AgentId = string;

/** The agents of a team. */
export interface AgentPage {
  agents: Agent[];
}

/** Body of `PATCH /agents/{id}`. What is omitted stays. */
export interface AgentUpdate {
  description?: string | null;
  limits?: TurnLimits | null;
  /** An empty text: the server's default. */
  model?: string | null;
  name?: string | null;
  suggestions?: string[] | null;
  system?: string | null;
  tools?: ChatTool[] | null;
}

/** What was answered. */
export interface AnsweredCalls {
  toolCalls: ToolCall[];
}

/** An API key, without the key itself. */
export interface ApiKey {
  /** Networks that it can be used from; empty: from anywhere. */
  cidrs?: string[];
  /** When it was made. */
  createdAt: string;
  /** Always null: keys belong to teams. */
  createdBy?: Record<string, unknown> | null;
  /** Id of the user or the API key that made it. */
  creatorID?: string | null;
  /** From then on it is invalid; null: never. */
  expiresAt?: string | null;
  /** Its id. */
  id: KeyId;
  /** When it was last used. */
  lastUsed?: string | null;
  /** How to recognise it. */
  mask: KeyMask;
  /** What its owner calls it. */
  name: string;
  projectId?: ProjectId | null;
  /** What it may do. */
  scopes?: Permission[];
}

/** Body of `POST /chats/{id}/approvals/{callId}`. */
export interface Approval {
  decision: ApprovalDecision;
  /** For the model. */
  note?: string | null;
}

/** What a person decides. */
export type ApprovalDecision = 'allow' | 'deny' | 'always';

/** Whether a call of a tool needs a person. */
export type Approve = 'auto' | 'ask' | 'never';

/** Body of `POST /sandboxes/{id}/archive` (Cabana). */
export interface ArchiveRequest {
  /** Whether only the marked paths are kept, and the rest is given up. */
  recycle?: boolean | null;
}

/** Body of `POST /templates/tags`. */
export interface AssignTags {
  /** The tags that it gets. */
  tags: string[];
  /** The build to tag: `alias`, `alias:tag` or `alias:<build id>`. */
  target: string;
}

/** Answer of `POST /templates/tags`. */
export interface AssignedTags {
  /** The build that has them now. */
  buildID: BuildId;
  /** The tags. */
  tags: string[];
}

/** A file of a chat. */
export interface Attachment {
  chatId: ChatId | null;
  createdAt: string;
  /** Why it is not. */
  error: string | null;
  id: AttachmentId;
  kind: AttachmentKind;
  mediaType: string;
  name: string;
  path: string | null;
  sha256: string;
  size: number;
  /** Whether it is in the sandbox, and where. */
  status: SyncState;
}

/** A file of a chat: an upload or an artifact: `att_` and 20 characters. */
export type AttachmentId = string;

/** Where a file of a chat comes from. */
export type AttachmentKind = 'upload' | 'artifact' | 'screenshot';

/** Files, in the order in which they came. */
export interface AttachmentPage {
  attachments: Attachment[];
}

/** An entry of the audit log. */
export interface AuditEntry {
  /** What was done: the id of an operation in the API's description. */
  action: string;
  /** Id of the person or API key; none where nobody was signed in. */
  actor?: string | null;
  /** Address of the client. */
  address?: string | null;
  /** When the act ended, in microseconds. */
  at: string;
  /** Names and ids, the code of an error. Never secrets, never the body of a request. */
  details?: Record<string, string>;
  /** SHA-256 of everything above. */
  hash: AuditHash;
  /** Hash of the entry before it. */
  previousHash: AuditHash;
  result: AuditResult;
  /** Its number in the chain, from 1, without gaps. */
  seq: number;
  /** HTTP status of the answer; 0 without one. */
  status: number;
  /** Id of what it was done to. */
  target?: string | null;
  teamID?: TeamId | null;
}

/** A SHA-256, written as 64 hexadecimal digits. */
export type AuditHash = string;

/** A page of the audit log. */
export interface AuditPage {
  /** Entries, newest first. */
  entries: AuditEntry[];
  /** Names of actors, by id. Those that are gone have none. */
  names: Record<string, string>;
  /** For the next page; none on the last one. */
  nextCursor?: string | null;
}

/** Body of `POST /admin/audit/prune`. */
export interface AuditPrune {
  /** Entries older than this are removed; at least 30 days ago. */
  before: string;
}

/** What was removed. */
export interface AuditPruned {
  entries: number;
}

/** How a request ended. `interrupted`: the client went away before the answer, so the act may be done or not. */
export type AuditResult = 'ok' | 'refused' | 'failed' | 'interrupted';

/** Who wrote a message. */
export interface Author {
  userId: UserId;
}

/** Whether a request resumes the sandbox when it is paused. */
export interface AutoResume {
  /** Whether it does. */
  enabled: boolean;
}

/** Whether use costs money: `off`, or `postpaid` (what teams owe is written down). */
export type BillingMode = 'off' | 'postpaid';

/** One build of a template: a UUID in lower case. */
export type BuildId = string;

/** Answer of `GET /templates/{id}/builds/{buildID}/status`. */
export interface BuildInfo {
  /** The build's id. */
  buildID: BuildId;
  /** A page of the log. An empty one is the end of what is there. */
  logEntries: BuildLogEntry[];
  /** Always empty; older clients want it. */
  logs: string[];
  reason?: BuildReason | null;
  /** `waiting`, `building`, `ready` or `error`. */
  status: string;
  /** The template's id. */
  templateID: TemplateId;
}

/** A line of a build's log. */
export interface BuildLogEntry {
  /** `debug`, `info`, `warn` or `error`. */
  level: string;
  /** What it says. */
  message: string;
  /** Of which step: `base`, `finalize` or its number, from 1. */
  step?: string | null;
  /** When. */
  timestamp: string;
}

/** Answer of `GET /templates/{id}/builds/{buildID}/logs`. */
export interface BuildLogPage {
  /** Lines. */
  logs: BuildLogEntry[];
}

/** Why a build failed. */
export interface BuildReason {
  /** The last lines of the log. */
  logEntries?: BuildLogEntry[];
  /** In words. */
  message: string;
  /** At which step: `base`, `finalize` or its number, from 1. */
  step?: string | null;
}

/**
 * Body of `POST /v2/templates/{id}/builds/{buildID}`: what to build. At most one of `fromImage`, `fromTemplate` and
 * `dockerfile` is given; with none it is `fromImage` with E2B's base image.
 */
export interface BuildStart {
  /** Cabana: the Dockerfile's `ARG`s. */
  buildArgs?: Record<string, string> | null;
  /** Cabana: the uploaded archive that is the Dockerfile's context. */
  context?: string | null;
  /** Cabana: the text of a Dockerfile, instead of steps. */
  dockerfile?: string | null;
  /** Nothing is taken from the cache. */
  force?: boolean | null;
  /** The image to begin with. */
  fromImage?: string | null;
  fromImageRegistry?: RegistryCredentials | null;
  /** The template to begin with. */
  fromTemplate?: string;
  /**
   * Cabana: images that were uploaded, as `docker save` or an OCI layout has them, by the names that the build has
   * for them. No registry is asked for those.
   */
  images?: Record<string, string> | null;
  /** A command that succeeds when a sandbox is ready to be used. */
  readyCmd?: string | null;
  /** A command that runs as long as a sandbox does. */
  startCmd?: string | null;
  /** What to do, in order. */
  steps?: TemplateStep[] | null;
  /** Cabana: the stage of the Dockerfile to build; the last one where it is absent. */
  target?: string | null;
}

/** A call of a tool: `call_` and 20 characters. */
export type CallId = string;

/** How far a call of a tool is. */
export type CallStatus = 'pending' | 'approval' | 'client' | 'running' | 'success' | 'error';

/** Body of `POST /chats/{id}/cancel`. */
export interface CancelRequest {
  turnId?: TurnId | null;
}

/** What a server's isolation backend and storage pool can do. The rest is refused with `not_supported`. */
export interface Capabilities {
  /** Disks can be copied: snapshots and forks. */
  copies: boolean;
  /** The size of a sandbox's disk is enforced. */
  diskQuota: boolean;
  /** Memory of paused sandboxes survives a reboot of the machine. */
  memoryOutlivesReboot: boolean;
  /** Sandboxes can be paused with their processes and memory. */
  pauseMemory: boolean;
}

/** What running sandboxes may use together. A limit of 0 is none. */
export interface CapacityStatus {
  /** Beyond this, no sandbox is created or resumed. */
  diskLimitMB: number;
  /** The disk limits of all running sandboxes, MiB. */
  diskMB: number;
  /** Beyond this, no sandbox is created or resumed. */
  memoryLimitMB: number;
  /** The memory limits of all running sandboxes, MiB. */
  memoryMB: number;
}

/** Where a chain begins and ends. */
export interface Chain {
  /** Its hash. */
  lastHash: AuditHash;
  /** Number of the newest entry. */
  lastSeq: number;
  /** Its hash. */
  prunedHash: AuditHash;
  /** Number of the last entry that was removed because of its age; 0 if none was. */
  prunedSeq: number;
  teamID?: TeamId | null;
}

/** A chat. */
export interface Chat {
  access: ChatAccess;
  agentId: AgentId | null;
  browserSandboxId: SandboxId | null;
  /** Tokens of the last call of the model, and how many fit. */
  contextTokens: number;
  contextWindow: number;
  createdAt: string;
  id: ChatId;
  lastEventId: number;
  metadata: Record<string, unknown>;
  model: string;
  parentId: ChatId | null;
  projectId: string;
  /** Turns that wait for it. */
  queued: Turn[];
  sandboxId: SandboxId | null;
  sandboxes: ChatSandbox[];
  status: ChatStatus;
  title: string;
  tools: ChatTool[];
  turnId: TurnId | null;
  updatedAt: string;
  usage: Usage;
}

/** Who may see a chat. */
export type ChatAccess = 'private' | 'shared' | 'collaboration';

/** What a share would show. */
export interface ChatExposure {
  /** Names of artifacts. */
  artifacts: string[];
  /** Texts that look like keys; at most 20. */
  keyLike: KeyLike[];
  messages: number;
  /** Pictures in messages. */
  pictures: number;
  toolCalls: number;
}

/** A chat: `chat_` and 20 characters. */
export type ChatId = string;

/** Chats, the newest first. */
export interface ChatPage {
  chats: Chat[];
  /** For the next page; `null` on the last one. */
  nextCursor: string | null;
}

/** A sandbox of a chat. */
export interface ChatSandbox {
  name: string;
  role: SandboxRole;
  sandboxId: SandboxId;
  /** As in listings of sandboxes: `running`, `paused`, or `ended`. */
  state: string;
}

/** A link by which anyone can read a chat until it expires or is revoked. */
export interface ChatShare {
  chatId: ChatId;
  createdAt: string;
  /** Id of who made it. */
  createdBy: string | null;
  expiresAt: string;
  id: GrantId;
  lastOpenedAt: string | null;
  live: boolean;
  /** How often the page was opened. */
  opened: number;
  revokedAt: string | null;
  toolDetails: boolean;
  /** The address; only in the answer that made it, since only its hash is stored. */
  url?: string | null;
}

/** What a chat does. */
export type ChatStatus = 'idle' | 'running' | 'waiting' | 'failed';

/** Tools that a chat has. */
export type ChatTool = {
  /** Names of tools, where `*` stands for any text; all ten and `sandbox_command` if empty. */
  allow?: string[];
  /** What happens before a call, by the tool's name, where `*` stands for any text. */
  approve?: Record<string, Approve>;
  cpu_count?: number | null;
  memoryMB?: number | null;
  /** Names of sandboxes that the model may use; `main` if empty. */
  names?: string[];
  /** `base` if omitted. */
  template?: string | null;
  type: 'sandbox';
} | {
  type: 'services';
} | {
  type: 'ask';
} | {
  description?: string;
  name: string;
  /** A JSON schema of an object. */
  parameters?: Record<string, unknown>;
  type: 'function';
};

/** Body of `PATCH /chats/{id}`. What is omitted stays. */
export interface ChatUpdate {
  /** An empty text: none. */
  agentId?: string | null;
  metadata?: Record<string, unknown> | null;
  model?: string | null;
  title?: string | null;
  tools?: ChatTool[] | null;
}

/** What differs between the world and what the server remembers. */
export interface Check {
  /** In words; empty where nothing does. */
  differences: string[];
}

/** The files of a chat as they were before a turn. */
export interface Checkpoint {
  createdAt: string;
  /** `turn`: before a turn; `restore`: what was there when files were restored. */
  kind: string;
  /** The beginning of the turn's message. */
  label: string;
  messageId: MessageId | null;
  /** The turn that it was taken before, or at whose restoring. */
  turnId: TurnId;
}

/** Checkpoints of a chat. */
export interface CheckpointList {
  checkpoints: Checkpoint[];
}

/** Body of `POST /sandboxes/{id}/clone` (Novita). */
export interface CloneRequest {
  /** How many. */
  count?: number | null;
  /** Whether all must be made, or none. */
  strict?: boolean | null;
  /** Seconds until the new sandboxes expire. */
  timeout?: number | null;
}

/** Clones of a sandbox (Novita). */
export interface Clones {
  /** They. */
  sandboxes: Sandbox[];
  /** The template they were made from. */
  snapshotTemplateId: string;
}

/** Body of `POST /sandboxes/{id}/commit`. */
export interface CommitRequest {
  /** What to call the template: `alias` or `alias:tag`. Default: `sandbox-` and the sandbox's id. */
  alias?: string | null;
  /** Tags for the build. Default: `default`. */
  tags?: string[] | null;
}

/** A message. */
export interface CompletionMessage {
  /** A text, or a list of parts of the type `text`. */
  content?: Record<string, unknown>;
  role: string;
}

/** A request for a completion. Further fields of OpenAI's are ignored. */
export interface CompletionRequest {
  /** The last one is of the role `user` and is answered. Content is text. */
  messages: CompletionMessage[];
  /**
   * `chat_id`: the chat that goes on. `show_tools`: whether calls of tools are told in the text. Others are kept
   * with a new chat.
   */
  metadata?: Record<string, unknown> | null;
  /** `agent/NAME`, the id of an agent, or `PROVIDER/MODEL`; the server's default if omitted. */
  model?: string | null;
  /** 1 or omitted. */
  n?: number | null;
  stream?: boolean | null;
  stream_options?: StreamOptions | null;
  /** Refused unless it is empty: the server runs its own tools. */
  tools?: (Record<string, unknown>)[] | null;
}

/** Body of `POST /auth/confirm`. */
export interface Confirmation {
  password: Secret;
}

/**
 * Body of connect. Beyond the timeout, clients may name options of a resumed sandbox; one that runs must have them
 * already.
 */
export interface ConnectRequest {
  /** Whether ports need no token (Novita). */
  allowPublicTraffic?: boolean | null;
  /** Whether it pauses at the timeout from now on (older resume only). */
  autoPause?: boolean | null;
  /** `false`: a paused sandbox boots from its disk, even if its memory is kept. */
  memory?: boolean | null;
  network?: NetworkRequest | null;
  /** Whether the guest wants an access token (Novita). */
  secure?: boolean | null;
  /** Seconds from now. */
  timeout?: number | null;
}

/** What asked for a sandbox. */
export type CreatorKind = 'key' | 'user' | 'system';

/** A curated template, and what there is of it on this server. */
export interface CuratedTemplate {
  buildID?: BuildId | null;
  /** `Agents`, `Data` or `Languages`. */
  category: string;
  /** Virtual CPUs of its sandboxes. */
  cpuCount: number;
  /** What is in it. */
  description: string;
  /** Its Dockerfile. */
  dockerfile: string;
  /** Licences of what is in it. */
  licence: string;
  /** Memory of its sandboxes, MiB. */
  memoryMB: number;
  /** Why the newest build failed. */
  message?: string | null;
  /** Its name, which sandboxes are created with. */
  name: string;
  /** Ports that its start command serves. */
  ports: number[];
  /** What it adds to `base`, MiB, about. */
  sizeMB: number;
  /**
   * `absent` (the first use builds it), `building`, `ready`, `outdated` (usable; another build has changes),
   * `failed`, or `taken` (another template has its name).
   */
  state: string;
  templateID?: TemplateId | null;
  /** Its title. */
  title: string;
  /** Pinned versions, by package. */
  versions: Record<string, string>;
}

/** Answer of `DELETE /secrets/{secretID}` to Novita's clients. */
export interface DeletedSecret {
  /** Its name. */
  deleted: string;
}

/** What became of a delivery. */
export type DeliveryStatus = 'pending' | 'delivered' | 'failed';

/** One denied attempt. */
export interface Denial {
  /** When. */
  at: string;
  /** Host name or address, with the port if there is one. */
  destination: string;
  /** How it tried. */
  protocol: Protocol;
  /** The rule that denied it. */
  rule: string;
}

/** Denied attempts of one sandbox since it was started. */
export interface Denials {
  /** The same by rule. */
  byRule: Record<string, number>;
  /** The most recent ones, oldest first. Packets that the kernel dropped are only counted. */
  recent: Denial[];
  /** Number of denied connections, packets and queries. */
  total: number;
}

/** A check and its result. */
export interface DoctorCheck {
  /** `machine`, `protection`, `hardening` or `server`. */
  group: string;
  /** How to fix it, as a command if there is one. */
  hint?: string | null;
  /** What was found. */
  message: string;
  name: string;
  state: DoctorState;
}

/** What `GET /status/doctor` answers. */
export interface DoctorReport {
  checks: DoctorCheck[];
  /** How well sandboxes are kept apart, in words. */
  level: string;
  /** What would raise it, the most important first. */
  raise: string[];
}

/** Result of a check. */
export type DoctorState = 'ok' | 'warning' | 'failed';

/** What changed a wallet. */
export type EntryKind = 'usage' | 'top_up' | 'correction';

/** Body of every error answer. */
export interface ErrorBody {
  /** The HTTP status. */
  code: number;
  details?: QuotaExceeded | null;
  error_code?: ErrorCode | null;
  /** What went wrong and what to do next. */
  message: string;
}

/** Why a request was refused or failed. */
export type ErrorCode =
  | 'unauthorized'
  | 'invalid_code'
  | 'wrong_password'
  | 'sign_in_again'
  | 'user_not_found'
  | 'account_conflict'
  | 'last_admin'
  | 'member_not_found'
  | 'last_owner'
  | 'invitation_not_found'
  | 'invitation_invalid'
  | 'team_conflict'
  | 'project_conflict'
  | 'session_not_found'
  | 'forbidden'
  | 'invalid_request'
  | 'body_too_large'
  | 'not_supported'
  | 'route_not_found'
  | 'method_not_allowed'
  | 'sandbox_not_found'
  | 'template_not_found'
  | 'template_not_ready'
  | 'template_in_use'
  | 'build_not_found'
  | 'build_state_conflict'
  | 'build_failed'
  | 'limit_reached'
  | 'quota_exceeded'
  | 'team_not_found'
  | 'project_not_found'
  | 'plan_not_found'
  | 'share_not_found'
  | 'plan_conflict'
  | 'rate_limited'
  | 'key_not_found'
  | 'last_key'
  | 'webhook_not_found'
  | 'secret_not_found'
  | 'secret_conflict'
  | 'call_not_found'
  | 'service_not_found'
  | 'service_conflict'
  | 'chat_not_found'
  | 'chat_conflict'
  | 'message_not_found'
  | 'turn_running'
  | 'turn_not_running'
  | 'call_not_waiting'
  | 'checkpoint_not_found'
  | 'attachment_not_found'
  | 'agent_not_found'
  | 'agent_conflict'
  | 'model_not_found'
  | 'provider_not_found'
  | 'terminal_not_found'
  | 'file_not_found'
  | 'permission_denied'
  | 'already_exists'
  | 'not_a_file'
  | 'not_a_directory'
  | 'file_changed'
  | 'file_conflict'
  | 'sandbox_disk_full'
  | 'sqlite_unavailable'
  | 'sqlite_error'
  | 'sandbox_state_conflict'
  | 'idempotency_mismatch'
  | 'idempotency_conflict'
  | 'sandbox_capacity_unavailable'
  | 'sandbox_create_failed'
  | 'sandbox_not_ready'
  | 'sandbox_snapshot_guest_agent_unresponsive'
  | 'sandbox_change_failed'
  | 'sandbox_unresponsive'
  | 'storage_full'
  | 'service_unavailable'
  | 'internal_server_error';

/** One thing that happened to a sandbox. */
export interface Event {
  /** Details; `reason` says why. */
  eventData?: Record<string, unknown> | null;
  /** Its id. */
  id: string;
  /** Its build. */
  sandboxBuildId: BuildId;
  /** The execution; the sandbox's id, as it runs once. */
  sandboxExecutionId: string;
  /** The sandbox. */
  sandboxId: SandboxId;
  /** Its team. */
  sandboxTeamId: string;
  /** Its template. */
  sandboxTemplateId: string;
  /** When. */
  timestamp: string;
  /** `sandbox.lifecycle.created` and the like. */
  type: string;
  /** Always `v1`. */
  version: string;
}

/** Where in a chat a text is. */
export type ExposedIn = 'title' | 'message' | 'tool';

/** An entry of a directory. */
export interface FileEntry {
  /** Permission bits in octal, such as `0644`. */
  mode: string;
  modifiedAt?: string | null;
  /** What is not UTF-8 in it is replaced: such an entry cannot be asked for. */
  name: string;
  /** Absolute. */
  path: string;
  size: number;
  /** Where a link leads, as it says. */
  target?: string | null;
  type: FileKind;
}

/** Kind of an entry. */
export type FileKind = 'file' | 'directory' | 'symlink' | 'other';

/** Entries of a directory. */
export interface FileList {
  /** Directories first, then by name. */
  entries: FileEntry[];
  /** The absolute path of the directory. */
  path: string;
  /** Whether there are more. */
  truncated: boolean;
}

/** What is at a path, behind all links. */
export type FileStat = FileEntry & {
  /** Whether it is a file that is not a text. */
  binary: boolean;
  /** The SHA-256 of a file of up to 5 MiB that can be read, in quotes: for `If-Match`. */
  etag?: string | null;
  /** Of a file that is not a text. */
  mediaType?: string | null;
};

/** Answer of `GET /templates/{id}/files/{hash}`. */
export interface FileUpload {
  /** Whether the archive is there already. */
  present: boolean;
  /** Where it may be put, without a key, within an hour. */
  url?: string | null;
}

/** Body of `POST /chats/{id}/fork`. */
export interface ForkChat {
  messageId?: MessageId | null;
  /** Whether the new chat gets a copy of the sandbox (default). */
  withSandbox?: boolean | null;
}

/** Body of `POST /sandboxes/{id}/fork`. */
export interface ForkRequest {
  /** How many. */
  count?: number | null;
  /** Seconds until the new sandboxes expire. */
  timeout?: number | null;
}

/** What became of one fork: a sandbox or an error. */
export interface ForkResult {
  error?: ErrorBody | null;
  sandbox?: Sandbox | null;
}

/** The new chat. */
export interface ForkedChat {
  chat: Chat;
}

/** Public id of a grant (never its name): `grt_` and 20 characters. */
export type GrantId = string;

/** Which host the service's program sees. */
export type HostMode = 'local' | 'public';

/** Body of `POST /sandboxes/{id}/hotplug-memory` (Novita). */
export interface HotplugRequest {
  /** Memory, MiB. */
  requested_size_mib?: number | null;
}

/** An invitation that can still be accepted. */
export interface Invitation {
  createdAt: string;
  /** Who made it: a person or a key. */
  creatorID: string;
  email: string;
  expiresAt: string;
  id: InvitationId;
  projectId?: ProjectId | null;
  role: Role;
}

/** Body of `POST /auth/invitation`. */
export interface InvitationCode {
  /** What follows `#` in the link. */
  code: Secret;
}

/** An invitation: `inv_` and 20 characters. */
export type InvitationId = string;

/** What somebody who has the link of an invitation sees. */
export interface InvitationInfo {
  email: string;
  expiresAt: string;
  /** Whether there is an account with the email, which has to sign in first. */
  hasAccount: boolean;
  role: Role;
  /** Name of the team. */
  team: string;
}

/** An isolation backend of a server, and what it offers. */
export interface IsolationStatus {
  /** Their memory can be written to disk. */
  checkpoint: boolean;
  /** Whether it is used for sandboxes that ask for none. */
  default: boolean;
  /** A paused sandbox keeps its memory over a restart of the machine. */
  memoryOutlivesReboot: boolean;
  /** Directories of the host can be mounted inside. */
  mounts: boolean;
  /** Its name, as `isolation` names it when a sandbox is created. */
  name: string;
  /** What running out of memory ends: `process` or `sandbox`. */
  outOfMemory: string;
  /** Sandboxes can be paused with their memory in RAM. */
  pauseMemory: boolean;
}

/** Public id of an API key (never the key itself). */
export type KeyId = string;

/** A text that looks like a key. */
export interface KeyLike {
  place: ExposedIn;
  /** Its beginning. */
  text: string;
}

/** How a key is shown to those who know it. */
export interface KeyMask {
  /** The first of them. */
  maskedValuePrefix: string;
  /** The last of them. */
  maskedValueSuffix: string;
  /** What every key begins with. */
  prefix: string;
  /** Characters after the prefix. */
  valueLength: number;
}

/** Body of `PATCH /api-keys/{id}`. */
export interface KeyName {
  /** What to call the key. */
  name: string;
}

/** Body of `POST /api-keys`. */
export interface KeyRequest {
  /** Networks that it can be used from, such as `10.0.0.0/8`; without them, from anywhere. */
  cidrs?: string[] | null;
  /** From then on it is invalid. */
  expiresAt?: string | null;
  /** What to call the key. */
  name: string;
  /** The only project that it is for: an id, or `default`. Without it, that of its maker. */
  projectId?: string | null;
  /** What it may do: at most what its maker may. Without them, everything but `members` and `admin`. */
  scopes?: Permission[] | null;
}

/** Limits to set. Kinds that are not named stay as they are; null removes a limit. */
export interface LimitChanges {
  limits: Record<string, number | null>;
}

/**
 * Where a limit comes from: the project's or team's own limits, its plan, or the server's. `none`: there is no
 * limit.
 */
export type LimitSource = 'project' | 'team' | 'plan' | 'server' | 'none';

/** A sandbox as listings show it. */
export interface ListedSandbox {
  /** The template's first alias. */
  alias?: string | null;
  /** Always `cabana`. */
  clientID: string;
  /** Virtual CPUs. */
  cpuCount: number;
  createdBy?: SandboxCreator | null;
  /** Disk, MiB. */
  diskSizeMB: number;
  /** When it expires. */
  endAt: string;
  /** Version of the guest contract. */
  envdVersion: string;
  /** Of a failed or ended one, the last lines of its log, if they are known: at most 20 (Cabana). */
  lastLines?: string[];
  /** Memory, MiB. */
  memoryMB: number;
  /** Labels. */
  metadata?: Record<string, string>;
  /**
   * What it is exactly (Cabana): `running`, `pausing`, `paused`, `resuming`, `archiving`, `archived`, `recycled`,
   * `failed`, `ending` or `ended`.
   */
  phase?: string;
  /** Why it is not running (Cabana). */
  reason?: string | null;
  /** Its id. */
  sandboxID: SandboxId;
  /** Since when it is running, paused, failed or ended (Cabana). */
  since?: string | null;
  /** When it came up. */
  startedAt: string;
  /** Running or paused. */
  state: SandboxState;
  /** Its template. */
  templateID: string;
}

/** A session as listings show it. */
export interface ListedSession {
  /** Address of the client that signed in. */
  address?: string | null;
  /** Its `User-Agent`. */
  agent?: string | null;
  createdAt: string;
  /** Whether this request belongs to it. */
  current: boolean;
  expiresAt: string;
  id: SessionId;
  lastSeenAt: string;
}

/** One line of a sandbox's log: a lifecycle event or an entry of its guest, in the form that E2B's CLI reads. */
export interface LogEntry {
  /** More. */
  fields?: Record<string, string>;
  /** `debug`, `info`, `warn` or `error`. */
  level: string;
  /** What. */
  message: string;
  /** When. */
  timestamp: string;
}

/** A line of the older log form: JSON text with a `level`. */
export interface LogLine {
  /** JSON text. */
  line: string;
  /** When. */
  timestamp: string;
}

/** The machine of a server, and how busy it is. */
export interface MachineStatus {
  /** Processors. */
  cpuCount: number;
  /** Processes that want to run, averaged over a minute. */
  load: number;
  /** Memory that programs can still have, MiB. */
  memoryAvailableMB: number;
  /** Memory, MiB. */
  memoryMB: number;
}

/** A directory that was made. */
export interface MadeDirectory {
  /** Absolute. */
  path: string;
}

/** An invitation with its link, which is shown only once. */
export type MadeInvitation = Invitation & {
  /** The link to hand over. */
  url: Secret;
};

/** A team that an operator made. */
export interface MadeTeam {
  /** For the owner; shown only once. */
  invitation: MadeInvitation;
  team: TeamOverview;
}

/** The largest value of a team's metric. */
export interface MaxTeamMetric {
  /** When it was reached. */
  timestamp: string;
  /** The same, in seconds since 1970. */
  timestampUnix: number;
  /** The value. */
  value: number;
}

/** A member of a team or project. */
export interface Member {
  /** Whether the person can sign in. */
  disabled: boolean;
  /** When they came to the team. */
  joinedAt?: string | null;
  /** Keys of the team that they made. They stay when the person goes. */
  keys: number;
  lastSeenAt?: string | null;
  role: Role;
  user: Person;
}

/** Body of `PATCH /teams/{teamID}/members/{userID}` and `PUT /projects/{projectID}/members/{userID}`. */
export interface MemberRole {
  role: Role;
}

/** A message. */
export interface Message {
  author: Author | null;
  chatId: ChatId;
  content: Part[];
  createdAt: string;
  id: MessageId;
  /** The model that wrote it. */
  model?: string | null;
  role: Role;
  status: MessageStatus;
  stopReason?: StopReason | null;
  /** The calls of tools in `content`, with their results. */
  toolCalls?: ToolCall[];
  turnId: TurnId;
  usage?: Usage | null;
}

/** A message of a chat: `msg_` and 20 characters. */
export type MessageId = string;

/** Messages, the newest last. */
export interface MessagePage {
  /** Events up to this one are contained in the messages. */
  lastEventId: number;
  messages: Message[];
  /** Whether there are older ones. */
  more: boolean;
  /** The turns that they belong to: how they ended, and why. */
  turns?: Turn[];
}

/** How far a message is. */
export type MessageStatus = 'streaming' | 'complete' | 'interrupted' | 'cancelled' | 'failed';

/** A model that chats can use. */
export interface Model {
  /** Tokens that fit. */
  contextWindow: number;
  /** Whether chats use it that name none. */
  default: boolean;
  /** Whether it is scripted and no AI. */
  demo: boolean;
  /** `PROVIDER/MODEL`. */
  id: string;
  name: string;
  /** Whether its price is known. */
  priced: boolean;
  provider: string;
}

/** The models. */
export interface ModelPage {
  models: Model[];
  /** What a person can ask the demo for. */
  suggestions: string[];
}

/** A model provider. */
export interface ModelProvider {
  baseUrl: string | null;
  createdAt: string | null;
  hasKey: boolean;
  kind: string;
  models: string[];
  name: string;
  /** `server`: from the server's settings; `team`: made by this team. */
  scope: string;
}

/** Providers of models. */
export interface ModelProviderPage {
  providers: ModelProvider[];
}

/** Body of `POST /sandboxes/{sandboxID}/files/move`. */
export interface MoveFile {
  from: string;
  /** Nothing may be there. Missing parents are made. */
  to: string;
}

/** A SOCKS5 proxy. */
export interface NetworkProxy {
  /** `host:port`. */
  address: string;
  password?: Secret | null;
  tls?: NetworkProxyTls | null;
  /** User name. */
  username?: string | null;
}

/** TLS to a proxy. */
export interface NetworkProxyTls {
  /** PEM certificates that replace the system's; never returned. */
  caCert?: string | null;
  /** Whether it is used. */
  enabled?: boolean;
  /** Name to verify, instead of the address's. */
  serverName?: string | null;
}

/** `network` in the bodies of create and connect, and the body of `PUT /sandboxes/{id}/network`. Not validated. */
export interface NetworkRequest {
  /**
   * What the sandbox may connect to: addresses, CIDR ranges, host names and wildcards like `*.example.com`. Wins
   * over `denyOut`. Host names need `0.0.0.0/0` in `denyOut`.
   */
  allowOut?: string[] | null;
  /** Whether requests to its ports need no token. */
  allowPublicTraffic?: boolean | null;
  /** `false` is the same as `0.0.0.0/0` in `denyOut`. */
  allow_internet_access?: boolean | null;
  /** What it may not connect to: addresses and CIDR ranges. */
  denyOut?: string[] | null;
  /** IPv4 addresses of the servers that resolve its names, instead of the host's. */
  dnsServers?: string[] | null;
  egressProxy?: NetworkProxy | null;
  /** Ports that speak TLS inside. */
  httpsPorts?: number[] | null;
  /** What it sees as `Host`. */
  maskRequestHost?: string | null;
  /** A policy to start from, to which the lists are added: `none`, `registries` or `internet` (Cabana). */
  preset?: string | null;
  /** Headers to set in its requests, by host name. */
  rules?: Record<string, NetworkRule[]> | null;
}

/** A rule for the requests to one host. */
export interface NetworkRule {
  transform?: NetworkTransform | null;
}

/** Answer of `GET /sandboxes/{id}/network` (Cabana). */
export interface NetworkStatus {
  /** What was denied since the sandbox was started. */
  denials: Denials;
  /** Its network options. */
  network: SandboxNetwork;
  /** The preset that they are the same as: `none`, `registries` or `internet`; otherwise `custom`. */
  preset: string;
}

/** Changes of a request. */
export interface NetworkTransform {
  /** Headers to set; values may have placeholders. */
  headers?: Record<string, string> | null;
}

/** Body of `POST /agents`. */
export interface NewAgent {
  description?: string | null;
  /** `loop` or omitted. */
  kind?: 'loop';
  limits?: TurnLimits | null;
  /** The server's default if omitted. */
  model?: string | null;
  name?: string;
  suggestions?: string[] | null;
  /** Instructions for the model, after the server's own. */
  system?: string | null;
  tools?: ChatTool[] | null;
}

/** A new API key: the one time that the key itself is shown. */
export type NewApiKey = ApiKey & {
  /** The key. */
  key: Secret;
};

/** Body of `POST /chats`. With `prompt` or `content`, the first turn begins. */
export interface NewChat {
  agentId?: AgentId | null;
  /** Files that were uploaded before. */
  attachments?: AttachmentId[] | null;
  /** The parts of a message, instead of `prompt`. */
  content?: Part[] | null;
  metadata?: Record<string, unknown> | null;
  /** `PROVIDER/MODEL`; the agent's or the server's default if omitted. */
  model?: string | null;
  /** An id, or `default`. Without it, the project of the API key, else the default one. */
  projectId?: string | null;
  /** A message that is a text. */
  prompt?: string | null;
  /** Taken from the first message if omitted. */
  title?: string | null;
  /** The agent's if omitted, else a sandbox, services and questions. An empty list: none. */
  tools?: ChatTool[] | null;
}

/** Body of `POST /chats/{id}/sandboxes`. */
export interface NewChatSandbox {
  /** `fork`: a copy of the sandbox `main`. */
  from?: string | null;
  name: string;
  role?: SandboxRole;
  template?: string | null;
}

/** Body of `POST /chats/{id}/shares`. */
export interface NewChatShare {
  /** 30 days if omitted, at most a year. */
  expiresInSeconds?: number | null;
  /** Whether messages that come later are shown too; otherwise it ends with the last message that there is. */
  live?: boolean;
  /** Whether arguments and output of tools are shown; otherwise only what they are called. */
  toolDetails?: boolean;
}

/** Body of `POST /sandboxes/{sandboxID}/files/directories`. */
export interface NewDirectory {
  /** Missing parents are made. */
  path: string;
}

/** Body of `POST /teams/{teamID}/invitations`. */
export interface NewInvitation {
  /** Whom it is for: only an account with this email can accept it. */
  email: string;
  /** Hours until it expires, 1 to 720; 168 by default. */
  expiresInHours?: number | null;
  /** A project to be added to as well. */
  projectId?: string | null;
  role: Role;
}

/** Body of `POST /chats/{id}/messages`. */
export interface NewMessage {
  attachments?: AttachmentId[] | null;
  content?: Part[] | null;
  /** From this turn on. */
  model?: string | null;
  onBusy?: OnBusy;
  prompt?: string | null;
  /** For this turn only. */
  tools?: ChatTool[] | null;
}

/** Body of `POST /model-providers`. A provider of this name is replaced. */
export interface NewModelProvider {
  /** The provider's own address if omitted. */
  baseUrl?: string | null;
  key?: Secret | null;
  /** `openai` or `anthropic`. */
  kind: 'openai' | 'anthropic';
  /** Names of models that are offered. */
  models?: string[];
  /** The first part of its models' names. */
  name: string;
}

/** Body of `PUT /auth/password`. */
export interface NewPassword {
  currentPassword?: Secret | null;
  /** 10 to 200 characters. */
  password: Secret;
}

/**
 * Body of `POST /v2/sandboxes` and `POST /sandboxes`. Numbers are wide so that an absurd one gets an answer that
 * names its range; unknown fields are ignored, as newer clients send more.
 */
export interface NewSandbox {
  /** `false` cuts the sandbox off from everything outside. */
  allow_internet_access?: boolean | null;
  /** Pause instead of ending at the timeout. */
  autoPause?: boolean | null;
  /** Keep memory when pausing at the timeout. */
  autoPauseMemory?: boolean | null;
  autoResume?: AutoResume | null;
  /** Virtual CPUs, instead of the template's (Cabana). */
  cpuCount?: number | null;
  /** Disk in MiB, instead of the template's (Cabana). */
  diskSizeMB?: number | null;
  /** Environment of every command. */
  envVars?: Record<string, string> | null;
  /** Workload identity. */
  iam?: Record<string, unknown> | null;
  /** Seconds without anything happening after which it pauses (Cabana). */
  idleTimeout?: number | null;
  /** Isolation backend, instead of the template's or the server's default; `GET /status` lists them (Cabana). */
  isolation?: string | null;
  /** Paths that outlive its recycling, absolute or below its working directory (Cabana). */
  keep?: string[] | null;
  /** MCP servers that the SDK starts in the sandbox, and their options. Only checked. */
  mcp?: Record<string, unknown> | null;
  /** Memory in MiB, instead of the template's (Cabana). */
  memoryMB?: number | null;
  /** Labels to find it by. */
  metadata?: Record<string, string> | null;
  network?: NetworkRequest | null;
  /**
   * Whether set-uid programs such as `sudo` gain nothing inside, also where template and server do not say so. It
   * cannot be taken back for this sandbox, its snapshots and forks (Cabana).
   */
  noNewPrivileges?: boolean | null;
  /** `keep` (default) or `replace`: what happens when its guest dies or the machine restarts (Cabana). */
  onFailure?: string | null;
  /**
   * Its project: an id, or `default`. Without it, the project of the API key, else the team's default project
   * (Cabana).
   */
  projectId?: string | null;
  /**
   * Secrets by the variable of the environment that gets a placeholder. In header values of HTTPS requests to the
   * secret's hosts, the placeholder is replaced by the value, which never enters the sandbox (Novita).
   */
  secrets?: Record<string, string> | null;
  /** Whether the guest wants an access token (older path only; the newer one always does). */
  secure?: boolean | null;
  /** Template: id, or `[namespace/]alias[:tag]`. */
  templateID: string;
  /** Seconds until it expires. */
  timeout?: number | null;
  /** Volumes to mount. */
  volumeMounts?: (Record<string, unknown>)[] | null;
}

/** Body of `POST /secrets`. With `hosts` it is a request in Novita's form. */
export interface NewSecret {
  /** What it is for (Novita). */
  description?: string | null;
  /** Hosts that it is for: names, or `*.name` (Novita). */
  hosts?: string[] | null;
  /** Labels; at most 32. */
  metadata?: Record<string, string> | null;
  /** Its name: 1 to 128 letters, digits, `_` and `-`, stored in lower case. `sec_` is the beginning of ids. */
  name: string;
  /** Its value. It is never returned. */
  value: Secret;
}

/** Body of `POST /sandboxes/{id}/services`. */
export interface NewService {
  access?: Access | null;
  /** The sandbox is neither paused when it is idle nor ended at its timeout while the service is up. */
  alwaysOn?: boolean | null;
  /** Whether pages in a frame of the console get the script that reports errors and takes screenshots. */
  bridge?: boolean | null;
  /** A script for a login shell. */
  command: string;
  cwd?: string | null;
  env?: Record<string, string>;
  hostMode?: HostMode | null;
  /** `web` if omitted. A service of this name is replaced. */
  name?: string | null;
  onWake?: OnWake | null;
  /** The port that it will listen on; if omitted, the first one that it does. */
  port?: number | null;
  /** Name below the domain, for a public service. */
  slug?: string | null;
}

/** Body of `POST /services/{id}/links`. */
export interface NewServiceLink {
  /** 3600 if omitted, at most 30 days. */
  expiresInSeconds?: number | null;
}

/** Answer of `POST /admin/signing-keys`. */
export interface NewSigningKey {
  /** Id of the key, as `/.well-known/jwks.json` has it. */
  kid: string;
}

/** Body of `POST /v3/templates`, and of the older routes for the same. */
export interface NewTemplate {
  /** What older clients call the name. */
  alias?: string;
  /** Virtual CPUs of its sandboxes. */
  cpuCount?: number | null;
  /** Not taken here: a Dockerfile is sent when the build is started. */
  dockerfile?: string | null;
  /** Their memory, MiB. */
  memoryMB?: number | null;
  /** Their disk beyond the template, MiB; 0 is as good as none. */
  minFreeDiskMb?: number | null;
  /** `alias` or `alias:tag`. */
  name?: string;
  /**
   * Project of the template if it is created: an id, or `default`. Without it, that of the API key, else the
   * default one (Cabana).
   */
  projectId?: string | null;
  /** Tags that the build gets when it is ready; `default` if neither this nor the name has one. */
  tags?: string[] | null;
  /** Accepted for older clients; the key says which team. */
  teamID?: string | null;
}

/** Body of `POST /events/webhooks`. */
export interface NewWebhook {
  /** Whether anything is sent; true unless said otherwise. */
  enabled?: boolean | null;
  /** The types of events that are sent. */
  events: string[];
  /** What to call it. */
  name: string;
  /** What deliveries are signed with. It is never shown again. */
  signatureSecret: Secret;
  /** Where events are sent: an http:// or https:// URL. */
  url: string;
}

/** What becomes of a message that comes while a turn runs. */
export type OnBusy = 'queue' | 'steer' | 'reject';

/** What happens when a sandbox boots again from its disk. */
export type OnWake = 'restart' | 'leave';

/** Body of `POST /services/{id}/open`. */
export interface OpenService {
  /** Whether it is for a frame of the console instead of a tab. */
  frame?: boolean;
  /** Path and query to open; `/` if omitted. */
  path?: string;
}

/** Where to see a service. */
export interface OpenedService {
  /** The origin that the page will have. */
  origin: string;
  /** For a person who is signed in: valid once, for a minute. With an API key: the service's own address. */
  url: string;
}

/** A team of a person. */
export interface OwnTeam {
  id: TeamId;
  name: string;
  role: Role;
}

/** A piece of a message. */
export type Part = {
  text: string;
  type: 'text';
} | {
  text: string;
  type: 'reasoning';
} | {
  attachment_id: AttachmentId;
  type: 'image';
} | {
  attachment_id: AttachmentId;
  name?: string;
  /** Where it is in the sandbox, once it is there. */
  path?: string | null;
  type: 'file';
} | {
  attachment_id: AttachmentId;
  /** The page's path. */
  path?: string | null;
  rect?: Rect | null;
  service_id?: ServiceId | null;
  type: 'screenshot';
  viewport?: Viewport | null;
} | {
  /** An object; a text if the model wrote something that is no JSON. */
  arguments: Record<string, unknown>;
  name: string;
  tool_call_id: CallId;
  type: 'tool_call';
};

/** Body of `POST /sandboxes/{id}/pause`. */
export interface PauseRequest {
  /** Whether processes and memory are kept (default), or the disk alone. */
  memory?: boolean | null;
  /** Whether it keeps running if its guest does not answer. */
  requireHealthyGuest?: boolean | null;
}

/** What a role or an API key may do. */
export type Permission =
  | 'sandboxes:read'
  | 'sandboxes:write'
  | 'tools'
  | 'templates:read'
  | 'templates:write'
  | 'chats'
  | 'services:publish'
  | 'usage:read'
  | 'keys'
  | 'members'
  | 'audit:read'
  | 'admin';

/** A person. */
export interface Person {
  /** Whether they may change the server itself. */
  admin: boolean;
  /** The first admin has none until they choose one. */
  email?: string | null;
  /** Whether they have a password. */
  hasPassword?: boolean;
  id: UserId;
  name: string;
}

/** Body of `PATCH /auth/user`. What is omitted stays. */
export interface PersonUpdate {
  email?: string | null;
  name?: string | null;
}

/** A plan: limits under a name, for any number of teams. */
export interface Plan {
  id: string;
  limits: Record<string, number>;
  name: string;
  /** How many teams have it. */
  teams: number;
}

/** The plan that a team is to have. */
export interface PlanChoice {
  plan: string;
}

/** What a plan is to be. Its limits are replaced: a kind that is not named has none. */
export interface PlanSettings {
  limits: Record<string, number>;
  /** The plan's id if there is none. */
  name?: string | null;
}

/** A price. */
export interface Price {
  /** It holds from then until the next price of the kind. */
  effectiveFrom: string;
  kind: UsageKind;
  /** Millionths of the currency. */
  micros: number;
  /** What it is for, such as `vCPU-hour`. */
  unit: string;
}

/** Prices to set. What was used before keeps its price. */
export interface PriceChanges {
  /** Not in the past; now by default. */
  effectiveFrom?: string | null;
  /** Millionths of the currency for a vCPU-hour or a GiB-hour, by kind. */
  prices: Record<string, number>;
}

/** What resources cost; the prices of models are those of the models. */
export interface PriceList {
  billing: BillingMode;
  currency: string;
  /** Past, present and future ones, the earliest first. */
  prices: Price[];
}

/** Something that is wrong with a chain. */
export interface Problem {
  kind: ProblemKind;
  /** In words. */
  message: string;
  /** Number of the entry. */
  seq: number;
  teamID?: TeamId | null;
}

/**
 * What is wrong with an entry: its content was `changed`, it is `missing`, it is in another place (`moved`), it
 * does not follow the one before it (`unlinked`), or it cannot be read (`unreadable`).
 */
export type ProblemKind = 'changed' | 'missing' | 'moved' | 'unlinked' | 'unreadable';

/** A project. */
export interface Project {
  createdAt: string;
  id: ProjectId;
  /** Whether it is the one that every team has, in which everybody works with their role in the team. */
  isDefault: boolean;
  name: string;
  role?: Role | null;
}

/** A project of a team: `prj_` and 20 characters, or the id of the team for its default project. */
export type ProjectId = string;

/** Body of `POST /projects` and `PATCH /projects/{projectID}`. */
export interface ProjectName {
  /** Unique in the team. */
  name: string;
}

/** What a project uses and may use. */
export interface ProjectQuotas {
  projectId: ProjectId;
  /** One per kind that a project can have a limit of. What the team may use holds besides. */
  quotas: QuotaState[];
}

/** How a sandbox tried to connect. */
export type Protocol = 'tcp' | 'udp' | 'other' | 'dns';

/** Answer of `GET /sandboxes/quota` (Novita). */
export interface Quota {
  /** What there may be. */
  limit: QuotaLimit;
  /** What there is. */
  usage: QuotaUsage;
}

/** Why a request was refused with `quota_exceeded` (Cabana). */
export interface QuotaExceeded {
  kind: QuotaKind;
  limit: number;
  projectId?: ProjectId | null;
  /** What the team uses. */
  used: number;
  /** Who uses most of it; at most five. */
  users: QuotaUser[];
  /** What the request would have added. */
  wanted: number;
}

/** What is limited. */
export type QuotaKind =
  | 'instances'
  | 'vcpu'
  | 'memory_mb'
  | 'disk_mb'
  | 'snapshots'
  | 'templates'
  | 'lifetime_seconds'
  | 'turns';

/** What there may be. */
export interface QuotaLimit {
  /** Sandboxes at once, of all teams. */
  concurrentInstances: number;
  /** Memory of all of them, MiB. */
  concurrentRamMb: number;
  /** Virtual CPUs of all of them. */
  concurrentVcpu: number;
  /** Largest disk of one, MiB. */
  diskMb: number;
  /** Longest life from now, hours. */
  maxLengthHours: number;
  /** Most memory of one, MiB. */
  maxRamMb: number;
  /** Most virtual CPUs of one. */
  maxVcpu: number;
}

/** What a team uses and may use of one kind. */
export interface QuotaState {
  kind: QuotaKind;
  /** Null: there is no limit. */
  limit?: number | null;
  source: LimitSource;
  /** What it uses; 0 for `lifetime_seconds`, which holds for each sandbox. */
  used: number;
}

/** What there is. */
export interface QuotaUsage {
  /** The team's running sandboxes. */
  concurrentInstances: number;
  /** Their memory, MiB. */
  concurrentRamMb: number;
  /** Their virtual CPUs. */
  concurrentVcpu: number;
}

/** Who uses some of a limited kind. */
export interface QuotaUser {
  /** Id of the API key or user. */
  id: string;
  /** Its name, if it still exists. */
  name?: string | null;
  used: number;
}

/** A part of a page, in CSS pixels. */
export interface Rect {
  height: number;
  width: number;
  x: number;
  y: number;
}

/** Body of `POST /sandboxes/{id}/refreshes`. */
export interface RefreshRequest {
  /** Seconds from now. */
  duration?: number | null;
}

/** Credentials for a registry; which members they have depends on the type. */
export interface RegistryCredentials {
  /** `aws`: the key's name. */
  awsAccessKeyId?: string | null;
  /** `aws`: where the registry is. */
  awsRegion?: string | null;
  awsSecretAccessKey?: Secret | null;
  password?: Secret | null;
  serviceAccountJson?: Secret | null;
  /** `registry`, `aws` or `gcp`. */
  type: 'registry' | 'aws' | 'gcp';
  /** `registry`: the user's name. */
  username?: string | null;
}

/** Body of `DELETE /templates/tags`. */
export interface RemoveTags {
  /** The template. */
  name: string;
  /** The tags that it loses. */
  tags: string[];
}

/** What verifying has found. */
export interface Report {
  /**
   * Where the chains begin and end. Whoever notes an end elsewhere can tell later that nothing before it was
   * changed.
   */
  chains: Chain[];
  /** Entries that were read. */
  entries: number;
  /** What is wrong; at most 100. */
  problems: Problem[];
}

/** Response of `POST /v3/templates`: a build that waits for its steps. */
export interface RequestedBuild {
  /** Aliases. */
  aliases: string[];
  /** The build's id. */
  buildID: BuildId;
  /** Names with namespace. */
  names: string[];
  /** Whether every team may use the template. */
  public: boolean;
  /** Tags that the build gets when it is ready. */
  tags: string[];
  /** The template's id. */
  templateID: TemplateId;
}

/** Body of `POST /sandboxes/{id}/resize` (Cabana). What is not named stays. */
export interface ResizeRequest {
  /** Virtual CPUs. */
  cpuCount?: number | null;
  /** Disk, MiB; it only grows. */
  diskSizeMB?: number | null;
  /** Memory, MiB. */
  memoryMB?: number | null;
}

/** What restoring did. */
export interface Restored {
  chat: Chat;
  /** Messages that are not part of the conversation any more. */
  removedMessages: number;
}

/** The role of a person in a team. */
export type Role = 'owner' | 'admin' | 'developer' | 'billing' | 'viewer';

/** A sandbox as create and connect answer it. */
export interface Sandbox {
  /** The template's first alias. */
  alias?: string | null;
  /** Always `cabana`; older clients want the field. */
  clientID: string;
  /** Domain of the sandbox's hosts, where one is set. */
  domain?: string | null;
  envdAccessToken?: Secret | null;
  /** Version of the guest contract. */
  envdVersion: string;
  /** Its id. */
  sandboxID: SandboxId;
  /** Its template. */
  templateID: string;
  trafficAccessToken?: Secret | null;
  /** The files that were sent with the request (Cabana). */
  uploads?: UploadedFile[] | null;
}

/** Who asked for a sandbox. */
export interface SandboxCreator {
  /** Public id of the key or the user. */
  id?: string | null;
  kind: CreatorKind;
  /** Its name, if it still exists. */
  name?: string | null;
}

/** Everything about one sandbox. */
export type SandboxDetail = ListedSandbox & {
  /** Whether it may reach the outside. */
  allowInternetAccess?: boolean | null;
  /** Domain of the sandbox's hosts, where one is set. */
  domain?: string | null;
  envdAccessToken?: Secret | null;
  /** What happens at the timeout. */
  lifecycle: SandboxLifecycle;
  network?: SandboxNetwork | null;
  /** What a paused one has kept: `full` or `filesystem`. */
  pauseMode?: string | null;
};

/** A sandbox: `i` and 20 characters. It is part of host names (`port-id.domain`), so it contains no `-`. */
export type SandboxId = string;

/** What happens at the timeout, and when touched. */
export interface SandboxLifecycle {
  /** Whether a request resumes it when it is paused. */
  autoResume: boolean;
  /** Seconds without anything happening after which it pauses (Cabana). */
  idleTimeout?: number | null;
  /** Paths that outlive recycling (Cabana). */
  keep?: string[];
  /** `keep` or `replace` (Cabana). */
  onFailure?: string;
  /** `kill` or `pause`. */
  onTimeout: string;
}

/** Answer of `GET /v2/sandboxes/{id}/logs`. */
export interface SandboxLogPage {
  /** The lines. */
  logs: LogEntry[];
}

/** Answer of `GET /sandboxes/{id}/logs`. */
export interface SandboxLogs {
  /** Newer form. */
  logEntries: LogEntry[];
  /** Older form. */
  logs: LogLine[];
}

/** What a sandbox used at one moment. */
export interface SandboxMetric {
  /** Virtual CPUs. */
  cpuCount: number;
  /** Share of them in use, percent. */
  cpuUsedPct: number;
  /** Disk there is, bytes. */
  diskTotal: number;
  /** Disk in use, bytes. */
  diskUsed: number;
  /** Page cache, bytes. */
  memCache: number;
  /** Memory there is, bytes. */
  memTotal: number;
  /** Memory in use, bytes. */
  memUsed: number;
  /** When. */
  timestamp: string;
  /** The same, in seconds since 1970. */
  timestampUnix: number;
}

/** The network options of a sandbox, without secrets. */
export interface SandboxNetwork {
  /** What it may connect to; wins over `denyOut`. */
  allowOut?: string[];
  /** Whether requests to its ports need no token. */
  allowPublicTraffic: boolean;
  /** What it may not connect to. */
  denyOut?: string[];
  /** Servers that resolve its names. */
  dnsServers?: string[];
  egressProxy?: NetworkProxy | null;
  /** Ports that speak TLS inside. */
  httpsPorts?: number[];
  /** What it sees as `Host`. */
  maskRequestHost?: string | null;
  /** Headers to set in its requests, by host name, with placeholders. */
  rules?: Record<string, NetworkRule[]>;
}

/** A TCP port that a program in a sandbox listens on. */
export interface SandboxPort {
  /** `0.0.0.0`, `127.0.0.1`, `::` … */
  address: string;
  /** The process, if it is known. */
  pid?: number | null;
  port: number;
  /** Its name. */
  process?: string | null;
  /** How the port is reached from outside, if the server has a domain. */
  url?: string | null;
}

/** What a sandbox of a chat is for. */
export type SandboxRole = 'code' | 'browser' | 'desktop';

/** State of a sandbox as clients know it. */
export type SandboxState = 'running' | 'paused';

/** What a sandbox used. */
export interface SandboxUsage {
  billing: BillingMode;
  currency: string;
  /** When it used how much, newest first. */
  intervals: UsageInterval[];
  /** What was used until then is in `totals`. */
  ratedUntil: string;
  sandboxId: string;
  /** Its whole life, one per kind. */
  totals: UsageEntry[];
  /** Whether there are older intervals than these. */
  truncated: boolean;
}

/** Answer of `GET /sandboxes/metrics`. */
export interface SandboxesMetrics {
  /** By sandbox id; those that are not up are left out. */
  sandboxes: Record<string, SandboxMetric>;
}

/**
 * A secret. `Debug` redacts it and there is no `Display`; [`Secret::expose`] is the only access to the text.
 * Serializing writes the text, because the wire and the guest's configuration need it.
 */
export type Secret = string;

/** A secret as Novita's clients know it. */
export interface SecretBinding {
  /** What it is for. */
  description?: string | null;
  /** Always true. */
  hasSecret: boolean;
  /** Hosts that it is for. */
  hosts: string[];
  /** Its name as it was written. */
  name: string;
  /** What stands for its value inside a sandbox. */
  placeholder: string;
  /** Always `ready`. */
  status: string;
  /** When its value was last set. */
  updatedAt?: string | null;
}

/** Secrets as Novita's clients list them. */
export interface SecretBindings {
  /** All of the team. */
  secrets: SecretBinding[];
}

/** A secret: a TypeID, so that a text is never both an id and a name. */
export type SecretId = string;

/** A secret, without its value. */
export interface SecretInfo {
  /** When it was made. */
  createdAt: string;
  /** How often its value was set. */
  currentVersion: number;
  /** Its labels. */
  metadata: Record<string, string>;
  /** Its name. */
  name: string;
  /** Its id. */
  secretID: SecretId;
  /** When its value was last set. */
  updatedAt: string;
}

/** A list of secrets in the client's form. */
export type SecretList = SecretInfo[] | SecretBindings;

/** Body of `PUT /secrets/{secretID}` (Novita). */
export interface SecretReplacement {
  /** What it is for. */
  description?: string | null;
  /** Hosts that it is for. */
  hosts: string[];
  /** The new value. */
  value: Secret;
}

/** Body of `POST /secrets/{secretID}`. */
export interface SecretUpdate {
  /** New labels, instead of all present ones. */
  metadata?: Record<string, string> | null;
  /** The new value. */
  value: Secret;
}

/** A secret in the client's form. */
export type SecretView = SecretInfo | SecretBinding;

/** Answer of `GET /status` (Cabana): what this server is. */
export interface ServerStatus {
  /** The isolation backend. */
  backend: string;
  capabilities?: Capabilities | null;
  capacity?: CapacityStatus | null;
  /** Its isolation backends; servers before this field do not say. */
  isolations?: IsolationStatus[];
  machine?: MachineStatus | null;
  /** Sandboxes that are up. */
  running: number;
  storage?: StorageStatus | null;
  /** Version of the program. */
  version: string;
}

/** A person as operators see them. */
export type ServerUser = Person & {
  createdAt: string;
  disabled: boolean;
  lastSeenAt?: string | null;
  /** Whether they sign in with OIDC. */
  oidc: boolean;
  teams: OwnTeam[];
};

/** A service. */
export interface Service {
  access: Access;
  alwaysOn: boolean;
  bridge: boolean;
  chatId: string | null;
  command: string;
  createdAt: string;
  cwd: string | null;
  /** Names of its variables; values are not shown. */
  envKeys: string[];
  /** Exit code of the command, if it has ended by itself. */
  exitCode: number | null;
  hostMode: HostMode;
  id: ServiceId;
  /** What it printed last, after it has ended or failed to open its port. Untrusted text. */
  lastLines: string[];
  name: string;
  onWake: OnWake;
  /** The port that it was asked or found to use. */
  port: number | null;
  /** Why it is in this state, if that is not obvious. */
  reason: string | null;
  /** How often it was started again since it was made or replaced. */
  restarts: number;
  sandboxId: SandboxId;
  /** When it was last started or stopped, or ended. */
  since: string;
  slug: string | null;
  state: ServiceState;
  /** Where it is; a private one asks to sign in. `null` until its port is known. */
  url: string | null;
}

/** A service: `svc_` and 20 characters. */
export type ServiceId = string;

/** A link by which anyone can see a service until it expires or is revoked. */
export interface ServiceLink {
  createdAt: string;
  expiresAt: string;
  id: GrantId;
  lastOpenedAt: string | null;
  /** How often a page was opened by it. */
  opened: number;
  /** When it was revoked. */
  revokedAt: string | null;
  serviceId: ServiceId;
  /** The address; only in the answer that made it, since only its hash is stored. */
  url?: string | null;
}

/** Output of a service: the answer without `follow`, and the data of an event `lines` with it. */
export interface ServiceLogLines {
  /** Bytes that are no longer kept before these lines. */
  dropped: number;
  /** Untrusted text. */
  lines: string[];
}

/** What a service does. */
export type ServiceState = 'starting' | 'running' | 'suspended' | 'stopped' | 'error';

/** Body of `PATCH /services/{id}`. What is omitted stays. */
export interface ServiceUpdate {
  access?: Access | null;
  alwaysOn?: boolean | null;
  bridge?: boolean | null;
  hostMode?: HostMode | null;
  onWake?: OnWake | null;
  /** An empty text removes it. */
  slug?: string | null;
}

/** Public id of a session (never its token): `ses_` and 20 characters. */
export type SessionId = string;

/** Who is signed in. */
export interface SessionInfo {
  /** Whether it was signed in with an API key: it may do what the key may. */
  byKey?: boolean;
  createdAt: string;
  expiresAt: string;
  id: SessionId;
  /** Whether this server lets everybody make teams. */
  mayMakeTeams?: boolean;
  /** What the session may do in the team, and with the server. */
  permissions?: Permission[];
  role?: Role | null;
  team: SessionTeam;
  /** All teams of the person. */
  teams?: OwnTeam[];
  user: Person;
}

/** The team that a session acts for. */
export interface SessionTeam {
  id: TeamId;
  name: string;
}

/** Body of `PUT /auth/session`. */
export interface SessionUpdate {
  /** One of the person's teams. */
  teamId: TeamId;
}

/** A one-time code for signing in. */
export interface SignInCode {
  /** When it becomes invalid. */
  expiresAt: string;
  /** The link to open: it signs in once. */
  url: Secret;
}

/** How people can sign in. */
export interface SignInMethods {
  /** What the OIDC provider is called, if there is one. */
  oidc?: string | null;
  /** Whether with email and password. */
  password: boolean;
}

/** Body of `POST /auth/sign-in`. */
export interface SignInRequest {
  apiKey?: Secret | null;
  email?: string | null;
  password?: Secret | null;
}

/** Body of `POST /admin/signing-keys`. */
export interface SigningKeyChange {
  /**
   * Whether the keys before it are not published any more: no token that they have signed verifies then. Otherwise
   * they stay for a day, so that tokens verify until they expire.
   */
  withdraw?: boolean;
}

/** A snapshot. */
export interface SnapshotInfo {
  /** When it was made (Cabana). */
  createdAt?: string | null;
  /** Whether processes and memory are in it (Cabana). */
  memory?: boolean;
  /** Its names. */
  names: string[];
  sandboxID?: SandboxId | null;
  /** What creations name as their template: `namespace/name:default`, or `id:default`. */
  snapshotID: string;
}

/** Body of `POST /sandboxes/{id}/snapshots`. */
export interface SnapshotRequest {
  /** Whether to include memory; this backend keeps disks only. */
  memory?: boolean | null;
  /** A name for it; one that has it already gives it up. */
  name?: string | null;
}

/** Body of `POST /sandboxes/{sandboxID}/sqlite`. */
export interface SqliteQuery {
  /** Values for its `?`: texts, numbers, booleans and nulls. */
  params?: (Record<string, unknown>)[];
  /** The database file. */
  path: string;
  /** One statement. */
  sql: string;
  /** Whether it may change the database. */
  write?: boolean;
}

/** What a statement returned. */
export interface SqliteResult {
  /** Rows that were inserted, updated or deleted. */
  changes: number;
  columns: string[];
  /** Each has one value for each column. */
  rows: ((Record<string, unknown>)[])[];
  /** Whether rows or parts of values are left out. */
  truncated: boolean;
}

/** What a request began. */
export interface StartedTurn {
  chat: Chat;
  turn: Turn | null;
}

/** Why a model stopped writing. */
export type StopReason = 'end' | 'tools' | 'length' | 'refused';

/** The state of a server's disks. */
export interface StorageStatus {
  /** Sandboxes whose disks are limited to a little more than what they use, until there is more space. */
  clamped: number;
  /** MiB that are free where it is tightest. */
  freeMB: number;
  /** MiB that must be free there for new sandboxes. */
  reserveMB: number;
  /**
   * `ok`; `low`: no sandbox is created, and running ones can write little; `read_only`: the disk was full, and
   * sandboxes cannot write until the server has mounted their disks again.
   */
  state: string;
}

/** What a stream has. */
export interface StreamOptions {
  include_usage?: boolean | null;
}

/** Body of `POST /chats/{id}/attachments`, if it is JSON. */
export interface SyncRequest {
  ids: AttachmentId[];
}

/** Whether an upload is in the chat's sandbox. */
export type SyncState = 'pending' | 'synced' | 'failed';

/** That a tag came to name a build. */
export interface TagAssignment {
  /** When. */
  assignedAt: string;
  /** Its id, a UUID. */
  assignmentId: string;
  /** When the build was asked for. */
  buildCreatedAt: string;
  /** When the build ended. */
  buildFinishedAt?: string | null;
  /** The build. */
  buildId: BuildId;
}

/** Answer of `GET /templates/{id}/tags/{tag}/assignments`. */
export interface TagAssignmentPage {
  /** What the tag has stood for, newest first. */
  data: TagAssignment[];
  /** Where the next page goes on; null on the last. */
  nextCursor?: string | null;
}

/** Answer of `GET /templates/{id}/tags/count`. */
export interface TagCount {
  /** How many tags there are. */
  total: number;
}

/** Answer of `GET /templates/{id}/tags/exists`. */
export interface TagExists {
  /** Whether the template has the tag. */
  exists: boolean;
  /** The tag as it is written here. */
  normalizedTag: string;
}

/** A tag with what it has stood for. */
export interface TagGroup {
  /** What it has stood for, newest first. */
  assignments: TagAssignment[];
  /** Whether there is more of that. */
  hasMore: boolean;
  /** The tag. */
  tag: string;
}

/** Answer of `GET /templates/{id}/tags/groups`. */
export interface TagGroupPage {
  /** Where the next page goes on; null on the last. */
  nextCursor?: string | null;
  /** Tags. */
  tags: TagGroup[];
}

/** A team, as `GET /teams` shows it. */
export interface Team {
  /** The key that was sent with the request: others are not kept. */
  apiKey: Secret;
  /** Whether it is the one that requests are for that name none. A key belongs to one team. */
  isDefault: boolean;
  /** Its name. */
  name: string;
  role?: Role | null;
  /** Its id. */
  teamID: string;
}

/** Body of `POST /admin/teams`. */
export interface TeamForOthers {
  name: string;
  /** Email of its owner, who gets an invitation. */
  owner: string;
}

/** A team, the owner of sandboxes, keys and templates. */
export type TeamId = string;

/** What a team ran at one moment. */
export interface TeamMetric {
  /** Sandboxes that were up. */
  concurrentSandboxes: number;
  /** Sandboxes started per second. */
  sandboxStartRate: number;
  /** When. */
  timestamp: string;
  /** The same, in seconds since 1970. */
  timestampUnix: number;
}

/** Body of `POST /teams` and `PATCH /teams/{teamID}`. */
export interface TeamName {
  /** 1 to 40 characters of `a-z`, `0-9` and `-`: it is also the namespace of the team's templates. */
  name: string;
}

/** A team as operators see it: nothing of what is in it. */
export interface TeamOverview {
  createdAt: string;
  id: TeamId;
  members: number;
  name: string;
  plan: string;
  /** Sandboxes that have not ended. */
  sandboxes: number;
}

/** What a team uses and may use. */
export interface TeamQuotas {
  /** Whether the caller may change limits and plans. */
  operator: boolean;
  /** Id of its plan. */
  plan: string;
  /** One per kind. */
  quotas: QuotaState[];
  teamID: string;
}

/** A template as listings show it. */
export interface Template {
  /** Aliases. */
  aliases: string[];
  /** Builds of it. */
  buildCount: number;
  /** The build that new sandboxes start from; the newest one while there is none. */
  buildID: BuildId;
  /** `ready`, `building`, `waiting` or `error`. */
  buildStatus: string;
  /** Virtual CPUs. */
  cpuCount: number;
  /** When it was made. */
  createdAt: string;
  /** Who made it. */
  createdBy?: Record<string, unknown> | null;
  /** Disk, MiB. */
  diskSizeMB: number;
  /** Version of the guest contract. */
  envdVersion: string;
  /** When a sandbox was last started from it. */
  lastSpawnedAt?: string | null;
  /** Memory, MiB. */
  memoryMB: number;
  /** Names with namespace. */
  names: string[];
  /**
   * Where sandboxes may connect that ask for nothing: `none`, `registries` or `internet`; absent for the server's
   * default (Cabana).
   */
  network?: string | null;
  /** Whether set-uid programs such as `sudo` gain nothing in its sandboxes, whatever their creation says (Cabana). */
  noNewPrivileges?: boolean;
  /** Whether every team may use it. */
  public: boolean;
  /** Sandboxes started from it. */
  spawnCount: number;
  /** Its id. */
  templateID: TemplateId;
  /** When it was last changed. */
  updatedAt: string;
}

/** Answer of `GET /templates/aliases/{alias}`. */
export interface TemplateAlias {
  /** Whether every team may use it. */
  public: boolean;
  /** The template's id. */
  templateID: TemplateId;
}

/** One build of a template. */
export interface TemplateBuild {
  /** Its id. */
  buildID: BuildId;
  /** Virtual CPUs. */
  cpuCount: number;
  /** When it was begun. */
  createdAt: string;
  /** Disk, MiB. */
  diskSizeMB: number;
  /** Version of the guest contract. */
  envdVersion: string;
  /** When it ended. */
  finishedAt?: string | null;
  /** Memory, MiB. */
  memoryMB: number;
  /** `ready`, `building`, `waiting` or `error`. */
  status: string;
  /** When it was last changed. */
  updatedAt: string;
}

/** A template: 20 characters. */
export type TemplateId = string;

/** The response, which depends on the client. */
export type TemplateListing = Template[] | TemplatePage;

/** Answer of `PATCH /v2/templates/{id}`. */
export interface TemplateNames {
  /** Names with namespace. */
  names: string[];
}

/** A page of templates, as Novita's clients want it. */
export interface TemplatePage {
  /** Rows of a page. */
  limit: number;
  /** Which page this is, from 1. */
  page: number;
  /** The page. */
  templates: Template[];
  /** How many there are in all. */
  total: number;
  /** Pages. */
  totalPages: number;
}

/** One of E2B's build steps. */
export interface TemplateStep {
  /** What it works on; what they mean depends on the kind. */
  args?: string[];
  /** The uploaded archive that a `COPY` takes its files from. */
  filesHash?: string | null;
  /** It is done even if it was done before. */
  force?: boolean;
  /** The archive is uploaded again even if it is there. */
  forceUpload?: boolean | null;
  /** `COPY`, `RUN`, `ENV`, `WORKDIR` or `USER`. */
  type: 'COPY' | 'RUN' | 'ENV' | 'WORKDIR' | 'USER';
}

/** A tag of a template. */
export interface TemplateTag {
  /** The build that it names. */
  buildID: BuildId;
  /** Since when. */
  createdAt: string;
  /** The tag. */
  tag: string;
}

/** Body of `PATCH /v2/templates/{id}`: what is to be different. */
export interface TemplateUpdate {
  /** The isolation backend of sandboxes that ask for none; empty for the server's default (Cabana). */
  isolation?: string | null;
  /**
   * Where sandboxes may connect that ask for nothing: `none`, `registries` or `internet`; empty for the server's
   * default (Cabana).
   */
  network?: string | null;
  /**
   * Whether set-uid programs such as `sudo` gain nothing in new sandboxes. A creation can ask for it where the
   * template does not, but not the other way round; builds are not affected (Cabana).
   */
  noNewPrivileges?: boolean | null;
  /** Whether every team may use it. */
  public?: boolean | null;
}

/** Answer of `GET /templates/{id}`. */
export type TemplateWithBuilds = Template & {
  /** Its builds, newest first. */
  builds: TemplateBuild[];
};

/** A terminal whose shell runs. */
export interface Terminal {
  /** The shell, as it was started. */
  command: string;
  /** The process of its shell, which names the terminal. */
  pid: number;
  /** When it was started, if that is known. */
  startedAt?: string | null;
}

/** Body of `POST /sandboxes/{id}/timeout`. */
export interface TimeoutRequest {
  /** Seconds from now. */
  timeout?: number | null;
}

/** The result of a call that the client ran, or that a person answered. */
export interface ToolAnswer {
  /** Whether the call failed. */
  isError?: boolean;
  /** Text for the model. */
  output: string;
  toolCallId: CallId;
}

/** Body of `POST /chats/{id}/tool-results`. */
export interface ToolAnswers {
  results: ToolAnswer[];
}

/** A call of a tool. */
export interface ToolCall {
  arguments: Record<string, unknown>;
  /** Files that it made. */
  attachments?: Attachment[];
  data?: Record<string, unknown>;
  durationMs: number | null;
  error: ToolError | null;
  id: CallId;
  messageId: MessageId;
  name: string;
  /** What the model sees; of a running command, the newest output so far. */
  output?: string;
  sandboxId: SandboxId | null;
  status: CallStatus;
  /** For people, such as `Run npm test`. */
  title: string;
  truncated?: boolean;
  /** Why a person is asked. */
  why?: string | null;
}

/** Why a call failed, in words for a model. */
export interface ToolError {
  code: ToolErrorCode;
  /** What to try next. */
  hint: string;
  /** What happened. */
  message: string;
  /** Whether the same call may succeed later. */
  retryable: boolean;
}

/** Why a call of a tool failed. */
export type ToolErrorCode =
  | 'invalid_arguments'
  | 'timeout'
  | 'file_not_found'
  | 'not_a_file'
  | 'not_a_directory'
  | 'already_exists'
  | 'permission_denied'
  | 'binary_file'
  | 'too_large'
  | 'no_match'
  | 'not_unique'
  | 'patch_failed'
  | 'command_failed'
  | 'command_timeout'
  | 'cancelled'
  | 'interrupted'
  | 'user_in_control'
  | 'sandbox_unavailable'
  | 'no_room'
  | 'disk_full'
  | 'quota_exceeded'
  | 'insufficient_funds';

/** An image in a result. */
export interface ToolImage {
  /** Base64. */
  data: string;
  mediaType: string;
}

/** What a call of a tool returns. */
export interface ToolResult {
  callId: CallId;
  /** The result for programs; its fields depend on the tool. */
  data?: Record<string, unknown>;
  durationMs: number;
  error?: ToolError | null;
  /** Images for models that see. */
  images?: ToolImage[];
  /** Text for the model. */
  output: string;
  /** The sandbox that the call used; absent if it used none. */
  sandboxId?: string | null;
  status: ToolStatus;
  tool: string;
  /** Whether something was left out of `output`. */
  truncated: boolean;
}

/** Whether a call succeeded. */
export type ToolStatus = 'success' | 'error';

/** Money that came in. */
export interface TopUp {
  /** Millionths of the currency. */
  amountMicros: number;
  /** Must be that of the server. */
  currency: string;
  memo?: string | null;
  /** What it stands for, such as the number of a payment: repeating it changes nothing. */
  reference: string;
}

/** A turn: a message of a person, and everything the model does until it has answered. */
export interface Turn {
  chatId: ChatId;
  createdAt: string;
  endedAt: string | null;
  id: TurnId;
  /** The message that it began with. */
  messageId: MessageId;
  /** The beginning of its message. */
  prompt: string;
  /** Why it failed or waits. */
  reason: string | null;
  status: TurnState;
  steps: number;
  usage: Usage;
}

/** A turn of a chat: `turn_` and 20 characters. */
export type TurnId = string;

/** Where a turn ends by itself. */
export interface TurnLimits {
  /** Millionths of the currency; no limit if `null`. */
  maxCostMicros?: number | null;
  /** Minutes, without those in which the turn waits for a person. */
  maxMinutes?: number;
  /** Calls of the model. */
  maxSteps?: number;
}

/** How far a turn is. */
export type TurnState = 'queued' | 'running' | 'waiting' | 'complete' | 'failed' | 'cancelled' | 'interrupted';

/** What became of the files of an upload. */
export interface UploadManifest {
  /** The absolute path of the directory that they are in. */
  directory: string;
  /** One entry for each file, in the order in which they were sent. */
  files: UploadedFile[];
}

/** Whether a file was uploaded. */
export type UploadStatus = 'uploaded' | 'failed';

/** What became of one file of an upload. */
export interface UploadedFile {
  /** Why it failed. */
  error?: string | null;
  /** As it was sent. */
  name: string;
  /** Where it is: an absolute path. Its name has a number if it was taken. */
  path?: string | null;
  /** Digest of the content in lower-case hexadecimal. */
  sha256?: string | null;
  /** Bytes; of a file that failed, those that were received. */
  size: number;
  status: UploadStatus;
}

/** Tokens and cost. */
export interface Usage {
  /** Those of them that the provider had cached. */
  cachedTokens: number;
  /** Millionths of the currency; `null` if a model without a known price was used. */
  costMicros: number | null;
  /** All that the model read, cached tokens included. */
  inputTokens: number;
  outputTokens: number;
}

/** A sum. Amounts of different kinds are never added; what the sum is not grouped by is left out. */
export interface UsageEntry {
  /** The exact amount, as a decimal number. */
  amount: string;
  /** Millionths of the currency. */
  costMicros: number;
  kind: UsageKind;
  /** The model; empty for what is no use of a model. */
  model?: string | null;
  /** The beginning of the hour or the day (UTC). */
  period?: string | null;
  projectId?: string | null;
  subjectId?: string | null;
  subjectKind?: UsageSubject | null;
  /** What the amount is in. */
  unit: string;
}

/** A time in which a sandbox used the same quantity. */
export interface UsageInterval {
  /** `null`: it goes on. */
  closedAt: string | null;
  id: number;
  kind: UsageKind;
  openedAt: string;
  /** vCPUs or MiB. */
  quantity: number;
}

/** What is metered. Times are in the unit of the kind times seconds. */
export type UsageKind =
  | 'vcpu'
  | 'memory_mib'
  | 'paused_memory_mib'
  | 'disk_mib'
  | 'cold_mib'
  | 'model_calls'
  | 'input_tokens'
  | 'cached_tokens'
  | 'output_tokens';

/** What a team used in a time. */
export interface UsageReport {
  billing: BillingMode;
  /** The currency of all costs. */
  currency: string;
  /** The beginning of the first hour. */
  from: string;
  /** What was used until then is in it. */
  ratedUntil: string;
  rows: UsageEntry[];
  /** The end of the last hour. */
  to: string;
  /** Whether there are more rows than these; ask for a shorter time, or group by less. */
  truncated: boolean;
}

/** What used it. */
export type UsageSubject = 'sandbox' | 'snapshot' | 'chat';

/** A person who signs in: `usr_` and 20 characters. */
export type UserId = string;

/** A page of people. */
export interface UserPage {
  nextCursor?: UserId | null;
  users: ServerUser[];
}

/** Body of `PATCH /admin/users/{userID}`. What is omitted stays. */
export interface UserUpdate {
  /** Whether they may change the server itself. */
  admin?: boolean | null;
  /** Whether they may not sign in. Their sessions end at once. */
  disabled?: boolean | null;
}

/** The size of a page's frame, in CSS pixels. */
export interface Viewport {
  /** Device pixels per CSS pixel. */
  dpr?: number | null;
  height: number;
  width: number;
}

/** An entry of the ledger: an amount that moved between the wallet and an account. */
export interface WalletEntry {
  /** The other side. */
  account: string;
  /** What came in; negative: what went out. */
  amountMicros: number;
  at: string;
  balanceMicros: number;
  kind: EntryKind;
  memo?: string | null;
  reference: string;
  seq: number;
}

/** Entries of a team's ledger. */
export interface WalletEntryPage {
  /** Newest first. */
  entries: WalletEntry[];
  /** `before` for the next page; `null`: there is none. */
  next: number | null;
}

/** A team's wallet. */
export interface WalletInfo {
  /** Millionths of the currency; negative: what the team owes. */
  balanceMicros: number;
  billing: BillingMode;
  currency: string;
  teamID: string;
}

/** A webhook, without its secret. */
export interface Webhook {
  /** When it was made. */
  createdAt: string;
  /** Events that were never sent because too many waited (Cabana). */
  dropped?: number;
  /** Whether anything is sent. */
  enabled: boolean;
  /** The types of events that are sent. */
  events: string[];
  /** Its id. */
  id: WebhookId;
  /** What its owner calls it. */
  name: string;
  /** Events that wait to be sent (Cabana). */
  pending?: number;
  /** Whose events it is sent. */
  teamId: string;
  /** Where to. */
  url: string;
}

/** One event on its way to a webhook (Cabana). */
export interface WebhookDelivery {
  /** What the last try had as `e2b-delivery-id`. */
  deliveryId?: string | null;
  /** The event's id. */
  eventId: string;
  /** Its type. */
  eventType: string;
  /** When it was taken or given up. */
  finishedAt?: string | null;
  /** What went wrong with the last try. */
  lastError?: string | null;
  /** The HTTP status that answered the last try. */
  lastStatus?: number | null;
  /** When it is tried again, where the webhook is failing. */
  nextTryAt?: string | null;
  /** To which sandbox. */
  sandboxId: SandboxId;
  /** What became of it. */
  status: DeliveryStatus;
  /** When it happened. */
  timestamp: string;
  /** How often it was tried. */
  tries: number;
}

/** A webhook. */
export type WebhookId = string;

/** Body of `PATCH /events/webhooks/{id}`: what is to be different. */
export interface WebhookUpdate {
  /** Whether anything is sent. */
  enabled?: boolean | null;
  /** The types of events that are sent. */
  events?: string[] | null;
  /** What to call it. */
  name?: string | null;
  signatureSecret?: Secret | null;
  /** Where events are sent. */
  url?: string | null;
}

/** Body of `POST /auth/welcome`. */
export interface WelcomeRequest {
  /** The code of a link that `cabana login` printed. */
  code: Secret;
}

/** A file that was written. */
export interface WrittenFile {
  /** The SHA-256 of the content, in quotes. */
  etag: string;
  modifiedAt?: string | null;
  size: number;
}
